//! What the program does with sizes that vary. They are primitives to the capture: operators run as they are, and the sizes answer. Here is
//! where that is not enough: where C code looks at a type, and where a type is asked for.

use std::{
    cell::RefCell,
    rc::{Rc, Weak},
};

use dynamlir_graph::Line;
use dynamlir_shapes::Dim;
use pyo3::{
    intern,
    prelude::*,
    types::{PyBool, PyInt, PyList, PySlice, PyTuple, PyType},
};

use super::{
    asked::is_asked,
    class::{self, is_number, is_size, node_of, settled},
};
use crate::{
    calls::{Keywords, receiver},
    effects::Effect,
    graph_break::{GraphBreak, reason},
    same::SINGLE,
    state::{Capture, Halt, Outcome, State, Tracked},
};

thread_local! {
    /// The capture that this thread is about.
    static CURRENT: RefCell<Weak<State>> = const { RefCell::new(Weak::new()) };
}

/// Has guards on sizes say where the program is.
pub(crate) fn follow(state: &Rc<State>) {
    CURRENT.with(|current| current.replace(Rc::downgrade(state)));
}

/// Where the program of this thread's capture is.
pub(super) fn location() -> Vec<Line> {
    let state = CURRENT.with(|current| current.borrow().upgrade());
    state.map_or_else(Vec::new, |state| Python::attach(|py| Capture::new(py, state).location()))
}

/// C functions that do with a size what they do with any object, by their modules.
const KEEPING: &[(&str, &[&str])] = &[
    ("builtins", &["min", "max", "sum", "abs", "divmod", "pow", "round", "any", "all", "sorted", "iter", "next", "len"]),
    ("math", &["prod", "ceil", "floor", "trunc"]),
    ("_functools", &["reduce"]),
];

/// Classes whose instances keep what they are made of.
const KEEPING_CLASSES: &[(&str, &[&str])] = &[
    ("builtins", &["tuple", "list", "dict", "set", "frozenset", "frozendict", "zip", "enumerate", "map", "filter", "reversed", "slice"]),
    ("torch", &["Size"]),
    ("collections", &["OrderedDict", "defaultdict", "deque"]),
];

/// Metaclasses that ask for the class of what they are asked about.
const METACLASSES: &[(&str, &[&str])] = &[
    ("abc", &["ABCMeta"]),
    ("enum", &["EnumType"]),
    ("torch._C", &["_TensorMeta"]),
    ("torch.nn.parameter", &["_ParameterMeta", "_BufferMeta"]),
];

impl<'py> Capture<'py> {
    /// The value itself, or the number that a size is, from now on.
    pub(crate) fn settle_size(&self, value: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        if !self.varying.any() || !is_size(&value.object) {
            return Ok(value.clone());
        }
        Ok(Tracked::new(settled(&value.object)?))
    }

