//! Names of special methods, by the operation that calls them.

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

/// Returns true if Python itself looks something up by this name.
pub(crate) fn is_dunder(name: &str) -> bool {
    name.starts_with("__") && name.ends_with("__")
}
