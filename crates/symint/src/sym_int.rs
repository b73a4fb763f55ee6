//! `Size`, a `torch.SymInt` that behaves as an `int` wherever the program can tell. Its methods are C functions, so they do not show as
//! frames.

use dynamlir_cpython_abi::{
    function::bindable,
    number::{BinaryOp, binary},
};
use dynamlir_reasons as reason;
use dynamlir_shapes::{Dim, Dimension, Predicate, Relation, Result as Shape};
use pyo3::{
    prelude::*,
    sync::PyOnceLock,
    types::{PyCFunction, PyComplex, PyDict, PyFloat, PyInt, PyList, PyTuple, PyType},
};

use crate::{SizeNode, Sizes, node::Value, question::Question, sym_bool};

static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static SYMBOLIC: PyOnceLock<[Py<PyType>; 2]> = PyOnceLock::new();

/// Returns the class `Size`.
///
/// # Errors
/// If torch is not available.
pub fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    CLASS.get_or_try_init(py, || make(py)).map(|class| class.bind(py))
}

/// Returns true if a value is a dynamic size, or a comparison of such sizes. The class does not exist before the first one.
pub fn is_size(value: &Bound<'_, PyAny>) -> bool {
    is_number(value) || sym_bool::is_asked(value)
}

/// Returns true if a value is a dynamic size, not a comparison.
pub fn is_number(value: &Bound<'_, PyAny>) -> bool {
    CLASS.get(value.py()).is_some_and(|class| value.get_type().is(class))
}

/// Returns true if a value is in the form that torch's code returns: a `torch.SymInt` or a `torch.SymBool`.
pub fn is_symbolic(value: &Bound<'_, PyAny>) -> bool {
    SYMBOLIC.get(value.py()).is_some_and(|known| known.iter().any(|known| value.get_type().is(known)))
}

/// Returns the node of a size.
///
/// # Errors
/// If the node is not one of ours.
pub fn node_of<'py>(size: &Bound<'py, PyAny>) -> PyResult<Bound<'py, SizeNode>> {
    Ok(size.getattr(pyo3::intern!(size.py(), "node"))?.cast_into::<SizeNode>()?)
}

/// Returns the object that the program gets for a size: an `int`, if it is a number.
pub fn wrap<'py>(sizes: &Bound<'py, Sizes>, size: Dim) -> PyResult<Bound<'py, PyAny>> {
    let py = sizes.py();
    if let Some(value) = size.known() {
        return Ok(value.into_pyobject(py)?.into_any());
    }
    let class = class(py)?;
    let made = class.call_method1(pyo3::intern!(py, "__new__"), (class,))?;
    made.setattr(pyo3::intern!(py, "node"), Py::new(py, SizeNode::new(sizes.clone().unbind(), Value::Int(size)))?)?;
    Ok(made)
}

/// Converts a result of torch's code to the form that the program gets: a size, number or truth value, also inside tuples and lists.
///
/// # Errors
/// Returns the exception raised by Python.
pub fn as_program<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    if is_symbolic(value) {
        let Ok(node) = node_of(value) else { return value.call_method0("__bool__").or_else(|_| value.call_method0("__int__")) };
        return match &node.get().value {
            Value::Int(size) => wrap(node.get().sizes.bind(py), size.clone()),
            Value::Asked(_) | Value::Bool(_) | Value::Float(_) => node.get().concrete(py),
        };
    }
    let has_any = |items: &Bound<'py, PyAny>| -> PyResult<bool> {
        for item in items.try_iter()? {
            let item = item?;
            if is_symbolic(&item) || item.is_instance_of::<PyTuple>() || item.is_exact_instance_of::<PyList>() {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let is_sequence = value.is_instance_of::<PyTuple>() || value.is_exact_instance_of::<PyList>();
    if !is_sequence || !has_any(value)? {
        return Ok(value.clone());
    }
    let items = value.try_iter()?.map(|item| as_program(&item?)).collect::<PyResult<Vec<_>>>()?;
    let unchanged = value.try_iter()?.zip(&items).all(|(old, new)| old.is_ok_and(|old| old.is(new)));
    if unchanged {
        return Ok(value.clone());
    }
    // This includes `torch.Size`; a named tuple contains only tensors.
    value.get_type().call1((PyList::new(py, items)?,))
}

type Args<'a, 'py> = &'a Bound<'py, PyTuple>;

/// The other operand of an operator on a size.
enum Other {
    /// A number that expressions can contain.
    Size(Dim),
    /// Another number: the result is a number as well.
    Number,
    /// Not a number. Python may know what to do.
    Unknown,
}

fn other(value: &Bound<'_, PyAny>) -> PyResult<Other> {
    if value.is_exact_instance_of::<PyInt>() || value.is_exact_instance_of::<pyo3::types::PyBool>() {
        return Ok(value.extract().map_or(Other::Number, |number: i64| Other::Size(Dim::from(number))));
    }
    if is_size(value) || is_symbolic(value) {
        return Ok(Other::Size(node_of(value)?.get().dim(value.py())));
    }
    let is_number = value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() || value.is_instance_of::<PyComplex>();
    Ok(if is_number { Other::Number } else { Other::Unknown })
}

/// Applies an operator to two sizes; `None` if no expression exists for it.
fn computed(sizes: &Sizes, op: BinaryOp, a: &Dim, b: &Dim) -> Option<Shape<Dim>> {
    let nonzero = || sizes.needs(&Predicate::new(b.clone(), Relation::Ne, 0));
    let power_of_two = |by: i64| (0..=32).contains(&by).then(|| Dim::from(1 << by));
    match op {
        BinaryOp::Add => Some(a.add(b)),
        BinaryOp::Subtract => Some(a.sub(b)),
        BinaryOp::Multiply => Some(a.mul(b)),
        BinaryOp::FloorDivide => nonzero().then(|| a.floordiv(b)),
        BinaryOp::Remainder => nonzero().then(|| a.modulo(b)),
        BinaryOp::Power => {
            let exponent = b.known().filter(|exponent| (0..=8).contains(exponent))?;
            Some((0..exponent).try_fold(Dim::from(1), |power, _| power.mul(a)))
        }
        BinaryOp::LeftShift => Some(a.mul(&power_of_two(b.known()?)?)),
        BinaryOp::RightShift => Some(a.floordiv(&power_of_two(b.known()?)?)),
        BinaryOp::And => {
            let (size, mask) = if a.known().is_some() { (b, a.known()?) } else { (a, b.known()?) };
            let modulus = mask.checked_add(1).filter(|modulus| mask > 0 && modulus.count_ones() == 1)?;
            Some(size.modulo(&Dim::from(modulus)))
        }
        _ => None,
    }
}

/// Returns the number that a size is, and guards it.
pub fn settled<'py>(size: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if sym_bool::is_asked(size) {
        return sym_bool::told(size);
    }
    let node = node_of(size)?;
    let number = node.get().number(size.py());
    decided(node.get().sizes.get(), size.py())?;
    number.into_pyobject(size.py()).map(Bound::into_any).map_err(Into::into)
}

