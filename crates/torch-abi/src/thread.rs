//! Thread state that running a graph changes temporarily and then restores.

use std::ffi::{CStr, c_void};
use std::marker::PhantomData;

use crate::ffi::Handle;
use crate::returned::Returned;
use crate::{Library, OwnedTensor, TensorRef, TorchAbi, TorchError};

/// Functions by their C++ names. Each is optional; operations that need an absent one return an error.
pub(crate) struct ThreadFunctions {
    grad_enabled: Option<unsafe extern "C" fn() -> bool>,
    set_grad: Option<unsafe extern "C" fn(bool)>,
    /// `const at::Generator& at::detail::getDefaultCPUGenerator()`: borrowed forever.
    generator: Option<unsafe extern "C" fn() -> *const c_void>,
    /// `at::Tensor at::Generator::get_state() const`: borrows; returns a new reference.
    get_state: Option<unsafe extern "C" fn(*const c_void) -> Returned>,
    /// `void at::Generator::set_state(const at::Tensor&)`: borrows both.
    set_state: Option<unsafe extern "C" fn(*const c_void, Handle)>,
    /// `at::Tensor at::_ops::detach::call(const at::Tensor&)`: borrows; returns a new reference.
    detach: Option<unsafe extern "C" fn(Handle) -> Returned>,
    /// `int64_t at::TensorBase::_version() const`: borrows. Throws for an inference tensor.
    version: Option<unsafe extern "C" fn(Handle) -> i64>,
    /// C++ `operator new`, for the handle of a tensor that was returned by value.
    operator_new: Option<unsafe extern "C" fn(usize) -> *mut *mut c_void>,
}

impl ThreadFunctions {
    pub(crate) fn load(cpu: Library, c10: Library) -> Self {
        fn find(library: Library, name: &CStr) -> Option<*mut c_void> {
            library.symbol(name)
        }
        // SAFETY: each name fixes the parameters; the results are what torch's headers declare.
        unsafe {
            use std::mem::transmute as cast;
            Self {
                grad_enabled: find(c10, c"_ZN3c108GradMode10is_enabledEv").map(|p| cast::<*mut c_void, unsafe extern "C" fn() -> bool>(p)),
                set_grad: find(c10, c"_ZN3c108GradMode11set_enabledEb").map(|p| cast::<*mut c_void, unsafe extern "C" fn(bool)>(p)),
                generator: find(cpu, c"_ZN2at6detail22getDefaultCPUGeneratorEv")
                    .map(|p| cast::<*mut c_void, unsafe extern "C" fn() -> *const c_void>(p)),
                get_state: find(cpu, c"_ZNK2at9Generator9get_stateEv")
                    .map(|p| cast::<*mut c_void, unsafe extern "C" fn(*const c_void) -> Returned>(p)),
                set_state: find(cpu, c"_ZN2at9Generator9set_stateERKNS_6TensorE")
                    .map(|p| cast::<*mut c_void, unsafe extern "C" fn(*const c_void, Handle)>(p)),
                detach: find(cpu, c"_ZN2at4_ops6detach4callERKNS_6TensorE")
                    .map(|p| cast::<*mut c_void, unsafe extern "C" fn(Handle) -> Returned>(p)),
                version: find(cpu, c"_ZNK2at10TensorBase8_versionEv").map(|p| cast::<*mut c_void, unsafe extern "C" fn(Handle) -> i64>(p)),
                operator_new: find(cpu, c"_Znwm").map(|p| cast::<*mut c_void, unsafe extern "C" fn(usize) -> *mut *mut c_void>(p)),
            }
        }
    }
}

impl TorchAbi {
    /// Returns true if this thread records operations for gradients.
    ///
    /// # Errors
    /// If this torch cannot report it.
    pub fn is_grad_enabled(&self) -> Result<bool, TorchError> {
        let is = self.thread.grad_enabled.ok_or_else(|| TorchError::new("this torch does not export grad mode"))?;
        // SAFETY: a plain function on this thread's state.
        Ok(unsafe { is() })
    }
}

