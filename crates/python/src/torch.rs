//! Information about torch that only Python has: dispatch keys, a sample tensor, op schemas, and calls of Python operators.

use std::{os::raw::c_void, path::PathBuf, sync::OnceLock};

use dynamlir_cpython_abi::shown;
use dynamlir_reasons as reason;
use dynamlir_runtime::{ExternArg, ExternCall, PythonCalls, PythonError};
use dynamlir_torch_abi::{Disturbance, InitArgs, OwnedTensor, PySample, State, TensorRef, TorchAbi};
use dynamlir_trails::learn_tensors;
use pyo3::{
    ffi, intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyInt, PyList, PyModule, PyTuple, PyType},
};

use crate::errors::NativeError;

/// Returns the initialized view of libtorch.
pub fn init(py: Python<'_>) -> PyResult<&'static TorchAbi> {
    static DONE: OnceLock<&'static TorchAbi> = OnceLock::new();
    if let Some(abi) = DONE.get() {
        return Ok(abi);
    }
    let abi = undisturbed(py, find)?;
    Ok(DONE.get_or_init(|| abi))
}

/// Runs `work` on a thread of its own: the caller's modes, transforms, tracers or default device would affect what is learned about torch
/// by example.
pub fn undisturbed<T: Send>(py: Python<'_>, work: impl FnOnce(Python<'_>) -> PyResult<T> + Send) -> PyResult<T> {
    let outcome = py.detach(|| std::thread::scope(|scope| scope.spawn(|| Python::attach(work)).join()));
    outcome.unwrap_or_else(|_| Err(NativeError::new_err("a panic while torch was looked at")))
}

