//! The node's backward: runs the gradient graph on the saved values. It has no fallback, so an error in it is raised.

use std::sync::Arc;

use dynamlir_runtime::{Derived, Differentiable, Failure, RunError};
use dynamlir_torch_abi::{NoGrad, TensorRef, TorchError};
use pyo3::{
    exceptions::{PyRuntimeError, PyTypeError},
    intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyList, PyTuple},
};
use smallvec::SmallVec;

use crate::{Calls, double_backward::DoubleBackward, errors::guarded, nodes::split, saved_values::Kept, torch};

/// `backward(ctx, *tangents)` of the node's class; as an attribute of a node, a method of it.
#[pyclass(frozen)]
pub struct Backward {
    training: Arc<Differentiable>,
    /// The index of this node.
    node: usize,
    higher_order: Arc<DoubleBackward>,
    /// `types.MethodType`
    method: Py<PyAny>,
}

impl Backward {
    pub fn new(py: Python<'_>, training: Arc<Differentiable>, node: usize, higher_order: Arc<DoubleBackward>) -> PyResult<Self> {
        Ok(Self { training, node, higher_order, method: dynamlir_cpython_abi::import(py, "types")?.getattr("MethodType")?.unbind() })
    }

    fn node(&self) -> &Derived {
        &self.training.nodes()[self.node]
    }

