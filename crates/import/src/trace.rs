//! The output of a recorder: inputs, operations, outputs.

use std::sync::Arc;

use dynamlir_dialect::ir::{Base, PythonLine, sizes::SizeSymbol};
use dynamlir_shapes::{Dim, Predicate};

/// Number of a value, in order of definition.
pub type ValueId = usize;

/// Metadata of a tensor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// MLIR's name of the element type (`f32`, `i1`, `ui8`, …).
    pub dtype: String,
    /// Sizes.
    pub sizes: Vec<Dim>,
    /// Strides in elements.
    pub strides: Vec<Dim>,
    /// Storage offset in elements.
    pub offset: Dim,
}

/// A tensor that is an input of the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// The user's name for it.
    pub name: String,
    /// Its metadata.
    pub ty: TensorType,
    /// The storage; inputs with equal numbers share it.
    pub storage: i64,
    /// The number of times that eager bumps its version counter.
    pub version_bumps: i64,
    /// True if it requires a gradient.
    pub requires_grad: bool,
    /// In a derivative: the result whose tangent this is.
    pub tangent: Option<i64>,
}

/// An argument of an operator.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the values of torch's schema language")]
pub enum Arg {
    Tensor(ValueId),
    List(Vec<Arg>),
    None,
    Int(i64),
    Size(Dim),
    Float(f64),
    Bool(bool),
    Str(String),
    DType(String),
    Device(String),
    MemoryFormat(String),
    Layout(String),
}

/// A line of the user's Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// File name.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1; 0 if it is not known.
    pub column: u32,
    /// Function.
    pub function: String,
}

impl From<PythonLine> for Frame {
    fn from((file, line, function, column): PythonLine) -> Self {
        Self { file, line, column, function }
    }
}

impl From<Frame> for PythonLine {
    fn from(Frame { file, line, column, function }: Frame) -> Self {
        (file, line, function, column)
    }
}

/// One operator call.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each an attribute of its own")]
#[derive(Debug, Clone, PartialEq)]
pub struct OpCall {
    /// `aten.add.Tensor`.
    pub schema: String,
    /// All schema arguments in order, defaults filled in.
    pub args: Vec<Arg>,
    /// Metadata of the results.
    pub results: Arc<[TensorType]>,
    /// Per result the operand (in the flat order of tensors in `args`) whose storage it shares, or -1.
    pub aliases: Vec<i64>,
    /// Operands written to.
    pub mutates: Vec<i64>,
    /// The variant that returns the values that this one writes.
    pub functional: Option<String>,
    /// True if grad mode was on.
    pub grad_enabled: bool,
    /// torch's own decomposition at these shapes.
    pub decomposition: Option<Arc<Trace>>,
    /// Its derivative: computes the gradients of operands from operands, results and tangents of results.
    pub vjp: Option<Arc<Trace>>,
    /// The `torch.utils.checkpoint` region that it belongs to; backward recomputes it.
    pub recompute: Option<i64>,
    /// True if its derivative receives zeros for missing gradients of its results, and runs even then.
    pub materialized: bool,
    /// True if its derivative is not linear: it takes the sum of all gradients that reach it.
    pub not_linear: bool,
    /// True if differentiating its derivative raises, as `once_differentiable` has it.
    pub once: bool,
    /// True if the derivative of its derivative is unknown.
    pub unseen: bool,
    /// The location of the user's call, innermost frame first.
    pub location: Arc<[Frame]>,
}

/// One output of the user's function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A tensor.
    Value(Returned),
    /// None.
    None,
    /// An integer.
    Int(i64),
}

/// Torch's `CreationMeta` of a view: the way it was created, which decides if it may be written in place later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Creation {
    /// By an operation with one result, with grad mode on.
    #[default]
    Default,
    /// With grad mode off.
    NoGrad,
    /// As one of several views that an operation returned.
    OneOfSeveral,
}

/// A tensor that is returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Returned {
    /// The value.
    pub value: ValueId,
    /// Its version counter afterwards in eager.
    pub version: i64,
    /// The tensor of which it is a view in eager.
    pub base: Base,
    /// True if it requires a gradient.
    pub requires_grad: bool,
    /// The way it was created, for a view.
    pub creation: Creation,
    /// In a derivative: the operand whose gradient this is.
    pub gradient: Option<i64>,
}

impl Returned {
    /// A tensor without further properties.
    #[must_use]
    pub fn of(value: ValueId) -> Self {
        Self { value, version: 0, base: Base::None, requires_grad: false, creation: Creation::Default, gradient: None }
    }
}

/// A recorded graph.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// A name for messages.
    pub name: String,
    /// The device of its tensors in torch's notation; `None` is the CPU.
    pub device: Option<String>,
    /// Folders of library code, which users do not debug, for example torch's.
    pub libraries: Vec<String>,
    /// True if it draws random numbers.
    pub random: bool,
    /// For a derivative: true if eager saves something for it.
    pub keeps: bool,
    /// The order of differentiation, if it is higher than one.
    pub order: i64,
    /// The differentiated node for each order except the last.
    pub path: Vec<i64>,
    /// The results of the first of these nodes for which it receives gradients.
    pub given: Vec<i64>,
    /// The symbols in its sizes.
    pub symbols: Vec<SizeSymbol>,
    /// The predicates on these symbols that hold in each call.
    pub assumed: Vec<Predicate>,
    /// The inputs.
    pub inputs: Vec<Input>,
    /// The calls in program order.
    pub ops: Vec<OpCall>,
    /// The outputs.
    pub outputs: Vec<Output>,
    values: usize,
}

/// An error in a trace that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The description of the error.
    pub message: String,
    /// The Python line of the operator it is about.
    pub location: Vec<Frame>,
}

impl Trace {
    /// An empty trace.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
    /// Adds an input. Inputs come before operators.
    pub fn input(&mut self, input: Input) -> ValueId {
        self.inputs.push(input);
        self.fresh(1)
    }
    /// Adds an operator call; its results are numbered from the returned value on.
    pub fn op(&mut self, op: OpCall) -> ValueId {
        let results = op.results.len();
        self.ops.push(op);
        self.fresh(results)
    }
    /// The number of values: inputs, and results of operators.
    pub fn value_count(&self) -> usize {
        self.values
    }
    /// The same trace for static sizes, with these inputs and operators in place of its own.
    pub(crate) fn with_static(&self, inputs: Vec<Input>, ops: Vec<OpCall>) -> Self {
        Self {
            name: self.name.clone(),
            device: self.device.clone(),
            libraries: self.libraries.clone(),
            path: self.path.clone(),
            given: self.given.clone(),
            symbols: Vec::new(),
            assumed: Vec::new(),
            outputs: self.outputs.clone(),
            inputs,
            ops,
            ..*self
        }
    }
    fn fresh(&mut self, count: usize) -> ValueId {
        let first = self.values;
        self.values += count;
        first
    }
}
