//! PTX that the driver has assembled, and its entries.

use std::{
    ffi::{CStr, CString, c_uint, c_void},
    ptr::null_mut,
    sync::{Arc, Weak},
};

use smallvec::SmallVec;

use crate::{
    Context, Entered, Error, Launch,
    api::{Handle, JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE, MAX_DYNAMIC_SHARED_SIZE},
};

/// The shared memory that a launch may use without setting an attribute first.
const USUAL_SHARED: u32 = 48 << 10;
/// The size of the buffer for the assembler's log.
const LOG_BYTES: usize = 8192;

/// Code loaded into a device's context, unloaded when its last kernel is dropped.
pub struct Module {
    context: Arc<Context>,
    handle: Handle,
}

// SAFETY: the driver's functions may be called from any thread, and only the driver dereferences handles.
unsafe impl Send for Module {}
// SAFETY: as above; nothing changes after loading.
unsafe impl Sync for Module {}

/// An entry of a module, ready to be launched.
#[derive(Clone)]
pub struct Kernel {
    /// Keeps the code loaded.
    module: Arc<Module>,
    function: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    launch: Arc<Launch>,
}

// SAFETY: as for `Module`.
unsafe impl Send for Kernel {}
// SAFETY: as for `Module`.
unsafe impl Sync for Kernel {}

/// A kernel that does not keep its code loaded.
pub struct WeakKernel {
    module: Weak<Module>,
    /// The other fields of the kernel, except its module.
    parts: (Handle, [u32; 3], [u32; 3], u32, Arc<Launch>),
}

// SAFETY: as for `Module`.
unsafe impl Send for WeakKernel {}
// SAFETY: as for `Module`.
unsafe impl Sync for WeakKernel {}

impl WeakKernel {
    /// The kernel, while its code is loaded.
    #[must_use]
    pub fn upgrade(&self) -> Option<Kernel> {
        let (function, grid, block, shared, launch) = self.parts.clone();
        Some(Kernel { module: self.module.upgrade()?, function, grid, block, shared, launch })
    }
}

impl Kernel {
    /// The same without keeping its code loaded.
    #[must_use]
    pub fn downgrade(&self) -> WeakKernel {
        let parts = (self.function, self.grid, self.block, self.shared, self.launch.clone());
        WeakKernel { module: Arc::downgrade(&self.module), parts }
    }
}

/// A `CUstream`, which is also a `cudaStream_t`; null is the default stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(pub *mut c_void);

impl Module {
    /// Has the driver assemble PTX for the context's device, and finds the entries of `launches`, in order.
    pub fn load(context: &Arc<Context>, ptx: &str, launches: &[Launch]) -> Result<Vec<Kernel>, Error> {
        let kernels = || launches.iter().map(|launch| launch.name.as_str()).collect::<Vec<_>>().join(", ");
        let refuse = |why: &str| Error::Launch { kernel: kernels(), why: why.to_owned() };
        let text = CString::new(ptx).map_err(|_| refuse("its code has a zero byte"))?;
        let entered = context.enter()?;
        let mut log = vec![0_u8; LOG_BYTES];
        let options = [JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE];
        // A number is passed as the pointer itself. One byte is reserved for the terminator.
        let mut values = [log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut(LOG_BYTES - 1)];
        let mut handle = null_mut();
        let driver = &context.driver;
        // SAFETY: the context is current; the text is terminated, the log has the stated size, and there is a value per option. The handle
        // is new.
        let status = unsafe {
            (driver.f.load)(&raw mut handle, text.as_ptr().cast(), options.len() as c_uint, options.as_ptr(), values.as_mut_ptr())
        };
        if status != 0 {
            let (name, said) = driver.words(status);
            let log = CStr::from_bytes_until_nul(&log).map(|log| log.to_string_lossy().into_owned()).unwrap_or_default();
            let log = if log.trim().is_empty() { said } else { log };
            return Err(Error::Code { call: "cuModuleLoadDataEx", kernels: kernels(), code: status, name, log });
        }
        let module = Arc::new(Self { context: Arc::clone(context), handle });
        launches.iter().map(|launch| module.kernel(launch, &entered)).collect()
    }

    fn kernel(self: &Arc<Self>, launch: &Launch, entered: &Entered<'_>) -> Result<Kernel, Error> {
        let driver = &entered.context.driver;
        let refuse = |why: String| Error::Launch { kernel: launch.name.clone(), why };
        let (grid, block, shared) = launch.sizes()?;
        let symbol = CString::new(launch.name.as_str()).map_err(|_| refuse("its name has a zero byte".into()))?;
        let mut function = null_mut();
        // SAFETY: the module is loaded, the handle is written, the name is terminated.
        let status = unsafe { (driver.f.function)(&raw mut function, self.handle, symbol.as_ptr()) };
        driver.check("cuModuleGetFunction", status).map_err(|error| refuse(error.to_string()))?;
        if shared > USUAL_SHARED {
            // SAFETY: the function belongs to the module.
            let status = unsafe { (driver.f.set_attribute)(function, MAX_DYNAMIC_SHARED_SIZE, shared as i32) };
            let error = driver.check("cuFuncSetAttribute", status);
            error.map_err(|error| refuse(format!("it wants {shared} bytes of shared memory: {error}")))?;
        }
        Ok(Kernel { module: Arc::clone(self), function, grid, block, shared, launch: Arc::new(launch.clone()) })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // A failure (for example, the driver has shut down) cannot be reported; the driver then unloads it itself.
        if let Ok(entered) = self.context.enter() {
            // SAFETY: the module is loaded, its context is current, and all of its kernels have been dropped.
            let _ = unsafe { (entered.context.driver.f.unload)(self.handle) };
        }
    }
}

impl Kernel {
    /// Its launch parameters.
    pub fn description(&self) -> &Launch {
        &self.launch
    }

    /// The context that it was loaded into.
    pub fn context(&self) -> &Arc<Context> {
        &self.module.context
    }

    /// Enqueues a launch on a stream and returns without waiting for the device. Returns an error for addresses that are not aligned as the
    /// code requires.
    ///
    /// # Safety
    /// `row` contains as many addresses as the kernel has arguments. Each is device memory of the entered context, which is the kernel's;
    /// it has the extent of the argument, and stays allocated until the stream has passed the launch. The stream belongs to that context.
    pub unsafe fn launch(&self, entered: &Entered<'_>, stream: Stream, row: *const *mut c_void) -> Result<(), Error> {
        let driver = &entered.context.driver;
        let count = self.launch.arguments.len();
        // SAFETY: as the caller promises.
        let addresses = unsafe { std::slice::from_raw_parts(row.cast::<u64>(), count) };
        self.launch.accepts(addresses)?;
        let mut parameters: SmallVec<[*mut c_void; 16]> =
            addresses.iter().map(|address| std::ptr::from_ref(address).cast_mut().cast()).collect();
        let ([x, y, z], [a, b, c]) = (self.grid, self.block);
        // SAFETY: the function is loaded; there is a pointer to a value per parameter, which is copied during the call; the caller
        // guarantees the addresses and the stream.
        let status =
            unsafe { (driver.f.launch)(self.function, x, y, z, a, b, c, self.shared, stream.0, parameters.as_mut_ptr(), null_mut()) };
        let failed = |error: Error| Error::Launch { kernel: self.launch.name.clone(), why: error.to_string() };
        driver.check("cuLaunchKernel", status).map_err(failed)
    }
}
