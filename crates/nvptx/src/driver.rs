//! The CUDA driver, found when the program runs: modules of PTX, their functions, launches.
//!
//! `libcuda.so.1` comes with the machine's driver, never with a program, and most machines have none: [`Driver::load`] is an
//! error there, with the loader's reason. Contexts are not made here. torch owns the device's primary context; who launches
//! must have it current on the calling thread, as it is after any call of torch's on the device.
//!
//! This has been run without a driver only: the signatures are those of `cuda.h`, for versions 12 and later.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_uint, c_void},
    ptr::null_mut,
    sync::Arc,
};

use libloading::Library;

use crate::{error::Error, launch::Launch, ptx::Ptx};

/// Where the driver lies.
const LIBRARY: &str = "libcuda.so.1";

/// `CUresult`: 0 is success.
type Status = c_int;
/// `CUmodule`, `CUfunction`, `CUstream`: pointers that only the driver follows.
type Handle = *mut c_void;
/// A pointer into device memory, as a number.
pub type DevicePointer = u64;

type Init = unsafe extern "C" fn(c_uint) -> Status;
type ErrorName = unsafe extern "C" fn(Status, *mut *const c_char) -> Status;
type ModuleLoad = unsafe extern "C" fn(*mut Handle, *const c_void) -> Status;
type ModuleUnload = unsafe extern "C" fn(Handle) -> Status;
type ModuleFunction = unsafe extern "C" fn(*mut Handle, Handle, *const c_char) -> Status;
type LaunchKernel = unsafe extern "C" fn(
    Handle,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    Handle,
    *mut *mut c_void,
    *mut *mut c_void,
) -> Status;

/// The driver's functions.
pub struct Driver {
    error_name: ErrorName,
    module_load: ModuleLoad,
    module_unload: ModuleUnload,
    module_function: ModuleFunction,
    launch: LaunchKernel,
    /// Keeps the functions where they are; last, so that it goes last.
    _library: Library,
}

/// PTX that the driver has assembled for the current device.
pub struct Module {
    driver: Arc<Driver>,
    handle: Handle,
    launches: Vec<Launch>,
}

/// An entry of a module, with how it is launched.
pub struct Kernel {
    /// Keeps the code loaded.
    module: Arc<Module>,
    handle: Handle,
    launch: Launch,
}

// SAFETY: the driver's functions may be called from any thread, and handles are numbers to everybody else.
unsafe impl Send for Module {}
// SAFETY: as above; nothing changes after loading.
unsafe impl Sync for Module {}
// SAFETY: as for `Module`.
unsafe impl Send for Kernel {}
// SAFETY: as for `Module`.
unsafe impl Sync for Kernel {}

impl Driver {
    /// Loads the driver and starts it; an error where there is none.
    pub fn load() -> Result<Arc<Self>, Error> {
        Self::load_from(LIBRARY)
    }

    fn load_from(path: &str) -> Result<Arc<Self>, Error> {
        let missing = |error: libloading::Error| Error::NoDriver(error.to_string());
        // SAFETY: what the library does when it is loaded is the driver's own start, which any CUDA program lets happen.
        let library = unsafe { Library::new(path) }.map_err(missing)?;
        // SAFETY: the types are those of `cuda.h`; the functions live as long as the library, which is kept with them.
        let (init, driver) = unsafe {
            let init: Init = *library.get(b"cuInit\0").map_err(missing)?;
            let driver = Self {
                error_name: *library.get(b"cuGetErrorName\0").map_err(missing)?,
                module_load: *library.get(b"cuModuleLoadData\0").map_err(missing)?,
                module_unload: *library.get(b"cuModuleUnload\0").map_err(missing)?,
                module_function: *library.get(b"cuModuleGetFunction\0").map_err(missing)?,
                launch: *library.get(b"cuLaunchKernel\0").map_err(missing)?,
                _library: library,
            };
            (init, driver)
        };
        // SAFETY: 0 is the only value that the driver takes.
        let status = unsafe { init(0) };
        driver.check("cuInit", status)?;
        Ok(Arc::new(driver))
    }

