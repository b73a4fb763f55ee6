//! What a compiled graph does, in the order it does it.
//!
//! # Registers
//!
//! Every value is a register: registers `0..inputs.len()` are the inputs, the others are defined once by the step that names
//! them. A register is a *base* plus a [`Layout`]; its element 0 lies `layout.window.offset` elements after the base.
//!
//! - An input's base lies `layout.window.offset` elements *before* its data pointer: the base is where the storage began when the graph was
//!   traced. So an input whose storage offset is another one today works all the same.
//! - A `Buffer`'s base is the workspace plus `byte_offset`; an `OutputBuffer`'s and an extern result's base is the start of its own memory
//!   (minus the layout's offset, which is normally 0).
//! - A `View` has the base of its source, whatever the source's own offset: as with `memref.reinterpret_cast`, its offset is absolute.
//!   Where the element types differ, it counts the view's own elements.
//!
//! # Commit
//!
//! Steps before [`Step::Commit`] write no input. A plan without mutations may leave it out.
//!
//! # Trust
//!
//! Kernels are code, and so is what they read and write through an argument's layout: whoever makes a plan sees to it that a
//! launch's arguments have the layouts that the kernel was compiled for. Everything else is checked when a plan is loaded: registers,
//! bounds, overlaps, counts, operators.

use dynamlir_torch_abi::{Arg, DType, Device, Route};

use crate::Layout;

/// Number of a value.
pub type Reg = usize;

/// An input tensor. Inputs that are not tensors are values that guards check; they do not appear here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputSpec {
    /// As traced; sizes, strides and element type must match exactly, the offset need not.
    pub layout: Layout,
    /// Inputs with the same number share one storage, at the traced distance; None is a storage of its own.
    pub storage: Option<u32>,
    /// Whether a step after the commit writes it.
    pub mutated: bool,
    /// How often eager would have bumped its version counter; counted at the commit, or at the end of a plan without one.
    pub version_bumps: i64,
}

/// One step. Registers in `dst` and `results` are defined by it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are explained with their step")]
pub enum Step {
    /// Memory inside the workspace.
    Buffer { dst: Reg, byte_offset: usize, layout: Layout },
    /// A fresh torch tensor, to be returned.
    OutputBuffer { dst: Reg, layout: Layout },
    /// The memory of `src`, seen differently.
    View { dst: Reg, src: Reg, layout: Layout },
    /// A kernel on the addresses of element 0 of each argument, and then on sizes. What it writes overlaps with no other argument.
    Launch { kernel: usize, args: Vec<Reg>, sizes: Vec<i64> },
    /// An op of torch that writes nothing but `outs`, which are not inputs. Either `outs` (written) or `results` (fresh tensors) has one register per result, or both are empty and
    /// the results are dropped.
    Extern { call: usize, operands: Vec<Reg>, outs: Vec<Reg>, results: Vec<Reg> },
    /// Fails unless each element of an `i64` window is in `low..high`. Comes before the commit, so that eager can raise
    /// its own error.
    CheckRange { src: Reg, low: i64, high: i64, message: String },
    /// From here on inputs are written.
    Commit,
}

/// An op of torch with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct ExternCall {
    /// `aten.convolution.default`.
    pub schema: String,
    /// All schema arguments, in schema order.
    pub args: Vec<Arg>,
    /// The cheapest route to try; a more expensive one is taken, and reported, where this one cannot carry the arguments.
    pub route: Route,
    /// The layout eager saw for each result; None for one that is undefined or unused.
    pub result_layouts: Vec<Option<Layout>>,
    /// Where in the user's program it was called, for messages.
    pub location: String,
}

/// A value known when the graph was compiled.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "one per kind")]
pub enum Const {
    Int(i64),
    Float(f64),
    Bool(bool),
    Str(String),
    DType(DType),
}

/// One thing the user gets back.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "fields as in torch.as_strided, offsets absolute as traced")]
pub enum Output {
    /// The tensor of `results[i]`.
    Result(usize),
    /// Input `i` itself.
    Arg(usize),
    /// A view of input `arg`.
    ArgView { arg: usize, sizes: Vec<i64>, strides: Vec<i64>, offset: i64 },
    /// A view of the tensor of `results[result]`.
    ResultView { result: usize, sizes: Vec<i64>, strides: Vec<i64>, offset: i64 },
    /// None.
    None,
    /// The same object as output `i`, which comes earlier.
    Same(usize),
    /// A constant.
    Const(Const),
}

/// What an output has to be a view of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// It is not a view.
    None,
    /// Of input `i`.
    Arg(usize),
    /// Of the tensor of output `i`.
    Output(usize),
    /// Of a tensor that nobody sees; outputs with the same number share it, and the first of them has that number.
    Hidden(usize),
}

/// That another plan computes the gradients of this one, and what is kept for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Training {
    /// The names of the entries that compute the gradients of the nodes that the plan is in autograd's graph, in order: each comes after
    /// those whose results it takes.
    pub vjps: Vec<String>,
    /// The values that these take first.
    pub saved: Vec<Saved>,
    /// The inputs that gradients are made of, in whatever way.
    pub primals: Vec<usize>,
    /// Which of `saved` are the keys of all random numbers.
    pub keys: Option<usize>,
    /// True if the last of `saved` is kept for its sizes alone.
    pub sizes: bool,
    /// What nodes hand to one another and nobody else sees: tensors that have no memory, which count on after the results.
    pub crossing: Vec<Layout>,
}

