//! The interface that torch expects of the node within a `torch.SymInt` or `torch.SymBool`.

use dynamlir_shapes::{Bindings, Dim, Dimension, Predicate, Relation, Result as Shape, Symbol};
use pyo3::{
    exceptions::{PyTypeError, PyZeroDivisionError},
    prelude::*,
    types::{PyBool, PyFloat, PyInt, PySet, PyTuple, PyType},
};

use crate::{
    Sizes, layout,
    question::Question,
    torch_floats::{Float, Operation},
};

/// The value that a node represents.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// A size.
    Int(Dim),
    /// A truth value that is not decided yet.
    Asked(Question),
    /// A decided truth value.
    Bool(bool),
    /// A float that is computed from sizes.
    Float(Float),
}

/// A node. It is immutable and belongs to one capture.
#[pyclass(frozen, module = "dynamlir._native")]
pub struct SizeNode {
    /// The symbols that the expression is over.
    pub sizes: Py<Sizes>,
    pub(crate) value: Value,
}

/// The largest exponent for which powers are expressed as products.
const LARGEST_POWER: i64 = 8;

impl SizeNode {
    pub(crate) fn new(sizes: Py<Sizes>, value: Value) -> Self {
        Self { sizes, value }
    }

    fn with(&self, py: Python<'_>, value: Value) -> Self {
        Self::new(self.sizes.clone_ref(py), value)
    }

    fn sized(&self, py: Python<'_>, size: Shape<Dim>) -> Self {
        self.with(py, Value::Int(self.sizes.get().made(size)))
    }

    /// Returns the value as a size; a truth value becomes 0 or 1.
    pub fn dim(&self, py: Python<'_>) -> Dim {
        match &self.value {
            Value::Int(size) => size.clone(),
            Value::Float(float) => float.trunc(self.sizes.get()),
            Value::Asked(_) | Value::Bool(_) => Dim::from(i64::from(self.truth(py))),
        }
    }

    /// Decides if the value is true, and guards the answer.
    pub fn truth(&self, py: Python<'_>) -> bool {
        let sizes = self.sizes.bind(py).get();
        match &self.value {
            Value::Int(size) => sizes.decide(&Predicate::new(size.clone(), Relation::Ne, 0)),
            Value::Asked(question) => question.decide(sizes),
            Value::Bool(known) => *known,
            Value::Float(float) => float.compares(Relation::Ne, &Float::Number(0.0), sizes),
        }
    }

    /// Returns the number that it is, and guards it.
    pub fn number(&self, py: Python<'_>) -> i64 {
        let size = self.dim(py);
        self.sizes.get().settle(&size)
    }

    /// Returns the value as a float.
    fn float(&self, py: Python<'_>) -> Float {
        if let Value::Float(float) = &self.value { float.clone() } else { Float::Size(self.dim(py)) }
    }

    /// Returns the number that it is as a float, and guards it.
    fn float_now(&self, py: Python<'_>) -> f64 {
        self.float(py).number(self.sizes.get())
    }

    fn made(&self, py: Python<'_>, operation: Operation, other: &Self) -> Self {
        self.with(py, Value::Float(Float::made(operation, self.float(py), other.float(py), self.sizes.get())))
    }

    fn is_float_with(&self, other: &Self) -> bool {
        self.is_float() || other.is_float()
    }

    fn compared(&self, py: Python<'_>, relation: Relation, other: &Self) -> Self {
        if self.is_float_with(other) {
            let holds = self.float(py).compares(relation, &other.float(py), self.sizes.get());
            return self.with(py, Value::Bool(holds));
        }
        let predicate = Predicate::new(self.dim(py), relation, other.dim(py));
        self.asked(py, Question::Is(predicate))
    }

    fn asked(&self, py: Python<'_>, question: Question) -> Self {
        let known = self.sizes.get().with(|known| question.known(&known.scope));
        self.with(py, known.map_or(Value::Asked(question), Value::Bool))
    }

    /// Returns the question, if it is an undecided truth value; otherwise its truth.
    fn question(&self, py: Python<'_>) -> Result<Question, bool> {
        if let Value::Asked(question) = &self.value { Ok(question.clone()) } else { Err(self.truth(py)) }
    }