    /// Loads PTX for the device whose context is current: the driver assembles it.
    pub fn module(self: &Arc<Self>, ptx: &Ptx) -> Result<Arc<Module>, Error> {
        let text = CString::new(ptx.text.as_str()).map_err(|_| Error::NoDriver("PTX with a zero byte".into()))?;
        let mut handle = null_mut();
        // SAFETY: the handle is written; the text is terminated and read during the call only.
        let status = unsafe { (self.module_load)(&raw mut handle, text.as_ptr().cast()) };
        self.check("cuModuleLoadData", status)?;
        Ok(Arc::new(Module { driver: Arc::clone(self), handle, launches: ptx.launches.clone() }))
    }

    fn check(&self, call: &'static str, code: Status) -> Result<(), Error> {
        if code == 0 {
            return Ok(());
        }
        let mut name = std::ptr::null();
        // SAFETY: the pointer is written, to a string of the driver's own, or left null for a number it does not know.
        let known = unsafe { (self.error_name)(code, &raw mut name) } == 0 && !name.is_null();
        // SAFETY: as the driver has said, a terminated string that stays.
        let name = if known { unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned() } else { "unknown error".into() };
        Err(Error::Driver { call, code, name })
    }
}

impl Module {
    /// An entry by its name.
    pub fn kernel(self: &Arc<Self>, name: &str) -> Result<Kernel, Error> {
        let refuse = |why: &str| Error::Launch { kernel: name.to_owned(), why: why.to_owned() };
        let launch = self.launches.iter().find(|launch| launch.name == name).ok_or_else(|| refuse("it is not in the module"))?;
        let symbol = CString::new(name).map_err(|_| refuse("its name has a zero byte"))?;
        let mut handle = null_mut();
        // SAFETY: the module is loaded, the handle is written, the name is terminated.
        let status = unsafe { (self.driver.module_function)(&raw mut handle, self.handle, symbol.as_ptr()) };
        self.driver.check("cuModuleGetFunction", status)?;
        Ok(Kernel { module: Arc::clone(self), handle, launch: launch.clone() })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: the module is loaded and no kernel of it is left; a failure (the context is gone, say) has nobody to tell.
        let _ = unsafe { (self.driver.module_unload)(self.handle) };
    }
}

impl Kernel {
    /// How it is launched.
    pub fn description(&self) -> &Launch {
        &self.launch
    }

    /// Puts a launch on a stream (null: the default one) and returns; the device has not run it by then.
    ///
    /// # Safety
    /// The addresses are device memory of the context that was current when the module was loaded, and is now; each has
    /// the extent of the kernel's argument, and stays allocated until the stream has passed the launch. The stream is
    /// that context's.
    pub unsafe fn launch(&self, stream: *mut c_void, arguments: &[DevicePointer]) -> Result<(), Error> {
        self.launch.accepts(arguments)?;
        let mut values = arguments.to_vec();
        let mut pointers: Vec<*mut c_void> = values.iter_mut().map(|value| std::ptr::from_mut(value).cast()).collect();
        let [grid, block] = [self.launch.grid, self.launch.block].map(|sizes| sizes.map(|size| size as c_uint));
        // SAFETY: the function is loaded; there is a pointer to a value per parameter, copied during the call; what the
        // addresses and the stream are is the caller's promise.
        let status = unsafe {
            (self.module.driver.launch)(
                self.handle,
                grid[0],
                grid[1],
                grid[2],
                block[0],
                block[1],
                block[2],
                self.launch.shared_bytes as c_uint,
                stream,
                pointers.as_mut_ptr(),
                null_mut(),
            )
        };
        self.module.driver.check("cuLaunchKernel", status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_driver_is_an_error_that_says_so() {
        let error = Driver::load_from("libcuda-that-nobody-has.so.1").err().expect("there is none").to_string();
        assert!(error.starts_with("no CUDA driver: ") && error.contains("libcuda-that-nobody-has.so.1"), "{error}");
    }

    #[test]
    fn a_library_that_is_no_driver_is_an_error_that_names_what_it_lacks() {
        let error = Driver::load_from("libc.so.6").err().expect("libc is no driver").to_string();
        assert!(error.starts_with("no CUDA driver: ") && error.contains("cuInit"), "{error}");
    }
}
