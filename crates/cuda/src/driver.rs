//! The driver's library, loaded once, and the names of its errors.

use std::{
    env,
    ffi::{CStr, OsString, c_char},
    ptr::null,
    sync::{Arc, Mutex, PoisonError},
};

use libloading::Library;

use crate::{
    Error,
    api::{Functions, Status},
};

/// The name of the driver's library.
const LIBRARY: &str = "libcuda.so.1";
/// The oldest driver version whose functions are those of `api`, in the driver's numbering.
const OLDEST: i32 = 12000;

/// The functions of an initialized driver.
pub struct Driver {
    pub(crate) f: Functions,
    /// Keeps the functions loaded; the last field, so that it is dropped last.
    _library: Library,
}

impl Driver {
    /// The driver of this process: `libcuda.so.1`, or the library that `DYNAMLIR_CUDA_LIBRARY` names. A failure is not cached.
    pub fn get() -> Result<Arc<Self>, Error> {
        static LOADED: Mutex<Option<(OsString, Arc<Driver>)>> = Mutex::new(None);
        let wanted = env::var_os("DYNAMLIR_CUDA_LIBRARY").unwrap_or_else(|| LIBRARY.into());
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((path, driver)) = &*loaded
            && *path == wanted
        {
            return Ok(Arc::clone(driver));
        }
        let driver = Self::load(&wanted)?;
        *loaded = Some((wanted, Arc::clone(&driver)));
        Ok(driver)
    }

    /// Loads a library and initializes the driver in it.
    pub fn load(path: impl AsRef<std::ffi::OsStr>) -> Result<Arc<Self>, Error> {
        let missing = |error: libloading::Error| Error::NoDriver(error.to_string());
        // SAFETY: loading the library runs only the driver's own initialization, as in any CUDA program.
        let library = unsafe { Library::new(path.as_ref()) }.map_err(missing)?;
        let driver = Self { f: Functions::of(&library).map_err(missing)?, _library: library };
        // SAFETY: 0 is the only value that the driver accepts.
        driver.check("cuInit", unsafe { (driver.f.init)(0) })?;
        let mut version = 0;
        // SAFETY: one number is written.
        driver.check("cuDriverGetVersion", unsafe { (driver.f.version)(&raw mut version) })?;
        if version < OLDEST {
            let (has, needs) = (shown(version), shown(OLDEST));
            return Err(Error::NoDriver(format!("it serves CUDA {has}, and {needs} or later is needed: update it")));
        }
        Ok(Arc::new(driver))
    }

    /// Returns success, or an error with the driver's text for the status.
    pub(crate) fn check(&self, call: &'static str, code: Status) -> Result<(), Error> {
        if code == 0 {
            return Ok(());
        }
        let (name, text) = self.words(code);
        Err(Error::Call { call, code, name, text })
    }

    /// The driver's name and description of a status.
    pub(crate) fn words(&self, code: Status) -> (String, String) {
        let name = text(self.f.error_name, code).unwrap_or_else(|| "an unknown error".into());
        (name, text(self.f.error_string, code).unwrap_or_default())
    }
}

fn text(ask: unsafe extern "C" fn(Status, *mut *const c_char) -> Status, code: Status) -> Option<String> {
    let mut text = null();
    // SAFETY: the pointer is set to a string that the driver owns, or left null for an unknown number.
    let known = unsafe { ask(code, &raw mut text) } == 0 && !text.is_null();
    // SAFETY: the driver has returned success, so it is a terminated string that lives on.
    known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// `12.4` for 12040.
fn shown(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_driver_is_an_error_that_says_so() {
        let error = Driver::load("libcuda-that-nobody-has.so.1").err().expect("there is none").to_string();
        assert!(error.starts_with("no CUDA driver: ") && error.contains("libcuda-that-nobody-has.so.1"), "{error}");
    }

    #[test]
    fn a_library_that_is_no_driver_is_an_error_that_names_what_it_lacks() {
        let error = Driver::load("libc.so.6").err().expect("libc is not a driver").to_string();
        assert!(error.starts_with("no CUDA driver: ") && error.contains("cuInit"), "{error}");
    }

    #[test]
    fn versions_are_shown_as_people_write_them() {
        assert_eq!((shown(12040), shown(OLDEST)), ("12.4".into(), "12.0".into()));
    }
}