fn find(py: Python<'_>) -> PyResult<&'static TorchAbi> {
    let torch = dynamlir_cpython_abi::import(py, "torch")?;
    let internal = torch.getattr("_C")?;
    let keys = internal.getattr("DispatchKey")?;
    let key = |name: &str| -> Option<u16> { keys.getattr(name).ok()?.call_method0("__int__").ok()?.extract().ok() };
    if key("AutogradFunctionality").is_none() {
        return Err(NativeError::new_err("this torch has another set of dispatch keys"));
    }
    let file: String = torch.getattr("__file__")?.extract()?;
    let sample = torch.call_method1("empty", (1,))?;
    let cdata: usize = sample.getattr("_cdata")?.extract()?;
    let args = InitArgs {
        lib_dir: PathBuf::from(file).parent().map(|folder| folder.join("lib")),
        // Python keys too: an operator's inner calls are its own business, as in eager. The autograd key is that of all devices, which
        // inference mode excludes too: with AutogradCPU, a guard would not find its key excluded, and would revert the exclusion on exit.
        below_autograd: ["AutogradFunctionality", "AutogradOther", "AutocastCPU", "Python", "PythonTLSSnapshot"]
            .into_iter()
            .filter_map(key)
            .collect(),
        below_autograd_cuda: ["AutocastCUDA"].into_iter().filter_map(key).collect(),
        inplace_or_view: key("ADInplaceOrView"),
        ordinary_keys: ordinary_keys(&torch)?,
        sample: Some(PySample { object: sample.as_ptr().cast::<c_void>(), cdata }),
    };
    let abi = TorchAbi::init(&args).map_err(|error| NativeError::new_err(error.message().to_owned()))?;
    // An unknown version of torch has no known layout to learn; code that needs it reports that, or does without.
    let _ = learn_tensors(py);
    Ok(abi)
}

/// Returns the dispatch keys of a thread that autocast and inference mode change, measured on a thread where nothing else does. Also
/// includes that of dense tensors: including it has no effect, since each tensor has it or a higher one, and it stays included on a thread
/// that has called `torch.nn.functional.linear` with a tensor of a class with a `__torch_dispatch__`.
fn ordinary_keys(torch: &Bound<'_, PyModule>) -> PyResult<[u64; 2]> {
    let internal = torch.getattr("_C")?;
    let keys = |name: &str| internal.call_method0(name)?.call_method0("raw_repr")?.extract::<u64>();
    let [included, excluded] = ["_dispatch_tls_local_include_set", "_dispatch_tls_local_exclude_set"];
    let before = keys(included)?;
    let inference = torch.call_method1("inference_mode", (true,))?;
    inference.call_method0("__enter__")?;
    let within = (keys(included), keys(excluded));
    inference.call_method1("__exit__", (torch.py().None(), torch.py().None(), torch.py().None()))?;
    let dense = internal.getattr("DispatchKey")?.getattr_opt("Dense")?;
    let dense = dense.map(|key| internal.getattr("DispatchKeySet")?.call1((key,))?.call_method0("raw_repr")?.extract::<u64>());
    Ok([(before ^ within.0?) | dense.transpose()?.unwrap_or(0), within.1?])
}

/// Returns the reason that compiled code would bypass other code that intercepts operations on this thread; None if no code does. State
/// known only to Python is not inspected.
#[pyfunction]
pub fn disturbance(py: Python<'_>) -> PyResult<Option<&'static str>> {
    init(py)?;
    Ok(State::disturbance().map(|found| match found {
        Disturbance::Modes => reason::DISPATCH_MODE,
        Disturbance::ForwardAd => reason::FORWARD_AD,
        Disturbance::Keys => reason::DISPATCH_KEYS,
    }))
}

/// Returns true if an object has the layout of a tensor. Checks its type: `isinstance` trusts the object's own claim.
pub fn is_tensor(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static TENSOR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let tensor = dynamlir_cpython_abi::import_once(object.py(), &TENSOR, "torch", "Tensor")?;
    // SAFETY: both are live type objects.
    Ok(unsafe { ffi::PyType_IsSubtype(object.get_type().as_type_ptr(), tensor.as_type_ptr()) } != 0)
}

/// Returns true if the tensor's class handles operations itself.
pub fn dispatches_itself(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    static DISABLED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let disabled = dynamlir_cpython_abi::import_once(tensor.py(), &DISABLED, "torch._C", "_disabled_torch_dispatch_impl")?;
    Ok(tensor.get_type().getattr("__torch_dispatch__").is_ok_and(|dispatch| !dispatch.is(disabled)))
}

/// Runs our own code, including Python code, while Dynamo's frame hook may be on for the user's call: it would capture our frames.
pub fn untraced<T>(py: Python<'_>, body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    static SET: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let set = dynamlir_cpython_abi::import_once(py, &SET, "torch._C._dynamo.eval_frame", "set_eval_frame")?;
    let before = set.call1((py.None(),))?;
    let result = body();
    set.call1((before,)).and(result)
}

/// Calls from the runtime into Python, with the GIL held.
pub struct Calls<'py> {
    pub py: Python<'py>,
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
        let raw = self.abi.to_pyobject(tensor).map_err(|error| NativeError::new_err(error.message().to_owned()))?;
        // SAFETY: `to_pyobject` returns a new reference to a live tensor, and the GIL is held.
        Ok(unsafe { Bound::from_owned_ptr(self.py, raw.cast()) })
    }

    /// Like `wrap`, for a tensor that has no other owner.
    pub fn wrap_owned(&self, tensor: OwnedTensor) -> PyResult<Bound<'py, PyAny>> {
        let raw = self.abi.into_pyobject(tensor).map_err(|error| NativeError::new_err(error.message().to_owned()))?;
        // SAFETY: as in `wrap`.
        Ok(unsafe { Bound::from_owned_ptr(self.py, raw.cast()) })
    }

    /// Makes torch treat outputs as views among several returned by one operation, to which it forbids writes if gradients are recorded:
    /// they were created as single views. `output` returns them by position.
    ///
    /// # Errors
    ///
    /// Returns the exception raised by torch.
    pub fn mark_one_of_several(&self, positions: &[usize], output: impl Fn(usize) -> Option<Bound<'py, PyAny>>) -> PyResult<()> {
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
    pub fn unwrap<'a>(&self, object: &'a Bound<'py, PyAny>) -> PyResult<TensorRef<'a>> {
        // SAFETY: the object is alive for 'a, and the callers have checked `is_tensor`.
        unsafe { self.abi.tensor_of(object.as_ptr().cast()) }.map_err(|error| NativeError::new_err(error.message().to_owned()))
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
            let owned = self.unwrap(value)?.to_owned().map_err(|error| NativeError::new_err(error.message().to_owned()))?;
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
