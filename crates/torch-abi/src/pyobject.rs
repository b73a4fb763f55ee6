//! Conversion between Python tensor objects and handles. Everything here needs the GIL, and takes plain pointers: this crate does not
//! depend on Python.

use std::ffi::c_void;

use crate::{OwnedTensor, PySample, TensorRef, TorchAbi, TorchError};

/// The number of words of a Python object that are searched for the tensor.
const SEARCHED_WORDS: usize = 8;

/// Returns the byte offset of the `at::Tensor` inside a Python tensor object: it is one pointer, whose value is `_cdata`.
pub(crate) fn find_handle(sample: PySample) -> Result<usize, TorchError> {
    let words = sample.object.cast::<usize>();
    // Word 0 is the reference count and word 1 the type: never the tensor.
    for i in 2..SEARCHED_WORDS {
        // SAFETY: the caller passes a live tensor object, which is longer than eight words in every supported torch.
        if unsafe { words.add(i).read() } == sample.cdata {
            return Ok(i * size_of::<usize>());
        }
    }
    Err(TorchError::new("the tensor handle was not found in a Python tensor object"))
}

impl TorchAbi {
    /// Returns the handle inside a Python tensor: borrowed, alive as long as the object.
    ///
    /// # Safety
    /// `object` must be a live `torch.Tensor` or an instance of a subclass, and outlive `'a`.
    ///
    /// # Errors
    /// If initialised without a sample.
    pub unsafe fn tensor_of<'a>(&self, object: *const c_void) -> Result<TensorRef<'a>, TorchError> {
        let offset = self.handle_offset()?;
        // SAFETY: the offset was found on an object of the same type; the address is inside the live object.
        unsafe { TensorRef::from_raw(object.cast::<u8>().add(offset).cast_mut().cast()) }
            .ok_or_else(|| TorchError::new("null tensor object"))
    }

    /// Returns the byte offset of the handle in a Python tensor.
    ///
    /// # Errors
    /// If initialised without a sample.
    pub fn handle_offset(&self) -> Result<usize, TorchError> {
        self.handle_offset.ok_or_else(|| TorchError::new("no Python tensor was given when libtorch's C ABI was initialised"))
    }

    /// Returns a new Python reference to the tensor's object, which is created if it does not exist yet.
    ///
    /// # Errors
    /// If torch cannot create one; a Python exception may then be set.
    pub fn to_pyobject(&self, tensor: TensorRef<'_>) -> Result<*mut c_void, TorchError> {
        if let Some(wrap) = self.wrap {
            // SAFETY: a handle is the address of an at::Tensor, which is a TensorBase; THPVariable_Wrap borrows it.
            let object = unsafe { wrap(tensor.raw()) };
            return if object.is_null() { Err(TorchError::new("torch could not wrap a tensor")) } else { Ok(object) };
        }
        let to_pyobject = self.f.to_pyobject.ok_or_else(|| TorchError::new("libtorch_python is not loaded"))?;
        let mut object = std::ptr::null_mut();
        // SAFETY: borrows the handle; a null type means torch.Tensor; the reference in `object` is new.
        self.check(unsafe { to_pyobject(tensor.raw(), std::ptr::null_mut(), &raw mut object) })?;
        Ok(object)
    }

    /// Like [`TorchAbi::to_pyobject`], for a tensor that no other code needs.
    ///
    /// # Errors
    /// If torch cannot create an object.
    pub fn into_pyobject(&self, tensor: OwnedTensor) -> Result<*mut c_void, TorchError> {
        let Some(wrap) = self.wrap_moved else { return self.to_pyobject(tensor.as_ref()) };
        // SAFETY: a handle is the address of an at::Tensor, which is a TensorBase.
        let object = unsafe { wrap(tensor.as_ref().raw()) };
        // Moving the reference out of it leaves an undefined tensor behind.
        drop(tensor);
        if object.is_null() { Err(TorchError::new("torch could not wrap a tensor")) } else { Ok(object) }
    }
}
