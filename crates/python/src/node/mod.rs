//! The autograd node of a graph that trains: one class of torch's per graph, whose functions are native.
//!
//! A call of `apply` makes a node with edges to the inputs that have a gradient, runs [`forward::Forward`] below autograd, and
//! gives the results that have one their history. The engine calls [`backward::Backward`]. All that autograd promises of its
//! nodes – hooks, versions of what is saved, anomaly mode, retained and freed graphs – is torch's own work therefore, and in its
//! own words. Only what Python sees of torch is used, so that one build serves all versions of it.
//!
//! Gradients that are to be differentiated in turn are another graph's, made when they are first asked for ([`again`]).

mod again;
mod backward;
mod forward;

use std::{
    ffi::c_void,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicPtr, Ordering},
    },
};

use dynamlir_runtime::{Differentiable, Executable, Outputs, Results, RunError};
use dynamlir_torch_abi::{TensorRef, TorchAbi, TorchError};
use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple},
};
use smallvec::SmallVec;

use crate::{
    errors::NativeError,
    torch::{self, Calls},
};

/// What autograd calls the node, but for the `Backward` that it adds.
const NAME: &str = "Dynamlir";

/// The node of a graph, for any number of calls.
pub struct Node {
    training: Arc<Differentiable>,
    /// `apply` of the class, past what is for functions written in Python.
    apply: Py<PyAny>,
    again: Arc<again::Again>,
}

/// Why a call gave nothing.
pub enum Failed {
    /// The graph did not run, or not to its end.
    Refused(RunError),
    /// Somebody else raised: a hook on what is saved, torch where it makes the node.
    Raised(PyErr),
}

/// The inputs of a call as objects.
pub type Input<'a, 'py> = &'a dyn Fn(usize) -> Option<Bound<'py, PyAny>>;

impl Node {
    /// Makes the class.
    pub fn new(py: Python<'_>, training: Differentiable) -> PyResult<Self> {
        let training = Arc::new(training);
        let module = dynamlir_cpython_abi::import(py, "torch.autograd.function")?;
        let function = module.getattr("Function")?;
        let again = Arc::new(again::Again::new(py)?);
        let backward = Bound::new(py, backward::Backward::new(py, Arc::clone(&training), Arc::clone(&again))?)?;
        let members = PyDict::new(py);
        members.set_item("__module__", "dynamlir")?;
        members.set_item("__doc__", "A compiled graph.")?;
        members.set_item("forward", Bound::new(py, forward::Forward::new(Arc::clone(&training), Arc::clone(&again)))?)?;
        members.set_item("backward", &backward)?;
        let class = module.getattr("FunctionMeta")?.call1((NAME, (&function,), members))?;
        class.getattr("_backward_cls")?.setattr("apply", backward)?;
        let apply = dynamlir_cpython_abi::import(py, "builtins")?.getattr("super")?.call1((function, class))?.getattr("apply")?;
        Ok(Self { training, apply: apply.unbind(), again })
    }

    /// The graph and its gradients.
    pub fn training(&self) -> &Differentiable {
        &self.training
    }

    /// What computes gradients that are differentiated in turn; see [`again::Again`].
    pub fn differentiate_again(&self, with: Py<PyAny>) {
        self.again.set(with);
    }

