//! C functions that are given to C functions: `map(torch.add, xs, ys)`, `reduce(operator.mul, xs)`, `sorted(xs, key=len)`.
//!
//! What C calls is seen only where it is Python. So the function is wrapped in one that is: the frame hook brings its frame,
//! and the call in it is looked at like any other.

use pyo3::{
    prelude::*,
    types::{PyDict, PyType},
};

use crate::{
    calls::Keywords,
    effects::Effect,
    state::{Capture, Outcome, Tracked},
};

const WRAPPER: &std::ffi::CStr = c"lambda function: lambda *args: function(*args)";

/// Functions of `builtins`, `itertools` and `functools` that call what they are given.
const CALLERS: &[&str] =
    &["accumulate", "dropwhile", "filter", "filterfalse", "groupby", "map", "max", "min", "reduce", "sorted", "starmap", "takewhile"];

/// Whether a function of that name calls back.
pub(crate) fn calls_back(name: &str) -> bool {
    CALLERS.contains(&name)
}

impl<'py> Capture<'py> {
    /// The arguments of a C function, with Python around the C functions among them.
    pub(crate) fn called_back(&self, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<(Vec<Tracked<'py>>, Keywords<'py>)> {
        let args = args.iter().map(|arg| self.seen_when_called(arg)).collect::<Outcome<_>>()?;
        let kwargs = kwargs.iter().map(|(name, value)| Ok((name.clone(), self.seen_when_called(value)?))).collect::<Outcome<_>>()?;
        Ok((args, kwargs))
    }

    fn seen_when_called(&self, value: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        let object = &value.object;
        let effect = if object.is_instance_of::<PyType>() { None } else { self.effects.of(object) };
        if matches!(effect, None | Some(Effect::Pure)) {
            return Ok(value.clone());
        }
        let make = self.py.eval(WRAPPER, None, Some(&PyDict::new(self.py)))?;
        let made = dynamlir_interpreter::suspended(|| make.call1((object,)))?;
        self.note_made(&made, None);
        Ok(Tracked::new(made))
    }
}