    /// Joins both, or returns one of the two if the other does not affect the result.
    fn joined(&self, py: Python<'_>, other: &Self, enough: bool, join: fn(Box<[Question; 2]>) -> Question) -> Self {
        match (self.question(py), other.question(py)) {
            (Ok(left), Ok(right)) => self.asked(py, join(Box::new([left, right]))),
            (Err(answer), question) | (question, Err(answer)) => match question {
                _ if answer == enough => self.with(py, Value::Bool(answer)),
                Ok(question) => self.with(py, Value::Asked(question)),
                Err(other) => self.with(py, Value::Bool(other)),
            },
        }
    }

    fn computed(&self, py: Python<'_>, other: &Self, sizes: fn(&Dim, &Dim) -> Shape<Dim>, floats: Operation) -> Self {
        if self.is_float_with(other) {
            return self.made(py, floats, other);
        }
        self.sized(py, sizes(&self.dim(py), &other.dim(py)))
    }

    fn divided(&self, py: Python<'_>, other: &Self, what: fn(&Dim, &Dim) -> Shape<Dim>) -> PyResult<Self> {
        let (size, by) = (self.dim(py), other.dim(py));
        // For an unbacked size this is checked at run time: eager raises.
        if !self.sizes.get().needs(&Predicate::new(by.clone(), Relation::Ne, 0)) {
            return Err(PyZeroDivisionError::new_err("integer division or modulo by zero"));
        }
        Ok(self.sized(py, what(&size, &by)))
    }

    fn laid_out(&self, py: Python<'_>, sizes: &Bound<'_, PyAny>, strides: &Bound<'_, PyAny>, how: layout::Layout) -> PyResult<Self> {
        let (sizes, strides) = (sizes_in(sizes)?, sizes_in(strides)?);
        Ok(self.with(py, Value::Bool(layout::is(self.sizes.get(), &sizes, &strides, how))))
    }
}

#[pymethods]
#[expect(clippy::unused_self, reason = "torch calls methods")]
impl SizeNode {
    fn is_int(&self) -> bool {
        matches!(self.value, Value::Int(_))
    }
    fn is_bool(&self) -> bool {
        matches!(self.value, Value::Bool(_) | Value::Asked(_))
    }
    fn is_float(&self) -> bool {
        matches!(self.value, Value::Float(_))
    }
    fn is_nested_int(&self) -> bool {
        false
    }
    fn is_symbolic(&self) -> bool {
        !self.is_constant()
    }
    fn is_constant(&self) -> bool {
        match &self.value {
            Value::Int(size) => size.known().is_some(),
            Value::Bool(_) => true,
            // Torch does not have constant floats.
            Value::Asked(_) | Value::Float(_) => false,
        }
    }
    /// Returns true if it depends on an unbacked symbol.
    fn is_unbacked(&self, py: Python<'_>) -> bool {
        matches!(self.value, Value::Int(_)) && self.sizes.get().is_unbacked(&self.dim(py))
    }
    fn has_hint(&self) -> bool {
        true
    }
    fn nested_int(&self) -> Option<i64> {
        None
    }
    fn maybe_as_int(&self) -> Option<i64> {
        if let Value::Int(size) = &self.value { size.known() } else { None }
    }

