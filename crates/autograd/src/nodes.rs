//! The autograd nodes of a graph with gradients: for each node a class of torch's, whose functions are native.
//!
//! A call of `apply` creates a node with edges to the inputs that have a gradient, runs [`Forward`] below autograd, and attaches a
//! history to the results that have one. The first node runs the graph, the others take their results from it; in between, views that a
//! later node takes are created. The engine calls [`Backward`]. So everything that autograd guarantees for its nodes (hooks,
//! versions of saved tensors, anomaly mode, retained and freed graphs) is torch's own work, with its own messages. Only the Python API of
//! torch is used, so that one build serves all versions of it.
//!
//! Double backward uses another graph, created when it is first needed ([`DoubleBackward`]).

use std::{
    ffi::c_void,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicPtr, Ordering},
    },
};

use dynamlir_runtime::{Differentiable, Executable, NodeInput, Outputs, Results, RunError, Views};
use dynamlir_torch_abi::{TensorRef, TorchAbi, TorchError};
use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple},
};
use smallvec::SmallVec;

use crate::{
    Calls,
    backward::Backward,
    double_backward::DoubleBackward,
    errors::{NativeError, raise_torch},
    forward::Forward,
};

/// Autograd's name for the node, except for the `Backward` that it appends.
const NAME: &str = "Dynamlir";

/// The nodes of a graph, for any number of calls.
pub struct Nodes {
    training: Arc<Differentiable>,
    /// In the order of creation.
    classes: Vec<Class>,
}

/// The class of a node.
struct Class {
    /// `apply` of the class, bypassing the handling of functions written in Python.
    apply: Py<PyAny>,
    higher_order: Arc<DoubleBackward>,
}

/// The reason that a call returned nothing.
pub(crate) enum Failed {
    /// The graph did not run, or not to completion.
    Refused(RunError),
    /// Other code raised: a hook on saved tensors, or torch when it creates the node.
    Raised(PyErr),
}

/// The inputs of a call as objects.
pub(crate) type Input<'a, 'py> = &'a dyn Fn(usize) -> Option<Bound<'py, PyAny>>;

impl Nodes {
    /// Creates the classes.
    pub(crate) fn new(py: Python<'_>, training: Differentiable) -> PyResult<Self> {
        let training = Arc::new(training);
        let classes = (0..training.nodes().len()).map(|node| Class::new(py, &training, node)).collect::<PyResult<_>>()?;
        Ok(Self { training, classes })
    }

    /// Returns the graph and its gradients.
    pub fn training(&self) -> &Differentiable {
        &self.training
    }

    /// Sets the function for double backward of a node; the first one stays.
    pub fn set_double_backward(&self, node: usize, with: Py<PyAny>) {
        if let Some(class) = self.classes.get(node) {
            class.higher_order.set(with);
        }
    }

