//! Existing objects that are compared by what they are: `==`, `in`, keys and elements, where their class has no `__eq__`.
//!
//! That two of them are the same object is guarded when the second is met. That they are not is guarded here: all that were
//! compared by C code stay distinct. In sets, and where an address is shown, it is the object itself that counts.

use dynamlir_guards::Relation;
use pyo3::{
    prelude::*,
    types::{PyDict, PyFrozenSet, PyFunction, PyList, PyModule, PySet, PyTuple, PyType},
};

use crate::{
    attributes::lookup,
    state::{Capture, Outcome},
};

/// How many containers deep elements are looked for.
const DEPTH: usize = 4;

/// Functions and methods of C that compare what they are given with each other, or with what they belong to.
const COMPARING: &[&str] = &[
    "__contains__",
    "__delitem__",
    "__eq__",
    "__getitem__",
    "__ne__",
    "__setitem__",
    "contains",
    "count",
    "countOf",
    "dict",
    "eq",
    "fromkeys",
    "get",
    "index",
    "indexOf",
    "ne",
    "pop",
    "remove",
    "setdefault",
    "update",
];

/// Those that find a place by the hash, or show the address.
const ADDRESSING: &[&str] = &[
    "__hash__",
    "__repr__",
    "__str__",
    "add",
    "difference",
    "difference_update",
    "discard",
    "format",
    "frozenset",
    "hash",
    "id",
    "intersection",
    "intersection_update",
    "isdisjoint",
    "issubset",
    "issuperset",
    "repr",
    "set",
    "str",
    "symmetric_difference",
    "symmetric_difference_update",
    "union",
];

impl<'py> Capture<'py> {
    /// Notes that these values are compared with each other.
    pub(crate) fn compared<'a>(&self, values: impl IntoIterator<Item = &'a Bound<'py, PyAny>>) -> Outcome<()>
    where
        'py: 'a,
    {
        for object in self.identities(values)? {
            if let Some(source) = self.source_of(&object) {
                if is_named(&object) {
                    self.pin(&object, source)?;
                } else {
                    self.compared.borrow_mut().insert(source);
                }
            }
        }
        Ok(())
    }

    /// Notes that these values go where their hash or address counts.
    pub(crate) fn addressed<'a>(&self, values: impl IntoIterator<Item = &'a Bound<'py, PyAny>>) -> Outcome<()>
    where
        'py: 'a,
    {
        for object in self.identities(values)? {
            if let Some(source) = self.source_of(&object) {
                self.pin(&object, source)?;
            }
        }
        Ok(())
    }

    /// A call of C code that may compare what it is given, by the name of the function.
    pub(crate) fn compared_by(&self, name: &str, receiver: Option<&Bound<'py, PyAny>>, args: &[Bound<'py, PyAny>]) -> Outcome<()> {
        let in_set = receiver.is_some_and(|object| object.is_instance_of::<PySet>() || object.is_instance_of::<PyFrozenSet>());
        if ADDRESSING.contains(&name) || in_set && COMPARING.contains(&name) {
            self.addressed(args)
        } else if COMPARING.contains(&name) {
            self.compared(args.iter().chain(receiver))
        } else {
            Ok(())
        }
    }

    /// Guards that what was compared stays distinct.
    pub(crate) fn settle_compared(&self) {
        let mut sources: Vec<_> = self.compared.take().into_iter().collect();
        if sources.len() > 1 {
            sources.sort_unstable();
            self.guards.relate(Relation::Distinct(sources));
        }
    }

    /// The existing objects among these values, and in the containers among them, that their class compares by identity.
    fn identities<'a>(&self, values: impl IntoIterator<Item = &'a Bound<'py, PyAny>>) -> Outcome<Vec<Bound<'py, PyAny>>>
    where
        'py: 'a,
    {
        let mut found = Vec::new();
        for value in values {
            self.collect_identities(value, DEPTH, &mut found)?;
        }
        Ok(found)
    }

    fn collect_identities(&self, value: &Bound<'py, PyAny>, depth: usize, found: &mut Vec<Bound<'py, PyAny>>) -> Outcome<()> {
        if self.torch.is_primitive(value) || self.torch.is_tensor(value) || depth == 0 {
            return Ok(());
        }
        let items: Vec<Bound<'py, PyAny>> = if let Ok(items) = value.cast_exact::<PyTuple>() {
            items.iter().collect()
        } else if let Ok(items) = value.cast_exact::<PyList>() {
            items.iter().collect()
        } else if let Ok(items) = value.cast_exact::<PySet>() {
            items.iter().collect()
        } else if let Ok(items) = value.cast_exact::<PyFrozenSet>() {
            items.iter().collect()
        } else if let Ok(items) = value.cast_exact::<PyDict>() {
            items.keys().iter().collect()
        } else {
            if self.source_of(value).is_some() && has_no_equality(value)? {
                found.push(value.clone());
            }
            return Ok(());
        };
        items.iter().try_for_each(|item| self.collect_identities(item, depth - 1, found))
    }
}

/// Classes, functions and modules: what has a name is hardly ever another one at the next call.
fn is_named(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyFunction>() || object.is_instance_of::<PyType>() || object.is_instance_of::<PyModule>()
}

/// Whether the class of an object leaves `==` to `object`.
fn has_no_equality(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let own = lookup(&object.get_type(), "__eq__")?;
    let generic = lookup(&object.py().get_type::<PyAny>(), "__eq__")?;
    Ok(own.zip(generic).is_some_and(|(own, generic)| own.is(&generic)))
}