/// Returns an error if a query of the program could not be decided.
pub(crate) fn decided(sizes: &Sizes, py: Python<'_>) -> PyResult<()> {
    let Some((message, _)) = sizes.undecided() else { return Ok(()) };
    let fallback = dynamlir_cpython_abi::import(py, "dynamlir.reasons")?.getattr("Fallback")?;
    Err(PyErr::from_value(fallback.call1((reason::DATA_DEPENDENT, message))?))
}

fn operator<'py>(op: BinaryOp, reflected: bool, args: Args<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
    let py = args.py();
    let (this, beside) = (args.get_item(0)?, args.get_item(1)?);
    let node = node_of(&this)?;
    let sizes = node.get().sizes.bind(py);
    match other(&beside)? {
        Other::Unknown => return Ok(py.NotImplemented().into_bound(py)),
        Other::Number => {}
        Other::Size(size) => {
            let own = node.get().dim(py);
            let (a, b) = if reflected { (&size, &own) } else { (&own, &size) };
            if args.len() == 2
                && let Some(made) = computed(sizes.get(), op, a, b)
            {
                decided(sizes.get(), py)?;
                return wrap(sizes, sizes.get().made(made));
            }
        }
    }
    let number = |value: &Bound<'py, PyAny>| if is_size(value) { settled(value) } else { Ok(value.clone()) };
    let (this, beside) = (number(&this)?, number(&beside)?);
    if args.len() == 3 {
        return dynamlir_cpython_abi::import(py, "builtins")?.call_method1("pow", (this, beside, number(&args.get_item(2)?)?));
    }
    if reflected { binary(op, false, &beside, &this) } else { binary(op, false, &this, &beside) }
}

fn comparison<'py>(relation: Relation, name: &str, args: Args<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
    let py = args.py();
    let (this, beside) = (args.get_item(0)?, args.get_item(1)?);
    let node = node_of(&this)?;
    Ok(match other(&beside)? {
        Other::Unknown => py.NotImplemented().into_bound(py),
        Other::Number => dynamlir_cpython_abi::import(py, "operator")?.call_method1(name, (settled(&this)?, &beside))?,
        Other::Size(size) => {
            let (sizes, predicate) = (node.get().sizes.bind(py), Predicate::new(node.get().dim(py), relation, size));
            if sizes.get().is_open(&predicate) {
                return sym_bool::wrap(sizes, Question::Is(predicate));
            }
            let holds = sizes.get().decide(&predicate);
            holds.into_pyobject(py)?.to_owned().into_any()
        }
    })
}

const OPERATORS: &[(&str, BinaryOp)] = &[
    ("add", BinaryOp::Add),
    ("sub", BinaryOp::Subtract),
    ("mul", BinaryOp::Multiply),
    ("floordiv", BinaryOp::FloorDivide),
    ("mod", BinaryOp::Remainder),
    ("truediv", BinaryOp::TrueDivide),
    ("pow", BinaryOp::Power),
    ("lshift", BinaryOp::LeftShift),
    ("rshift", BinaryOp::RightShift),
    ("and", BinaryOp::And),
    ("or", BinaryOp::Or),
    ("xor", BinaryOp::Xor),
];

