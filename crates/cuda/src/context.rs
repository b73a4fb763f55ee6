//! A device's primary context: the one that torch and every other user of the CUDA runtime work in.
//!
//! torch makes it current on a thread when the thread first uses the device. A thread that only launches our kernels may not have done so;
//! therefore code that needs the context [enters](Context::enter) it.

use std::{ffi::c_int, marker::PhantomData, ptr::null_mut, sync::Arc};

use crate::{
    Driver, Error,
    api::{COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR, Handle},
};

/// A device's primary context, retained.
pub struct Context {
    pub(crate) driver: Arc<Driver>,
    ordinal: i32,
    device: c_int,
    handle: Handle,
}

// SAFETY: the driver's functions may be called from any thread, and only the driver dereferences handles.
unsafe impl Send for Context {}
// SAFETY: as above; nothing changes after creation.
unsafe impl Sync for Context {}

/// While this lives, the context is current on this thread.
pub struct Entered<'a> {
    pub(crate) context: &'a Context,
    pushed: bool,
    /// Not Send: each thread has its own stack of contexts.
    _thread: PhantomData<*const ()>,
}

impl Context {
    /// The primary context of the device that torch calls `cuda:<ordinal>`.
    pub fn of(driver: &Arc<Driver>, ordinal: i32) -> Result<Arc<Self>, Error> {
        let (mut device, mut handle) = (0, null_mut());
        // SAFETY: one number is written.
        driver.check("cuDeviceGet", unsafe { (driver.f.device)(&raw mut device, ordinal) })?;
        // SAFETY: the device exists; the reference is new and released when this is dropped.
        driver.check("cuDevicePrimaryCtxRetain", unsafe { (driver.f.retain)(&raw mut handle, device) })?;
        Ok(Arc::new(Self { driver: Arc::clone(driver), ordinal, device, handle }))
    }

    /// The device's number among those that the process sees.
    pub fn ordinal(&self) -> i32 {
        self.ordinal
    }

    /// The chip to compile code for: `sm_90`.
    pub fn chip(&self) -> Result<String, Error> {
        let attribute = |attribute| {
            let mut value = 0;
            // SAFETY: the device exists; one number is written.
            let status = unsafe { (self.driver.f.attribute)(&raw mut value, attribute, self.device) };
            self.driver.check("cuDeviceGetAttribute", status).map(|()| value)
        };
        Ok(format!("sm_{}{}", attribute(COMPUTE_CAPABILITY_MAJOR)?, attribute(COMPUTE_CAPABILITY_MINOR)?))
    }

    /// Makes it current on this thread, unless it already is.
    pub fn enter(&self) -> Result<Entered<'_>, Error> {
        let f = &self.driver.f;
        let mut current = null_mut();
        // SAFETY: one handle is written.
        self.driver.check("cuCtxGetCurrent", unsafe { (f.current)(&raw mut current) })?;
        let pushed = current != self.handle;
        if pushed {
            // SAFETY: the context is retained, and popped later.
            self.driver.check("cuCtxPushCurrent", unsafe { (f.push)(self.handle) })?;
        }
        Ok(Entered { context: self, pushed, _thread: PhantomData })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: this has retained it once; a failure (for example, the driver has shut down) cannot be reported.
        let _ = unsafe { (self.driver.f.release)(self.device) };
    }
}

impl Entered<'_> {
    /// Waits until the device has finished all work submitted in this context.
    pub fn synchronize(&self) -> Result<(), Error> {
        let driver = &self.context.driver;
        // SAFETY: the context is current.
        driver.check("cuCtxSynchronize", unsafe { (driver.f.synchronize)() })
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if self.pushed {
            let mut popped = null_mut();
            // SAFETY: this was pushed on this thread, and everything pushed after it has been popped.
            let _ = unsafe { (self.context.driver.f.pop)(&raw mut popped) };
        }
    }
}
