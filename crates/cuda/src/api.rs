//! The driver's C functions, with their ownership contracts.
//!
//! Handles are pointers that only the driver dereferences. Every function returns 0 for success. *Current* means the context on top of the
//! calling thread's stack of contexts.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libloading::Library;

/// `CUresult`: 0 is success.
pub type Status = c_int;
/// `CUcontext`, `CUmodule`, `CUfunction`, `CUstream`.
pub type Handle = *mut c_void;

/// `CU_JIT_ERROR_LOG_BUFFER`: the value is the buffer to which the assembler writes errors.
pub const JIT_ERROR_LOG_BUFFER: c_int = 5;
/// `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`: the value is the size of the buffer, and afterwards the number of bytes written.
pub const JIT_ERROR_LOG_BUFFER_SIZE: c_int = 6;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`: a kernel must request more than 48 KiB explicitly.
pub const MAX_DYNAMIC_SHARED_SIZE: c_int = 8;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`.
pub const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR`.
pub const COMPUTE_CAPABILITY_MINOR: c_int = 76;

/// Declares the table of functions: a library that lacks one of the symbols is not a driver.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal : fn($($arg:ty),*);)*) => {
        /// The functions of one library, valid while it is loaded.
        pub struct Functions { $($(#[$doc])* pub $name: unsafe extern "C" fn($($arg),*) -> Status,)* }

        impl Functions {
            /// Looks up all of them; the error names the first that is missing.
            pub fn of(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those of `cuda.h`, whose functions never change their types: changed ones get a `_v2`.
                Ok(Self { $($name: unsafe { *library.get($symbol)? },)* })
            }
        }
    };
}

functions! {
    /// Initializes the driver; the flags are 0. May be called again.
    init = b"cuInit\0": fn(c_uint);
    /// Writes a pointer to a name that the driver owns; fails for an unknown number.
    error_name = b"cuGetErrorName\0": fn(Status, *mut *const c_char);
    /// The same as `error_name` for a descriptive sentence.
    error_string = b"cuGetErrorString\0": fn(Status, *mut *const c_char);
    /// Writes the newest CUDA version that the driver supports: 1000 for each major, 10 for each minor number.
    version = b"cuDriverGetVersion\0": fn(*mut c_int);
    /// Writes the device with an ordinal.
    device = b"cuDeviceGet\0": fn(*mut c_int, c_int);
    /// Writes an attribute of a device.
    attribute = b"cuDeviceGetAttribute\0": fn(*mut c_int, c_int, c_int);
    /// Writes the device's primary context with a new reference, which the caller must release.
    retain = b"cuDevicePrimaryCtxRetain\0": fn(*mut Handle, c_int);
    /// Releases one reference to the device's primary context.
    release = b"cuDevicePrimaryCtxRelease_v2\0": fn(c_int);
    /// Writes the current context, borrowed, or null.
    current = b"cuCtxGetCurrent\0": fn(*mut Handle);
    /// Makes a context current; borrows it.
    push = b"cuCtxPushCurrent_v2\0": fn(Handle);
    /// Reverts the thread's latest `push`; writes the context, borrowed.
    pop = b"cuCtxPopCurrent_v2\0": fn(*mut Handle);
    /// Waits for all of the current context's work.
    synchronize = b"cuCtxSynchronize\0": fn();
    /// Assembles PTX, a terminated text that is read during the call, for the current context's device. Writes a new module. The other
    /// parameters are the number of options, the options, and their values.
    load = b"cuModuleLoadDataEx\0": fn(*mut Handle, *const c_void, c_uint, *const c_int, *mut *mut c_void);
    /// Consumes the module; its context must be current.
    unload = b"cuModuleUnload\0": fn(Handle);
    /// Writes a function that belongs to the module.
    function = b"cuModuleGetFunction\0": fn(*mut Handle, Handle, *const c_char);
    /// Sets an attribute of a function.
    set_attribute = b"cuFuncSetAttribute\0": fn(Handle, c_int, c_int);
    /// Function, grid, block, bytes of dynamic shared memory, stream, a pointer to each parameter's value, and null. The
    /// values are copied during the call.
    launch = b"cuLaunchKernel\0":
        fn(Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void);
}
