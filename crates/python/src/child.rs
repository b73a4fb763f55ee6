//! Entry points for the child process of `dynamlir.load`, which loads this library like any other, without Python's module.

use std::{
    ffi::{CStr, OsStr, c_char, c_int},
    fs,
    os::unix::ffi::OsStrExt,
    panic::catch_unwind,
};

/// Parses the text of a file: 0 if it is a module, 1 if it is not, 2 if it cannot be read. Upstream's parser may end the process.
///
/// # Safety
/// `path` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dynamlir_parses(path: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let path = unsafe { CStr::from_ptr(path) };
    let parsed = catch_unwind(|| {
        let text = fs::read_to_string(OsStr::from_bytes(path.to_bytes())).ok()?;
        Some(dynamlir_driver::parses(&text))
    });
    match parsed {
        Ok(Some(true)) => 0,
        Ok(Some(false)) => 1,
        Ok(None) | Err(_) => 2,
    }
}
