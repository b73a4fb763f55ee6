//! Shared objects that the process has already loaded.

use std::ffi::{CStr, CString, c_void};
use std::path::Path;

use crate::TorchError;

/// A loaded shared object. Never closed: torch stays loaded for the life of the process.
#[derive(Debug, Clone, Copy)]
pub struct Library {
    handle: *mut c_void,
}

// SAFETY: the handle is an opaque token; dlsym on it may be called from every thread.
unsafe impl Send for Library {}
// SAFETY: as for Send.
unsafe impl Sync for Library {}

impl Library {
    /// Finds `name` among the loaded objects, first as a file in `dir`, then by its soname. Loads nothing.
    ///
    /// # Errors
    /// If no such object is loaded.
    pub fn loaded(dir: Option<&Path>, name: &str) -> Result<Self, TorchError> {
        let in_dir = dir.and_then(|d| d.join(name).to_str().map(str::to_owned));
        for candidate in in_dir.iter().map(String::as_str).chain([name]) {
            let Ok(path) = CString::new(candidate) else {
                continue;
            };
            // SAFETY: path is a valid C string; NOLOAD runs no initialiser, it only looks the object up.
            let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
            if !handle.is_null() {
                return Ok(Self { handle });
            }
        }
        Err(TorchError::new(format!("{name} is not loaded in this process")))
    }

    /// Returns the address of `symbol`, or `None`. The address stays valid for the life of the process.
    #[must_use]
    pub fn symbol(&self, symbol: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle came from dlopen and is never closed.
        let address = unsafe { libc::dlsym(self.handle, symbol.as_ptr()) };
        (!address.is_null()).then_some(address)
    }
}
