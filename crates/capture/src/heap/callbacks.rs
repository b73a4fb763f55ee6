//! C functions that are passed to C functions: `map(torch.add, xs, ys)`, `reduce(operator.mul, xs)`, `sorted(xs, key=len)`.
//!
//! A call by C code is seen only if the callee is Python code. So the function is wrapped in a Python function: the frame hook reports its
//! frame, and the call in it is captured like any other.

use pyo3::{prelude::*, sync::PyOnceLock, types::PyFunction};

use crate::{
    floors::Writes,
    graph_break::Outcome,
    objects::{Tracked, callables::Keywords, callback_wrapper},
};

/// C functions that call an argument, with its position and its keyword. A type's name means its constructor.
const CALLERS: &[(&str, Option<usize>, Option<&str>)] = &[
    ("_fx_map_aggregate", Some(1), None),
    ("_fx_map_arg", Some(1), None),
    ("accumulate", Some(1), Some("func")),
    ("cmp_to_key", Some(0), Some("mycmp")),
    ("dropwhile", Some(0), None),
    ("filter", Some(0), None),
    ("filterfalse", Some(0), None),
    ("groupby", Some(1), Some("key")),
    ("iter", Some(0), None),
    ("map", Some(0), None),
    ("max", None, Some("key")),
    ("min", None, Some("key")),
    ("reduce", Some(0), None),
    ("sort", None, Some("key")),
    ("sorted", None, Some("key")),
    ("starmap", Some(0), None),
    ("takewhile", Some(0), None),
];

/// Those that compare what the function returns.
const COMPARE_RESULTS: &[&str] = &["groupby", "max", "min", "sort", "sorted"];

/// Returns the comparison function of an object that `functools.cmp_to_key` created; None for other objects.
fn compared_by<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    let class = CLASS.get_or_try_init(py, || {
        let min = dynamlir_cpython_abi::import(py, "builtins")?.getattr("min")?;
        let made = dynamlir_cpython_abi::import(py, "functools")?.getattr("cmp_to_key")?.call1((min,))?;
        PyResult::Ok(made.get_type().into_any().unbind())
    })?;
    if !object.get_type().is(class) {
        return Ok(None);
    }
    let referents = dynamlir_cpython_abi::import(py, "gc")?.call_method1("get_referents", (object,))?;
    // The referents begin with the object's class.
    referents.try_iter()?.find(|found| !found.as_ref().is_ok_and(|found| found.is(class))).transpose()
}

/// Returns true if a function of this name, which the effect table knows, calls back.
pub(crate) fn calls_back(name: &str) -> bool {
    CALLERS.iter().any(|(known, ..)| *known == name)
}

impl<'py> Writes<'py> {
    /// Returns the arguments of a C function, with Python wrappers around those that it calls.
    pub(crate) fn called_back(
        &self,
        name: &str,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<(Vec<Tracked<'py>>, Keywords<'py>)> {
        let (mut args, mut kwargs) = (args.to_vec(), kwargs.clone());
        if let Some((_, place, keyword)) = CALLERS.iter().find(|(known, ..)| *known == name) {
            let positional = place.and_then(|place| args.get_mut(place));
            let named = kwargs.iter_mut().filter(|(given, _)| keyword.is_some_and(|keyword| keyword == given)).map(|(_, value)| value);
            for value in positional.into_iter().chain(named) {
                *value = if COMPARE_RESULTS.contains(&name) { self.compared_when_called(value)? } else { self.seen_when_called(value)? };
            }
        }
        Ok((args, kwargs))
    }

    /// Returns a callable whose calls by C code are seen: the value itself if it is a Python function, else a wrapper around it.
    fn seen_when_called(&self, value: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        let object = &value.object;
        let is_python = |object: &Bound<'py, PyAny>| object.is_exact_instance_of::<PyFunction>();
        let is_method = object.get_type().is(dynamlir_cpython_abi::import(self.py, "types")?.getattr("MethodType")?);
        if object.is_none() || is_python(object) || is_method && is_python(&object.getattr("__func__")?) {
            return Ok(value.clone());
        }
        if compared_by(object)?.is_some_and(|function| is_python(&function)) {
            // The guard covers the function that it calls, which is the same one for each item.
            if let Some(source) = self.source_of(object).filter(|_| !self.is_young(object)) {
                self.pin(object, source)?;
            }
            return Ok(value.clone());
        }
        self.wrapped(callback_wrapper::plain(self.py)?.around(object)?)
    }

    /// Returns a wrapper around a key function, whose results are noted as compared.
    fn compared_when_called(&self, value: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        if value.object.is_none() || compared_by(&value.object)?.is_some() {
            // The function of `cmp_to_key` compares in Python.
            return self.seen_when_called(value);
        }
        self.wrapped(callback_wrapper::compared(self.py)?.around(&value.object)?)
    }

    pub(crate) fn wrapped(&self, wrapper: Bound<'py, PyAny>) -> Outcome<Tracked<'py>> {
        self.note_made(&wrapper, None);
        Ok(Tracked::new(wrapper))
    }
}
