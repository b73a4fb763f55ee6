//! Python tensors: from the object to its handle, and what is stored on the object beside it.

use dynamlir_torch_abi::{Autograd, TensorRef, TensorSample, TorchAbi, learn};
use pyo3::{
    exceptions::PyRuntimeError,
    ffi,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyString, PyType},
};

use crate::types;

/// A class of tensors, `torch.Tensor` or a subclass. Instances have their handle where `torch.Tensor` has it.
pub struct TensorClass {
    class: Py<PyType>,
    handle: usize,
    storage: Storage,
}

/// The tensor that an object is, of whatever class.
///
/// # Errors
/// When torch cannot be imported.
#[inline]
pub fn tensor_of<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<Option<TensorRef<'a>>> {
    let tensor = tensor_type(object.py())?.as_type_ptr();
    let class = object.get_type_ptr();
    // SAFETY: both are live types.
    if class != tensor && unsafe { ffi::PyType_IsSubtype(class, tensor) } == 0 {
        return Ok(None);
    }
    // SAFETY: the object is alive for 'a and an instance of a subclass of torch.Tensor.
    Ok(TorchAbi::get().ok().and_then(|abi| unsafe { abi.tensor_of(object.as_ptr().cast()) }.ok()))
}

/// What an instance stores attributes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributes {
    /// Nothing.
    None,
    /// Something whose keys are strings: looking for one runs no Python code.
    Named,
    /// Anything; a key may have an `__eq__` of its own.
    Unknown,
}

/// Where instances of a class keep attributes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Storage {
    /// Ask CPython.
    Unknown,
    /// In a dict, whose address is in the third word before the object.
    Dict,
    /// As `Dict`; before there is one, in values whose address is in the fourth word (3.11). Their names are in a table, whose
    /// address is here in the class.
    DictOrValues(usize),
    /// In the third word before the object is the address of the dict, or an odd one of values (3.12).
    Tagged(usize),
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
        let torch = |error: dynamlir_torch_abi::TorchError| PyRuntimeError::new_err(error.message().to_owned());
        let handle = TorchAbi::get().and_then(TorchAbi::handle_offset).map_err(torch)?;
        let storage = Storage::of(&class);
        Ok(is_tensor.then(|| Self { class: class.unbind(), handle, storage }))
    }

    /// Its address.
    pub fn address(&self) -> usize {
        self.class.as_ptr() as usize
    }

    /// The class.
    pub fn class(&self) -> &Py<PyType> {
        &self.class
    }

    /// Where instances have their handle, in bytes.
    pub(super) fn handle(&self) -> usize {
        self.handle
    }

    /// If an instance has nothing to store attributes in: where it would have it, in bytes from the object. The words there are 0.
    #[inline]
    pub(super) fn without_attributes(&self, object: &Bound<'_, PyAny>) -> Option<&'static [isize]> {
        let places: &[isize] = match self.storage {
            Storage::Unknown => return None,
            Storage::DictOrValues(_) => &[-24, -32],
            Storage::Dict | Storage::Tagged(_) => &[-24],
        };
        // SAFETY: the storage is that of the object's class, so these words are before the object.
        let empty = places.iter().all(|&place| unsafe { object.as_ptr().byte_offset(place).cast::<usize>().read() } == 0);
        empty.then_some(places)
    }

    /// The tensor that an object is, if it is exactly of this class.
    #[inline]
    pub fn tensor<'a>(&self, object: &'a Bound<'_, PyAny>) -> Option<TensorRef<'a>> {
        if object.get_type_ptr().cast() != self.class.as_ptr() {
            return None;
        }
        // SAFETY: the object is alive for 'a and an instance of a subclass of torch.Tensor.
        unsafe { TensorRef::from_raw(object.as_ptr().byte_add(self.handle).cast()) }
    }

    /// What an instance stores attributes in.
    #[inline]
    pub fn attributes(&self, object: &Bound<'_, PyAny>) -> Attributes {
        // SAFETY: the storage is that of the object's class, so the word is before the object.
        let word = || unsafe { object.as_ptr().cast::<usize>().sub(3).read() };
        let dict = match self.storage {
            Storage::Unknown => return Attributes::Unknown,
            Storage::Tagged(_) if word() & 1 == 1 => 0,
            _ => word(),
        };
        if dict == 0 {
            return if self.without_attributes(object).is_some() { Attributes::None } else { Attributes::Named };
        }
        let dict = dict as *const usize;
        // SAFETY: the word is the instance's dict, alive as the instance is: behind its header the number of items, a version, the
        // address of its keys. Of those the kind is the eleventh byte: 1 and 2 have exact strings only. So in 3.11 to 3.13, and
        // `Storage` knows no others.
        let (items, kind) = unsafe {
            let keys = dict.add(DICT_KEYS).read() as *const u8;
            (dict.add(DICT_ITEMS).read(), keys.add(10).read())
        };
        match kind {
            _ if items == 0 => Attributes::None,
            1 | 2 => Attributes::Named,
            _ => Attributes::Unknown,
        }
    }

    /// Whether an instance stores nothing under an interned name. Makes no dict where there is none.
    ///
    /// # Errors
    /// What Python raised.
    #[inline]
    pub fn lacks(&self, object: &Bound<'_, PyAny>, name: &Bound<'_, PyString>) -> PyResult<bool> {
        // SAFETY: the storage is that of the object's class, so these words are before the object.
        let word = |words: usize| unsafe { object.as_ptr().cast::<usize>().sub(words).read() };
        let (dict, values, keys) = match self.storage {
            Storage::Unknown => return Ok(!object.hasattr(name)?),
            Storage::DictOrValues(keys) => (word(3), word(4), keys),
            Storage::Tagged(keys) if word(3) & 1 == 1 => (0, word(3) + 1, keys),
            Storage::Dict | Storage::Tagged(_) => (word(3), 0, 0),
        };
        if dict != 0 {
            // SAFETY: the word is the instance's dict, alive as the instance is.
            let dict = unsafe { Bound::from_borrowed_ptr(object.py(), dict as *mut ffi::PyObject) };
            let dict = dict.cast::<PyDict>()?;
            return Ok(dict.is_empty() || !dict.contains(name)?);
        }
        if values == 0 {
            return Ok(true);
        }
        // SAFETY: `ht_cached_keys` is the address of a `PyDictKeysObject`: the number of entries, the index, then pairs of a name and
        // nothing; the n-th name is that of the n-th value.
        unsafe {
            let keys = self.class.as_ptr().byte_add(keys).cast::<*const u64>().read();
            if keys.is_null() {
                return Ok(true);
            }
            let entries = keys.add(3).read() as usize;
            if entries == 0 {
                return Ok(true);
            }
            let index_bytes = 1_usize << keys.cast::<u8>().add(9).read();
            let first = keys.add(4).byte_add(index_bytes).cast::<[usize; 2]>();
            let wanted = name.as_ptr() as usize;
            let found = (0..entries).find(|&i| first.add(i).read()[0] == wanted);
            Ok(found.is_none_or(|i| (values as *const usize).add(i).read() == 0))
        }
    }
}

