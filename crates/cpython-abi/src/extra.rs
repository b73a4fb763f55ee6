//! Data kept with code objects.

use std::{ffi::c_void, marker::PhantomData, sync::Arc, sync::OnceLock};

use pyo3::prelude::*;

use crate::Abi;

/// A slot in every code object for a `T`, which is dropped with the code object.
pub struct CodeSlot<T> {
    index: OnceLock<Option<isize>>,
    _content: PhantomData<fn() -> T>,
}

impl<T: Send + Sync + 'static> Default for CodeSlot<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Send + Sync + 'static> CodeSlot<T> {
    /// Creates a slot; it is requested from CPython at its first use.
    pub const fn new() -> Self {
        Self { index: OnceLock::new(), _content: PhantomData }
    }

    fn index(&self, abi: &'static Abi) -> Option<isize> {
        *self.index.get_or_init(|| {
            // SAFETY: a caller with a code object holds the GIL; `free` takes ownership of what `set` stores.
            let index = unsafe { (abi.symbols.request_code_extra)(Self::free) };
            (index >= 0).then_some(index)
        })
    }

    /// Drops the content of a slot; called by CPython when the code object dies.
    unsafe extern "C" fn free(content: *mut c_void) {
        if !content.is_null() {
            // SAFETY: the content of the slot came from `Arc::into_raw` of this type.
            drop(unsafe { Arc::from_raw(content.cast::<T>().cast_const()) });
        }
    }

    /// Returns the content of the slot in a code object.
    pub fn get(&self, abi: &'static Abi, code: &Bound<'_, PyAny>) -> Option<Arc<T>> {
        let mut content = std::ptr::null_mut();
        // SAFETY: the code object is alive and keeps ownership of the content.
        let status = unsafe { (abi.symbols.get_code_extra)(code.as_ptr(), self.index(abi)?, &raw mut content) };
        if status < 0 {
            drop(PyErr::take(code.py()));
            return None;
        }
        let content = content.cast::<T>().cast_const();
        if content.is_null() {
            return None;
        }
        // SAFETY: the slot holds one count of an `Arc` of this type; we take another.
        unsafe {
            Arc::increment_strong_count(content);
            Some(Arc::from_raw(content))
        }
    }

    /// Stores a value. If CPython has no room, nothing is stored.
    pub fn set(&self, abi: &'static Abi, code: &Bound<'_, PyAny>, content: Arc<T>) {
        let Some(index) = self.index(abi) else { return };
        let content = Arc::into_raw(content);
        // SAFETY: the code object is alive, and takes the count over.
        let status = unsafe { (abi.symbols.set_code_extra)(code.as_ptr(), index, content.cast_mut().cast()) };
        if status < 0 {
            drop(PyErr::take(code.py()));
            // SAFETY: nothing was stored, so the count is still ours.
            drop(unsafe { Arc::from_raw(content) });
        }
    }
}
