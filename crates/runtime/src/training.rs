//! A graph together with the graphs that compute its gradients.
//!
//! Autograd sees one or more nodes ([`Derived`]). The inputs of a node are the graph inputs for which it has gradients, and the values that
//! it takes from earlier nodes. Its outputs are those *results* of the graph for which outputs require a gradient, and stand-ins for values
//! passed only between nodes. The user's outputs that are views of these, or of inputs, are created outside of nodes by torch's own view
//! operators, which propagate the gradient. The values saved by a node are held by autograd, which checks that they have not been written
//! to, and releases them.

use std::sync::Arc;

use dynamlir_torch_abi::{BelowAutograd, DType, OwnedTensor, TensorRef, TorchAbi, TorchError};

use crate::derived::Derived;
use crate::effects::draws_keys;
use crate::executor::{Executable, RunError};
use crate::instances::Instances;
use crate::lower::PlanError;
use crate::plan::{Output, Plan, Saved};

/// A graph with gradients.
pub struct Differentiable {
    abi: &'static TorchAbi,
    forward: Graph,
    /// Its nodes; each comes after those whose results it takes.
    nodes: Vec<Derived>,
    /// The graph inputs for which some node has gradients, in order.
    inputs: Vec<usize>,
}

/// One of the graphs, possibly with executables for other sizes.
#[derive(Clone)]
pub struct Graph {
    /// The one that was loaded.
    pub first: Arc<Executable>,
    /// The executables for other sizes, if sizes are dynamic.
    pub instances: Option<Arc<Instances>>,
}

/// An executable for the sizes of a call.
pub enum Fitting<'a> {
    /// The executable for all sizes.
    Only(&'a Executable),
    /// The executable for these sizes.
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
    /// Returns the executable for the sizes of inputs; `input` returns an input if it is given.
    #[inline]
    pub fn fitting<'a>(&self, input: impl Fn(usize) -> Option<TensorRef<'a>>) -> Result<Fitting<'_>, RunError> {
        let Some(instances) = &self.instances else { return Ok(Fitting::Only(&self.first)) };
        instances.at(instances.values(input)?).map(Fitting::Made)
    }
}

impl Differentiable {
    /// Checks the graphs against each other; `backward` are the graphs of the nodes, in order.
    pub fn new(abi: &'static TorchAbi, forward: Graph, backward: Vec<Graph>) -> Result<Self, PlanError> {
        let plan = forward.first.plan();
        let nodes =
            backward.into_iter().enumerate().map(|(at, graph)| Derived::new(abi, plan, graph, at)).collect::<Result<Vec<_>, _>>()?;
        let mut inputs: Vec<usize> = nodes.iter().flat_map(|node| node.arguments(plan)).collect();
        inputs.sort_unstable();
        inputs.dedup();
        // A node comes after those whose results it takes.
        for (at, node) in nodes.iter().enumerate() {
            let made = |result: usize| nodes[..at].iter().any(|before| before.outputs().contains(&result));
            let missing = node.inputs().iter().filter_map(|input| input.result(plan)).find(|result| !made(*result));
            if let Some(result) = missing {
                return Err(PlanError(format!("node {at} takes result {result}, which no node before it makes")));
            }
        }
        Ok(Self { abi, forward, nodes, inputs })
    }

    /// Returns the graph; with dynamic sizes, the one for the sizes with which it was compiled.
    #[must_use]
    pub fn forward(&self) -> &Executable {
        &self.forward.first
    }

    /// Returns the graph for these inputs.
    #[inline]
    pub fn forward_for(&self, inputs: &[TensorRef<'_>]) -> Result<Fitting<'_>, RunError> {
        self.forward.fitting(|at| inputs.get(at).copied())
    }

    /// Returns the nodes, in the order in which they are created.
    #[must_use]
    pub fn nodes(&self) -> &[Derived] {
        &self.nodes
    }

    /// Returns the graph inputs that have gradients.
    #[must_use]
    pub fn inputs(&self) -> &[usize] {
        &self.inputs
    }

    /// Returns true if torch's operators draw all its random numbers, so that they are reproduced from the state of torch's generator
    /// before the call.
    #[must_use]
    pub fn draws_by_state(&self) -> bool {
        let plan = self.forward().plan();
        plan.random && !plan.steps.iter().any(|step| draws_keys(plan, step))
    }

    /// Returns the number of bytes of each saved value; with dynamic sizes, for those with which the graph was compiled.
    pub fn saved_bytes(&self) -> Vec<usize> {
        let training = self.forward().plan().training.as_ref();
        let bytes = |saved: &Saved| self.nodes.iter().find_map(|node| node.bytes_of(*saved)).unwrap_or_default();
        training.map(|training| training.saved.iter().map(bytes).collect()).unwrap_or_default()
    }

    /// Returns a tensor without elements, for nodes that one backward pass uses up although they save nothing.
    pub fn nothing(&self) -> Result<OwnedTensor, TorchError> {
        let _below = BelowAutograd::enter(self.abi);
        self.abi.empty_strided(&[0], &[1], DType::U8)
    }

    /// Returns the number of values passed only between nodes.
    #[must_use]
    pub fn stand_ins(&self) -> usize {
        self.forward().plan().training.as_ref().map_or(0, |training| training.crossing.len())
    }

    /// Returns the stand-in for a value passed only between nodes, by its number after the results: a tensor of its sizes without memory.
    pub fn stand_in(&self, forward: &Executable, result: usize) -> Result<OwnedTensor, TorchError> {
        let plan = forward.plan();
        let crossing = plan.training.as_ref().map(|training| &training.crossing[..]).unwrap_or_default();
        let layout = result.checked_sub(plan.results.len()).and_then(|at| crossing.get(at));
        let layout = layout.ok_or_else(|| TorchError::new("a node hands on what is not there"))?;
        let _below = BelowAutograd::enter(self.abi);
        // One element, which is never read.
        let strides = vec![0; layout.window.sizes.len()];
        self.abi.empty_strided_on(plan.device, &layout.window.sizes, &strides, layout.dtype)
    }
}

/// Returns the first output whose gradient must be computed; an output that shows an input's memory has the input's gradient.
#[must_use]
pub fn computed_gradient(plan: &Plan) -> Option<usize> {
    let is_result = |at: &usize| matches!(plan.outputs.get(*at), Some(Output::Result(_) | Output::ResultView { .. }));
    plan.differentiable.iter().copied().find(is_result)
}