const COMPARISONS: &[(&str, Relation)] = &[
    ("__eq__", Relation::Eq),
    ("__ne__", Relation::Ne),
    ("__lt__", Relation::Lt),
    ("__le__", Relation::Le),
    ("__gt__", Relation::Gt),
    ("__ge__", Relation::Ge),
];

/// The methods by which Python's own functions read a number.
const SETTLING: &[&str] = &["__int__", "__index__", "__float__", "__hash__", "__str__", "__repr__", "__format__", "__reduce_ex__"];

/// The methods for which an integer returns itself.
const ITSELF: &[&str] = &["__pos__", "__trunc__", "__floor__", "__ceil__", "__copy__", "__deepcopy__", "conjugate"];

fn make(py: Python<'_>) -> PyResult<Py<PyType>> {
    let torch = dynamlir_cpython_abi::import(py, "torch")?;
    // This module gives `torch.SymInt` its methods.
    dynamlir_cpython_abi::import(py, "torch.fx.experimental.sym_node")?;
    let (symbolic, asked) = (torch.getattr("SymInt")?.cast_into::<PyType>()?, torch.getattr("SymBool")?.cast_into::<PyType>()?);
    let namespace = PyDict::new(py);
    namespace.set_item("__module__", "dynamlir")?;
    namespace.set_item("__doc__", "A size that varies. To the program it is an int.")?;
    for (name, op) in OPERATORS {
        for reflected in [false, true] {
            let full = format!("__{}{name}__", if reflected { "r" } else { "" });
            add(&namespace, &full, move |args| operator(*op, reflected, args))?;
        }
    }
    for (name, relation) in COMPARISONS {
        add(&namespace, name, move |args| comparison(*relation, name, args))?;
    }
    for name in SETTLING {
        add(&namespace, name, move |args| settled(&args.get_item(0)?)?.call_method1(*name, args.get_slice(1, args.len())))?;
    }
    for name in ITSELF {
        add(&namespace, name, |args| args.get_item(0))?;
    }
    for (name, reflected) in [("__divmod__", false), ("__rdivmod__", true)] {
        add(&namespace, name, move |args| {
            let (quotient, rest) = (operator(BinaryOp::FloorDivide, reflected, args)?, operator(BinaryOp::Remainder, reflected, args)?);
            if rest.is(args.py().NotImplemented()) { Ok(rest) } else { Ok(PyTuple::new(args.py(), [quotient, rest])?.into_any()) }
        })?;
    }
    add(&namespace, "__neg__", |args| of_one(args, |_, size| Dim::from(0).sub(size)))?;
    add(&namespace, "__invert__", |args| of_one(args, |_, size| Dim::from(-1).sub(size)))?;
    add(&namespace, "__abs__", |args| {
        of_one(
            args,
            |sizes, size| {
                if sizes.decide(&Predicate::new(size.clone(), Relation::Ge, 0)) { Ok(size.clone()) } else { Dim::from(0).sub(size) }
            },
        )
    })?;
    add(&namespace, "__round__", |args| {
        let digits = args.get_item(1).ok().filter(|digits| !digits.is_none());
        match digits {
            Some(digits) => settled(&args.get_item(0)?)?.call_method1("__round__", (digits,)),
            None => args.get_item(0),
        }
    })?;
    add(&namespace, "__bool__", |args| {
        let node = node_of(&args.get_item(0)?)?;
        let truth = node.get().truth(args.py());
        decided(node.get().sizes.get(), args.py())?;
        Ok(truth.into_pyobject(args.py())?.to_owned().into_any())
    })?;
    let made = py.get_type::<PyType>().call1(("Size", (&symbolic,), namespace))?.cast_into::<PyType>()?;
    sym_bool::prepare(py)?;
    SYMBOLIC.get_or_init(py, || [symbolic.unbind(), asked.unbind()]);
    Ok(made.unbind())
}

fn of_one<'py>(args: Args<'_, 'py>, compute: fn(&Sizes, &Dim) -> Shape<Dim>) -> PyResult<Bound<'py, PyAny>> {
    let node = node_of(&args.get_item(0)?)?;
    let sizes = node.get().sizes.bind(args.py());
    let made = compute(sizes.get(), &node.get().dim(args.py()));
    decided(sizes.get(), args.py())?;
    wrap(sizes, sizes.get().made(made))
}

/// Adds a method implemented as a C function.
pub(crate) fn add(
    namespace: &Bound<'_, PyDict>,
    name: &str,
    body: impl for<'a, 'py> Fn(Args<'a, 'py>) -> PyResult<Bound<'py, PyAny>> + Send + Sync + 'static,
) -> PyResult<()> {
    let call = move |args: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| body(args).map(Bound::unbind);
    let function = PyCFunction::new_closure(namespace.py(), None, None, call)?;
    namespace.set_item(name, bindable(&function)?)
}
