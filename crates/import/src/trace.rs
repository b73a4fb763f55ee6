//! What a recorder tells: inputs, operations, outputs.

use std::sync::Arc;

use dynamlir_dialect::ir::{Base, sizes::SizeSymbol};
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

/// A tensor that the graph is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// What the user calls it.
    pub name: String,
    /// Its metadata.
    pub ty: TensorType,
    /// Equal numbers are one storage.
    pub storage: i64,
    /// How often eager bumps its version counter.
    pub version_bumps: i64,
    /// Whether it requires a gradient.
    pub requires_grad: bool,
    /// Of a derivative: the result whose tangent it is.
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
    /// Function.
    pub function: String,
}

/// One operator call.
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
    /// The variant that returns what this one writes.
    pub functional: Option<String>,
    /// Whether grad mode was on.
    pub grad_enabled: bool,
    /// torch's own decomposition at these shapes.
    pub decomposition: Option<Arc<Trace>>,
    /// Its derivative: of operands, results and tangents of results, the gradients of operands.
    pub vjp: Option<Arc<Trace>>,
    /// The checkpoint that it belongs to, of which backward computes it again.
    pub recompute: Option<i64>,
    /// True if its derivative is given zeros for missing gradients of its results, and runs nevertheless.
    pub materialized: bool,
    /// Whether its derivative is not linear: it takes the sum of all that reaches it.
    pub not_linear: bool,
    /// Where the user called it, innermost first.
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

/// Torch's `CreationMeta` of a view: how it was made, which decides whether it may be written in place later.
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
    /// Which.
    pub value: ValueId,
    /// The version counter that eager leaves it with.
    pub version: i64,
    /// What eager has it be a view of.
    pub base: Base,
    /// Whether it requires a gradient.
    pub requires_grad: bool,
    /// For a view, how it was made.
    pub creation: Creation,
    /// Of a derivative: the operand whose gradient it is.
    pub gradient: Option<i64>,
}

impl Returned {
    /// A tensor that nothing is to be said of.
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
    /// Where its tensors live, as torch writes it; None is the CPU.
    pub device: Option<String>,
    /// Folders of code that users do not look into, torch's for one.
    pub libraries: Vec<String>,
    /// Whether it draws random numbers.
    pub random: bool,
    /// Of a derivative: true if eager keeps something for it.
    pub keeps: bool,
    /// How often it is differentiated, where that is more than once.
    pub order: i64,
    /// Of which node, for each order but the last.
    pub path: Vec<i64>,
    /// Which results of the first of these nodes its gradients are given.
    pub given: Vec<i64>,
    /// The symbols in its sizes.
    pub symbols: Vec<SizeSymbol>,
    /// What holds of them in each call.
    pub assumed: Vec<Predicate>,
    /// What it is given.
    pub inputs: Vec<Input>,
    /// The calls in program order.
    pub ops: Vec<OpCall>,
    /// What is returned.
    pub outputs: Vec<Output>,
    values: usize,
}

/// A trace that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What is wrong.
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
    fn fresh(&mut self, count: usize) -> ValueId {
        let first = self.values;
        self.values += count;
        first
    }
}
