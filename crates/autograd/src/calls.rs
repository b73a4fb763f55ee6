//! Calls from the runtime into Python: operators that only Python can call, tensors as Python's objects and back.

use dynamlir_cpython_abi::shown;
use dynamlir_frame::Objects;
use dynamlir_runtime::{Const, ExternArg, ExternCall, OutputValue, Outputs, PythonCalls, PythonError};
use dynamlir_torch_abi::{OwnedTensor, TensorRef, TorchAbi};
use pyo3::{
    exceptions::PyTypeError,
    intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyInt, PyList, PyTuple},
};

use crate::{
    errors::{NativeError, raise_torch},
    nodes::Input,
    torch::is_tensor,
};

/// Calls from the runtime into Python, with the GIL held.
pub struct Calls<'py> {
    /// The GIL.
    pub py: Python<'py>,
    /// Libtorch.
    pub abi: &'static TorchAbi,
}

impl<'py> Calls<'py> {
    /// Returns `torch.ops.aten.add.Tensor` for `aten.add.Tensor`.
    fn op(&self, schema: &str) -> PyResult<Bound<'py, PyAny>> {
        let mut object = dynamlir_cpython_abi::import(self.py, "torch")?.getattr("ops")?;
        for name in schema.split('.') {
            object = object.getattr(name)?;
        }
        Ok(object)
    }

    /// Returns a new Python object for a tensor.
    pub fn wrap(&self, tensor: TensorRef<'_>) -> PyResult<Bound<'py, PyAny>> {
        let raw = self.abi.to_pyobject(tensor).map_err(raise_torch)?;
        // SAFETY: `to_pyobject` returns a new reference to a live tensor, and the GIL is held.
        Ok(unsafe { Bound::from_owned_ptr(self.py, raw.cast()) })
    }

    /// Like `wrap`, for a tensor that has no other owner.
    pub fn wrap_owned(&self, tensor: OwnedTensor) -> PyResult<Bound<'py, PyAny>> {
        let raw = self.abi.into_pyobject(tensor).map_err(raise_torch)?;
        // SAFETY: as in `wrap`.
        Ok(unsafe { Bound::from_owned_ptr(self.py, raw.cast()) })
    }

    /// Appends the objects of a graph's outputs to `results`, which is empty; `input` returns the objects of its inputs.
    ///
    /// # Errors
    ///
    /// If an output has no object, which is a bug.
    pub(crate) fn append_outputs(&self, made: Outputs, input: Input<'_, 'py>, results: &mut Objects<'py>) -> PyResult<()> {
        let lost = || NativeError::new_err("an output refers to what is not there");
        for value in made {
            let object = match value {
                OutputValue::Tensor(tensor) => self.wrap_owned(tensor)?,
                OutputValue::Arg(at) => input(at).ok_or_else(lost)?,
                OutputValue::None => self.py.None().into_bound(self.py),
                OutputValue::Same(at) => results.get(at).cloned().ok_or_else(lost)?,
                OutputValue::Const(Const::Int(value)) => value.into_pyobject(self.py)?.into_any(),
                OutputValue::Const(other) => return Err(NativeError::new_err(format!("constant {other:?} has no Python form"))),
            };
            results.push(object);
        }
        Ok(())
    }

    /// Makes torch treat outputs as views among several returned by one operation, to which it forbids writes if gradients are recorded:
    /// they were created as single views. `output` returns them by position.
    ///
    /// # Errors
    ///
    /// Returns the exception raised by torch.
    pub(crate) fn mark_one_of_several(&self, positions: &[usize], output: impl Fn(usize) -> Option<Bound<'py, PyAny>>) -> PyResult<()> {
        static SET: PyOnceLock<(Py<PyAny>, Py<PyAny>)> = PyOnceLock::new();
        for object in positions.iter().filter_map(|at| output(*at)) {
            let (set, kind) = SET.get_or_try_init(self.py, || {
                let autograd = dynamlir_cpython_abi::import(self.py, "torch._C._autograd")?;
                let kind = autograd.getattr("CreationMeta")?.getattr("MULTI_OUTPUT_NODE")?;
                PyResult::Ok((autograd.getattr("_set_creation_meta")?.unbind(), kind.unbind()))
            })?;
            // Inference tensors do not store a base.
            if object.call_method0(intern!(self.py, "_is_view"))?.is_truthy()? {
                set.bind(self.py).call1((&object, kind))?;
            }
        }
        Ok(())
    }

    /// Returns the handle of a Python tensor, borrowed as long as the object lives.
    ///
    /// # Errors
    ///
    /// `TypeError` if it is not a tensor: programs can set the attributes of a node, and hooks return what they like.
    pub fn unwrap<'a>(&self, object: &'a Bound<'py, PyAny>) -> PyResult<TensorRef<'a>> {
        if !is_tensor(object)? {
            return Err(PyTypeError::new_err(format!("expected tensors, got {}", object.get_type().name()?)));
        }
        // SAFETY: the object is alive for 'a, and a tensor.
        unsafe { self.abi.tensor_of(object.as_ptr().cast()) }.map_err(raise_torch)
    }

    fn argument(&self, arg: &ExternArg, operands: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
        let torch = dynamlir_cpython_abi::import(self.py, "torch")?;
        Ok(match arg {
            ExternArg::Operand(i) => operands[*i].clone(),
            ExternArg::List(list) => {
                let items = list.iter().map(|arg| self.argument(arg, operands)).collect::<PyResult<Vec<_>>>()?;
                PyList::new(self.py, items)?.into_any()
            }
            ExternArg::None => self.py.None().into_bound(self.py),
            ExternArg::Int(value) => value.into_pyobject(self.py)?.into_any(),
            ExternArg::Float(value) => value.into_pyobject(self.py)?.into_any(),
            ExternArg::Bool(value) => value.into_pyobject(self.py)?.to_owned().into_any(),
            ExternArg::Str(value) => value.into_pyobject(self.py)?.into_any(),
            ExternArg::DType(dtype) => torch.getattr(dtype.torch_name())?,
            ExternArg::Device(text) => torch.getattr("device")?.call1((text,))?,
            ExternArg::MemoryFormat(name) | ExternArg::Layout(name) => torch.getattr(name.as_str())?,
        })
    }

    fn call_op(&self, call: &ExternCall, operands: &[TensorRef<'_>]) -> PyResult<Vec<Option<OwnedTensor>>> {
        let op = self.op(&call.schema)?;
        let operands = operands.iter().map(|tensor| self.wrap(*tensor)).collect::<PyResult<Vec<_>>>()?;
        let kwargs = PyDict::new(self.py);
        let mut args = Vec::new();
        let parameters = op.getattr("_schema")?.getattr("arguments")?;
        for (parameter, arg) in parameters.try_iter()?.zip(&call.args) {
            let parameter = parameter?;
            let value = self.argument(arg, &operands)?;
            if parameter.getattr("kwarg_only")?.is_truthy()? {
                kwargs.set_item(parameter.getattr("name")?, value)?;
            } else {
                args.push(value);
            }
        }
        let result = op.call(PyTuple::new(self.py, args)?, Some(&kwargs))?;
        let mut tensors = Vec::new();
        self.collect(&result, &mut tensors)?;
        Ok(tensors)
    }

    fn collect(&self, value: &Bound<'py, PyAny>, tensors: &mut Vec<Option<OwnedTensor>>) -> PyResult<()> {
        // A graph does not use a number: it was also a number when the graph was recorded.
        if value.is_none() || value.is_instance_of::<PyInt>() {
            tensors.push(None);
        } else if let Ok(items) = value.cast::<PyTuple>() {
            items.iter().try_for_each(|item| self.collect(&item, tensors))?;
        } else if let Ok(items) = value.cast::<PyList>() {
            items.iter().try_for_each(|item| self.collect(&item, tensors))?;
        } else if !is_tensor(value)? {
            return Err(NativeError::new_err(format!("expected tensors from an operator, got {}", value.get_type().name()?)));
        } else {
            let owned = self.unwrap(value)?.to_owned().map_err(raise_torch)?;
            tensors.push(Some(owned));
        }
        Ok(())
    }
}

impl PythonCalls for Calls<'_> {
    fn signature(&mut self, schema: &str) -> Option<String> {
        shown::str(&self.op(schema).ok()?.getattr("_schema").ok()?).ok()?.extract().ok()
    }

    fn call(&mut self, call: &ExternCall, operands: &[TensorRef<'_>]) -> Result<Vec<Option<OwnedTensor>>, PythonError> {
        self.call_op(call, operands).map_err(|error| PythonError { message: error.to_string(), payload: Some(Box::new(error)) })
    }
}
