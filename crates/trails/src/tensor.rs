//! Python tensors: the step from the object to its handle, and the attributes stored on the object.

use dynamlir_cpython_abi::{Attributes, InstanceStorage, Words};
use dynamlir_torch_abi::{TensorRef, TorchAbi};
use pyo3::{
    exceptions::PyRuntimeError,
    ffi,
    prelude::*,
    sync::PyOnceLock,
    types::{PyString, PyType},
};

/// A class of tensors: `torch.Tensor` or a subclass. The handle is at the same offset in all instances.
pub struct TensorClass {
    class: Py<PyType>,
    handle: usize,
    storage: InstanceStorage,
}

/// Returns the tensor of an object, for any class of tensors.
///
/// # Errors
/// If torch cannot be imported.
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

fn tensor_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static TENSOR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    dynamlir_cpython_abi::import_once(py, &TENSOR, "torch", "Tensor")
}

impl TensorClass {
    /// Returns the class of an object, if it is a tensor.
    ///
    /// # Errors
    /// If torch cannot be imported.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let class = object.get_type();
        // Not `isinstance`, which a metaclass may override. SAFETY: both are live types.
        let is_tensor = unsafe { ffi::PyType_IsSubtype(class.as_type_ptr(), tensor_type(object.py())?.as_type_ptr()) } != 0;
        let torch = |error: dynamlir_torch_abi::TorchError| PyRuntimeError::new_err(error.message().to_owned());
        let handle = TorchAbi::get().and_then(TorchAbi::handle_offset).map_err(torch)?;
        let storage = InstanceStorage::of(&class);
        Ok(is_tensor.then(|| Self { class: class.unbind(), handle, storage }))
    }

    /// Returns the address of the class.
    pub fn address(&self) -> usize {
        self.class.as_ptr() as usize
    }

    /// Returns the class.
    pub fn class(&self) -> &Py<PyType> {
        &self.class
    }

    /// Returns the byte offset of the handle in instances.
    pub(crate) fn handle(&self) -> usize {
        self.handle
    }

    /// If an instance has no storage for attributes, returns the words that show this. The object must be an instance of this class; the
    /// same applies to the functions below.
    #[inline]
    pub(crate) fn without_attributes(&self, object: &Bound<'_, PyAny>) -> Option<Words> {
        self.check(object);
        // SAFETY: the storage is that of the object's class.
        unsafe { self.storage.without_attributes(object) }
    }

    /// Asserts that this is the object's class, as established by [`TensorClass::tensor`].
    #[inline]
    fn check(&self, object: &Bound<'_, PyAny>) {
        debug_assert!(object.get_type_ptr().cast() == self.class.as_ptr(), "the storage of another class");
    }

    /// Returns the tensor of an object, if the object is exactly of this class.
    #[inline]
    pub fn tensor<'a>(&self, object: &'a Bound<'_, PyAny>) -> Option<TensorRef<'a>> {
        if object.get_type_ptr().cast() != self.class.as_ptr() {
            return None;
        }
        // SAFETY: the object is alive for 'a and an instance of a subclass of torch.Tensor.
        unsafe { TensorRef::from_raw(object.as_ptr().byte_add(self.handle).cast()) }
    }

    /// Returns the storage of an instance's attributes.
    #[inline]
    pub fn attributes(&self, object: &Bound<'_, PyAny>) -> Attributes {
        self.check(object);
        // SAFETY: the storage is that of the object's class.
        unsafe { self.storage.attributes(object) }
    }

    /// Returns true if an instance stores no attribute with an interned name. Does not create a dict if there is none.
    ///
    /// # Errors
    /// Returns an exception raised by Python.
    #[inline]
    pub fn lacks(&self, object: &Bound<'_, PyAny>, name: &Bound<'_, PyString>) -> PyResult<bool> {
        self.check(object);
        // SAFETY: the storage is that of the object's class.
        unsafe { self.storage.lacks(object, name) }
    }
}
