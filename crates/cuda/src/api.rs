//! The driver's C functions, with their ownership contracts.
//!
//! Handles are pointers that only the driver follows. Every function returns 0 for success. *Current* is the context on top
//! of the calling thread's stack of contexts.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libloading::Library;

/// `CUresult`: 0 is success.
pub type Status = c_int;
/// `CUcontext`, `CUmodule`, `CUfunction`, `CUstream`.
pub type Handle = *mut c_void;

/// `CU_JIT_ERROR_LOG_BUFFER`: the value is where the assembler may write what is wrong.
pub const JIT_ERROR_LOG_BUFFER: c_int = 5;
/// `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`: the value is how much of it there is, and then how much was written.
pub const JIT_ERROR_LOG_BUFFER_SIZE: c_int = 6;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`: past 48 KiB a kernel must say that it wants more.
pub const MAX_DYNAMIC_SHARED_SIZE: c_int = 8;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`.
pub const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR`.
pub const COMPUTE_CAPABILITY_MINOR: c_int = 76;

/// Declares the table: a library that lacks one of the symbols is not a driver.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal : fn($($arg:ty),*);)*) => {
        /// The functions of one library, valid while it is loaded.
        pub struct Functions { $($(#[$doc])* pub $name: unsafe extern "C" fn($($arg),*) -> Status,)* }

        impl Functions {
            /// Looks all of them up; the error names the first that is missing.
            pub fn of(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those of `cuda.h`, whose functions keep theirs: what changes gets a `_v2`.
                Ok(Self { $($name: unsafe { *library.get($symbol)? },)* })
            }
        }
    };
}

functions! {
    /// Starts the driver; the flags are 0. May be called again.
    init = b"cuInit\0": fn(c_uint);
    /// Writes a name that the driver keeps, or fails for a number that it does not know.
    error_name = b"cuGetErrorName\0": fn(Status, *mut *const c_char);
    /// As `error_name`, a sentence.
    error_string = b"cuGetErrorString\0": fn(Status, *mut *const c_char);
    /// Writes the newest CUDA version that the driver serves: 1000 for each major, 10 for each minor number.
    version = b"cuDriverGetVersion\0": fn(*mut c_int);
    /// Writes the device of an ordinal.
    device = b"cuDeviceGet\0": fn(*mut c_int, c_int);
    /// Writes an attribute of a device.
    attribute = b"cuDeviceGetAttribute\0": fn(*mut c_int, c_int, c_int);
    /// Writes the device's primary context, which is new to the caller: it must be released.
    retain = b"cuDevicePrimaryCtxRetain\0": fn(*mut Handle, c_int);
    /// Gives one reference of the device's primary context back.
    release = b"cuDevicePrimaryCtxRelease_v2\0": fn(c_int);
    /// Writes the current context, borrowed, or null.
    current = b"cuCtxGetCurrent\0": fn(*mut Handle);
    /// Makes a context current; borrows it.
    push = b"cuCtxPushCurrent_v2\0": fn(Handle);
    /// Undoes the thread's latest `push`; writes the context, borrowed.
    pop = b"cuCtxPopCurrent_v2\0": fn(*mut Handle);
    /// Waits for all of the current context's work.
    synchronize = b"cuCtxSynchronize\0": fn();
    /// Assembles PTX, a terminated text that is read during the call, for the current context's device. Writes a module,
    /// which is new. Then come the number of options, the options, their values.
    load = b"cuModuleLoadDataEx\0": fn(*mut Handle, *const c_void, c_uint, *const c_int, *mut *mut c_void);
    /// Steals the module; its context must be current.
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
