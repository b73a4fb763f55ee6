//! `Asked`, the program's view of a comparison of unbacked sizes: a `torch.SymBool` that is not decided yet.
//!
//! `torch._check` accepts these, also several joined by `&` and `|`. Everything else needs the truth value, and since it does not exist,
//! the capture ends. So this class has the methods of a `bool`, each of which queries the truth first.

use pyo3::{
    prelude::*,
    sync::PyOnceLock,
    types::{PyBool, PyDict, PyType},
};

use crate::{
    SizeNode, Sizes,
    node::Value,
    question::Question,
    sym_int::{self, add, node_of},
};

static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Returns true if a value is such a comparison.
pub fn is_asked(value: &Bound<'_, PyAny>) -> bool {
    CLASS.get(value.py()).is_some_and(|class| value.get_type().is(class))
}

/// Creates the class.
pub(crate) fn prepare(py: Python<'_>) -> PyResult<()> {
    CLASS.get_or_try_init(py, || make(py)).map(|_| ())
}

/// Returns the object that the program gets for a question.
pub(crate) fn wrap<'py>(sizes: &Bound<'py, Sizes>, question: Question) -> PyResult<Bound<'py, PyAny>> {
    let py = sizes.py();
    let class = CLASS.get_or_try_init(py, || make(py))?.bind(py);
    let made = class.call_method1(pyo3::intern!(py, "__new__"), (class,))?;
    made.setattr(pyo3::intern!(py, "node"), Py::new(py, SizeNode::new(sizes.clone().unbind(), Value::Asked(question)))?)?;
    Ok(made)
}

/// Returns the truth value, or an error if it cannot be decided.
pub(crate) fn told<'py>(asked: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let node = node_of(asked)?;
    let answer = node.get().concrete(asked.py())?;
    sym_int::decided(node.get().sizes.get(), asked.py())?;
    Ok(answer)
}

/// Joins a comparison with another one, or with a `bool`; the result stays undecided where possible. `None` if `other` is not a truth
/// value.
fn joined<'py>(asked: &Bound<'py, PyAny>, other: &Bound<'py, PyAny>, both: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
    if let Ok(known) = other.cast::<PyBool>() {
        return Ok(Some(if known.is_true() == both { asked.clone() } else { other.clone() }));
    }
    if !is_asked(other) {
        return Ok(None);
    }
    let (left, right) = (node_of(asked)?, node_of(other)?);
    let sizes = left.get().sizes.bind(asked.py());
    let made = if both { left.get().sym_and(asked.py(), right.get()) } else { left.get().sym_or(asked.py(), right.get()) };
    match made.value {
        Value::Asked(question) => wrap(sizes, question).map(Some),
        Value::Bool(known) => Ok(Some(PyBool::new(asked.py(), known).to_owned().into_any())),
        Value::Int(_) | Value::Float(_) => Ok(None),
    }
}

/// The methods of a `bool` that Python and torch call.
const METHODS: &[&str] = &[
    "__abs__",
    "__add__",
    "__bool__",
    "__ceil__",
    "__eq__",
    "__float__",
    "__floor__",
    "__floordiv__",
    "__format__",
    "__ge__",
    "__gt__",
    "__hash__",
    "__index__",
    "__int__",
    "__invert__",
    "__le__",
    "__lt__",
    "__lshift__",
    "__mod__",
    "__mul__",
    "__ne__",
    "__neg__",
    "__pos__",
    "__pow__",
    "__radd__",
    "__reduce_ex__",
    "__repr__",
    "__rfloordiv__",
    "__rlshift__",
    "__rmod__",
    "__rmul__",
    "__round__",
    "__rpow__",
    "__rrshift__",
    "__rshift__",
    "__rsub__",
    "__rtruediv__",
    "__rxor__",
    "__str__",
    "__sub__",
    "__truediv__",
    "__trunc__",
    "__xor__",
];

fn make(py: Python<'_>) -> PyResult<Py<PyType>> {
    let symbolic = dynamlir_cpython_abi::import(py, "torch")?.getattr("SymBool")?;
    let namespace = PyDict::new(py);
    namespace.set_item("__module__", "dynamlir")?;
    namespace.set_item("__doc__", "An unbacked comparison. To the program it is a bool.")?;
    for name in METHODS {
        add(&namespace, name, move |args| told(&args.get_item(0)?)?.call_method1(*name, args.get_slice(1, args.len())))?;
    }
    for (name, joins) in [("__and__", true), ("__rand__", true), ("__or__", false), ("__ror__", false)] {
        add(&namespace, name, move |args| {
            let (asked, other) = (args.get_item(0)?, args.get_item(1)?);
            match joined(&asked, &other, joins)? {
                Some(both) => Ok(both),
                None => told(&asked)?.call_method1(name, (other,)),
            }
        })?;
    }
    Ok(py.get_type::<PyType>().call1(("Asked", (symbolic,), namespace))?.cast_into::<PyType>()?.unbind())
}
