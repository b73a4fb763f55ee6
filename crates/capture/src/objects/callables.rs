//! Callables: what they are bound to, how messages name them, which methods an operator calls.

use dynamlir_cpython_abi::{kind, types};
use pyo3::{prelude::*, types::PyType};

use crate::objects::{Tracked, type_name};

/// The methods that an operator looks up, by its name in `operator`.
pub(crate) const METHODS: &[(&str, &[&str])] = &[
    ("add", &["__add__", "__radd__"]),
    ("sub", &["__sub__", "__rsub__"]),
    ("mul", &["__mul__", "__rmul__"]),
    ("matmul", &["__matmul__", "__rmatmul__"]),
    ("truediv", &["__truediv__", "__rtruediv__"]),
    ("floordiv", &["__floordiv__", "__rfloordiv__"]),
    ("mod", &["__mod__", "__rmod__"]),
    ("pow", &["__pow__", "__rpow__"]),
    ("lshift", &["__lshift__", "__rlshift__"]),
    ("rshift", &["__rshift__", "__rrshift__"]),
    ("and_", &["__and__", "__rand__"]),
    ("or_", &["__or__", "__ror__"]),
    ("xor", &["__xor__", "__rxor__"]),
    ("iadd", &["__iadd__", "__add__", "__radd__"]),
    ("isub", &["__isub__", "__sub__", "__rsub__"]),
    ("imul", &["__imul__", "__mul__", "__rmul__"]),
    ("imatmul", &["__imatmul__", "__matmul__", "__rmatmul__"]),
    ("itruediv", &["__itruediv__", "__truediv__", "__rtruediv__"]),
    ("ifloordiv", &["__ifloordiv__", "__floordiv__", "__rfloordiv__"]),
    ("imod", &["__imod__", "__mod__", "__rmod__"]),
    ("ipow", &["__ipow__", "__pow__", "__rpow__"]),
    ("ilshift", &["__ilshift__", "__lshift__", "__rlshift__"]),
    ("irshift", &["__irshift__", "__rshift__", "__rrshift__"]),
    ("iand", &["__iand__", "__and__", "__rand__"]),
    ("ior", &["__ior__", "__or__", "__ror__"]),
    ("ixor", &["__ixor__", "__xor__", "__rxor__"]),
    ("abs", &["__abs__"]),
    ("neg", &["__neg__"]),
    ("pos", &["__pos__"]),
    ("invert", &["__invert__"]),
    ("inv", &["__invert__"]),
    ("lt", &["__lt__", "__gt__"]),
    ("le", &["__le__", "__ge__"]),
    ("eq", &["__eq__"]),
    ("ne", &["__ne__"]),
    ("ge", &["__ge__", "__le__"]),
    ("gt", &["__gt__", "__lt__"]),
    ("getitem", &["__getitem__"]),
    ("setitem", &["__setitem__"]),
    ("delitem", &["__delitem__"]),
    ("contains", &["__contains__"]),
    ("not_", &["__bool__"]),
    ("truth", &["__bool__"]),
];

/// Returns the methods that an operator looks up, by its name in `operator`; empty if the name is not an operator.
pub(crate) fn methods_of(name: &str) -> &'static [&'static str] {
    METHODS.iter().find(|(known, _)| *known == name).map_or(&[], |(_, methods)| methods)
}

/// Comparison operators.
pub(crate) const COMPARISONS: &[&str] = &["eq", "ge", "gt", "le", "lt", "ne"];

/// Keyword arguments of a call, in order.
pub type Keywords<'py> = Vec<(String, Tracked<'py>)>;

/// Returns the out-of-place form of an operator that writes to its first operand.
pub(crate) fn in_place(name: &str) -> Option<&str> {
    match name {
        "iand" => Some("and_"),
        "ior" => Some("or_"),
        "iadd" | "isub" | "imul" | "imatmul" | "itruediv" | "ifloordiv" | "imod" | "ipow" | "ilshift" | "irshift" | "ixor" => {
            name.strip_prefix('i')
        }
        _ => None,
    }
}

/// The object a builtin method is bound to; None for plain functions and unbound methods.
pub(crate) fn receiver<'py>(callable: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    if kind::is_bound_slot(callable) {
        return callable.getattr("__self__").ok();
    }
    if !kind::is_c_function(callable) && !kind::is_c_method(callable) {
        return None;
    }
    types::owner_of_method(callable).ok()?.filter(|owner| !owner.is_instance_of::<PyType>())
}

/// `math.foo`, `numpy.ndarray.sum`, for messages.
pub(crate) fn describe(callable: &Bound<'_, PyAny>) -> String {
    let text = |name: &str| callable.getattr(name).and_then(|value| value.extract::<String>()).ok();
    match (text("__module__"), text("__qualname__")) {
        (Some(module), Some(name)) => format!("{module}.{name}"),
        (None, Some(name)) => name,
        _ => format!("an object of type {}", type_name(callable)),
    }
}
