//! The node's forward: runs the graph, and passes the values to save to autograd.

use std::sync::Arc;

use dynamlir_runtime::{Derived, Differentiable, Results, Saved};
use pyo3::{exceptions::PyRuntimeError, intern, prelude::*, types::PyTuple};
use smallvec::SmallVec;

use crate::{
    Calls,
    double_backward::DoubleBackward,
    errors::{NativeError, guarded, raise_torch},
    nodes::{Call, Run, split},
    saved_values::keep_lasting,
    torch,
};

/// `forward(ctx, *inputs, call)` of the node's class.
#[pyclass(frozen)]
pub struct Forward {
    training: Arc<Differentiable>,
    /// The index of this node.
    node: usize,
    higher_order: Arc<DoubleBackward>,
}

impl Forward {
    pub fn new(training: Arc<Differentiable>, node: usize, higher_order: Arc<DoubleBackward>) -> Self {
        Self { training, node, higher_order }
    }

    fn node(&self) -> &Derived {
        &self.training.nodes()[self.node]
    }

    /// Runs the graph, if it has not run yet; torch has switched grad mode off.
    fn run<'py>(&self, py: Python<'py>, ctx: &Bound<'py, PyAny>, run: &mut Run<'_, 'py>) -> PyResult<Bound<'py, PyTuple>> {
        let mut calls = Calls { py, abi: torch::init(py)? };
        let forward = run.forward;
        if let Some(Ok(mut results)) = run.outcome.take() {
            let outputs = DoubleBackward::keep_state(ctx, run.state.clone()).and_then(|()| self.keep(&calls, ctx, &mut results, run));
            run.outcome = Some(Ok(results));
            return outputs;
        }
        run.state = self.higher_order.state(py, &self.training)?;
        run.copies = self.higher_order.copies(&self.training, run)?;
        let outcome = if run.known {
            // SAFETY: the code that set the flag has compared the metadata.
            unsafe { forward.run_known_for_results(run.tensors, &mut calls) }
        } else {
            forward.run_for_results(run.tensors, &mut calls)
        };
        let mut results = match outcome {
            Ok(results) => results,
            Err(refused) => {
                run.outcome = Some(Err(refused));
                // This is not visible: the caller of `apply` reads the outcome.
                return Err(PyRuntimeError::new_err("a graph did not run"));
            }
        };
        let outputs = DoubleBackward::keep_state(ctx, run.state.clone()).and_then(|()| self.keep(&calls, ctx, &mut results, run));
        run.outcome = Some(Ok(results));
        outputs
    }

    /// Passes the values to save to autograd, and nothing else; returns the node's outputs.
    fn keep<'py>(
        &self,
        calls: &Calls<'py>,
        ctx: &Bound<'py, PyAny>,
        results: &mut Results,
        run: &Run<'_, 'py>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let (py, node, lost) = (calls.py, self.node(), || NativeError::new_err("what should be kept is missing"));
        let mut outputs: SmallVec<[Bound<'py, PyAny>; 4]> = SmallVec::new();
        for result in node.outputs() {
            outputs.push(match results.get(*result) {
                Some(result) => calls.wrap(result.as_ref().ok_or_else(lost)?.as_ref())?,
                None => calls.wrap_owned(self.training.stand_in(run.forward, *result).map_err(raise_torch)?)?,
            });
        }
        let mut kept: SmallVec<[Bound<'py, PyAny>; 16]> = SmallVec::with_capacity(node.saved().len());
        for saved in node.saved() {
            kept.push(match *saved {
                Saved::Arg(arg) => (run.input)(arg).ok_or_else(lost)?,
                Saved::Result(result) => match node.outputs().iter().position(|output| *output == result) {
                    Some(output) => outputs[output].clone(),
                    None => self.of_others(calls, results, run, result)?,
                },
            });
        }
        if kept.len() > node.given_up() {
            keep_lasting(ctx, kept.drain(node.given_up()..))?;
        }
        kept.extend(node.kept_beside().map(|place| outputs[place].clone()));
        if node.once() && kept.is_empty() {
            // Any tensor that torch releases will do; one without memory costs least.
            kept.push(calls.wrap_owned(self.training.nothing().map_err(raise_torch)?)?);
        }
        if !kept.is_empty() {
            ctx.setattr(intern!(py, "to_save"), PyTuple::new(py, kept)?)?;
        }
        ctx.setattr(intern!(py, "materialize_grads"), false)?;
        self.higher_order.lend(ctx, node, run)?;
        PyTuple::new(py, outputs)
    }

    /// Returns a result that is saved but not an output of this node.
    fn of_others<'py>(&self, calls: &Calls<'py>, results: &Results, run: &Run<'_, 'py>, result: usize) -> PyResult<Bound<'py, PyAny>> {
        if let Some(made) = run.made.get(result).cloned().flatten() {
            return Ok(made);
        }
        let lost = || NativeError::new_err("what should be kept is missing");
        let tensor = results.get(result).and_then(Option::as_ref).ok_or_else(lost)?.as_ref();
        if self.training.nodes().iter().skip(self.node + 1).any(|later| later.outputs().contains(&result)) {
            // The result will have a history that leads back here: saving it directly would create a reference cycle that is never freed.
            return calls.wrap_owned(tensor.detach().map_err(raise_torch)?);
        }
        calls.wrap(tensor)
    }
}

#[pymethods]
impl Forward {
    #[pyo3(signature = (*args))]
    fn __call__<'py>(&self, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyTuple>> {
        let py = args.py();
        let (ctx, last) = split(args)?;
        let call = args.get_item(last)?;
        let run = call.cast::<Call>().ok().and_then(|call| call.get().take());
        let run = run.ok_or_else(|| NativeError::new_err("the node of a graph is run by the graph alone"))?;
        // SAFETY: `Nodes::run` is waiting for `apply`, which has called this, so the objects that it lends are alive; no other code has the
        // address, since `take` returns it once.
        let run: &mut Run<'_, 'py> = unsafe { &mut *run.cast() };
        guarded(|| self.run(py, &ctx, run))
    }
}
