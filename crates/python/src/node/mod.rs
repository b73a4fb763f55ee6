//! The autograd nodes of a graph that trains: for each a class of torch's, whose functions are native.
//!
//! A call of `apply` makes a node with edges to the inputs that have a gradient, runs [`forward::Forward`] below autograd, and
//! gives the results that have one their history. The first node's runs the graph, the others' take their results from it; in between
//! views are made that a later node takes. The engine calls [`backward::Backward`]. All that autograd promises of its
//! nodes – hooks, versions of what is saved, anomaly mode, retained and freed graphs – is torch's own work therefore, and in its
//! own words. Only what Python sees of torch is used, so that one build serves all versions of it.
//!
//! Gradients that are to be differentiated in turn are another graph's, made when they are first asked for ([`again`]).

mod again;
mod backward;
mod forward;
mod kept;
mod lent;

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
    errors::NativeError,
    torch::{self, Calls},
};

/// What autograd calls the node, but for the `Backward` that it adds.
const NAME: &str = "Dynamlir";

/// The nodes of a graph, for any number of calls.
pub struct Node {
    training: Arc<Differentiable>,
    /// In the order in which they are made.
    classes: Vec<Class>,
}

/// The class of a node.
struct Class {
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
    /// Makes the classes.
    pub fn new(py: Python<'_>, training: Differentiable) -> PyResult<Self> {
        let training = Arc::new(training);
        let classes = (0..training.nodes().len()).map(|node| Class::new(py, &training, node)).collect::<PyResult<_>>()?;
        Ok(Self { training, classes })
    }

    /// The graph and its gradients.
    pub fn training(&self) -> &Differentiable {
        &self.training
    }

    /// What computes gradients of a node that are differentiated in turn; see [`again::Again`].
    pub fn differentiate_again(&self, node: usize, with: Py<PyAny>) {
        if let Some(class) = self.classes.get(node) {
            class.again.set(with);
        }
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
            // Whoever holds it from here on holds nothing.
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

impl Class {
    fn new(py: Python<'_>, training: &Arc<Differentiable>, node: usize) -> PyResult<Self> {
        let module = dynamlir_cpython_abi::import(py, "torch.autograd.function")?;
        let function = module.getattr("Function")?;
        let again = Arc::new(again::Again::new(py)?);
        let backward = Bound::new(py, backward::Backward::new(py, Arc::clone(training), node, Arc::clone(&again))?)?;
        let members = PyDict::new(py);
        members.set_item("__module__", "dynamlir")?;
        members.set_item("__doc__", "A compiled graph.")?;
        members.set_item("forward", Bound::new(py, forward::Forward::new(Arc::clone(training), node, Arc::clone(&again)))?)?;
        members.set_item("backward", &backward)?;
        let class = module.getattr("FunctionMeta")?.call1((NAME, (&function,), members))?;
        class.getattr("_backward_cls")?.setattr("apply", backward)?;
        let apply = dynamlir_cpython_abi::import(py, "builtins")?.getattr("super")?.call1((function, class))?.getattr("apply")?;
        Ok(Self { apply: apply.unbind(), again })
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
    /// The outputs of the nodes that have been made, by their numbers; empty where there is one node.
    made: SmallVec<[Option<Bound<'py, PyAny>>; 4]>,
    /// Copies of inputs as they were before the graph wrote them, by their numbers.
    copies: Vec<(usize, Bound<'py, PyAny>)>,
    /// The state of torch's generator before the graph ran, where its numbers are drawn again.
    state: Option<Bound<'py, PyAny>>,
    /// The outputs that have been made for nodes that take them.
    views: Views,
}

impl<'py> Run<'_, 'py> {
    /// An input of a node, all of whose makers have been made.
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
                    // The graph runs with the first node, and shows inputs before that.
                    _ => &Results::new(),
                };
                let view = self.forward.view(at, results, self.tensors, &mut self.views);
                calls.wrap(view.map_err(|error| native(error.message()))?).map_err(Failed::Raised)
            }
        }
    }

    /// Puts a node's outputs, which have a history now, among the results.
    fn take(&mut self, calls: &Calls<'py>, outputs: &Bound<'py, PyAny>, own: &[usize]) -> PyResult<()> {
        let outputs = outputs.cast::<PyTuple>()?;
        let Some(Ok(results)) = &mut self.outcome else { return Ok(()) };
        for (at, result) in own.iter().enumerate() {
            let object = outputs.get_item(at)?;
            if let Some(place) = results.get_mut(*result) {
                let tensor = calls.unwrap(&object)?.to_owned();
                *place = Some(tensor.map_err(|error| NativeError::new_err(error.message().to_owned()))?);
            }
            if let Some(made) = self.made.get_mut(*result) {
                *made = Some(object);
            }
        }
        Ok(())
    }
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