/// A value that is kept until gradients are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saved {
    /// The tensor of `results[i]`.
    Result(usize),
    /// Input `i`.
    Arg(usize),
}

/// What a gradient is the gradient of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GradientOf {
    /// An input.
    Input(usize),
    /// A result of the graph, or what counts on after them.
    Result(usize),
    /// An output that is a view.
    Output(usize),
}

/// What a plan that computes gradients of another takes and gives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Derivative {
    /// Of each of its inputs, the result of the other whose tangent it is. Saved values are no tangents.
    pub tangents: Vec<Option<usize>>,
    /// Of each of its results, what of the other it is the gradient of.
    pub gradients: Vec<GradientOf>,
    /// For each of its results, the results of the other whose tangents reach it; None for all that it takes.
    pub reached: Vec<Option<Vec<usize>>>,
    /// Which of the saved values it takes; None for all of them.
    pub kept: Option<Vec<usize>>,
    /// Which of its inputs eager does not keep, but views of them.
    pub by_views: Vec<usize>,
    /// The results of the forward graph that eager's node keeps because formulas read them.
    pub by_eager: Vec<usize>,
    /// True if its gradients are there once, though it takes no saved values, or only what could last: eager keeps something for them.
    pub once: bool,
    /// What it leads to without giving a gradient of it, since functions of the user's return None: autograd visits what has made that all
    /// the same.
    pub leads_to: Vec<GradientOf>,
}

/// What a plan says of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelSpec {
    /// Its symbol.
    pub name: String,
    /// How many arguments it has.
    pub arguments: usize,
    /// How many of them, the last ones, it writes. The others it only reads.
    pub written: usize,
    /// How many sizes it takes after them.
    pub sizes: usize,
}

/// A whole graph.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Where all memory is: the inputs', the workspace's, the results'.
    pub device: Device,
    /// The tensors the graph is called with.
    pub inputs: Vec<InputSpec>,
    /// Size of the memory shared by all `Buffer`s.
    pub workspace_bytes: usize,
    /// What to do.
    pub steps: Vec<Step>,
    /// What each step stands for in the program, for messages; missing ones are known by their number.
    pub origins: Vec<String>,
    /// Registers whose tensors outlive the run: output buffers, extern results or views of them, none twice.
    pub results: Vec<Reg>,
    /// The version counter each result should carry; missing ones are 0.
    pub versions: Vec<i64>,
    /// What the user gets.
    pub outputs: Vec<Output>,
    /// What outputs have to be views of; None, or a missing one, is a view of that which it is made from.
    pub bases: Vec<Option<Base>>,
    /// For each output, the output that it is a view of, where that is a view itself: gradients go to it by way of that one. Empty where
    /// there is none.
    pub made_from: Vec<Option<usize>>,
    /// For each output that is one of several views, the first output that the same call returned, where that is another one. Empty where
    /// there is none.
    pub made_beside: Vec<Option<usize>>,
    /// It draws random numbers: a run that fails before the commit puts the generator back.
    pub random: bool,
    /// The inputs that require a gradient.
    pub requires_grad: Vec<usize>,
    /// The positions of the outputs that do.
    pub differentiable: Vec<usize>,
    /// The positions of the outputs that were made with grad mode off, which views show later on.
    pub without_grad: Vec<usize>,
    /// The positions of the outputs that are one of several views which an operation returned: torch refuses writes to them where
    /// gradients are recorded.
    pub one_of_several: Vec<usize>,
    /// Of a graph that computes the gradients of another, what each of its inputs is: one of the other's, counted first, or one of the
    /// tangents, counted on. None for other graphs.
    pub primals: Vec<Option<usize>>,
    /// Of such a graph, the input that is the keys of the other's random numbers.
    pub keys: Option<usize>,
    /// For each result, the inputs that give it a history, where that is known.
    pub sources: Option<Vec<Vec<usize>>>,
    /// How the gradients of a graph are computed.
    pub training: Option<Training>,
    /// What a graph that computes gradients takes and gives.
    pub derivative: Option<Derivative>,
    /// The ops that `Extern` steps name.
    pub externs: Vec<ExternCall>,
    /// The kernels that `Launch` steps name.
    pub kernels: Vec<KernelSpec>,
}

impl Plan {
    /// The layout of a result, as the step says that defines it.
    #[must_use]
    pub fn result_layout(&self, result: usize) -> Option<&Layout> {
        let wanted = *self.results.get(result)?;
        self.steps.iter().find_map(|step| match step {
            Step::Buffer { dst, layout, .. } | Step::OutputBuffer { dst, layout } | Step::View { dst, layout, .. } if *dst == wanted => {
                Some(layout)
            }
            Step::Extern { call, results, .. } => {
                let at = results.iter().position(|reg| *reg == wanted)?;
                self.externs.get(*call)?.result_layouts.get(at)?.as_ref()
            }
            _ => None,
        })
    }
}
