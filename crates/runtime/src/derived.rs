//! A node: the graph, or a part of it, in autograd's graph. Defines the node's inputs and outputs, and the graph that computes its
//! gradients.

use dynamlir_shapes::Window;
use dynamlir_torch_abi::{BelowAutograd, DType, Device, OwnedTensor, TensorRef, TorchAbi, TorchError};
use smallvec::SmallVec;

use crate::arrival;
use crate::executor::{Executable, Failure, RunError};
use crate::externs::{self, PythonCalls};
use crate::layout::Layout;
use crate::lower::PlanError;
use crate::outputs::OutputValue;
use crate::plan::{Derivative, GradientOf, InputSpec, Output, Plan, Saved, Training};
use crate::training::Graph;

/// The origin of a tangent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tangent {
    /// The tangent of the node's output with this number.
    Of(usize),
    /// The tangent of a result that is not visible.
    Undefined,
}

/// An input of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeInput {
    /// An input of the graph.
    Input(usize),
    /// A result of the graph, or a stand-in: a value produced by another node.
    Result(usize),
    /// An output that is a view.
    Output(usize),
}

impl NodeInput {
    /// Returns the result that another node must produce first, if this input is one or shows one.
    pub(crate) fn result(self, plan: &Plan) -> Option<usize> {
        match self {
            Self::Input(_) => None,
            Self::Result(result) => Some(result),
            Self::Output(output) => match plan.outputs.get(output) {
                Some(Output::ResultView { result, .. }) => Some(*result),
                _ => None,
            },
        }
    }

    /// Returns the graph input that this is or shows.
    fn argument(self, plan: &Plan) -> Option<usize> {
        match self {
            Self::Input(input) => Some(input),
            Self::Result(_) => None,
            Self::Output(output) => match plan.outputs.get(output) {
                Some(Output::ArgView { arg, .. }) => Some(*arg),
                _ => None,
            },
        }
    }
}

impl From<GradientOf> for NodeInput {
    fn from(of: GradientOf) -> Self {
        match of {
            GradientOf::Input(input) => Self::Input(input),
            GradientOf::Result(result) => Self::Result(result),
            GradientOf::Output(output) => Self::Output(output),
        }
    }
}

/// A node.
pub struct Derived {
    abi: &'static TorchAbi,
    backward: Graph,
    shape: Shape,
}

/// The relation between its graph and the one whose gradients it computes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shape {
    inputs: Vec<NodeInput>,
    /// The outputs of the node: results of the graph, and stand-ins, which are numbered after them.
    outputs: Vec<usize>,
    saved: Vec<Saved>,
    /// The number of these that autograd releases.
    given_up: usize,
    /// The indices of those that eager does not save directly, but as views.
    by_views: Vec<usize>,
    /// The indices of the outputs that eager saves because its formulas read them.
    by_eager: Vec<usize>,
    /// The index among the saved values of the keys of all random numbers.
    keys: Option<usize>,
    tangents: Vec<Tangent>,
    /// For each input of the node, the result of the backward graph that is its gradient.
    gradients: Vec<Option<usize>>,
    /// For each result of the backward graph, the tangents that reach it; None if it exists regardless of the given tangents.
    reached: Vec<Option<Vec<usize>>>,
    /// True if one backward pass uses it up, although it saves nothing, or only values that could remain.
    once: bool,
    /// The input at each place in the order passed to torch.
    placed: Vec<usize>,
    /// The graph inputs on which gradients depend that are not saved.
    lent: Vec<usize>,
    /// The inputs on which gradients depend in their state before the graph wrote to them.
    lost: Vec<usize>,
}

/// The gradients of the node's inputs; None for those without.
pub type Gradients = SmallVec<[Option<OwnedTensor>; 4]>;

impl Derived {
    /// Creates node `at` of the graph with this plan.
    pub(crate) fn new(abi: &'static TorchAbi, forward: &Plan, backward: Graph, at: usize) -> Result<Self, PlanError> {
        let shape = Shape::new(forward, backward.first.plan(), at)?;
        Ok(Self { abi, backward, shape })
    }

    /// Returns the graph of its gradients; with dynamic sizes, the one for the sizes with which it was compiled.
    #[must_use]
    pub fn backward(&self) -> &Executable {
        &self.backward.first
    }

    /// Returns true if its sizes are dynamic.
    #[must_use]
    pub fn varies(&self) -> bool {
        self.backward.instances.is_some()
    }

