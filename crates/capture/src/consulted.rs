//! Special methods that C code looks up in the classes of what it is given: `int(x)` calls `__int__` where there is one, else `__index__`.
//!
//! The method that is called is Python and interpreted. That there is no other that C code would prefer is guarded here, for classes
//! that may be given one.

use pyo3::{
    exceptions::{PyKeyError, PyTypeError},
    prelude::*,
    types::PyString,
};

use crate::state::{Capture, Halt, Outcome};

/// Where a value becomes text.
pub(crate) const TEXT: &[&str] = &["__format__", "__repr__", "__str__"];
/// Where a value becomes text by `%`.
pub(crate) const PERCENT: &[&str] = &["__float__", "__getitem__", "__index__", "__int__", "__repr__", "__str__"];
/// Where a value finds its place in a dict or a set.
pub(crate) const HASH: &[&str] = &["__eq__", "__hash__"];
/// Where values are compared.
pub(crate) const COMPARED: &[&str] = &["__eq__", "__ge__", "__gt__", "__le__", "__lt__", "__ne__"];
/// What `in` tries, in this order, and how it finds and compares.
pub(crate) const MEMBERS: &[&str] = &["__contains__", "__iter__", "__getitem__", "__hash__", "__eq__"];
/// Where a value is an index, or a count.
pub(crate) const INDEX: &[&str] = &["__index__"];
/// Where values are added up.
pub(crate) const SUMMED: &[&str] = &["__add__", "__radd__"];
/// Where a mapping is spread: `{**x}`.
pub(crate) const SPREAD: &[&str] = &["__getitem__", "keys"];
/// Where a value is gone through.
pub(crate) const ITERATED: &[&str] = &["__iter__", "__getitem__"];
/// Where an iterator is asked for what comes next.
pub(crate) const NEXT: &[&str] = &["__next__"];
/// Where a value is to be called.
pub(crate) const CALLED: &[&str] = &["__call__"];
/// Where an item of a value is asked for.
pub(crate) const ITEM: &[&str] = &["__getitem__", "__class_getitem__", "__missing__"];
/// Where a value is asked how long it is.
pub(crate) const LENGTH: &[&str] = &["__len__"];
/// Where a value is an attribute of a class.
pub(crate) const BINDING: &[&str] = &["__get__", "__set__"];
/// What methods of the builtin classes do with what they are given.
pub(crate) const METHODS: &[&str] = &[
    "__bool__",
    "__eq__",
    "__format__",
    "__ge__",
    "__getitem__",
    "__gt__",
    "__hash__",
    "__index__",
    "__iter__",
    "__le__",
    "__len__",
    "__length_hint__",
    "__lt__",
    "__ne__",
    "__next__",
    "__repr__",
    "__str__",
    "keys",
];

impl<'py> Capture<'py> {
    /// Guards what the class of a value has, or has not, under these names. Builtin classes do not change.
    pub(crate) fn pin_specials(&self, value: &Bound<'py, PyAny>, names: &[&str]) -> Outcome<()> {
        if names.is_empty() || self.torch.is_primitive(value) || self.torch.is_tensor(value) {
            return Ok(());
        }
        if let Some(class) = self.class_at(value)? {
            for name in names {
                self.pin_entry(&value.get_type(), class, &PyString::intern(self.py, name))?;
            }
        }
        Ok(())
    }

    /// What an operation on a value gives. If it has raised that may be since the value's class has none of these, and may come to
    /// have them.
    pub(crate) fn or_lacking<T>(&self, outcome: Outcome<T>, value: &Bound<'py, PyAny>, names: &[&str]) -> Outcome<T> {
        if let Err(Halt::Raise(error)) = &outcome
            && (error.is_instance_of::<PyTypeError>(self.py) || error.is_instance_of::<PyKeyError>(self.py))
        {
            self.pin_specials(value, names)?;
        }
        outcome
    }
}
