//! Teaches `torch-abi` torch's layout: shows it tensors of known metadata, in whose memory it locates each field.

use dynamlir_torch_abi::{Autograd, TensorSample, learn};
use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    types::{PyDict, PyString},
};

/// Finds out where torch stores the metadata of tensors.
///
/// # Errors
/// If this torch is unlike those we know.
pub fn learn_tensors(py: Python<'_>) -> PyResult<()> {
    let torch = dynamlir_cpython_abi::import(py, "torch")?;
    // Tensors created in inference mode have no autograd state.
    let ordinary = torch.call_method1("inference_mode", (false,))?;
    ordinary.call_method0("__enter__")?;
    let learnt = learn_samples(py, &torch);
    ordinary.call_method1("__exit__", (py.None(), py.None(), py.None()))?;
    learnt
}

fn learn_samples<'py>(py: Python<'py>, torch: &Bound<'py, PyModule>) -> PyResult<()> {
    let options = |pairs: &[(&str, &str)]| -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("device", "cpu")?;
        for (key, value) in pairs {
            dict.set_item(key, if *key == "dtype" { torch.getattr(*value)? } else { PyString::new(py, value).into_any() })?;
        }
        Ok(dict)
    };
    let empty = |sizes: &[i64], options: &Bound<'py, PyDict>| torch.call_method("empty", (sizes.to_vec(),), Some(options));
    let grad = options(&[("dtype", "float64")])?;
    grad.set_item("requires_grad", true)?;
    let storage = empty(&[400], &options(&[])?)?.call_method0("untyped_storage")?;
    let shifted = empty(&[0], &options(&[])?)?.call_method1("set_", (storage, 13, (3, 5), (7, 40)))?;
    let leaf = |sizes: &[i64]| empty(sizes, &grad)?.call_method1("requires_grad_", (false,));
    let computed = |sizes: &[i64]| -> PyResult<Bound<'py, PyAny>> {
        let enabled = torch.getattr("enable_grad")?.call0()?;
        enabled.call_method0("__enter__")?;
        let result = empty(sizes, &grad).and_then(|tensor| tensor.call_method0("neg"));
        enabled.call_method1("__exit__", (py.None(), py.None(), py.None()))?;
        result
    };
    let tensors = [
        (shifted, Autograd::Absent),
        (empty(&[1, 2, 3, 4, 5, 6], &options(&[])?)?, Autograd::Absent),
        (empty(&[4], &options(&[("dtype", "int64")])?)?, Autograd::Absent),
        (empty(&[2], &options(&[("device", "meta")])?)?, Autograd::Absent),
        (empty(&[2, 3], &grad)?, Autograd::RequiresGrad),
        (empty(&[5], &grad)?, Autograd::RequiresGrad),
        (leaf(&[2])?, Autograd::Leaf),
        (leaf(&[3, 1])?, Autograd::Leaf),
        (computed(&[2])?, Autograd::Computed),
        (computed(&[3, 3])?, Autograd::Computed),
    ];
    let samples = tensors.iter().map(|(tensor, autograd)| sample(torch, tensor, *autograd)).collect::<PyResult<Vec<_>>>()?;
    let internal = torch.getattr("_C")?;
    let bits = |key: &str| -> PyResult<u64> {
        let key = internal.getattr("DispatchKey")?.getattr(key)?;
        internal.getattr("DispatchKeySet")?.call1((key,))?.call_method0("raw_repr")?.extract()
    };
    let view_bit = bits("ADInplaceOrView")?;
    let cuda_keys = bits("CUDA")? | bits("AutogradCUDA")? | bits("AutocastCUDA")?;
    // SAFETY: the tensors are alive until the end of this function.
    unsafe { learn(&samples, view_bit, cuda_keys) }.map_err(|error| PyRuntimeError::new_err(error.message().to_owned()))
}

fn sample(torch: &Bound<'_, PyModule>, tensor: &Bound<'_, PyAny>, autograd: Autograd) -> PyResult<TensorSample> {
    let device = tensor.getattr("device")?;
    // The number of each device type on which samples are created.
    let kind = if device.getattr("type")?.extract::<String>()? == "meta" { 14 } else { 0 };
    let storage = tensor.call_method0("untyped_storage")?;
    Ok(TensorSample {
        cdata: tensor.getattr("_cdata")?.extract()?,
        sizes: tensor.getattr("shape")?.extract()?,
        strides: tensor.call_method0("stride")?.extract()?,
        storage_offset: tensor.call_method0("storage_offset")?.extract()?,
        device: (kind, device.getattr("index")?.extract::<Option<i8>>()?.unwrap_or(-1)),
        keys: torch.getattr("_C")?.call_method1("_dispatch_keys", (tensor,))?.call_method0("raw_repr")?.extract()?,
        autograd,
        storage: storage.getattr("_cdata")?.extract()?,
        data: tensor.call_method0("data_ptr")?.extract()?,
        element_bytes: tensor.call_method0("element_size")?.extract()?,
        storage_bytes: storage.call_method0("nbytes")?.extract()?,
    })
}
