//! Information about torch that only Python has: dispatch keys, a sample tensor, classes, what intercepts operations.

use std::{os::raw::c_void, path::PathBuf, sync::OnceLock};

use dynamlir_cpython_abi::types;
use dynamlir_reasons as reason;
use dynamlir_torch_abi::{Disturbance, InitArgs, PySample, State, TorchAbi};
use dynamlir_trails::learn_tensors;
use pyo3::{
    ffi,
    prelude::*,
    sync::PyOnceLock,
    types::{PyModule, PyType},
};

use crate::errors::{NativeError, raise_torch, restoring};

/// Returns the initialized view of libtorch.
pub fn init(py: Python<'_>) -> PyResult<&'static TorchAbi> {
    static DONE: OnceLock<&'static TorchAbi> = OnceLock::new();
    if let Some(abi) = DONE.get() {
        return Ok(abi);
    }
    let abi = undisturbed(py, find)?;
    Ok(DONE.get_or_init(|| abi))
}

/// Prepares torch so that guards can read its tensors.
pub fn prepare_guards(py: Python<'_>) -> PyResult<()> {
    static DONE: PyOnceLock<()> = PyOnceLock::new();
    init(py)?;
    DONE.get_or_try_init(py, || undisturbed(py, learn_tensors)).copied()
}

/// Runs `work` on a thread of its own: the caller's modes, transforms, tracers or default device would affect what is learned about torch
/// by example.
fn undisturbed<T: Send>(py: Python<'_>, work: impl FnOnce(Python<'_>) -> PyResult<T> + Send) -> PyResult<T> {
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
    let abi = TorchAbi::init(&args).map_err(raise_torch)?;
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

/// Returns true if an object is a tensor or a module. Runs none of its code.
pub fn is_tensor_or_module(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASSES: PyOnceLock<[Py<PyAny>; 2]> = PyOnceLock::new();
    let py = object.py();
    let classes = CLASSES.get_or_try_init(py, || {
        let torch = dynamlir_cpython_abi::import(py, "torch")?;
        Ok::<_, PyErr>([torch.getattr("Tensor")?.unbind(), torch.getattr("nn")?.getattr("Module")?.unbind()])
    })?;
    Ok(types::mro(&object.get_type())?.iter().any(|base| classes.iter().any(|class| base.is(class))))
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
    restoring(|| set.call1((before,)).map(drop), body)
}
