//! The program's operations on dynamic sizes. Sizes are primitives to the capture: operators run as they are, and the sizes compute the
//! result. This module handles the cases for which that is not enough: C code that inspects a type, and queries for a type.

use std::rc::Rc;

use dynamlir_shapes::Dim;
use dynamlir_symint::{
    is_asked, location,
    sym_int::{self, is_number, is_size, node_of, settled},
};
use pyo3::{
    intern,
    prelude::*,
    types::{PyBool, PyInt, PyList, PySlice, PyTuple, PyType},
};

use crate::{
    floors::{Numbers, Reads, Record},
    graph_break::{GraphBreak, Halt, Outcome, reason},
    objects::{
        Tracked,
        callables::{Keywords, receiver},
        effects::Effect,
    },
    state::State,
    values::is_operator::SINGLE,
};

/// Makes guards on sizes record the program's location, while this capture lasts.
pub(crate) fn follow(state: &Rc<State>) {
    let state = Rc::downgrade(state);
    location::located_by(move || state.upgrade().map_or_else(Vec::new, |state| Python::attach(|py| Record::new(py, state).location())));
}

/// C functions that treat a size like any other object, by their modules.
const KEEPING: &[(&str, &[&str])] = &[
    ("builtins", &["min", "max", "sum", "abs", "divmod", "pow", "round", "any", "all", "sorted", "iter", "next", "len"]),
    ("math", &["prod", "ceil", "floor", "trunc"]),
    ("_functools", &["reduce"]),
];

/// Classes whose instances store the objects they are created from.
const KEEPING_CLASSES: &[(&str, &[&str])] = &[
    ("builtins", &["tuple", "list", "dict", "set", "frozenset", "frozendict", "zip", "enumerate", "map", "filter", "reversed", "slice"]),
    ("torch", &["Size"]),
    ("collections", &["OrderedDict", "defaultdict", "deque"]),
];

/// Metaclasses whose instance checks depend only on the class of the object.
const METACLASSES: &[(&str, &[&str])] = &[
    ("abc", &["ABCMeta"]),
    ("enum", &["EnumType"]),
    ("torch._C", &["_TensorMeta"]),
    ("torch.nn.parameter", &["_ParameterMeta", "_BufferMeta"]),
];

impl<'py> Numbers<'py> {
    /// Returns the value itself; for a size, returns the number that it is, and guards it.
    pub(crate) fn settle_size(&self, value: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        if !self.sizes.any() || !is_size(&value.object) {
            return Ok(value.clone());
        }
        Ok(Tracked::new(settled(&value.object)?))
    }

