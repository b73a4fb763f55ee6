//! The steps of a compiled graph, in order.
//!
//! # Registers
//!
//! Every value is a register: registers `0..inputs.len()` are the inputs, the others are defined once by the step that names them. A
//! register is a *base* plus a [`Layout`]; its element 0 is `layout.window.offset` elements after the base.
//!
//! - An input's base is `layout.window.offset` elements *before* its data pointer: the base is the start of the storage when the graph was
//!   traced. So an input with another storage offset in a later call works as well.
//! - A `Buffer`'s base is the workspace plus `byte_offset`; an `OutputBuffer`'s and an extern result's base is the start of its own memory
//!   (minus the layout's offset, which is normally 0).
//! - A `View` has the base of its source, regardless of the source's own offset: as with `memref.reinterpret_cast`, its offset is absolute.
//!   If the element types differ, the offset counts the view's own elements.
//!
//! # Commit
//!
//! Steps before [`Step::Commit`] write no input. A plan without mutations may omit it.
//!
//! # Trust
//!
//! Kernels are code, and so is what they read and write through an argument's layout: the creator of a plan must ensure that a launch's
//! arguments have the layouts for which the kernel was compiled. Everything else is checked when a plan is loaded: registers, bounds,
//! overlaps, counts, operators.

use dynamlir_torch_abi::{Arg, DType, Device, Route};

use crate::Layout;

/// Number of a value.
pub type Reg = usize;

/// An input tensor. Inputs that are not tensors are values that guards check; they do not appear here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputSpec {
    /// As traced; sizes, strides and element type must match exactly, the offset need not.
    pub layout: Layout,
    /// Inputs with the same number share one storage, at the traced distance; None means a storage of its own.
    pub storage: Option<u32>,
    /// True if a step after the commit writes it.
    pub mutated: bool,
    /// The number of times that eager would have bumped its version counter; counted at the commit, or at the end of a plan without one.
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
    /// The memory of `src` with another layout.
    View { dst: Reg, src: Reg, layout: Layout },
    /// Runs a kernel on the addresses of element 0 of each argument, followed by sizes. Written arguments overlap with no other argument.
    Launch { kernel: usize, args: Vec<Reg>, sizes: Vec<i64> },
    /// Calls a torch op that writes nothing except `outs`, which are not inputs. Either `outs` (written) or `results` (fresh tensors) has
    /// one register per result, or both are empty and the results are dropped.
    Extern { call: usize, operands: Vec<Reg>, outs: Vec<Reg>, results: Vec<Reg> },
    /// Fails unless each element of an `i64` window is in `low..high`. Comes before the commit, so that eager can raise its own error.
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
    /// The cheapest route to try; if it cannot pass the arguments, a more expensive one is taken and reported.
    pub route: Route,
    /// The layout that each result had in eager; None for an undefined or unused one.
    pub result_layouts: Vec<Option<Layout>>,
    /// The place of its call in the user's program, for messages.
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

/// One value returned to the user.
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

/// The required base of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// It is not a view.
    None,
    /// A view of input `i`.
    Arg(usize),
    /// A view of the tensor of output `i`.
    Output(usize),
    /// A view of a tensor that is not returned. Outputs with the same number share it, and the first of them has that number.
    Hidden(usize),
}

/// The plans that compute the gradients of this one, and the values saved for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Training {
    /// The names of the entries that compute the gradients of the plan's nodes in autograd's graph, in order: each comes after those whose
    /// results it takes.
    pub vjps: Vec<String>,
    /// The saved values, which these take first.
    pub saved: Vec<Saved>,
    /// The inputs on which gradients depend in any way.
    pub primals: Vec<usize>,
    /// The index in `saved` of the keys of all random numbers.
    pub keys: Option<usize>,
    /// True if the last of `saved` is kept only for its sizes.
    pub sizes: bool,
    /// The values passed only between nodes: tensors without memory, numbered after the results.
    pub crossing: Vec<Layout>,
}

/// A value that is saved for backward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saved {
    /// The tensor of `results[i]`.
    Result(usize),
    /// Input `i`.
    Arg(usize),
}

