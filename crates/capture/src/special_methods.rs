//! Special methods that C code looks up in the classes of its arguments: `int(x)` calls `__int__` if it exists, otherwise `__index__`.
//!
//! The method that is called is Python code and interpreted. The absence of a method that C code would prefer is guarded here, for classes
//! that may later get one.

use pyo3::{
    exceptions::{PyKeyError, PyTypeError},
    prelude::*,
    types::PyString,
};

use crate::state::{Capture, Halt, Outcome};

/// Methods that format a value as text.
pub(crate) const TEXT: &[&str] = &["__format__", "__repr__", "__str__"];
/// Methods that format a value as text by `%`.
pub(crate) const PERCENT: &[&str] = &["__float__", "__getitem__", "__index__", "__int__", "__repr__", "__str__"];
/// Methods that place a value in a dict or a set.
pub(crate) const HASH: &[&str] = &["__eq__", "__hash__"];
/// Methods that compare values.
pub(crate) const COMPARED: &[&str] = &["__eq__", "__ge__", "__gt__", "__le__", "__lt__", "__ne__"];
/// The methods that `in` tries, in this order, and those by which it finds and compares.
pub(crate) const MEMBERS: &[&str] = &["__contains__", "__iter__", "__getitem__", "__hash__", "__eq__"];
/// Methods that convert a value to an index or a count.
pub(crate) const INDEX: &[&str] = &["__index__"];
/// Methods that add up values.
pub(crate) const SUMMED: &[&str] = &["__add__", "__radd__"];
/// Methods that spread a mapping: `{**x}`.
pub(crate) const SPREAD: &[&str] = &["__getitem__", "keys"];
/// Methods that iterate over a value.
pub(crate) const ITERATED: &[&str] = &["__iter__", "__getitem__"];
/// Methods that advance an iterator.
pub(crate) const NEXT: &[&str] = &["__next__"];
/// Methods that call a value.
pub(crate) const CALLED: &[&str] = &["__call__"];
/// Methods that get an item of a value.
pub(crate) const ITEM: &[&str] = &["__getitem__", "__class_getitem__", "__missing__"];
/// Methods that return the length of a value.
pub(crate) const LENGTH: &[&str] = &["__len__"];
/// Methods that bind an attribute of a class.
pub(crate) const BINDING: &[&str] = &["__get__", "__set__"];
/// Methods that methods of the builtin classes call on their arguments.
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
    /// Guards the entries of a value's class under these names, or their absence. Builtin classes do not change.
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

    /// Returns the outcome of an operation on a value. If it has raised, the reason may be that the value's class does not have any of
    /// these methods yet, so their absence is guarded.
    pub(crate) fn or_lacking<T>(&self, outcome: Outcome<T>, value: &Bound<'py, PyAny>, names: &[&str]) -> Outcome<T> {
        if let Err(Halt::Raise(error)) = &outcome
            && (error.is_instance_of::<PyTypeError>(self.py) || error.is_instance_of::<PyKeyError>(self.py))
        {
            self.pin_specials(value, names)?;
        }
        outcome
    }
}
