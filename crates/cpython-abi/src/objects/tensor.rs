//! Python tensors: from the object to its handle, and what is stored on the object beside it.

use dynamlir_torch_abi::{TensorRef, TensorSample, TorchAbi, learn};
use pyo3::{
    exceptions::PyRuntimeError,
    ffi,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyString, PyType},
};

use crate::{Abi, types};

/// A class of tensors, `torch.Tensor` or a subclass. Instances have their handle where `torch.Tensor` has it.
pub struct TensorClass {
    class: Py<PyType>,
}

fn tensor_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static TENSOR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = TENSOR.get_or_try_init(py, || Ok::<_, PyErr>(py.import("torch")?.getattr("Tensor")?.cast_into::<PyType>()?.unbind()))?;
    Ok(class.bind(py))
}

impl TensorClass {
    /// The class of an object, if it is a tensor.
    ///
    /// # Errors
    /// When torch cannot be imported.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let class = object.get_type();
        // Not `isinstance`, which a metaclass may answer as it likes.
        // SAFETY: both are live types.
        let is_tensor = unsafe { ffi::PyType_IsSubtype(class.as_type_ptr(), tensor_type(object.py())?.as_type_ptr()) } != 0;
        Ok(is_tensor.then(|| Self { class: class.unbind() }))
    }

    /// Its address.
    pub fn address(&self) -> usize {
        self.class.as_ptr() as usize
    }

    /// The class.
    pub fn class(&self) -> &Py<PyType> {
        &self.class
    }

    /// The tensor that an object is, if it is exactly of this class.
    #[inline]
    pub fn tensor<'a>(&self, object: &'a Bound<'_, PyAny>) -> Option<TensorRef<'a>> {
        if object.get_type_ptr().cast() != self.class.as_ptr() {
            return None;
        }
        // SAFETY: the object is alive for 'a and an instance of a subclass of torch.Tensor.
        unsafe { TorchAbi::get().ok()?.tensor_of(object.as_ptr().cast()) }.ok()
    }
}

/// `Py_TPFLAGS_MANAGED_DICT`: the instance dict, and what stands for it before there is one, lie in front of the object.
const MANAGED_DICT: std::ffi::c_ulong = 1 << 4;
/// `Py_TPFLAGS_INLINE_VALUES`, where values lie in the object itself. Not so for tensors.
const INLINE_VALUES: std::ffi::c_ulong = 1 << 2;

/// Whether an object's own storage (not its class) has nothing under an interned name. Makes no dict where there is none.
///
/// # Errors
/// When Python is out of memory.
pub fn instance_lacks(abi: &'static Abi, object: &Bound<'_, PyAny>, name: &Bound<'_, PyString>) -> PyResult<bool> {
    let class = object.get_type();
    let flags = types::flags(&class);
    let version = abi.version();
    if flags & MANAGED_DICT == 0 || (version >= (3, 13) && flags & INLINE_VALUES != 0) {
        return Ok(!object.hasattr(name)?);
    }
    // SAFETY: a class with this flag has these words before its instances: the dict, and in 3.11 before it the values.
    let word = |offset: isize| unsafe { object.as_ptr().byte_offset(offset).cast::<usize>().read() };
    let (dict, values) = match version {
        (3, 11) => (word(-24), word(-32)),
        // One word for both, odd for values.
        (3, 12) if word(-24) & 1 == 1 => (0, word(-24) + 1),
        _ => (word(-24), 0),
    };
    if dict != 0 {
        // SAFETY: the word is the instance's dict, alive as the instance is.
        let dict = unsafe { Bound::from_borrowed_ptr(object.py(), dict as *mut ffi::PyObject) };
        let dict = dict.cast::<PyDict>()?;
        return Ok(dict.is_empty() || !dict.contains(name)?);
    }
    // `ht_cached_keys`: the names of the values, in a table of the class.
    let cached_keys = if version == (3, 11) { 872 } else { 880 };
    // SAFETY: classes of such instances are heap types, which have this field.
    let keys = unsafe { class.as_ptr().byte_add(cached_keys).cast::<*const u64>().read() };
    if values == 0 || keys.is_null() {
        return Ok(true);
    }
    // SAFETY: the table is `PyDictKeysObject`: the number of entries, the index, then pairs of a name and nothing; the n-th name
    // is that of the n-th value.
    unsafe {
        let index_bytes = 1_usize << keys.cast::<u8>().add(9).read();
        let entries = keys.add(3).read() as isize;
        let first = keys.add(4).byte_add(index_bytes).cast::<[usize; 2]>();
        let wanted = name.as_ptr() as usize;
        let found = (0..entries).find(|&i| first.offset(i).read()[0] == wanted);
        Ok(found.is_none_or(|i| (values as *const usize).offset(i).read() == 0))
    }
}

/// Finds out where torch keeps the metadata of tensors.
///
/// # Errors
/// When this torch is unlike those we know.
pub fn learn_tensors<'py>(py: Python<'py>) -> PyResult<()> {
    let torch = py.import("torch")?;
    let options = |pairs: &[(&str, &str)]| -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("device", "cpu")?;
        for (key, value) in pairs {
            dict.set_item(key, if *key == "dtype" { torch.getattr(*value)? } else { PyString::new(py, value).into_any() })?;
        }
        Ok(dict)
    };
    let empty = |sizes: &[i64], options: &Bound<'py, PyDict>| torch.call_method("empty", (sizes.to_vec(),), Some(options));
    let wanting = options(&[("dtype", "float64")])?;
    wanting.set_item("requires_grad", true)?;
    let storage = empty(&[400], &options(&[])?)?.call_method0("untyped_storage")?;
    let shifted = empty(&[0], &options(&[])?)?.call_method1("set_", (storage, 13, (3, 5), (7, 40)))?;
    let tensors = [
        shifted,
        empty(&[1, 2, 3, 4, 5, 6], &options(&[])?)?,
        empty(&[2, 3], &wanting)?,
        empty(&[4], &options(&[("dtype", "int64")])?)?,
        empty(&[2], &options(&[("device", "meta")])?)?,
    ];
    let samples = tensors.iter().map(|tensor| sample(&torch, tensor)).collect::<PyResult<Vec<_>>>()?;
    // SAFETY: the tensors are alive until the end of this function.
    unsafe { learn(&samples) }.map_err(|error| PyRuntimeError::new_err(error.message().to_owned()))
}

fn sample(torch: &Bound<'_, PyModule>, tensor: &Bound<'_, PyAny>) -> PyResult<TensorSample> {
    let device = tensor.getattr("device")?;
    // Of the types that samples are made on.
    let kind = if device.getattr("type")?.extract::<String>()? == "meta" { 14 } else { 0 };
    Ok(TensorSample {
        cdata: tensor.getattr("_cdata")?.extract()?,
        sizes: tensor.getattr("shape")?.extract()?,
        strides: tensor.call_method0("stride")?.extract()?,
        storage_offset: tensor.call_method0("storage_offset")?.extract()?,
        device: (kind, device.getattr("index")?.extract::<Option<i8>>()?.unwrap_or(-1)),
        keys: torch.getattr("_C")?.call_method1("_dispatch_keys", (tensor,))?.call_method0("raw_repr")?.extract()?,
        requires_grad: tensor.getattr("requires_grad")?.extract()?,
        storage: tensor.call_method0("untyped_storage")?.getattr("_cdata")?.extract()?,
    })
}