    fn run<'py>(&self, py: Python<'py>, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyTuple>> {
        let mut calls = Calls { py, abi: torch::init(py)? };
        let (ctx, count) = split(args)?;
        let has_history = calls.abi.is_grad_enabled().map_err(failed)?;
        let given: SmallVec<[Bound<'py, PyAny>; 4]> = args.iter().skip(1).map(|object| dense(&calls, object)).collect::<PyResult<_>>()?;
        if self.higher_order.knows_the_program() && any_is_strange(&calls, &given)? {
            let gradients = match self.batch(py, &given, has_history)? {
                Some(batch) => self.run_in_batch(&ctx, &batch, has_history)?,
                None => self.run_differentiably(&ctx, &given)?,
            };
            if !has_history {
                self.higher_order.give_back(&ctx, self.node())?;
            }
            return Ok(gradients);
        }
        if has_history {
            return self.run_differentiably(&ctx, &given);
        }
        let gradients = self.compute(&mut calls, &ctx, (&given, count))?;
        self.higher_order.give_back(&ctx, self.node())?;
        Ok(gradients)
    }

    /// Computes the gradients for ordinary tangents.
    fn compute<'py>(
        &self,
        calls: &mut Calls<'py>,
        ctx: &Bound<'py, PyAny>,
        (given, count): (&[Bound<'py, PyAny>], usize),
    ) -> PyResult<Bound<'py, PyTuple>> {
        let (py, node) = (calls.py, self.node());
        let kept = Kept::of(ctx, node)?.taken;
        let needed = needed(ctx, node)?;
        refuse_detached(calls, ctx, node, &kept, &needed)?;
        let mut saved: SmallVec<[TensorRef<'_>; 16]> = SmallVec::with_capacity(kept.len());
        for object in &kept {
            saved.push(tensor(calls, object, "a saved tensor")?);
        }
        let mut tangents: SmallVec<[Option<TensorRef<'_>>; 4]> = SmallVec::with_capacity(count);
        for object in given {
            tangents.push(if object.is_none() { None } else { Some(tensor(calls, object, "a gradient")?) });
        }
        let mut gradients = node.gradients(&saved, &tangents, &needed, calls).map_err(|error| raise(py, error))?;
        let mut objects: SmallVec<[Bound<'py, PyAny>; 16]> = SmallVec::with_capacity(gradients.len() + 1);
        for place in node.placed() {
            objects.push(match gradients[*place].take() {
                Some(gradient) => calls.wrap_owned(gradient)?,
                None => py.None().into_bound(py),
            });
        }
        // The gradient of the call object.
        objects.push(py.None().into_bound(py));
        PyTuple::new(py, objects)
    }

    /// Splits a batch of tangents if running the program again would not reproduce its values. That is the case for random numbers, for
    /// state that the program has written, and for values passed between nodes; also for graphs that are themselves the gradients of such a
    /// program. If gradients have a history, it is also the case for those computed from results: another run creates other results.
    fn batch<'py>(&self, py: Python<'py>, given: &[Bound<'py, PyAny>], has_history: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
        static SPLIT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let is_simple = self.training.nodes().len() == 1
            && !self.training.forward().plan().random
            && self.node().lost().is_empty()
            && (!has_history || self.node().kept_by_eager().is_empty());
        if is_simple && self.higher_order.takes_batches(py)? {
            return Ok(None);
        }
        let split = dynamlir_cpython_abi::import_once(py, &SPLIT, "dynamlir.batched_gradients", "split")?;
        let batch = torch::untraced(py, || split.call1((PyTuple::new(py, given)?,)))?;
        Ok((!batch.is_none()).then_some(batch))
    }

    /// Computes the gradients for each slice of a batch separately, so that double backward works if they have a history.
    fn run_in_batch<'py>(&self, ctx: &Bound<'py, PyAny>, batch: &Bound<'py, PyAny>, has_history: bool) -> PyResult<Bound<'py, PyTuple>> {
        let py = ctx.py();
        let mut calls = Calls { py, abi: torch::init(py)? };
        let slices = torch::untraced(py, || batch.getattr("slices")?.cast_into::<PyList>().map_err(PyErr::from))?;
        let mut rows = Vec::with_capacity(slices.len());
        for slice in slices {
            let given: Vec<Bound<'py, PyAny>> = slice.cast::<PyTuple>()?.iter().collect();
            if !any_is_strange(&calls, &given)? {
                rows.push(if has_history {
                    // Autograd nodes are created, which torch allows only below transforms.
                    let outside = torch::untraced(py, || batch.call_method0("outside"))?;
                    outside.call_method0("__enter__")?;
                    let row = self.run_differentiably(ctx, &given);
                    outside.call_method1("__exit__", (py.None(), py.None(), py.None()))?;
                    row?
                } else {
                    self.compute(&mut calls, ctx, (&given, given.len()))?
                });
                continue;
            }
            // A batch in a batch.
            let inner = self.batch(py, &given, has_history)?;
            let inner =
                inner.ok_or_else(|| PyRuntimeError::new_err("a gradient of a compiled graph is of a kind that it cannot be given"))?;
            rows.push(self.run_in_batch(ctx, &inner, has_history)?);
        }
        torch::untraced(py, || batch.call_method1("join", (rows,))?.cast_into::<PyTuple>().map_err(PyErr::from))
    }

    /// Runs it so that its results can be differentiated (`create_graph=True`).
    fn run_differentiably<'py>(&self, ctx: &Bound<'py, PyAny>, tangents: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyTuple>> {
        static REFUSE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let mut calls = Calls { py: ctx.py(), abi: torch::init(ctx.py())? };
        let needed = needed(ctx, self.node())?;
        let wanted = self.node().wanted(|output| tangents.get(output).is_some_and(|tangent| !tangent.is_none()), &needed);
        let (why, made_of) = match self.higher_order.gradients(ctx, self.node(), tangents, &wanted)? {
            Ok(gradients) => return Ok(gradients),
            Err(refusal) => refusal,
        };
        let gradients = {
            let _mode = NoGrad::enter(calls.abi).map_err(failed)?;
            self.compute(&mut calls, ctx, (tangents, tangents.len()))?
        };
        let refuse = dynamlir_cpython_abi::import_once(calls.py, &REFUSE, "dynamlir.higher_order", "refuse")?;
        torch::untraced(calls.py, || refuse.call1((why, gradients, made_of))?.cast_into::<PyTuple>().map_err(PyErr::from))
    }
}

#[pymethods]
impl Backward {
    #[pyo3(signature = (*args))]
    fn __call__<'py>(&self, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyTuple>> {
        guarded(|| self.run(args.py(), args))
    }

    fn __get__<'py>(slf: &Bound<'py, Self>, object: &Bound<'py, PyAny>, _class: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if object.is_none() { Ok(slf.clone().into_any()) } else { slf.get().method.bind(slf.py()).call1((slf, object)) }
    }
}

/// Returns, for each input of the node, true if its gradient is requested.
pub(crate) fn needed(ctx: &Bound<'_, PyAny>, node: &Derived) -> PyResult<SmallVec<[bool; 16]>> {
    let told = ctx.getattr(intern!(ctx.py(), "needs_input_grad"))?.cast_into::<PyTuple>()?;
    let mut needed = SmallVec::from_elem(false, node.placed().len());
    for (place, told) in node.placed().iter().zip(told) {
        needed[*place] = told.is_truthy()?;
    }
    Ok(needed)
}

/// Refuses to compute gradients of a tensor that was detached in place since it was saved, with torch's message: its own check covers only
/// C++ nodes. A tensor for which a node needs a gradient had a history, unless it is a leaf.
pub(crate) fn refuse_detached(
    calls: &Calls<'_>,
    ctx: &Bound<'_, PyAny>,
    node: &Derived,
    kept: &[Bound<'_, PyAny>],
    needed: &[bool],
) -> PyResult<()> {
    for (saved, object) in kept.iter().enumerate().take(node.saved().len()) {
        let Some(at) = node.kept_input(saved).filter(|at| needed.get(*at) == Some(&true)) else { continue };
        if !torch::is_tensor(object)? || calls.unwrap(object)?.requires_grad().map_err(failed)? {
            continue;
        }
        let place = node.placed().iter().position(|placed| *placed == at);
        let edges = ctx.getattr(intern!(ctx.py(), "next_functions"))?;
        let edge = edges.get_item(place)?.get_item(0)?;
        if edge.get_type().name()? != "AccumulateGrad" {
            return Err(PyRuntimeError::new_err(
                "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().This is not supported, please use \
                 out-of-place `.detach()` instead",
            ));
        }
    }
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn failed(error: TorchError) -> PyErr {
    PyRuntimeError::new_err(error.message().to_owned())
}

/// Converts a gradient to a dense tensor: those of embeddings may be sparse, and torch does not copy a sparse tensor into a dense one.
fn dense<'py>(calls: &Calls<'py>, object: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let is_plain = !torch::is_tensor(&object)? || calls.unwrap(&object)?.is_plain() != Some(false);
    if is_plain || !object.getattr(intern!(calls.py, "is_sparse"))?.is_truthy()? {
        return Ok(object);
    }
    object.call_method0(intern!(calls.py, "to_dense"))
}

/// Returns true if a gradient is a tensor with operations of its own, so that torch has to run the program on it.
fn any_is_strange(calls: &Calls<'_>, given: &[Bound<'_, PyAny>]) -> PyResult<bool> {
    static KIND: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    for object in given {
        if torch::is_tensor(object)? && calls.unwrap(object)?.is_plain() == Some(false) {
            let kind = dynamlir_cpython_abi::import_once(calls.py, &KIND, "dynamlir.higher_order", "foreign_kind")?;
            if !torch::untraced(calls.py, || kind.call1((object,)))?.is_none() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns the handle of a tensor that compiled code can read.
fn tensor<'a, 'py>(calls: &Calls<'py>, object: &'a Bound<'py, PyAny>, what: &str) -> PyResult<TensorRef<'a>> {
    if !torch::is_tensor(object)? {
        return Err(PyTypeError::new_err(format!("expected {what} of a compiled graph, got {}", object.get_type().name()?)));
    }
    let tensor = calls.unwrap(object)?;
    if tensor.is_plain() == Some(false) && torch::dispatches_itself(object)? {
        return Err(PyRuntimeError::new_err(format!(
            "{what} of a compiled graph is a {}, whose operations are its own: compiled code takes ordinary tensors",
            object.get_type().name()?
        )));
    }
    Ok(tensor)
}

/// Returns the exception for gradients that could not be computed: Python's own, or with torch's message, with the line that it refers to.
fn raise(py: Python<'_>, error: RunError) -> PyErr {
    let Failure { message, schema, location, payload, .. } = match error {
        RunError::Guard(unfit) => {
            return PyRuntimeError::new_err(format!("the gradients of a compiled graph cannot be computed: {}", unfit.what));
        }
        RunError::Failed(failure) | RunError::AfterCommit(failure) => failure,
    };
    // For example, a factorization of a matrix that has none.
    let is_algebra = schema.as_deref().is_some_and(|schema| schema.contains("linalg"));
    let place = schema.map(|schema| format!("in {schema}{}", location.map_or(String::new(), |location| format!(" at {location}"))));
    if let Some(error) = payload.and_then(|payload| payload.downcast::<PyErr>().ok()) {
        if let Some(place) = place {
            // If a note cannot be added, the error itself is what matters.
            let _ = error.value(py).call_method1("add_note", (format!("{place}, for the gradients of a compiled graph"),));
        }
        *error
    } else {
        let text = place.map_or_else(|| message.clone(), |place| format!("{message} ({place})"));
        is_algebra.then(|| algebra_error(py, &text)).and_then(Result::ok).unwrap_or_else(|| PyRuntimeError::new_err(text))
    }
}

/// Returns the exception of torch's linear algebra: only the text of an operator's error is available here.
fn algebra_error(py: Python<'_>, text: &str) -> PyResult<PyErr> {
    let class = dynamlir_cpython_abi::import(py, "torch.linalg")?.getattr("LinAlgError")?;
    Ok(PyErr::from_value(class.call1((text,))?))
}
