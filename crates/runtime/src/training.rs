//! A graph together with the graph that computes its gradients.
//!
//! Autograd sees one node: its inputs are those inputs of the graph that have a gradient, its outputs the *results* of the graph
//! of which outputs require one. Outputs of the user's that are views of those, or of inputs, are made outside of the node by
//! torch's own view operators, which carry the gradient on. What the node keeps is kept by autograd, which checks that nobody has
//! written to it, and gives it up.

use std::sync::Arc;

use dynamlir_torch_abi::{BelowAutograd, DType, Device, OwnedTensor, TensorRef, TorchAbi, TorchError};
use smallvec::SmallVec;

use crate::effects::draws_keys;
use crate::executor::{Executable, Failure, RunError};
use crate::externs::{self, PythonCalls};
use crate::flow;
use crate::instances::Instances;
use crate::layout::Layout;
use crate::lower::PlanError;
use crate::outputs::OutputValue;
use crate::plan::{Derivative, InputSpec, Output, Plan, Saved, Training};

/// Where a tangent comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tangent {
    /// The node's output of this number.
    Of(usize),
    /// Of a result that nobody sees.
    Undefined,
}

/// A graph that trains.
pub struct Differentiable {
    abi: &'static TorchAbi,
    forward: Graph,
    backward: Graph,
    shape: Shape,
}

/// One of the two, which may be there for other sizes as well.
#[derive(Clone)]
pub struct Graph {
    /// The one that was loaded.
    pub first: Arc<Executable>,
    /// The same for other sizes, where they vary.
    pub instances: Option<Arc<Instances>>,
}

/// An executable for the sizes of a call.
pub enum Fitting<'a> {
    /// There is one for all.
    Only(&'a Executable),
    /// That for these sizes.
    Made(Arc<Executable>),
}

impl std::ops::Deref for Fitting<'_> {
    type Target = Executable;
    fn deref(&self) -> &Executable {
        match self {
            Self::Only(executable) => executable,
            Self::Made(executable) => executable,
        }
    }
}

impl Graph {
    /// The executable for the sizes of inputs, of which `input` gives those that are there.
    #[inline]
    pub fn fitting<'a>(&self, input: impl Fn(usize) -> Option<TensorRef<'a>>) -> Result<Fitting<'_>, RunError> {
        let Some(instances) = &self.instances else { return Ok(Fitting::Only(&self.first)) };
        instances.at(instances.values(input)?).map(Fitting::Made)
    }
}

/// How the two graphs belong together.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shape {
    /// The inputs of the graph that are inputs of the node.
    inputs: Vec<usize>,
    /// The results of the graph that are outputs of the node.
    outputs: Vec<usize>,
    saved: Vec<Saved>,
    /// Which of these are the keys of all random numbers.
    keys: Option<usize>,
    tangents: Vec<Tangent>,
    /// For each input of the node, the result of the backward graph that is its gradient.
    gradients: Vec<Option<usize>>,
    /// For each result of the backward graph, the tangents that it depends on.
    depends: Vec<Vec<usize>>,
    /// The inputs of the graph that gradients are made of, and that are not saved.
    lent: Vec<usize>,
    /// The inputs that gradients are made of as they were before the graph wrote them.
    lost: Vec<usize>,
}

/// The gradients of the node's inputs; None for those that have none.
pub type Gradients = SmallVec<[Option<OwnedTensor>; 4]>;

impl Differentiable {
    /// Holds the two against each other.
    pub fn new(abi: &'static TorchAbi, forward: Graph, backward: Graph) -> Result<Self, PlanError> {
        let shape = Shape::new(forward.first.plan(), backward.first.plan())?;
        Ok(Self { abi, forward, backward, shape })
    }

    /// The graph; where sizes vary, for those that it was made with.
    #[must_use]
    pub fn forward(&self) -> &Executable {
        &self.forward.first
    }

