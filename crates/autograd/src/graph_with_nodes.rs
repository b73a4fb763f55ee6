//! A compiled graph that runs as nodes of autograd's graph if gradients are wanted.

use dynamlir_frame::{Failed, Objects};
use dynamlir_runtime::{Differentiable, Executable, Graph, Outputs, RunError};
use dynamlir_torch_abi::{Meta, State, TensorRef};
use pyo3::{intern, prelude::*, sync::PyOnceLock};

use crate::{
    Calls,
    errors::raise_run,
    nodes::{self, Input, Nodes},
    torch::untraced,
};

/// A compiled graph, with its nodes if it has gradients.
pub struct GraphWithNodes {
    graph: Graph,
    nodes: Option<Nodes>,
}

impl GraphWithNodes {
    /// Creates the nodes of a graph; `training` are its gradients, if they are computed.
    pub fn new(py: Python<'_>, graph: Graph, training: Option<Differentiable>) -> PyResult<Self> {
        Ok(Self { graph, nodes: training.map(|training| Nodes::new(py, training)).transpose()? })
    }

    /// Returns the executable; with dynamic sizes, the one for the sizes with which the graph was compiled.
    pub fn executable(&self) -> &Executable {
        &self.graph.first
    }

    /// Returns the nodes, if the graph has gradients.
    pub fn nodes(&self) -> Option<&Nodes> {
        self.nodes.as_ref()
    }

    /// Returns the sizes for which it has been run, most recently used first; None if sizes are static.
    pub fn sizes(&self) -> Option<Vec<Vec<i64>>> {
        self.graph.instances.as_ref().map(|instances| instances.sizes())
    }

    /// Returns true if tensors with this metadata may be passed as known. With dynamic sizes, the metadata was not compared with that of a
    /// plan.
    pub fn accepts(&self, inputs: &[Option<&Meta>]) -> bool {
        self.graph.instances.is_none() && self.graph.first.accepts(inputs)
    }

    /// Runs it, and appends the objects of its outputs to `results`, which is empty. `input` returns the objects of the tensors; these are
    /// `known` if their metadata is approved by [`GraphWithNodes::accepts`].
    ///
    /// # Safety
    /// `known` may be true only for metadata that was approved.
    pub unsafe fn run<'py>(
        &self,
        calls: &mut Calls<'py>,
        tensors: &[TensorRef<'_>],
        known: bool,
        input: Input<'_, 'py>,
        results: &mut Objects<'py>,
    ) -> Result<(), Failed> {
        // SAFETY: as the caller promises.
        let made = unsafe { self.outputs(calls, tensors, known, input) }.map_err(|failed| match failed {
            nodes::Failed::Refused(refused @ (RunError::Guard(_) | RunError::Failed(_))) => Failed::Before(raise_run(&refused)),
            nodes::Failed::Refused(refused @ RunError::AfterCommit(_)) => Failed::Raise(raise_run(&refused)),
            nodes::Failed::Raised(error) => Failed::Raise(error),
        })?;
        calls.append_outputs(made, input, results).map_err(Failed::Raise)?;
        let several = &self.executable().plan().one_of_several;
        calls.mark_one_of_several(several, |at| results.get(at).cloned()).map_err(Failed::Raise)
    }

    /// # Safety
    /// As for [`GraphWithNodes::run`].
    unsafe fn outputs<'py>(
        &self,
        calls: &mut Calls<'py>,
        tensors: &[TensorRef<'_>],
        known: bool,
        input: Input<'_, 'py>,
    ) -> Result<Outputs, nodes::Failed> {
        if !known {
            refuse_tangents(calls, tensors, input)?;
        }
        if let Some(nodes) = &self.nodes {
            if nodes.are_wanted(calls.abi, tensors, known).map_err(nodes::Failed::Refused)? {
                return nodes.run(calls, tensors, known, input);
            }
        } else if !known && calls.abi.is_grad_enabled().map_err(nodes::guard).map_err(nodes::Failed::Refused)? {
            nodes::refuse_undeclared(&self.executable().plan().requires_grad, tensors).map_err(nodes::Failed::Refused)?;
        }
        if let Some(instances) = &self.graph.instances {
            let instance = instances.of(tensors).map_err(nodes::Failed::Refused)?;
            return instance.run(tensors, calls).map_err(nodes::Failed::Refused);
        }
        let outcome = if known {
            // SAFETY: as the caller promises.
            unsafe { self.graph.first.run_known(tensors, calls) }
        } else {
            self.graph.first.run(tensors, calls)
        };
        outcome.map_err(nodes::Failed::Refused)
    }
}

/// Refuses inputs with tangents of forward-mode gradients, which compiled code does not compute: they would be missing silently. For the
/// `known` inputs, guards rule them out.
fn refuse_tangents<'py>(calls: &Calls<'py>, tensors: &[TensorRef<'_>], input: Input<'_, 'py>) -> Result<(), nodes::Failed> {
    static UNPACK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if !State::has_dual_levels() {
        return Ok(());
    }
    let unpack = dynamlir_cpython_abi::import_once(calls.py, &UNPACK, "torch.autograd.forward_ad", "unpack_dual");
    let unpack = unpack.map_err(nodes::Failed::Raised)?;
    for at in 0..tensors.len() {
        let Some(object) = input(at) else { continue };
        let tangent =
            untraced(calls.py, || unpack.call1((object,))?.getattr(intern!(calls.py, "tangent"))).map_err(nodes::Failed::Raised)?;
        if !tangent.is_none() {
            return Err(nodes::Failed::Refused(RunError::Guard(
                format!(
                    "input {at} has a tangent of torch.autograd.forward_ad, and compiled code computes no forward-mode gradients. Pass \
                     unpack_dual(input).primal if they are not needed, or else call the original function"
                )
                .into(),
            )));
        }
    }
    Ok(())
}