    /// Returns the values of the symbols in a call, in declaration order; empty if sizes are static.
    pub fn sizes(&self, saved: &[TensorRef<'_>], tangents: &[Option<TensorRef<'_>>]) -> Result<Vec<i64>, RunError> {
        let Some(instances) = &self.backward.instances else { return Ok(Vec::new()) };
        instances.values(|at| self.input(at, saved, tangents))
    }

    /// Returns an input of the gradient graph, if it is given.
    fn input<'a>(&self, at: usize, saved: &[TensorRef<'a>], tangents: &[Option<TensorRef<'a>>]) -> Option<TensorRef<'a>> {
        match at.checked_sub(self.shape.saved.len()) {
            None => saved.get(at).copied(),
            Some(tangent) => match self.shape.tangents.get(tangent)? {
                Tangent::Of(output) => tangents.get(*output).copied().flatten(),
                Tangent::Undefined => None,
            },
        }
    }

    /// Returns its inputs, in order.
    #[must_use]
    pub fn inputs(&self) -> &[NodeInput] {
        &self.shape.inputs
    }

    /// Returns the inputs for which it has a gradient, with their indices. To the other inputs it only has an edge.
    pub fn differentiated(&self) -> impl Iterator<Item = (usize, NodeInput)> + '_ {
        let inputs = self.shape.inputs.iter().copied().enumerate();
        inputs.zip(&self.shape.gradients).filter_map(|(input, gradient)| gradient.map(|_| input))
    }

    /// Returns true if a backward pass uses it up, although it saves nothing, or only values that could remain: eager saves something for
    /// it, and a second backward pass reports that this was freed.
    #[must_use]
    pub fn once(&self) -> bool {
        self.shape.once
    }

    /// Returns the input at each place in the order passed to torch, so that gradients arrive in the order in which they are computed.
    #[must_use]
    pub fn placed(&self) -> &[usize] {
        &self.shape.placed
    }

    /// Returns the inputs of the graph with this plan for which it has gradients, some of them through an output that shows one.
    pub(crate) fn arguments(&self, plan: &Plan) -> impl Iterator<Item = usize> {
        self.shape.inputs.iter().filter_map(|input| input.argument(plan))
    }

    /// Returns the graph's results that are its outputs, in order. Numbers beyond the graph's results are stand-ins
    /// ([`Differentiable::stand_in`](crate::Differentiable::stand_in)).
    #[must_use]
    pub fn outputs(&self) -> &[usize] {
        &self.shape.outputs
    }

    /// Returns the values saved for backward.
    #[must_use]
    pub fn saved(&self) -> &[Saved] {
        &self.shape.saved
    }

    /// Returns the number of these that autograd saves, and releases once gradients are computed. Those after them live as long as the
    /// node: a value that is kept only for its sizes, which eager saves as numbers; and keys of random numbers, if nothing else is saved.
    #[must_use]
    pub fn given_up(&self) -> usize {
        self.shape.given_up
    }

    /// Returns the indices of its outputs that eager's nodes save, since formulas read them: double backward leads to these outputs.
    #[must_use]
    pub fn kept_by_eager(&self) -> &[usize] {
        &self.shape.by_eager
    }

    /// Returns those that the gradients do not need. Autograd saves them as well, after the others, for double backward.
    pub fn kept_beside(&self) -> impl Iterator<Item = usize> + '_ {
        let is_saved = |place: &usize| self.shape.saved.contains(&Saved::Result(self.shape.outputs[*place]));
        self.shape.by_eager.iter().copied().filter(move |place| !is_saved(place))
    }

    /// Returns true if a backward pass uses it up, unless the graph is retained.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.given_up() > 0 || self.once() || self.kept_beside().next().is_some()
    }

    /// For a saved value that eager saves unchanged, returns the index of the same value among the node's inputs, if it is one.
    #[must_use]
    pub fn kept_input(&self, saved: usize) -> Option<usize> {
        let input = match *self.shape.saved.get(saved).filter(|_| !self.shape.by_views.contains(&saved))? {
            Saved::Arg(at) => NodeInput::Input(at),
            Saved::Result(at) => NodeInput::Result(at),
        };
        self.shape.inputs.iter().position(|own| *own == input)
    }

    /// Returns the index of the saved value that holds the keys of all random numbers drawn by the graph.
    #[must_use]
    pub fn keys(&self) -> Option<usize> {
        self.shape.keys
    }

    /// Returns the inputs on which gradients depend that are not saved. Double backward needs them.
    #[must_use]
    pub fn lent(&self) -> &[usize] {
        &self.shape.lent
    }

    /// Returns the inputs on which gradients depend in their state before the graph wrote to them: those values no longer exist.
    #[must_use]
    pub fn lost(&self) -> &[usize] {
        &self.shape.lost
    }

    /// Returns the number of bytes of a saved value, if it is one of this node's; with dynamic sizes, for those with which the graph was
    /// compiled.
    pub(crate) fn bytes_of(&self, saved: Saved) -> Option<usize> {
        let bytes = |input: &InputSpec| input.layout.window.numel() as usize * input.layout.dtype.size();
        let at = self.shape.saved.iter().position(|own| *own == saved)?;
        self.backward().plan().inputs.get(at).map(bytes)
    }

    /// Returns, for each of the node's inputs, the result of the backward graph that is its gradient; None if that is not `needed`, or if
    /// none of the given tangents reaches it.
    pub fn wanted(&self, is_given: impl Fn(usize) -> bool, needed: &[bool]) -> SmallVec<[Option<usize>; 8]> {
        let shape = &self.shape;
        let is_given = |tangent: &usize| matches!(shape.tangents[*tangent], Tangent::Of(output) if is_given(output));
        let wanted = |input: usize| {
            let gradient = shape.gradients[input].filter(|_| needed.get(input).copied().unwrap_or(true))?;
            shape.reached[gradient].as_ref().is_none_or(|tangents| tangents.iter().any(is_given)).then_some(gradient)
        };
        (0..shape.inputs.len()).map(wanted).collect()
    }

    /// Computes the gradients of the node's inputs from the saved values and the tangents of its outputs. A tangent of None is zero. Where
    /// `needed` is false, returns None.
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
        // Tensors with another layout are copied, and live until the gradients are computed.
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
    fn new(forward: &Plan, backward: &Plan, node: usize) -> Result<Self, PlanError> {
        let error = |what: String| Err(PlanError(what));
        let (Some(training), Some(derivative)) = (&forward.training, &backward.derivative) else {
            return error("it is not a graph and its gradients".to_owned());
        };
        let Training { vjps, saved: all_saved, primals, keys, sizes, crossing } = training;
        let Derivative { tangents, gradients, reached, kept, by_views, by_eager, once, leads_to } = derivative;
        let vjp = format!("@{}", vjps.get(node).map_or("", |name| name));
        if forward.device != backward.device {
            return error(format!("{vjp} is for {}, its graph for {}", backward.device, forward.device));
        }
        let saved: Option<Vec<Saved>> = match kept {
            None => Some(all_saved.clone()),
            Some(kept) => kept.iter().map(|at| all_saved.get(*at).copied()).collect(),
        };
        let Some(saved) = saved else { return error(format!("{vjp} takes a value that is not kept")) };
        if saved.len() > backward.inputs.len() || tangents.len() != backward.inputs.len() || gradients.len() != backward.results.len() {
            return error(format!("{vjp} has not the arguments or results of gradients"));
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
            same_values(kept, &input.layout).map_err(|what| PlanError(format!("saved value {at} {what} of argument {at} of {vjp}")))?;
        }
        // Values passed between nodes only are numbered after the results.
        let layout_of = |result: usize| match result.checked_sub(forward.results.len()) {
            None => forward.result_layout(result),
            Some(at) => crossing.get(at),
        };
        let outputs = if vjps.len() == 1 { node_outputs(forward) } else { tangents.iter().copied().flatten().collect() };
        let mut sources = Vec::new();
        for (at, (tangent, input)) in tangents.iter().zip(&backward.inputs).enumerate().skip(saved.len()) {
            let Some(result) = *tangent else { return error(format!("argument {at} of {vjp} is neither saved nor a tangent")) };
            let Some(of) = layout_of(result) else {
                return error(format!("argument {at} of {vjp} is the tangent of result {result}, which does not exist"));
            };
            same_values(of, &input.layout)
                .map_err(|what| PlanError(format!("result {result} {what} of its tangent, argument {at} of {vjp}")))?;
            sources.push(outputs.iter().position(|output| *output == result).map_or(Tangent::Undefined, Tangent::Of));
        }
        if let Some(at) =
            (0..backward.outputs.len().max(gradients.len())).find(|at| backward.outputs.get(*at) != Some(&Output::Result(*at)))
        {
            return error(format!("output {at} of {vjp} is not its result {at}"));
        }
        let described = |of: GradientOf| match of {
            GradientOf::Input(argument) => (format!("argument {argument}"), forward.inputs.get(argument).map(|input| input.layout.clone())),
            GradientOf::Result(result) => (format!("result {result}"), layout_of(result).cloned()),
            GradientOf::Output(output) => (format!("output {output}"), view_layout(forward, output)),
        };
        if let Some((what, _)) = leads_to.iter().map(|of| described(*of)).find(|(_, layout)| layout.is_none()) {
            return error(format!("{vjp} leads to {what}, which does not exist"));
        }
        for (at, of) in gradients.iter().enumerate() {
            let (what, layout) = described(*of);
            let Some(layout) = layout else {
                return error(format!("result {at} of {vjp} is the gradient of {what}, which does not exist"));
            };
            if gradients[..at].contains(of) {
                return error(format!("{vjp} has two gradients of {what}"));
            }
            if let Some(own) = backward.result_layout(at) {
                same_values(&layout, own).map_err(|how| PlanError(format!("{what} {how} of its gradient, result {at} of {vjp}")))?;
            }
        }
        let mut inputs: Vec<NodeInput> = gradients.iter().chain(leads_to).map(|of| NodeInput::from(*of)).collect();
        inputs.sort_unstable();
        inputs.dedup();
        if inputs.is_empty() {
            // Outputs require a gradient nevertheless.
            inputs = forward.requires_grad.iter().map(|input| NodeInput::Input(*input)).collect();
        }
        let tangent_of = |result: &usize| tangents.iter().skip(saved.len()).position(|own| *own == Some(*result));
        let all = || (0..sources.len()).collect();
        let reached = |result: usize| match reached.get(result) {
            Some(Some(results)) if results.is_empty() => None,
            Some(Some(results)) => Some(results.iter().filter_map(tangent_of).collect()),
            _ => Some(all()),
        };
        let reached = (0..gradients.len()).map(reached).collect();
        let not_saved = primals.iter().copied().filter(|arg| !saved.contains(&Saved::Arg(*arg)) && *arg < forward.inputs.len());
        let (lost, lent) = not_saved.partition(|arg| forward.inputs[*arg].mutated);
        let completed = arrival::completed(backward);
        let step_of = |input: usize| gradients.iter().position(|of| NodeInput::from(*of) == inputs[input]).map(|result| completed[result]);
        // For inputs of one kernel, the later input comes first: modules pass on their parameters in the order of use.
        let mut arriving: Vec<usize> = (0..inputs.len()).rev().collect();
        arriving.sort_by_key(|input| step_of(*input));
        let keeps_sizes = *sizes && !saved.is_empty() && saved.last() == all_saved.last();
        let keys = keys.and_then(|at| saved.iter().position(|own| Some(own) == all_saved.get(at)));
        let before_sizes = saved.len() - usize::from(keeps_sizes);
        let is_lasting = !once && keys == Some(0) && before_sizes == 1;
        Ok(Self {
            once: *once,
            placed: arrival::placed(inputs.len()).into_iter().map(|number| arriving[number]).collect(),
            lent,
            lost,
            gradients: inputs.iter().map(|input| gradients.iter().position(|of| NodeInput::from(*of) == *input)).collect(),
            inputs,
            by_views: by_views.clone(),
            by_eager: by_eager.iter().filter_map(|result| outputs.iter().position(|output| output == result)).collect(),
            outputs,
            keys,
            saved,
            given_up: if is_lasting { 0 } else { before_sizes },
            tangents: sources,
            reached,
        })
    }
}