    /// Arguments for C code: numbers for sizes, where it does more than to keep them. None where nothing is to be done.
    pub(crate) fn settle_for_c(
        &self,
        callable: &Bound<'py, PyAny>,
        effect: Effect,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<Option<(Vec<Tracked<'py>>, Keywords<'py>)>> {
        if !self.varying.any() || matches!(effect, Effect::Torch | Effect::Special(_) | Effect::MutatesFirst | Effect::Refused(_)) {
            return Ok(None);
        }
        let given = || args.iter().chain(kwargs.iter().map(|(_, value)| value));
        let keeps = || dynamlir_interpreter::suspended(|| self.keeps_sizes(callable));
        if !given().any(|value| self.find_size(&value.object).is_some()) || effect == Effect::Pure && keeps()? {
            return Ok(None);
        }
        self.settle_arguments(args, kwargs).map(Some)
    }

    /// Arguments with numbers for sizes. A size within another value ends the attempt.
    pub(crate) fn settle_arguments(&self, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<(Vec<Tracked<'py>>, Keywords<'py>)> {
        let settle = |value: &Tracked<'py>| {
            let value = self.settle_size(value)?;
            self.refuse_sizes("C code looks into", [&value.object])?;
            Ok(value)
        };
        let args = args.iter().map(settle).collect::<Outcome<_>>()?;
        let kwargs = kwargs.iter().map(|(name, value)| Ok((name.clone(), settle(value)?))).collect::<Outcome<_>>()?;
        Ok((args, kwargs))
    }

    /// Ends the attempt where one of these is a size, or holds one: what it is computed from is a number from then on.
    pub(crate) fn refuse_sizes<'a>(&self, what: &str, values: impl IntoIterator<Item = &'a Bound<'py, PyAny>>) -> Outcome<()>
    where
        'py: 'a,
    {
        if !self.varying.any() {
            return Ok(());
        }
        for value in values {
            if let Some(size) = self.find_size(value) {
                self.blame_size(&size);
                return self.break_graph(reason::DYNAMIC_SHAPE, format!("{what} the size {size}"));
            }
        }
        Ok(())
    }

    /// The first size among values, in tuples, lists, dicts and slices too.
    fn find_size(&self, value: &Bound<'py, PyAny>) -> Option<Dim> {
        let found = crate::torch::find(value, |value| is_size(value) || value.is_exact_instance_of::<PySlice>() && has_size(value))?;
        let found = if is_size(&found) { found } else { parts(&found).into_iter().find(is_size)? };
        Some(node_of(&found).ok()?.get().dim(self.py))
    }

    /// Whether a C function keeps sizes, or asks them by the operators of numbers only.
    fn keeps_sizes(&self, callable: &Bound<'py, PyAny>) -> Outcome<bool> {
        let py = self.py;
        if let Some(owner) = receiver(callable) {
            return Ok(self.torch.is_container(&owner) || owner.is_instance_of::<PyTuple>());
        }
        if let Some(class) = callable.getattr_opt(intern!(py, "__objclass__"))? {
            return Ok(listed(KEEPING_CLASSES, &class));
        }
        Ok(listed(if callable.is_instance_of::<PyType>() { KEEPING_CLASSES } else { KEEPING }, callable) || is_of(callable, "itertools"))
    }

    /// `int(size)`, which is the size itself; None for another call.
    pub(crate) fn int_of_size(&self, callable: &Bound<'py, PyAny>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Option<Tracked<'py>> {
        let [value] = args else { return None };
        let same = self.varying.any() && kwargs.is_empty() && is_number(&value.object) && callable.is(self.py.get_type::<PyInt>());
        same.then(|| value.clone())
    }

    /// `sizes.numel()` of a `torch.Size` of which some vary; None for another call.
    pub(crate) fn product_of_sizes(&self, callable: &Bound<'py, PyAny>, args: &[Tracked<'py>]) -> Outcome<Option<Tracked<'py>>> {
        if !self.varying.any() {
            return Ok(None);
        }
        // A method of the class is given them.
        let owner = match (receiver(callable), args) {
            (Some(owner), []) => owner,
            (None, [owner]) => owner.object.clone(),
            _ => return Ok(None),
        };
        let Ok(sizes) = owner.cast_into::<PyTuple>() else { return Ok(None) };
        if !sizes.iter().any(|size| is_size(&size))
            || !dynamlir_interpreter::suspended(|| callable.getattr(intern!(self.py, "__name__"))?.eq("numel"))?
        {
            return Ok(None);
        }
        let one = PyInt::new(self.py, 1).into_any();
        Ok(Some(Tracked::new(sizes.iter().try_fold(one, |product, size| product.mul(size))?)))
    }