    /// Returns arguments for C code, with numbers in place of sizes if it does more than store them. `None` if nothing has to be done.
    pub(crate) fn settle_for_c(
        &self,
        callable: &Bound<'py, PyAny>,
        effect: Effect,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<Option<(Vec<Tracked<'py>>, Keywords<'py>)>> {
        if !self.sizes.any() || matches!(effect, Effect::Torch | Effect::Special(_) | Effect::MutatesFirst | Effect::Refused(_)) {
            return Ok(None);
        }
        let given = || args.iter().chain(kwargs.iter().map(|(_, value)| value));
        let keeps = || dynamlir_interpreter::suspended(|| self.keeps_sizes(callable));
        if !given().any(|value| self.find_size(&value.object).is_some()) || effect == Effect::Pure && keeps()? {
            return Ok(None);
        }
        self.settle_arguments(args, kwargs).map(Some)
    }

    /// Returns arguments with numbers in place of sizes. A size within another value ends the attempt.
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

    /// Ends the attempt if one of these values is or holds a size: the numbers that it is computed from are then static.
    pub(crate) fn refuse_sizes<'a>(&self, what: &str, values: impl IntoIterator<Item = &'a Bound<'py, PyAny>>) -> Outcome<()>
    where
        'py: 'a,
    {
        if !self.sizes.any() {
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

    /// Returns the first size in a value, also inside tuples, lists, dicts and slices.
    fn find_size(&self, value: &Bound<'py, PyAny>) -> Option<Dim> {
        let found =
            crate::objects::torch_types::find(value, |value| is_size(value) || value.is_exact_instance_of::<PySlice>() && has_size(value))?;
        let found = if is_size(&found) { found } else { parts(&found).into_iter().find(is_size)? };
        Some(node_of(&found).ok()?.get().dim(self.py))
    }

    /// Returns true if a C function only stores sizes, or only applies the operators of numbers to them.
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

    /// Evaluates `int(size)`, which is the size itself; `None` for another call.
    pub(crate) fn int_of_size(&self, callable: &Bound<'py, PyAny>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Option<Tracked<'py>> {
        let [value] = args else { return None };
        let same = self.sizes.any() && kwargs.is_empty() && is_number(&value.object) && callable.is(self.py.get_type::<PyInt>());
        same.then(|| value.clone())
    }

    /// Evaluates `sizes.numel()` for a `torch.Size` with dynamic sizes; `None` for another call.
    pub(crate) fn product_of_sizes(&self, callable: &Bound<'py, PyAny>, args: &[Tracked<'py>]) -> Outcome<Option<Tracked<'py>>> {
        if !self.sizes.any() {
            return Ok(None);
        }
        // A method accessed through the class receives them as an argument.
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

    /// Returns the object that `isinstance` checks in place of a size: an int, which must be the actual number if classes implement the
    /// check.
    pub(crate) fn instance_of_size(&self, value: &Tracked<'py>, classes: &Bound<'py, PyAny>) -> Outcome<Tracked<'py>> {
        if !self.sizes.any() || !is_size(&value.object) {
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

    /// Returns true if `isinstance` gives the same answer for all ints: it does for a class, unless the Python code of a user-defined
    /// metaclass decides.
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

    /// Returns true if the condition passed to `torch._check` is an undecided comparison. It is then assumed to be true, and checked at run
    /// time.
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

    /// Returns true if unbacked sizes exist. Calls that compute with them are not repeated.
    pub(crate) fn has_unbacked(&self) -> bool {
        self.sizes.sizes().is_some_and(|sizes| sizes.bind(self.py).get().unbacked_count() > 0)
    }

    /// Returns true if a value is computed from an unbacked size.
    pub(crate) fn is_unbacked(&self, value: &Tracked<'py>) -> Outcome<bool> {
        if !self.has_unbacked() || !is_number(&value.object) {
            return Ok(false);
        }
        let node = node_of(&value.object)?;
        Ok(node.get().sizes.get().is_unbacked(&node.get().dim(self.py)))
    }

    /// Converts a result of torch's code to the form that the program sees.
    pub(crate) fn as_program(&self, value: Bound<'py, PyAny>) -> Outcome<Bound<'py, PyAny>> {
        if !self.sizes.any() {
            return Ok(value);
        }
        Ok(dynamlir_interpreter::suspended(|| sym_int::as_program(&value))?)
    }

    /// Evaluates `lhs is rhs` for sizes. Numbers that exist as a single object are identical if they are equal. `None` if neither is a
    /// size, or if both are the same object.
    pub(crate) fn is_same_size(&self, lhs: &Tracked<'py>, rhs: &Tracked<'py>) -> Outcome<Option<bool>> {
        if !self.sizes.any() || !(is_size(&lhs.object) || is_size(&rhs.object)) || lhs.object.is(&rhs.object) {
            return Ok(None);
        }
        let other = if is_size(&lhs.object) { rhs } else { lhs };
        if !is_size(&other.object) && !other.object.is_exact_instance_of::<PyInt>() {
            return Ok(Some(false));
        }
        self.guard_value(other)?;
        let number = |value: &Tracked<'py>| self.settle_size(value)?.object.extract::<i64>().map_err(crate::graph_break::Halt::from);
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

impl Record<'_> {
    /// Returns the reason why the capture ends if an unbacked size was queried without a possible answer.
    pub(crate) fn undecided_size(&self) -> Option<GraphBreak> {
        let (message, location) = self.sizes.sizes()?.bind(self.py).get().undecided()?;
        Some(GraphBreak { reason: reason::DATA_DEPENDENT, message, location })
    }
}

impl<'py> Reads<'py> {
    /// Returns the result of `tolist` on a tensor of ints, whose numbers are known when the graph runs; `None` if Python has to read it.
    pub(crate) fn listed(&self, fake: &Tracked<'py>) -> Outcome<Option<Tracked<'py>>> {
        let sizes = self.recorder().may_list(&fake.object)?;
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

/// The class of `int | None`, by its names before CPython 3.14 and from then on.
const UNIONS: &[(&str, &[&str])] = &[("types", &["UnionType"]), ("typing", &["Union"])];

/// Returns true if an object is one of those that the modules define under these names.
fn listed(table: &[(&str, &[&str])], object: &Bound<'_, PyAny>) -> bool {
    let Ok(name) = object.getattr("__name__").and_then(|name| name.extract::<String>()) else { return false };
    let has = |module: &str| {
        dynamlir_cpython_abi::import(object.py(), module)
            .and_then(|module| module.getattr(name.as_str()))
            .is_ok_and(|found| found.is(object))
    };
    table.iter().any(|(module, names)| names.contains(&name.as_str()) && has(module))
}