/// Returns the layout of an output that is a view.
fn view_layout(plan: &Plan, output: usize) -> Option<Layout> {
    let (dtype, sizes, strides, offset) = match plan.outputs.get(output)? {
        Output::ArgView { arg, sizes, strides, offset } => (plan.inputs.get(*arg)?.layout.dtype, sizes, strides, offset),
        Output::ResultView { result, sizes, strides, offset } => (plan.result_layout(*result)?.dtype, sizes, strides, offset),
        _ => return None,
    };
    Some(Layout { dtype, window: Window { sizes: sizes.clone(), strides: strides.clone(), offset: *offset } })
}

/// Returns the results for which some output requires a gradient.
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

/// Checks that tensors of both layouts have the same element type and sizes.
fn same_values(left: &Layout, right: &Layout) -> Result<(), String> {
    if left.dtype != right.dtype {
        return Err(format!("has elements of {}, not the {}", left.dtype.name(), right.dtype.name()));
    }
    if left.window.sizes != right.window.sizes {
        return Err(format!("has the sizes {:?}, not the {:?}", left.window.sizes, right.window.sizes));
    }
    Ok(())
}

/// Returns a tensor with the values of another, in the wanted layout; None if it already has that layout.
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
    // SAFETY: it has one element of one byte, and no other code has access to it.
    unsafe { zero.as_ref().data_ptr()?.write(0) };
    externs::copy_with(abi, device, (&wanted.window.sizes, &wanted.window.strides, wanted.dtype), zero.as_ref())
}
