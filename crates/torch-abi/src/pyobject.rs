//! Between Python tensor objects and handles. Everything here needs the GIL, and takes plain pointers: this crate knows no Python.

use std::ffi::c_void;

use crate::{OwnedTensor, PySample, TensorRef, TorchAbi, TorchError};

/// Words of a Python object that are searched for the tensor.
const SEARCHED_WORDS: usize = 8;

/// The byte offset of the `at::Tensor` inside a Python tensor object: it is one pointer, and `_cdata` is its value.
pub(crate) fn find_handle(sample: PySample) -> Result<usize, TorchError> {
    let words = sample.object.cast::<usize>();
    // Word 0 is the reference count and word 1 the type: never the tensor.
    for i in 2..SEARCHED_WORDS {
        // SAFETY: the caller lends a live tensor object, which is longer than eight words in every supported torch.
        if unsafe { words.add(i).read() } == sample.cdata {
            return Ok(i * size_of::<usize>());
        }
    }
    Err(TorchError::new("the tensor handle was not found in a Python tensor object"))
}

impl TorchAbi {
    /// The handle inside a Python tensor: borrowed, alive as long as the object is.
    ///
    /// # Safety
    /// `object` is a live `torch.Tensor` or an instance of a subclass, and outlives `'a`.
    ///
    /// # Errors
    /// When initialised without a sample.
    pub unsafe fn tensor_of<'a>(&self, object: *const c_void) -> Result<TensorRef<'a>, TorchError> {
        let offset = self.handle_offset()?;
        // SAFETY: the offset was found on an object of the same type; the address is inside the live object.
        unsafe { TensorRef::from_raw(object.cast::<u8>().add(offset).cast_mut().cast()) }
            .ok_or_else(|| TorchError::new("null tensor object"))
    }

    /// Where in a Python tensor its handle lies, in bytes.
    ///
    /// # Errors
    /// When initialised without a sample.
    pub fn handle_offset(&self) -> Result<usize, TorchError> {
        self.handle_offset.ok_or_else(|| TorchError::new("no Python tensor was given when libtorch's C ABI was initialised"))
    }

    /// A new Python reference to the tensor's object, made if it has none yet.
    ///
    /// # Errors
    /// When torch cannot make one; a Python exception may then be set.
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

    /// As [`TorchAbi::to_pyobject`], for a tensor that nobody else needs.
    ///
    /// # Errors
    /// When torch cannot make an object.
    pub fn into_pyobject(&self, tensor: OwnedTensor) -> Result<*mut c_void, TorchError> {
        let Some(wrap) = self.wrap_moved else { return self.to_pyobject(tensor.as_ref()) };
        // SAFETY: a handle is the address of an at::Tensor, which is a TensorBase.
        let object = unsafe { wrap(tensor.as_ref().raw()) };
        // What is moved out of it leaves an undefined tensor behind.
        drop(tensor);
        if object.is_null() { Err(TorchError::new("torch could not wrap a tensor")) } else { Ok(object) }
    }
}