    /// What `isinstance` is asked about in the place of a size: an int, which need not be the same where classes answer by themselves.
    pub(crate) fn instance_of_size(&self, value: &Tracked<'py>, classes: &Bound<'py, PyAny>) -> Outcome<Tracked<'py>> {
        if !self.varying.any() || !is_size(&value.object) {
            return Ok(value.clone());
        }
        if is_asked(&value.object) && dynamlir_interpreter::suspended(|| self.goes_by_type(classes))? {
            return Ok(Tracked::new(PyBool::new(self.py, false).to_owned().into_any()));
        }
        if dynamlir_interpreter::suspended(|| self.goes_by_type(classes))? {
            Ok(Tracked::new(PyInt::new(self.py, 0).into_any()))
        } else {
            self.settle_size(value)
        }
    }

    /// Whether `isinstance` answers the same of all ints: a class does, unless the Python code of a metaclass of the user's has the say.
    fn goes_by_type(&self, classes: &Bound<'py, PyAny>) -> Outcome<bool> {
        if let Ok(class) = classes.cast::<PyType>() {
            let metaclass = class.get_type();
            return Ok(metaclass.is(self.py.get_type::<PyType>()) || listed(METACLASSES, &metaclass));
        }
        let several = match classes.cast::<PyTuple>() {
            Ok(classes) => classes.clone().into_any(),
            Err(_) if listed(UNIONS, &classes.get_type()) => classes.getattr(intern!(self.py, "__args__"))?,
            Err(_) => return Ok(false),
        };
        for class in several.try_iter()? {
            if !self.goes_by_type(&class?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether what `torch._check` is given is a comparison that only running tells: it is true from now on, and checked then.
    pub(crate) fn expected(&self, asked: &Tracked<'py>) -> Outcome<bool> {
        if !is_asked(&asked.object) {
            return Ok(false);
        }
        let holds = node_of(&asked.object)?.get().promised(self.py);
        match self.undecided_size() {
            Some(found) => Err(Halt::Break(found)),
            None => Ok(holds),
        }
    }

    /// Why the capture ends where something was asked of a size that only running tells.
    pub(crate) fn undecided_size(&self) -> Option<GraphBreak> {
        let (message, location) = self.varying.sizes()?.bind(self.py).get().undecided()?;
        Some(GraphBreak { reason: reason::DATA_DEPENDENT, message, location })
    }

    /// Whether there are sizes that only running tells. What is computed with such is looked at each time.
    pub(crate) fn has_unbacked(&self) -> bool {
        self.varying.sizes().is_some_and(|sizes| sizes.bind(self.py).get().unbacked_count() > 0)
    }

    /// Whether a value is computed from a size that only running tells.
    pub(crate) fn is_unbacked(&self, value: &Tracked<'py>) -> Outcome<bool> {
        if !self.has_unbacked() || !is_number(&value.object) {
            return Ok(false);
        }
        let node = node_of(&value.object)?;
        Ok(node.get().sizes.get().is_unbacked(&node.get().dim(self.py)))
    }

    /// What `tolist` gives of a tensor of ints, each to be known when the graph runs; None where it is to be read by Python.
    pub(crate) fn listed(&self, fake: &Tracked<'py>) -> Outcome<Option<Tracked<'py>>> {
        let sizes: Option<Vec<usize>> = self.ask("may_list", (&fake.object,))?.extract()?;
        sizes.map(|sizes| self.nested(fake, &sizes)).transpose()
    }

    fn nested(&self, fake: &Tracked<'py>, sizes: &[usize]) -> Outcome<Tracked<'py>> {
        let [count, inner @ ..] = sizes else { return self.method("item", std::slice::from_ref(fake)) };
        let list = PyList::empty(self.py);
        for at in 0..*count {
            let at = Tracked::new(PyInt::new(self.py, at).into_any());
            let element = self.operator("getitem", &[fake.clone(), at])?;
            list.append(self.nested(&element, inner)?.object)?;
        }
        self.note_new(list.as_any());
        Ok(Tracked::new(list.into_any()))
    }

    /// What torch's code has returned, as the program has it.
    pub(crate) fn as_program(&self, value: Bound<'py, PyAny>) -> Outcome<Bound<'py, PyAny>> {
        if !self.varying.any() {
            return Ok(value);
        }
        Ok(dynamlir_interpreter::suspended(|| class::as_program(&value))?)
    }

    /// `lhs is rhs` of sizes: numbers of which there is one object each are what they are equal to. None without a size.
    pub(crate) fn is_same_size(&self, lhs: &Tracked<'py>, rhs: &Tracked<'py>) -> Outcome<Option<bool>> {
        if !self.varying.any() || !(is_size(&lhs.object) || is_size(&rhs.object)) || lhs.object.is(&rhs.object) {
            return Ok(None);
        }
        let other = if is_size(&lhs.object) { rhs } else { lhs };
        if !is_size(&other.object) && !other.object.is_exact_instance_of::<PyInt>() {
            return Ok(Some(false));
        }
        self.guard_value(other)?;
        let number = |value: &Tracked<'py>| self.settle_size(value)?.object.extract::<i64>().map_err(crate::state::Halt::from);
        let (left, right) = (number(lhs)?, number(rhs)?);
        if left != right {
            return Ok(Some(false));
        }
        if SINGLE.contains(&left) {
            return Ok(Some(true));
        }
        self.refuse_sizes("the identity of", [&lhs.object, &rhs.object])?;
        Ok(None)
    }
}

fn parts<'py>(slice: &Bound<'py, PyAny>) -> Vec<Bound<'py, PyAny>> {
    ["start", "stop", "step"].iter().filter_map(|name| slice.getattr(*name).ok()).collect()
}

fn has_size(slice: &Bound<'_, PyAny>) -> bool {
    parts(slice).iter().any(is_size)
}

fn is_of(callable: &Bound<'_, PyAny>, module: &str) -> bool {
    callable.getattr("__module__").and_then(|name| name.extract::<String>()).is_ok_and(|name| name == module)
}

/// The class of `int | None`, by its names before CPython 3.14 and since then.
const UNIONS: &[(&str, &[&str])] = &[("types", &["UnionType"]), ("typing", &["Union"])];

/// Whether an object is one of these, by what the modules have under the names.
fn listed(table: &[(&str, &[&str])], object: &Bound<'_, PyAny>) -> bool {
    let Ok(name) = object.getattr("__name__").and_then(|name| name.extract::<String>()) else { return false };
    let has = |module: &str| {
        dynamlir_cpython_abi::import(object.py(), module)
            .and_then(|module| module.getattr(name.as_str()))
            .is_ok_and(|found| found.is(object))
    };
    table.iter().any(|(module, names)| names.contains(&name.as_str()) && has(module))
}
