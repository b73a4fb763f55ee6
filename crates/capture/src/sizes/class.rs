//! `Size`, a `torch.SymInt` that behaves as an `int` wherever the program can tell. Its methods are C functions: no frame is seen of them.

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

use super::{SizeNode, Sizes, asked, node::Value, question::Question};

static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static SYMBOLIC: PyOnceLock<[Py<PyType>; 2]> = PyOnceLock::new();

/// `Size`.
///
/// # Errors
/// When there is no torch.
pub fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    CLASS.get_or_try_init(py, || make(py)).map(|class| class.bind(py))
}

/// Whether a value is a size that varies, or a comparison of such. Before there was one the class does not exist.
pub(crate) fn is_size(value: &Bound<'_, PyAny>) -> bool {
    is_number(value) || asked::is_asked(value)
}

/// Whether it is a size itself.
pub(super) fn is_number(value: &Bound<'_, PyAny>) -> bool {
    CLASS.get(value.py()).is_some_and(|class| value.get_type().is(class))
}

/// Whether a value is one as torch's code hands it out: a `torch.SymInt` or a `torch.SymBool`.
pub(crate) fn is_symbolic(value: &Bound<'_, PyAny>) -> bool {
    SYMBOLIC.get(value.py()).is_some_and(|known| known.iter().any(|known| value.get_type().is(known)))
}

/// The node of a size.
///
/// # Errors
/// When it is none of ours.
pub(crate) fn node_of<'py>(size: &Bound<'py, PyAny>) -> PyResult<Bound<'py, SizeNode>> {
    Ok(size.getattr(pyo3::intern!(size.py(), "node"))?.cast_into::<SizeNode>()?)
}

/// What the program gets for a size: an `int`, if it is a number.
pub(crate) fn wrap<'py>(sizes: &Bound<'py, Sizes>, size: Dim) -> PyResult<Bound<'py, PyAny>> {
    let py = sizes.py();
    if let Some(value) = size.known() {
        return Ok(value.into_pyobject(py)?.into_any());
    }
    let class = class(py)?;
    let made = class.call_method1(pyo3::intern!(py, "__new__"), (class,))?;
    made.setattr(pyo3::intern!(py, "node"), Py::new(py, SizeNode::new(sizes.clone().unbind(), Value::Int(size)))?)?;
    Ok(made)
}

/// The same as the program gets it, of what torch's code hands out: a size, number or truth value, and what is in tuples and lists.
///
/// # Errors
/// What Python raised.
pub(crate) fn as_program<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
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
    // `torch.Size` among them; a named tuple has tensors only.
    value.get_type().call1((PyList::new(py, items)?,))
}

type Args<'a, 'py> = &'a Bound<'py, PyTuple>;

/// A number that an operator meets beside a size.
enum Other {
    /// One that expressions are made of.
    Size(Dim),
    /// Another one: the result is a number as well.
    Number,
    /// No number. Python may know what to do.
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

/// An operator of two sizes; None where there is no expression for it.
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

/// The number that a size is, from now on.
pub(crate) fn settled<'py>(size: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if asked::is_asked(size) {
        return asked::told(size);
    }
    let node = node_of(size)?;
    let number = node.get().number(size.py());
    decided(node.get().sizes.get(), size.py())?;
    number.into_pyobject(size.py()).map(Bound::into_any).map_err(Into::into)
}

/// An error where something could not be decided: what the program has asked has no answer.
pub(super) fn decided(sizes: &Sizes, py: Python<'_>) -> PyResult<()> {
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
                return asked::wrap(sizes, Question::Is(predicate));
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

/// What Python's own functions ask of a number, by the method that they call.
const SETTLING: &[&str] = &["__int__", "__index__", "__float__", "__hash__", "__str__", "__repr__", "__format__", "__reduce_ex__"];

/// What a whole number is itself.
const ITSELF: &[&str] = &["__pos__", "__trunc__", "__floor__", "__ceil__", "__copy__", "__deepcopy__", "conjugate"];

fn make(py: Python<'_>) -> PyResult<Py<PyType>> {
    let torch = dynamlir_cpython_abi::import(py, "torch")?;
    // Which gives `torch.SymInt` its own methods.
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
    asked::prepare(py)?;
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

/// Adds a method that is a C function.
pub(super) fn add(
    namespace: &Bound<'_, PyDict>,
    name: &str,
    body: impl for<'a, 'py> Fn(Args<'a, 'py>) -> PyResult<Bound<'py, PyAny>> + Send + Sync + 'static,
) -> PyResult<()> {
    let call = move |args: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| body(args).map(Bound::unbind);
    let function = PyCFunction::new_closure(namespace.py(), None, None, call)?;
    namespace.set_item(name, bindable(&function)?)
}
