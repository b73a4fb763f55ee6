//! The node's backward: runs the graph of the gradients on what was kept. Nothing can run in its place, so that an error in it is
//! raised.

use std::sync::Arc;

use dynamlir_runtime::{Differentiable, Failure, RunError};
use dynamlir_torch_abi::TensorRef;
use pyo3::{
    exceptions::{PyRuntimeError, PyTypeError},
    intern,
    prelude::*,
    sync::PyOnceLock,
    types::PyTuple,
};
use smallvec::SmallVec;

use super::{abi, again::Again, split};
use crate::{
    errors::guarded,
    torch::{self, Calls},
};

/// `backward(ctx, *tangents)` of the node's class; as an attribute of a node, a method of it.
#[pyclass(frozen)]
pub struct Backward {
    training: Arc<Differentiable>,
    again: Arc<Again>,
    /// `types.MethodType`
    method: Py<PyAny>,
}

impl Backward {
    pub fn new(py: Python<'_>, training: Arc<Differentiable>, again: Arc<Again>) -> PyResult<Self> {
        Ok(Self { training, again, method: dynamlir_cpython_abi::import(py, "types")?.getattr("MethodType")?.unbind() })
    }

    fn run<'py>(&self, py: Python<'py>, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyTuple>> {
        let mut calls = Calls { py, abi: abi(py)? };
        let (ctx, count) = split(args)?;
        if calls.abi.is_grad_enabled().map_err(|error| PyRuntimeError::new_err(error.message().to_owned()))? {
            return self.run_differentiably(&ctx, args);
        }
        let training = &self.training;
        let given: SmallVec<[Bound<'py, PyAny>; 4]> = args.iter().skip(1).map(|object| dense(&calls, object)).collect::<PyResult<_>>()?;
        if self.again.knows_the_program() && any_is_strange(&calls, &given)? {
            let gradients = self.run_differentiably(&ctx, args)?;
            self.again.give_back(&ctx, training.lent())?;
            return Ok(gradients);
        }
        // A node that keeps nothing is never used up.
        let kept = if training.saved().is_empty() {
            PyTuple::empty(py)
        } else {
            ctx.getattr(intern!(py, "saved_tensors"))?.cast_into::<PyTuple>()?
        };
        let kept: SmallVec<[Bound<'py, PyAny>; 16]> = kept.iter().collect();
        let mut saved: SmallVec<[TensorRef<'_>; 16]> = SmallVec::with_capacity(kept.len());
        for object in &kept {
            saved.push(tensor(&calls, object, "a saved tensor")?);
        }
        let mut tangents: SmallVec<[Option<TensorRef<'_>>; 4]> = SmallVec::with_capacity(count);
        for object in &given {
            tangents.push(if object.is_none() { None } else { Some(tensor(&calls, object, "a gradient")?) });
        }
        let needed = needed(&ctx)?;
        self.again.give_back(&ctx, training.lent())?;
        let gradients = training.gradients(&saved, &tangents, &needed, &mut calls).map_err(|error| raise(py, error))?;
        let mut objects: SmallVec<[Bound<'py, PyAny>; 16]> = SmallVec::with_capacity(gradients.len() + 1);
        for gradient in gradients {
            objects.push(match gradient {
                Some(gradient) => calls.wrap_owned(gradient)?,
                None => py.None().into_bound(py),
            });
        }
        // That of the call.
        objects.push(py.None().into_bound(py));
        PyTuple::new(py, objects)
    }

    /// Runs it so that its results can be differentiated in turn (`create_graph=True`).
    fn run_differentiably<'py>(&self, ctx: &Bound<'py, PyAny>, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyTuple>> {
        let calls = Calls { py: ctx.py(), abi: abi(ctx.py())? };
        let tangents: SmallVec<[Bound<'py, PyAny>; 4]> =
            args.iter().skip(1).map(|object| dense(&calls, object)).collect::<PyResult<_>>()?;
        let needed = needed(ctx)?;
        let wanted = self.training.wanted(|output| tangents.get(output).is_some_and(|tangent| !tangent.is_none()), &needed);
        self.again.gradients(ctx, &self.training, &tangents, &wanted)
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

/// Of each input of the node, whether its gradient is asked for.
fn needed(ctx: &Bound<'_, PyAny>) -> PyResult<SmallVec<[bool; 16]>> {
    let needed = ctx.getattr(intern!(ctx.py(), "needs_input_grad"))?.cast_into::<PyTuple>()?;
    needed.iter().map(|needed| needed.is_truthy()).collect()
}

/// A gradient as a dense tensor: those of embeddings may be sparse, and torch copies no such tensor into a dense one.
fn dense<'py>(calls: &Calls<'py>, object: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let is_plain = !torch::is_tensor(&object)? || calls.unwrap(&object)?.is_plain() != Some(false);
    if is_plain || !object.getattr(intern!(calls.py, "is_sparse"))?.is_truthy()? {
        return Ok(object);
    }
    object.call_method0(intern!(calls.py, "to_dense"))
}

/// Whether a gradient is a tensor whose operations are its own, so that torch has to run the program on it.
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

/// The handle of what compiled code can read.
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

/// The exception for gradients that could not be computed: Python's own, or in torch's words, with the line that it is about.
fn raise(py: Python<'_>, error: RunError) -> PyErr {
    let Failure { message, schema, location, payload, .. } = match error {
        RunError::Guard(unfit) => {
            return PyRuntimeError::new_err(format!("the gradients of a compiled graph cannot be computed: {}", unfit.what));
        }
        RunError::Failed(failure) | RunError::AfterCommit(failure) => failure,
    };
    let place = schema.map(|schema| format!("in {schema}{}", location.map_or(String::new(), |location| format!(" at {location}"))));
    match payload.and_then(|payload| payload.downcast::<PyErr>().ok()) {
        Some(error) => {
            if let Some(place) = place {
                // Where there is no room for a note, the error itself is what counts.
                let _ = error.value(py).call_method1("add_note", (format!("{place}, for the gradients of a compiled graph"),));
            }
            *error
        }
        None => PyRuntimeError::new_err(place.map_or_else(|| message.clone(), |place| format!("{message} ({place})"))),
    }
}