    /// Whether a call with these inputs has gradients. Where the inputs are not `known`, one may require a gradient that the
    /// graph has not: nothing would say that it is missing.
    #[inline]
    pub fn is_wanted(&self, abi: &TorchAbi, tensors: &[TensorRef<'_>], known: bool) -> Result<bool, RunError> {
        let guard = |error: TorchError| RunError::Guard(error.message().to_owned().into());
        if !abi.is_grad_enabled().map_err(guard)? {
            return Ok(false);
        }
        let mut is_wanted = false;
        if known {
            for input in self.training.inputs() {
                is_wanted |= tensors.get(*input).map_or(Ok(false), |tensor| tensor.requires_grad()).map_err(guard)?;
            }
            return Ok(is_wanted);
        }
        for (at, tensor) in tensors.iter().enumerate() {
            if !tensor.requires_grad().map_err(guard)? {
                continue;
            }
            let declared = &self.training.forward().plan().requires_grad;
            if !declared.contains(&at) {
                let sizes = tensor.sizes().map_err(guard)?;
                return Err(RunError::Guard(format!(
                    "input {at} requires a gradient, and the graph was compiled for one that does not: a tensor of sizes {sizes:?}, where \
                     inputs {declared:?} are declared to require gradients"
                ).into()));
            }
            is_wanted |= self.training.inputs().contains(&at);
        }
        Ok(is_wanted)
    }

    /// Runs the graph as a node. The inputs are `known` if their metadata is that which the graph's executable has approved.
    pub fn run<'py>(
        &self,
        calls: &mut Calls<'py>,
        tensors: &[TensorRef<'_>],
        known: bool,
        input: Input<'_, 'py>,
    ) -> Result<Outputs, Failed> {
        let py = calls.py;
        let forward = self.training.forward_for(tensors).map_err(Failed::Refused)?;
        let mut run = Run { forward: &forward, tensors, input, known, outcome: None };
        let mut arguments: SmallVec<[Bound<'py, PyAny>; 16]> = SmallVec::with_capacity(self.training.inputs().len() + 1);
        for at in self.training.inputs() {
            let lost = || RunError::Guard(format!("input {at} is missing").into());
            arguments.push(input(*at).ok_or_else(lost).map_err(Failed::Refused)?);
        }
        let call = Bound::new(py, Call { run: AtomicPtr::new((&raw mut run).cast()) }).map_err(Failed::Raised)?;
        arguments.push(call.clone().into_any());
        let applied = PyTuple::new(py, arguments).and_then(|arguments| self.apply.bind(py).call1(arguments));
        // Whoever holds it from here on holds nothing.
        call.get().run.store(ptr::null_mut(), Ordering::Relaxed);
        let mut results = match (run.outcome.take(), &applied) {
            (Some(Err(refused)), _) => return Err(Failed::Refused(refused)),
            (Some(Ok(results)), Ok(_)) => results,
            (_, Err(error)) => return Err(Failed::Raised(error.clone_ref(py))),
            (None, Ok(_)) => return Err(Failed::Raised(NativeError::new_err("a node did not run its graph"))),
        };
        let applied = applied.and_then(|outputs| self.take(calls, &outputs, &mut results)).map_err(Failed::Raised);
        applied?;
        forward.outputs(results, tensors).map_err(Failed::Refused)
    }

    /// Puts the node's outputs, which have a history now, among the results.
    fn take<'py>(&self, calls: &Calls<'py>, outputs: &Bound<'py, PyAny>, results: &mut Results) -> PyResult<()> {
        let outputs = outputs.cast::<PyTuple>()?;
        for (at, result) in self.training.outputs().iter().enumerate() {
            let object = outputs.get_item(at)?;
            let tensor = calls.unwrap(&object)?.to_owned();
            results[*result] = Some(tensor.map_err(|error| NativeError::new_err(error.message().to_owned()))?);
        }
        Ok(())
    }
}

/// A call under way, on the stack of [`Node::run`].
struct Run<'a, 'py> {
    /// The graph for the sizes of the inputs.
    forward: &'a Executable,
    tensors: &'a [TensorRef<'a>],
    input: Input<'a, 'py>,
    known: bool,
    /// What the graph gave; None until it has run.
    outcome: Option<Result<Results, RunError>>,
}

/// A call under way, as torch hands it from `apply` to `forward`: an object that it knows nothing of.
#[pyclass(frozen)]
struct Call {
    /// A [`Run`]; null once the graph has begun, and when `apply` has returned.
    run: AtomicPtr<c_void>,
}

impl Call {
    /// The call, for the one who runs the graph.
    fn take(&self) -> Option<*mut Run<'_, '_>> {
        let run: *mut Run<'_, '_> = self.run.swap(ptr::null_mut(), Ordering::Relaxed).cast();
        (!run.is_null()).then_some(run)
    }
}

/// What torch passes to a function of the node: the node, then the rest.
fn split<'py>(args: &Bound<'py, PyTuple>) -> PyResult<(Bound<'py, PyAny>, usize)> {
    if args.is_empty() {
        return Err(NativeError::new_err("expected the node"));
    }
    Ok((args.get_item(0)?, args.len() - 1))
}

/// The view of libtorch, which a node has been made with.
fn abi(py: Python<'_>) -> PyResult<&'static TorchAbi> {
    torch::init(py)
}