/// While it lives, this thread does not record operations for gradients.
pub struct NoGrad {
    /// `None` if grad mode was already off.
    restore: Option<unsafe extern "C" fn(bool)>,
    /// Not Send: the state belongs to a thread.
    _thread: PhantomData<*const ()>,
}

impl NoGrad {
    /// Turns grad mode off.
    ///
    /// # Errors
    /// If this torch does not export the switch.
    pub fn enter(abi: &'static TorchAbi) -> Result<Self, TorchError> {
        let (Some(is), Some(set)) = (abi.thread.grad_enabled, abi.thread.set_grad) else {
            return Err(TorchError::new("this torch does not export grad mode"));
        };
        // SAFETY: plain functions on this thread's state.
        let on = unsafe { is() };
        if on {
            // SAFETY: as above.
            unsafe { set(false) };
        }
        Ok(Self { restore: on.then_some(set), _thread: PhantomData })
    }
}

impl Drop for NoGrad {
    fn drop(&mut self) {
        if let Some(set) = self.restore {
            // SAFETY: as in `enter`.
            unsafe { set(true) };
        }
    }
}

impl TensorRef<'_> {
    /// Returns a tensor over the same memory that is not a view and does not have a gradient; the version counter is shared.
    ///
    /// # Errors
    /// If this torch does not export it.
    pub fn detach(self) -> Result<OwnedTensor, TorchError> {
        let f = &TorchAbi::get()?.thread;
        let (Some(detach), Some(new)) = (f.detach, f.operator_new) else {
            return Err(TorchError::new("this torch does not export detach"));
        };
        // SAFETY: borrows a live handle; the result is a new reference.
        unsafe { kept(detach(self.raw()).first, new) }
    }

    /// Returns its number of in-place writes; `None` for an inference tensor, which does not count them.
    ///
    /// # Errors
    /// If this torch cannot report it.
    pub fn version(self) -> Result<Option<i64>, TorchError> {
        if self.is_inference()? {
            return Ok(None);
        }
        let version = TorchAbi::get()?.thread.version.ok_or_else(|| TorchError::new("this torch does not export versions"))?;
        // SAFETY: borrows a live handle of a tensor that counts.
        Ok(Some(unsafe { version(self.raw()) }))
    }
}

/// Stores a tensor returned by a function behind a handle.
///
/// # Errors
/// If memory for the handle runs out.
///
/// # Safety
/// `tensor` must be the pointer of an `at::Tensor`, a new reference, and `new` must be C++'s `operator new`; handles are deleted by its
/// counterpart.
unsafe fn kept(tensor: *mut c_void, new: unsafe extern "C" fn(usize) -> *mut *mut c_void) -> Result<OwnedTensor, TorchError> {
    // SAFETY: an `at::Tensor` is one pointer; moved into the new memory, the reference is the handle's.
    unsafe {
        let handle = new(size_of::<*mut c_void>());
        if let Some(place) = handle.as_mut() {
            *place = tensor;
        }
        OwnedTensor::from_raw(handle.cast()).ok_or_else(|| TorchError::new("no memory for a handle"))
    }
}

/// The state of the CPU's default random number generator.
pub struct RandomState {
    state: OwnedTensor,
    generator: *const c_void,
    set: unsafe extern "C" fn(*const c_void, Handle),
}

impl RandomState {
    /// Returns the current state.
    ///
    /// # Errors
    /// If this torch does not export it.
    pub fn save(abi: &'static TorchAbi) -> Result<Self, TorchError> {
        let f = &abi.thread;
        let (Some(generator), Some(get), Some(set), Some(new)) = (f.generator, f.get_state, f.set_state, f.operator_new) else {
            return Err(TorchError::new("this torch does not export its random number generator"));
        };
        // SAFETY: the generator is a singleton; the returned state is a new reference.
        unsafe {
            let generator = generator();
            Ok(Self { state: kept(get(generator).first, new)?, generator, set })
        }
    }

    /// Restores the state.
    pub fn restore(&self) {
        // SAFETY: the generator is a singleton, and the tensor is a state that it returned.
        unsafe { (self.set)(self.generator, self.state.as_ref().raw()) };
    }
}