/// Where a `PyDictObject` has the number of its items, and the address of its keys: in words.
const DICT_ITEMS: usize = 2;
const DICT_KEYS: usize = 4;

/// `Py_TPFLAGS_INLINE_VALUES`, where values lie in the object itself. Not so for tensors.
const INLINE_VALUES: std::ffi::c_ulong = 1 << 2;

impl Storage {
    fn of(class: &Bound<'_, PyType>) -> Self {
        let flags = types::flags(class);
        let version = class.py().version_info();
        if !types::has_managed_dict(class) {
            return Self::Unknown;
        }
        match (version.major, version.minor) {
            (3, 11) => Self::DictOrValues(872),
            (3, 12) => Self::Tagged(880),
            (3, 13) if flags & INLINE_VALUES == 0 => Self::Dict,
            _ => Self::Unknown,
        }
    }
}

/// Finds out where torch keeps the metadata of tensors.
///
/// # Errors
/// When this torch is unlike those we know.
pub fn learn_tensors(py: Python<'_>) -> PyResult<()> {
    let torch = py.import("torch")?;
    // Tensors made in inference mode have nothing of autograd's.
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
    let unwanted = |sizes: &[i64]| empty(sizes, &grad)?.call_method1("requires_grad_", (false,));
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
        (empty(&[2, 3], &grad)?, Autograd::Wanted),
        (empty(&[5], &grad)?, Autograd::Wanted),
        (unwanted(&[2])?, Autograd::Unwanted),
        (unwanted(&[3, 1])?, Autograd::Unwanted),
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
    // Of the types that samples are made on.
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