    /// Returns true if a call with these inputs has gradients. If the inputs are not `known`, one may require a gradient that the graph
    /// does not have: this returns an error, since the gradient would otherwise be missing silently.
    #[inline]
    pub(crate) fn are_wanted(&self, abi: &TorchAbi, tensors: &[TensorRef<'_>], known: bool) -> Result<bool, RunError> {
        if !abi.is_grad_enabled().map_err(guard)? {
            return Ok(false);
        }
        if !known {
            refuse_undeclared(&self.training.forward().plan().requires_grad, tensors)?;
        }
        let mut is_wanted = false;
        for input in self.training.inputs() {
            is_wanted |= tensors.get(*input).map_or(Ok(false), |tensor| tensor.requires_grad()).map_err(guard)?;
        }
        Ok(is_wanted)
    }

    /// Runs the graph as a node. The inputs are `known` if their metadata is approved by the graph's executable.
    pub(crate) fn run<'py>(
        &self,
        calls: &mut Calls<'py>,
        tensors: &[TensorRef<'_>],
        known: bool,
        input: Input<'_, 'py>,
    ) -> Result<Outputs, Failed> {
        let py = calls.py;
        let forward = self.training.forward_for(tensors).map_err(Failed::Refused)?;
        let handed_on = if self.classes.len() > 1 { forward.plan().results.len() + self.training.stand_ins() } else { 0 };
        let mut run = Run {
            forward: &forward,
            tensors,
            input,
            known,
            outcome: None,
            made: SmallVec::from_elem(None, handed_on),
            views: Views::new(),
            copies: Vec::new(),
            state: None,
        };
        let call = Bound::new(py, Call { run: AtomicPtr::new(ptr::null_mut()) }).map_err(Failed::Raised)?;
        for (class, node) in self.classes.iter().zip(self.training.nodes()) {
            let mut arguments: SmallVec<[Bound<'py, PyAny>; 16]> = SmallVec::with_capacity(node.inputs().len() + 1);
            for place in node.placed() {
                arguments.push(run.taken(calls, node.inputs()[*place])?);
            }
            call.get().run.store((&raw mut run).cast(), Ordering::Relaxed);
            arguments.push(call.clone().into_any());
            let applied = PyTuple::new(py, arguments).and_then(|arguments| class.apply.bind(py).call1(arguments));
            // From here on, a remaining reference to the call object is useless.
            call.get().run.store(ptr::null_mut(), Ordering::Relaxed);
            match (&run.outcome, &applied) {
                (Some(Ok(_)), Ok(outputs)) => run.take(calls, outputs, node.outputs()).map_err(Failed::Raised)?,
                (Some(Err(_)), _) => break,
                (_, Err(error)) => return Err(Failed::Raised(error.clone_ref(py))),
                (None, Ok(_)) => return Err(Failed::Raised(NativeError::new_err("a node did not run its graph"))),
            }
        }
        let results = run.outcome.take().ok_or_else(|| Failed::Raised(NativeError::new_err("a graph has no node")))?;
        forward.outputs(results.map_err(Failed::Refused)?, run.views, tensors).map_err(Failed::Refused)
    }
}

/// Refuses an input that requires a gradient if none was `declared` for it: the graph does not compute it, so it would be missing silently.
/// Grad mode is on.
pub(crate) fn refuse_undeclared(declared: &[usize], tensors: &[TensorRef<'_>]) -> Result<(), RunError> {
    for (at, tensor) in tensors.iter().enumerate() {
        if tensor.requires_grad().map_err(guard)? && !declared.contains(&at) {
            let sizes = tensor.sizes().map_err(guard)?;
            return Err(RunError::Guard(
                format!(
                    "input {at} requires a gradient, and the graph was compiled for one that does not: a tensor of sizes {sizes:?}, where \
                     inputs {declared:?} are declared to require gradients. If the gradient is not needed, pass the detached tensor, or call \
                     the graph under torch.no_grad()"
                )
                .into(),
            ));
        }
    }
    Ok(())
}

/// Converts an error of torch about an input.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(crate) fn guard(error: TorchError) -> RunError {
    RunError::Guard(error.message().to_owned().into())
}

impl Class {
    fn new(py: Python<'_>, training: &Arc<Differentiable>, node: usize) -> PyResult<Self> {
        let module = dynamlir_cpython_abi::import(py, "torch.autograd.function")?;
        let function = module.getattr("Function")?;
        let higher_order = Arc::new(DoubleBackward::new(py)?);
        let backward = Bound::new(py, Backward::new(py, Arc::clone(training), node, Arc::clone(&higher_order))?)?;
        let members = PyDict::new(py);
        members.set_item("__module__", "dynamlir")?;
        members.set_item("__doc__", "A compiled graph.")?;
        members.set_item("forward", Bound::new(py, Forward::new(Arc::clone(training), node, Arc::clone(&higher_order)))?)?;
        members.set_item("backward", &backward)?;
        let class = module.getattr("FunctionMeta")?.call1((NAME, (&function,), members))?;
        class.getattr("_backward_cls")?.setattr("apply", backward)?;
        let apply = dynamlir_cpython_abi::import(py, "builtins")?.getattr("super")?.call1((function, class))?.getattr("apply")?;
        Ok(Self { apply: apply.unbind(), higher_order })
    }
}

/// A call in progress, on the stack of [`Nodes::run`].
pub(crate) struct Run<'a, 'py> {
    /// The graph for the sizes of the inputs.
    pub forward: &'a Executable,
    pub tensors: &'a [TensorRef<'a>],
    pub input: Input<'a, 'py>,
    pub known: bool,
    /// The outcome of the graph; None until it has run.
    pub outcome: Option<Result<Results, RunError>>,
    /// The outputs of the nodes created so far, by number; empty if there is only one node.
    pub made: SmallVec<[Option<Bound<'py, PyAny>>; 4]>,
    /// Copies of inputs from before the graph wrote to them, by number.
    pub copies: Vec<(usize, Bound<'py, PyAny>)>,
    /// The state of torch's generator before the graph ran, if its numbers are drawn again.
    pub state: Option<Bound<'py, PyAny>>,
    /// The views created for nodes that take them.
    pub views: Views,
}

impl<'py> Run<'_, 'py> {
    /// Returns an input of a node, whose producers have all been created.
    fn taken(&mut self, calls: &Calls<'py>, input: NodeInput) -> Result<Bound<'py, PyAny>, Failed> {
        let native = |what: &str| Failed::Raised(NativeError::new_err(what.to_owned()));
        match input {
            NodeInput::Input(at) => {
                (self.input)(at).ok_or_else(|| Failed::Refused(RunError::Guard(format!("input {at} is missing").into())))
            }
            NodeInput::Result(at) => self.made.get(at).cloned().flatten().ok_or_else(|| native("a node takes what was not made")),
            NodeInput::Output(at) => {
                let results = match &self.outcome {
                    Some(Ok(results)) => results,
                    // The graph runs with the first node; before that, only views of inputs are possible.
                    _ => &Results::new(),
                };
                let view = self.forward.view(at, results, self.tensors, &mut self.views);
                calls.wrap(view.map_err(|error| native(error.message()))?).map_err(Failed::Raised)
            }
        }
    }

    /// Puts a node's outputs, which now have a history, among the results.
    fn take(&mut self, calls: &Calls<'py>, outputs: &Bound<'py, PyAny>, own: &[usize]) -> PyResult<()> {
        let outputs = outputs.cast::<PyTuple>()?;
        let Some(Ok(results)) = &mut self.outcome else { return Ok(()) };
        for (at, result) in own.iter().enumerate() {
            let object = outputs.get_item(at)?;
            if let Some(place) = results.get_mut(*result) {
                let tensor = calls.unwrap(&object)?.to_owned();
                *place = Some(tensor.map_err(raise_torch)?);
            }
            if let Some(made) = self.made.get_mut(*result) {
                *made = Some(object);
            }
        }
        Ok(())
    }
}

/// A call in progress, as torch passes it from `apply` to `forward`: an opaque object to torch.
#[pyclass(frozen)]
pub(crate) struct Call {
    /// A [`Run`]; null once the graph has begun, and when `apply` has returned.
    run: AtomicPtr<c_void>,
}

impl Call {
    /// Takes the call, in order to run the graph.
    pub(crate) fn take(&self) -> Option<*mut Run<'_, '_>> {
        let run: *mut Run<'_, '_> = self.run.swap(ptr::null_mut(), Ordering::Relaxed).cast();
        (!run.is_null()).then_some(run)
    }
}

/// Splits the arguments that torch passes to a function of the node: the node, then the rest.
pub(crate) fn split<'py>(args: &Bound<'py, PyTuple>) -> PyResult<(Bound<'py, PyAny>, usize)> {
    if args.is_empty() {
        return Err(NativeError::new_err("expected the node"));
    }
    Ok((args.get_item(0)?, args.len() - 1))
}