    /// Returns a number by which torch would choose; it is guarded like any other.
    #[getter]
    fn hint<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.concrete(py)
    }
    /// Returns `None`, because torch would take a number as an answer.
    #[getter]
    fn _hint(&self) -> Option<i64> {
        None
    }
    #[getter]
    fn constant<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.is_constant() { self.concrete(py).map(Some) } else { Ok(None) }
    }
    #[getter]
    fn expr<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }
    /// Torch queries an expression, which is the node itself here: this says if it is a number, the methods below name its sympy symbols.
    #[getter]
    fn is_number(&self) -> bool {
        self.is_constant()
    }
    #[getter(is_Boolean)]
    fn is_boolean(&self) -> bool {
        false
    }
    #[getter(is_Symbol)]
    fn is_symbol(&self) -> bool {
        false
    }
    #[getter]
    fn args<'py>(&self, py: Python<'py>) -> Bound<'py, PyTuple> {
        PyTuple::empty(py)
    }
    #[getter]
    fn free_symbols<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PySet>> {
        PySet::empty(py)
    }
    #[getter]
    fn shape_env(&self, py: Python<'_>) -> Py<Sizes> {
        self.sizes.clone_ref(py)
    }
    #[getter]
    fn fx_node(&self) -> Option<i64> {
        None
    }
    #[getter]
    fn pytype<'py>(&self, py: Python<'py>) -> Bound<'py, PyType> {
        match self.value {
            Value::Int(_) => py.get_type::<PyInt>(),
            Value::Float(_) => py.get_type::<PyFloat>(),
            Value::Bool(_) | Value::Asked(_) => py.get_type::<PyBool>(),
        }
    }

    /// Returns its value at this call, and guards it.
    pub fn concrete<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match &self.value {
            Value::Int(_) => self.number(py).into_pyobject(py)?.into_any(),
            Value::Float(_) => PyFloat::new(py, self.float_now(py)).into_any(),
            Value::Bool(_) | Value::Asked(_) => PyBool::new(py, self.truth(py)).to_owned().into_any(),
        })
    }

    /// Returns its value at this call without a guard, for callers that find out by trial which further queries they need.
    fn now<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let known = |size: &Dim| self.sizes.get().with(|known| size.hint(&known.scope)).unwrap_or_default();
        Ok(match &self.value {
            Value::Int(size) => known(size).into_pyobject(py)?.into_any(),
            Value::Float(float) => PyFloat::new(py, float.now(&known)).into_any(),
            Value::Bool(_) | Value::Asked(_) => self.concrete(py)?,
        })
    }

    /// Returns its value for these values of the symbols.
    fn at(&self, py: Python<'_>, values: Vec<i64>) -> PyResult<i64> {
        let bindings: Bindings = values.into_iter().enumerate().map(|(at, value)| (Symbol(at as u32), value)).collect();
        self.dim(py).at(&bindings).map_err(|error| PyTypeError::new_err(error.to_string()))
    }

    fn wrap_int(&self, py: Python<'_>, value: i64) -> Self {
        self.with(py, Value::Int(Dim::from(value)))
    }
    fn wrap_float(&self, py: Python<'_>, value: f64) -> Self {
        self.with(py, Value::Float(Float::Number(value)))
    }
    fn wrap_bool(&self, py: Python<'_>, value: bool) -> Self {
        self.with(py, Value::Bool(value))
    }

    fn int_(&self, py: Python<'_>) -> i64 {
        self.number(py)
    }
    fn bool_(&self, py: Python<'_>) -> bool {
        self.truth(py)
    }
    /// Guards that the number, which a graph is to compute with, fits in 64 bits.
    fn fit(&self) {
        if let Value::Int(size) = &self.value {
            self.sizes.get().fit(size);
        }
    }
    fn guard_int(&self, py: Python<'_>, file: &Bound<'_, PyAny>, line: i64) -> i64 {
        let _ = (file, line);
        self.number(py)
    }
    fn guard_float(&self, py: Python<'_>, file: &Bound<'_, PyAny>, line: i64) -> f64 {
        let _ = (file, line);
        self.float_now(py)
    }
    #[pyo3(signature = (_file=None, _line=0))]
    fn guard_bool(&self, py: Python<'_>, _file: Option<&Bound<'_, PyAny>>, _line: i64) -> bool {
        self.truth(py)
    }
    #[pyo3(signature = (_file=None, _line=0))]
    fn expect_true(&self, py: Python<'_>, _file: Option<&Bound<'_, PyAny>>, _line: i64) -> bool {
        self.promised(py)
    }
    /// The numbers of the symbols in it.
    #[getter]
    fn symbols(&self) -> Vec<u32> {
        self.named()
    }
    /// Assumes that a size is at most a number, if it is now and no declaration says how large it may be.
    fn expect_at_most(&self, py: Python<'_>, most: i64) {
        self.sizes.get().expect_at_most(&self.dim(py), most);
    }
    #[pyo3(signature = (_file=None, _line=0))]
    fn expect_size(&self, py: Python<'_>, _file: Option<&Bound<'_, PyAny>>, _line: i64) -> bool {
        let size = self.dim(py);
        self.sizes.get().count_on(&Predicate::new(size, Relation::Ge, 0))
    }
    #[pyo3(signature = (_file=None, _line=0))]
    fn guard_size_oblivious(&self, py: Python<'_>, _file: Option<&Bound<'_, PyAny>>, _line: i64) -> bool {
        self.truth(py)
    }
    #[pyo3(signature = (_file=None, _line=0))]
    fn guard_or_false(&self, py: Python<'_>, _file: Option<&Bound<'_, PyAny>>, _line: i64) -> bool {
        self.truth(py)
    }
    #[pyo3(signature = (_file=None, _line=0))]
    fn guard_or_true(&self, py: Python<'_>, _file: Option<&Bound<'_, PyAny>>, _line: i64) -> bool {
        self.truth(py)
    }
    #[pyo3(signature = (_file=None, _line=0))]
    fn statically_known_true(&self, py: Python<'_>, _file: Option<&Bound<'_, PyAny>>, _line: i64) -> bool {
        self.truth(py)
    }

    fn add(&self, py: Python<'_>, other: &Self) -> Self {
        self.computed(py, other, Dimension::add, Operation::Add)
    }
    fn sub(&self, py: Python<'_>, other: &Self) -> Self {
        self.computed(py, other, Dimension::sub, Operation::Sub)
    }
    fn mul(&self, py: Python<'_>, other: &Self) -> Self {
        self.computed(py, other, Dimension::mul, Operation::Mul)
    }
    fn sym_min(&self, py: Python<'_>, other: &Self) -> Self {
        self.computed(py, other, Dimension::min, Operation::Min)
    }
    fn sym_max(&self, py: Python<'_>, other: &Self) -> Self {
        self.computed(py, other, Dimension::max, Operation::Max)
    }
    fn floordiv(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        self.divided(py, other, Dimension::floordiv)
    }
    fn int_floordiv(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        self.floordiv(py, other)
    }
    #[pyo3(name = "mod")]
    fn modulo(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        self.divided(py, other, Dimension::modulo)
    }
    fn truediv(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        if !other.truth(py) {
            return Err(PyZeroDivisionError::new_err("division by zero"));
        }
        Ok(self.made(py, Operation::Div, other))
    }
    fn int_truediv(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        self.truediv(py, other)
    }
    fn float_truediv(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        self.truediv(py, other)
    }
    fn pow_by_natural(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        let exponent = other.number(py);
        let exponent = u32::try_from(exponent).map_err(|_| PyTypeError::new_err("a negative exponent"))?;
        if i64::from(exponent) > LARGEST_POWER {
            let power = self.number(py).checked_pow(exponent).ok_or_else(|| PyTypeError::new_err("a large power"))?;
            return Ok(self.with(py, Value::Int(Dim::from(power))));
        }
        let size = self.dim(py);
        Ok(self.sized(py, (0..exponent).try_fold(Dim::from(1), |power, _| power.mul(&size))))
    }
    fn pow(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        if self.is_float_with(other) {
            return Ok(self.made(py, Operation::Pow, other));
        }
        self.pow_by_natural(py, other)
    }
    fn float_pow(&self, py: Python<'_>, other: &Self) -> Self {
        self.made(py, Operation::Pow, other)
    }
    fn sym_sum(&self, py: Python<'_>, parts: &Bound<'_, PyAny>) -> PyResult<Self> {
        let sizes = sizes_in(parts)?;
        Ok(self.sized(py, sizes.iter().try_fold(Dim::from(0), |sum, size| sum.add(size))))
    }
    fn neg(&self, py: Python<'_>) -> Self {
        match self.value {
            Value::Float(_) => self.made(py, Operation::Mul, &self.wrap_float(py, -1.0)),
            _ => self.sized(py, Dim::from(0).sub(&self.dim(py))),
        }
    }
    fn abs(&self, py: Python<'_>) -> Self {
        if self.is_float() {
            return self.made(py, Operation::Max, &self.neg(py));
        }
        let size = self.dim(py);
        let positive = self.sizes.get().decide(&Predicate::new(size.clone(), Relation::Ge, 0));
        if positive { self.with(py, Value::Int(size)) } else { self.neg(py) }
    }
    fn pos(&self, py: Python<'_>) -> Self {
        self.clone(py)
    }
    fn clone(&self, py: Python<'_>) -> Self {
        self.with(py, self.value.clone())
    }
    fn floor(&self, py: Python<'_>) -> Self {
        self.with(py, Value::Int(self.float(py).floor(self.sizes.get())))
    }
    fn ceil(&self, py: Python<'_>) -> Self {
        self.with(py, Value::Int(self.float(py).ceil(self.sizes.get())))
    }
    fn trunc(&self, py: Python<'_>) -> Self {
        self.with(py, Value::Int(self.dim(py)))
    }
    fn sym_float(&self, py: Python<'_>) -> Self {
        self.with(py, Value::Float(self.float(py)))
    }
    fn sym_int(&self, py: Python<'_>) -> Self {
        self.with(py, Value::Int(self.dim(py)))
    }

    fn eq(&self, py: Python<'_>, other: &Self) -> Self {
        self.compared(py, Relation::Eq, other)
    }
    fn ne(&self, py: Python<'_>, other: &Self) -> Self {
        self.compared(py, Relation::Ne, other)
    }
    fn lt(&self, py: Python<'_>, other: &Self) -> Self {
        self.compared(py, Relation::Lt, other)
    }
    fn le(&self, py: Python<'_>, other: &Self) -> Self {
        self.compared(py, Relation::Le, other)
    }
    fn gt(&self, py: Python<'_>, other: &Self) -> Self {
        self.compared(py, Relation::Gt, other)
    }
    fn ge(&self, py: Python<'_>, other: &Self) -> Self {
        self.compared(py, Relation::Ge, other)
    }
    pub(crate) fn sym_and(&self, py: Python<'_>, other: &Self) -> Self {
        self.joined(py, other, false, Question::Both)
    }
    pub(crate) fn sym_or(&self, py: Python<'_>, other: &Self) -> Self {
        self.joined(py, other, true, Question::Either)
    }
    #[pyo3(name = "and_")]
    fn and(&self, py: Python<'_>, other: &Self) -> Self {
        self.sym_and(py, other)
    }
    #[pyo3(name = "or_")]
    fn or(&self, py: Python<'_>, other: &Self) -> Self {
        self.sym_or(py, other)
    }
    fn sym_not(&self, py: Python<'_>) -> Self {
        match &self.value {
            Value::Asked(question) => self.with(py, Value::Asked(question.negated())),
            _ => self.with(py, Value::Bool(!self.truth(py))),
        }
    }
    fn sym_ite(&self, py: Python<'_>, then: &Bound<'_, Self>, or_else: &Bound<'_, Self>) -> Py<Self> {
        if self.truth(py) { then.clone().unbind() } else { or_else.clone().unbind() }
    }

    fn is_contiguous(&self, py: Python<'_>, sizes: &Bound<'_, PyAny>, strides: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.laid_out(py, sizes, strides, layout::Layout::RowMajor)
    }
    fn is_channels_last_contiguous_2d(&self, py: Python<'_>, sizes: &Bound<'_, PyAny>, strides: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.laid_out(py, sizes, strides, layout::Layout::ChannelsLast(2))
    }
    fn is_channels_last_contiguous_3d(&self, py: Python<'_>, sizes: &Bound<'_, PyAny>, strides: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.laid_out(py, sizes, strides, layout::Layout::ChannelsLast(3))
    }
    fn is_channels_last_strides_2d(&self, py: Python<'_>, sizes: &Bound<'_, PyAny>, strides: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.laid_out(py, sizes, strides, layout::Layout::ChannelsLastStrides(2))
    }
    fn is_channels_last_strides_3d(&self, py: Python<'_>, sizes: &Bound<'_, PyAny>, strides: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.laid_out(py, sizes, strides, layout::Layout::ChannelsLastStrides(3))
    }
    fn is_non_overlapping_and_dense(&self, py: Python<'_>, sizes: &Bound<'_, PyAny>, strides: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.laid_out(py, sizes, strides, layout::Layout::Dense)
    }

    fn str(&self) -> String {
        match &self.value {
            Value::Int(size) => size.to_string(),
            Value::Asked(question) => question.to_string(),
            Value::Bool(known) => known.to_string(),
            Value::Float(float) => float.to_string(),
        }
    }
    fn _graph_repr(&self) -> String {
        self.str()
    }
    fn __str__(&self) -> String {
        self.str()
    }
    fn __repr__(&self) -> String {
        self.str()
    }
}

/// Returns the expressions of sizes whose nodes may also be torch's own constants.
fn sizes_in(list: &Bound<'_, PyAny>) -> PyResult<Vec<Dim>> {
    let py = list.py();
    let size = |item: Bound<'_, PyAny>| match item.cast::<SizeNode>() {
        Ok(node) => Ok(node.get().dim(py)),
        Err(_) => Ok(Dim::from(item.call_method1("guard_int", ("", 0))?.extract::<i64>()?)),
    };
    list.try_iter()?.map(|item| size(item?)).collect()
}
