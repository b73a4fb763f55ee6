//! A graph together with the graphs that compute its gradients.
//!
//! Autograd sees one or more nodes ([`Derived`]). The inputs of a node are those inputs of the graph that it has gradients of, and what
//! it takes from the nodes before it; its outputs are *results* of the graph of which outputs require a gradient, and stand-ins for
//! values that nodes alone see. Outputs of the user's that are views of those, or of inputs, are made outside of nodes by torch's own view
//! operators, which carry the gradient on. What a node keeps is kept by autograd, which checks that nobody has written to it, and
//! gives it up.

use std::sync::Arc;

use dynamlir_torch_abi::{BelowAutograd, DType, OwnedTensor, TensorRef, TorchAbi, TorchError};

use crate::derived::Derived;
use crate::effects::draws_keys;
use crate::executor::{Executable, RunError};
use crate::instances::Instances;
use crate::lower::PlanError;
use crate::plan::{Output, Plan, Saved};

/// A graph that trains.
pub struct Differentiable {
    abi: &'static TorchAbi,
    forward: Graph,
    /// Its nodes; each comes after those whose results it takes.
    nodes: Vec<Derived>,
    /// The inputs of the graph that some node has gradients of, in order.
    inputs: Vec<usize>,
}

/// One of the graphs, which may be there for other sizes as well.
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

impl Differentiable {
    /// Holds them against each other: `backward` are the graphs of the nodes, in order.
    pub fn new(abi: &'static TorchAbi, forward: Graph, backward: Vec<Graph>) -> Result<Self, PlanError> {
        let plan = forward.first.plan();
        let nodes =
            backward.into_iter().enumerate().map(|(at, graph)| Derived::new(abi, plan, graph, at)).collect::<Result<Vec<_>, _>>()?;
        let mut inputs: Vec<usize> = nodes.iter().flat_map(|node| node.arguments(plan)).collect();
        inputs.sort_unstable();
        inputs.dedup();
        // Who takes something of another comes after it.
        for (at, node) in nodes.iter().enumerate() {
            let made = |result: usize| nodes[..at].iter().any(|before| before.outputs().contains(&result));
            let missing = node.inputs().iter().filter_map(|input| input.result(plan)).find(|result| !made(*result));
            if let Some(result) = missing {
                return Err(PlanError(format!("node {at} takes result {result}, which no node before it makes")));
            }
        }
        Ok(Self { abi, forward, nodes, inputs })
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

    /// The nodes, in the order in which they are made.
    #[must_use]
    pub fn nodes(&self) -> &[Derived] {
        &self.nodes
    }

    /// The inputs of the graph of which there are gradients.
    #[must_use]
    pub fn inputs(&self) -> &[usize] {
        &self.inputs
    }

    /// Whether torch's operators draw all its random numbers, so that the state of torch's generator before the call gives them again.
    #[must_use]
    pub fn draws_by_state(&self) -> bool {
        let plan = self.forward().plan();
        plan.random && !plan.steps.iter().any(|step| draws_keys(plan, step))
    }

    /// The values that are kept, and how many bytes each has; where sizes vary, with those that the graph was made with.
    pub fn saved_bytes(&self) -> Vec<usize> {
        let training = self.forward().plan().training.as_ref();
        let bytes = |saved: &Saved| self.nodes.iter().find_map(|node| node.bytes_of(*saved)).unwrap_or_default();
        training.map(|training| training.saved.iter().map(bytes).collect()).unwrap_or_default()
    }

    /// A tensor without elements, for nodes that are used up by one walk though they keep nothing.
    pub fn nothing(&self) -> Result<OwnedTensor, TorchError> {
        let _below = BelowAutograd::enter(self.abi);
        self.abi.empty_strided(&[0], &[1], DType::U8)
    }

    /// How many values nodes alone see.
    #[must_use]
    pub fn stand_ins(&self) -> usize {
        self.forward().plan().training.as_ref().map_or(0, |training| training.crossing.len())
    }

    /// What stands for a value that nodes alone see, by its number after the results of the graph: a tensor of its sizes without memory.
    pub fn stand_in(&self, forward: &Executable, result: usize) -> Result<OwnedTensor, TorchError> {
        let plan = forward.plan();
        let crossing = plan.training.as_ref().map(|training| &training.crossing[..]).unwrap_or_default();
        let layout = result.checked_sub(plan.results.len()).and_then(|at| crossing.get(at));
        let layout = layout.ok_or_else(|| TorchError::new("a node hands on what is not there"))?;
        let _below = BelowAutograd::enter(self.abi);
        // One element, which nobody reads.
        let strides = vec![0; layout.window.sizes.len()];
        self.abi.empty_strided_on(plan.device, &layout.window.sizes, &strides, layout.dtype)
    }
}

/// The first output whose gradient somebody has to compute: one that shows an input's memory has the input's.
#[must_use]
pub fn computed_gradient(plan: &Plan) -> Option<usize> {
    let is_result = |at: &usize| matches!(plan.outputs.get(*at), Some(Output::Result(_) | Output::ResultView { .. }));
    plan.differentiable.iter().copied().find(is_result)
}