/// The value whose gradient this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GradientOf {
    /// An input.
    Input(usize),
    /// A result of the graph, or a value passed between nodes, which are numbered after the results.
    Result(usize),
    /// An output that is a view.
    Output(usize),
}

/// The inputs and results of a plan that computes the gradients of another one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Derivative {
    /// For each of its inputs, the other plan's result whose tangent it is. Saved values are not tangents.
    pub tangents: Vec<Option<usize>>,
    /// For each of its results, the other plan's value whose gradient it is.
    pub gradients: Vec<GradientOf>,
    /// For each of its results, the other plan's results whose tangents reach it; None for all that it takes.
    pub reached: Vec<Option<Vec<usize>>>,
    /// The indices of the saved values that it takes; None for all of them.
    pub kept: Option<Vec<usize>>,
    /// The indices of the inputs that eager does not save directly, but as views.
    pub by_views: Vec<usize>,
    /// The results of the forward graph that eager's node saves because its formulas read them.
    pub by_eager: Vec<usize>,
    /// True if its gradients are available once, although it takes no saved values, or only values that could remain: eager saves something
    /// for them.
    pub once: bool,
    /// Values to which it has an edge without a gradient, since functions of the user return None: autograd visits their producers
    /// nevertheless.
    pub leads_to: Vec<GradientOf>,
}

/// A plan's description of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelSpec {
    /// Its symbol.
    pub name: String,
    /// The number of arguments.
    pub arguments: usize,
    /// The number of arguments, at the end, that it writes. The others it only reads.
    pub written: usize,
    /// The number of sizes that follow them.
    pub sizes: usize,
}

/// A whole graph.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// The location of all memory: that of the inputs, the workspace and the results.
    pub device: Device,
    /// The tensors the graph is called with.
    pub inputs: Vec<InputSpec>,
    /// Size of the memory shared by all `Buffer`s.
    pub workspace_bytes: usize,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The origin of each step in the program, for messages; missing ones are identified by their number.
    pub origins: Vec<String>,
    /// Registers whose tensors outlive the run: output buffers, extern results or views of them, none twice.
    pub results: Vec<Reg>,
    /// The version counter of each result; missing ones are 0.
    pub versions: Vec<i64>,
    /// The values returned to the user.
    pub outputs: Vec<Output>,
    /// The required bases of outputs; None, or a missing entry, means the base as created.
    pub bases: Vec<Option<Base>>,
    /// For each output, the output of which it is a view, if that is a view itself: its gradients pass through that one. May be empty.
    pub made_from: Vec<Option<usize>>,
    /// For each output that is one of several views, the first output that the same call returned, if that is another one. May be empty.
    pub made_beside: Vec<Option<usize>>,
    /// True if it draws random numbers: a run that fails before the commit restores the generator.
    pub random: bool,
    /// The inputs that require a gradient.
    pub requires_grad: Vec<usize>,
    /// The positions of the outputs that require a gradient.
    pub differentiable: Vec<usize>,
    /// The positions of the outputs that were created with grad mode off, which affects later uses of views.
    pub without_grad: Vec<usize>,
    /// The positions of the outputs that are among several views returned by one operation: torch rejects in-place writes to them if
    /// gradients are recorded.
    pub one_of_several: Vec<usize>,
    /// For a graph that computes the gradients of another, the origin of each of its inputs: the number of one of the other's inputs, or of
    /// a tangent, numbered after those. None for other graphs.
    pub primals: Vec<Option<usize>>,
    /// For such a graph, the input that holds the keys of the other's random numbers.
    pub keys: Option<usize>,
    /// For each result, the inputs that give it a history, if known.
    pub sources: Option<Vec<Vec<usize>>>,
    /// The computation of a graph's gradients.
    pub training: Option<Training>,
    /// The inputs and results of a graph that computes gradients.
    pub derivative: Option<Derivative>,
    /// The ops to which `Extern` steps refer.
    pub externs: Vec<ExternCall>,
    /// The kernels to which `Launch` steps refer.
    pub kernels: Vec<KernelSpec>,
}

impl Plan {
    /// Returns the layout of a result, as defined by its step.
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