    /// The graph for these inputs.
    #[inline]
    pub fn forward_for(&self, inputs: &[TensorRef<'_>]) -> Result<Fitting<'_>, RunError> {
        self.forward.fitting(|at| inputs.get(at).copied())
    }

    /// The graph of its gradients; where sizes vary, for those that it was made with.
    #[must_use]
    pub fn backward(&self) -> &Executable {
        &self.backward.first
    }

    /// Whether its sizes vary.
    #[must_use]
    pub fn varies(&self) -> bool {
        self.backward.instances.is_some()
    }

    /// The values of the symbols in a call, in the order of their declarations; empty where sizes are numbers.
    pub fn sizes(&self, saved: &[TensorRef<'_>], tangents: &[Option<TensorRef<'_>>]) -> Result<Vec<i64>, RunError> {
        let Some(instances) = &self.backward.instances else { return Ok(Vec::new()) };
        instances.values(|at| self.input(at, saved, tangents))
    }

    /// An input of the graph of the gradients, if it is there.
    fn input<'a>(&self, at: usize, saved: &[TensorRef<'a>], tangents: &[Option<TensorRef<'a>>]) -> Option<TensorRef<'a>> {
        match at.checked_sub(self.shape.saved.len()) {
            None => saved.get(at).copied(),
            Some(tangent) => match self.shape.tangents.get(tangent)? {
                Tangent::Of(output) => tangents.get(*output).copied().flatten(),
                Tangent::Undefined => None,
            },
        }
    }

    /// The inputs of the graph that are inputs of the node, in order.
    #[must_use]
    pub fn inputs(&self) -> &[usize] {
        &self.shape.inputs
    }

    /// The results of the graph that are outputs of the node, in order.
    #[must_use]
    pub fn outputs(&self) -> &[usize] {
        &self.shape.outputs
    }

    /// What is kept for the gradients.
    #[must_use]
    pub fn saved(&self) -> &[Saved] {
        &self.shape.saved
    }

    /// Which of the saved values are the keys of all random numbers that the graph draws.
    #[must_use]
    pub fn keys(&self) -> Option<usize> {
        self.shape.keys
    }

    /// Whether torch's operators draw all its random numbers, so that the state of torch's generator before the call gives them again.
    #[must_use]
    pub fn draws_by_state(&self) -> bool {
        let plan = self.forward().plan();
        plan.random && !plan.steps.iter().any(|step| draws_keys(plan, step))
    }

    /// The inputs that gradients are made of, and that are not saved. Whoever differentiates the gradients in turn needs them.
    #[must_use]
    pub fn lent(&self) -> &[usize] {
        &self.shape.lent
    }

    /// The inputs that gradients are made of as they were before the graph wrote them: nobody has those values any more.
    #[must_use]
    pub fn lost(&self) -> &[usize] {
        &self.shape.lost
    }

    /// How many bytes each saved value has; where sizes vary, with those that the graph was made with.
    pub fn saved_bytes(&self) -> impl Iterator<Item = usize> {
        let bytes = |input: &InputSpec| input.layout.window.numel() as usize * input.layout.dtype.size();
        self.backward().plan().inputs[..self.shape.saved.len()].iter().map(bytes)
    }

    /// For each of the node's inputs, the result of the backward graph that is its gradient; None where that is not `needed`, or
    /// depends on none of the tangents that are given.
    pub fn wanted(&self, is_given: impl Fn(usize) -> bool, needed: &[bool]) -> SmallVec<[Option<usize>; 8]> {
        let shape = &self.shape;
        let is_given = |tangent: &usize| matches!(shape.tangents[*tangent], Tangent::Of(output) if is_given(output));
        let wanted = |input: usize| {
            let gradient = shape.gradients[input].filter(|_| needed.get(input).copied().unwrap_or(true))?;
            // What depends on no tangent is zero, and is there where the program says so.
            let depends = &shape.depends[gradient];
            (depends.is_empty() || depends.iter().any(is_given)).then_some(gradient)
        };
        (0..shape.inputs.len()).map(wanted).collect()
    }

    /// Computes the gradients of the node's inputs from what was saved and the tangents of its outputs, of which those that are
    /// None are zero. Where `needed` is false nothing is given.
    pub fn gradients(
        &self,
        saved: &[TensorRef<'_>],
        tangents: &[Option<TensorRef<'_>>],
        needed: &[bool],
        py: &mut dyn PythonCalls,
    ) -> Result<Gradients, RunError> {
        let shape = &self.shape;
        if saved.len() != shape.saved.len() || tangents.len() != shape.outputs.len() {
            return Err(RunError::Guard("another number of saved values or tangents".to_owned().into()));
        }
        let wanted = self.wanted(|output| tangents[output].is_some(), needed);
        if wanted.iter().all(Option::is_none) {
            return Ok(wanted.iter().map(|_| None).collect());
        }
        let backward = self.backward.fitting(|at| self.input(at, saved, tangents))?;
        let specs = &backward.plan().inputs;
        let values = (0..specs.len()).map(|at| self.input(at, saved, tangents));
        // Tensors of another layout are copied, and live until the gradients are there.
        let mut made: SmallVec<[Option<OwnedTensor>; 8]> = SmallVec::with_capacity(specs.len());
        for (at, (spec, value)) in specs.iter().zip(values.clone()).enumerate() {
            let device = backward.plan().device;
            made.push(match value {
                Some(value) => fitted(self.abi, device, &spec.layout, value).map_err(|what| {
                    let who = at.checked_sub(saved.len()).map_or("a saved tensor", |_| "a tangent");
                    RunError::Guard(format!("{who} {what}").into())
                })?,
                None => Some(zeros(self.abi, device, &spec.layout).map_err(|error| RunError::Failed(error.into()))?),
            });
        }
        let inputs = made.iter().zip(values).map(|(made, value)| made.as_ref().map(OwnedTensor::as_ref).or(value));
        let lost = || RunError::Failed(Failure::plain("a tangent is missing"));
        let inputs: SmallVec<[TensorRef<'_>; 16]> = inputs.collect::<Option<_>>().ok_or_else(lost)?;
        let mut outputs = backward.run(&inputs, py)?;
        let mut take = |gradient: usize| match std::mem::replace(&mut outputs[gradient], OutputValue::None) {
            OutputValue::Tensor(tensor) => Some(tensor),
            _ => None,
        };
        Ok(wanted.into_iter().map(|gradient| gradient.and_then(&mut take)).collect())
    }
}

impl Shape {
    fn new(forward: &Plan, backward: &Plan) -> Result<Self, PlanError> {
        let error = |what: String| Err(PlanError(what));
        let (Some(training), Some(derivative)) = (&forward.training, &backward.derivative) else {
            return error("it is not a graph and its gradients".to_owned());
        };
        let Training { vjp, saved, primals, keys } = training;
        let Derivative { tangents, gradients, .. } = derivative;
        if forward.device != backward.device {
            return error(format!("@{vjp} is for {}, its graph for {}", backward.device, forward.device));
        }
        if saved.len() > backward.inputs.len() || tangents.len() != backward.inputs.len() || gradients.len() != backward.results.len() {
            return error(format!("@{vjp} has not the arguments or results of gradients"));
        }
        for (at, (value, input)) in saved.iter().zip(&backward.inputs).enumerate() {
            let kept = match value {
                Saved::Arg(arg) if forward.inputs.get(*arg).is_some_and(|input| input.mutated) => {
                    return error(format!("saved value {at} is argument {arg}, which is written"));
                }
                Saved::Arg(arg) => forward.inputs.get(*arg).map(|input| &input.layout),
                Saved::Result(result) => forward.result_layout(*result),
            };
            let Some(kept) = kept else { return error(format!("saved value {at} does not exist")) };
            same_values(kept, &input.layout).map_err(|what| PlanError(format!("saved value {at} {what} of argument {at} of @{vjp}")))?;
        }
        let outputs = node_outputs(forward);
        let mut sources = Vec::new();
        for (at, (tangent, input)) in tangents.iter().zip(&backward.inputs).enumerate().skip(saved.len()) {
            let Some(result) = *tangent else { return error(format!("argument {at} of @{vjp} is neither saved nor a tangent")) };
            let Some(of) = forward.result_layout(result) else {
                return error(format!("argument {at} of @{vjp} is the tangent of result {result}, which does not exist"));
            };
            same_values(of, &input.layout)
                .map_err(|what| PlanError(format!("result {result} {what} of its tangent, argument {at} of @{vjp}")))?;
            sources.push(outputs.iter().position(|output| *output == result).map_or(Tangent::Undefined, Tangent::Of));
        }
        if let Some(at) =
            (0..backward.outputs.len().max(gradients.len())).find(|at| backward.outputs.get(*at) != Some(&Output::Result(*at)))
        {
            return error(format!("output {at} of @{vjp} is not its result {at}"));
        }
        for (at, argument) in gradients.iter().enumerate() {
            let Some(of) = forward.inputs.get(*argument) else {
                return error(format!("result {at} of @{vjp} is the gradient of argument {argument}, which does not exist"));
            };
            if gradients[..at].contains(argument) {
                return error(format!("@{vjp} has two gradients of argument {argument}"));
            }
            if let Some(own) = backward.result_layout(at) {
                same_values(&of.layout, own)
                    .map_err(|what| PlanError(format!("argument {argument} {what} of its gradient, result {at} of @{vjp}")))?;
            }
        }
        let mut inputs: Vec<usize> = gradients.clone();
        inputs.sort_unstable();
        if inputs.is_empty() {
            // Outputs require a gradient all the same.
            inputs.clone_from(&forward.requires_grad);
        }
        let depends = derivative.depends.clone().unwrap_or_else(|| flow::depends(backward));
        let tangent_of = |input: usize| input.checked_sub(saved.len()).filter(|tangent| *tangent < sources.len());
        let depends = depends.into_iter().map(|inputs| inputs.into_iter().filter_map(tangent_of).collect()).collect();
        let not_saved = primals.iter().copied().filter(|arg| !saved.contains(&Saved::Arg(*arg)) && *arg < forward.inputs.len());
        let (lost, lent) = not_saved.partition(|arg| forward.inputs[*arg].mutated);
        Ok(Self {
            lent,
            lost,
            gradients: inputs.iter().map(|input| gradients.iter().position(|argument| argument == input)).collect(),
            inputs,
            outputs,
            saved: saved.clone(),
            keys: keys.filter(|at| *at < saved.len()),
            tangents: sources,
            depends,
        })
    }
}

/// The first output whose gradient somebody has to compute: one that shows an input's memory has the input's.
#[must_use]
pub fn computed_gradient(plan: &Plan) -> Option<usize> {
    let is_result = |at: &usize| matches!(plan.outputs.get(*at), Some(Output::Result(_) | Output::ResultView { .. }));
    plan.differentiable.iter().copied().find(is_result)
}

/// The results of which some output requires a gradient.
fn node_outputs(plan: &Plan) -> Vec<usize> {
    let result = |at: &usize| match plan.outputs.get(*at)? {
        Output::Result(result) | Output::ResultView { result, .. } => Some(*result),
        _ => None,
    };
    let mut results: Vec<usize> = plan.differentiable.iter().filter_map(result).collect();
    results.sort_unstable();
    results.dedup();
    results
}

/// Whether tensors of both have the same element type and sizes.
fn same_values(left: &Layout, right: &Layout) -> Result<(), String> {
    if left.dtype != right.dtype {
        return Err(format!("has elements of {}, not the {}", left.dtype.name(), right.dtype.name()));
    }
    if left.window.sizes != right.window.sizes {
        return Err(format!("has the sizes {:?}, not the {:?}", left.window.sizes, right.window.sizes));
    }
    Ok(())
}

/// A tensor of the values of another, in the layout that is wanted; None where it has that itself.
fn fitted(abi: &'static TorchAbi, device: Device, wanted: &Layout, tensor: TensorRef<'_>) -> Result<Option<OwnedTensor>, String> {
    let text = |error: TorchError| error.message().to_owned();
    if tensor.device().map_err(text)? != Some(device) {
        return Err(format!("is not on {device}"));
    }
    let dtype = tensor.dtype().map_err(text)?;
    if dtype != Some(wanted.dtype) {
        let name = dtype.map_or("another type", DType::name);
        return Err(format!("has elements of {name}, {} were expected", wanted.dtype.name()));
    }
    let (sizes, window) = (tensor.sizes().map_err(text)?, &wanted.window);
    if sizes != window.sizes {
        return Err(format!("has the sizes {sizes:?}, {:?} were expected", window.sizes));
    }
    let plain = tensor.is_plain() != Some(false);
    if plain && tensor.strides().map_err(text)? == window.strides {
        return Ok(None);
    }
    let _below = BelowAutograd::enter(abi);
    if plain && wanted.same_memory(sizes, tensor.strides().map_err(text)?) {
        let offset = tensor.storage_offset().map_err(text)?;
        return tensor.reinterpret(&window.sizes, &window.strides, offset).map(Some).map_err(text);
    }
    externs::copy_with(abi, device, (&window.sizes, &window.strides, wanted.dtype), tensor).map(Some).map_err(text)
}

fn zeros(abi: &'static TorchAbi, device: Device, wanted: &Layout) -> Result<OwnedTensor, TorchError> {
    let _below = BelowAutograd::enter(abi);
    let zero = abi.empty_strided(&[], &[], DType::U8)?;
    // SAFETY: it has one element of one byte, and nobody else has it.
    unsafe { zero.as_ref().data_ptr()?.write(0) };
    externs::copy_with(abi, device, (&wanted.window.sizes, &wanted.window.strides, wanted.dtype), zero.as_ref())
}
