//! The driver's library, loaded once, and what its errors are called.

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

/// Where the driver lies.
const LIBRARY: &str = "libcuda.so.1";
/// The oldest driver whose functions are those of `api`, as the driver numbers versions.
const OLDEST: i32 = 12000;

/// The driver's functions, started.
pub struct Driver {
    pub(crate) f: Functions,
    /// Keeps the functions where they are; last, so that it goes last.
    _library: Library,
}

impl Driver {
    /// The driver of this process: `libcuda.so.1`, or what `DYNAMLIR_CUDA_LIBRARY` names. A failure is not remembered.
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

    /// Loads a library and starts the driver in it.
    pub fn load(path: impl AsRef<std::ffi::OsStr>) -> Result<Arc<Self>, Error> {
        let missing = |error: libloading::Error| Error::NoDriver(error.to_string());
        // SAFETY: what the library does when it is loaded is the driver's own start, which any CUDA program lets happen.
        let library = unsafe { Library::new(path.as_ref()) }.map_err(missing)?;
        let driver = Self { f: Functions::of(&library).map_err(missing)?, _library: library };
        // SAFETY: 0 is the only value that the driver takes.
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

    /// Success, or an error with the driver's words for the status.
    pub(crate) fn check(&self, call: &'static str, code: Status) -> Result<(), Error> {
        if code == 0 {
            return Ok(());
        }
        let (name, text) = self.words(code);
        Err(Error::Call { call, code, name, text })
    }

    /// The driver's name of a status, and its sentence on it.
    pub(crate) fn words(&self, code: Status) -> (String, String) {
        let name = text(self.f.error_name, code).unwrap_or_else(|| "an unknown error".into());
        (name, text(self.f.error_string, code).unwrap_or_default())
    }
}

fn text(ask: unsafe extern "C" fn(Status, *mut *const c_char) -> Status, code: Status) -> Option<String> {
    let mut text = null();
    // SAFETY: the pointer is written, to a string of the driver's own, or left null for a number it does not know.
    let known = unsafe { ask(code, &raw mut text) } == 0 && !text.is_null();
    // SAFETY: as the driver has said, a terminated string that stays.
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
