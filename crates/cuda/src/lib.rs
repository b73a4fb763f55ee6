//! The CUDA driver, loaded at run time.
//!
//! `libcuda.so.1` is part of a machine's driver, never of a program, and most machines do not have it: there, [`Driver::get`] returns an
//! error with the loader's reason. `DYNAMLIR_CUDA_LIBRARY` names another library with the same functions; the tests use one that runs PTX
//! on the CPU.
//!
//! - [`api`]: the driver's C functions and nothing else: the signatures are those of `cuda.h` 12 and later,
//! - [`driver`]: the library, and the meaning of its errors,
//! - [`context`]: a device's primary context, which is the one that torch works in,
//! - [`module`]: assembled PTX and the entries in it,
//! - [`launch`]: the information about an entry besides its code.
//!
//! # Ownership
//!
//! A kernel keeps its module loaded, a module keeps its context retained, and a context keeps its library mapped. Dropping the last kernel
//! of a module unloads it without waiting for launches: the caller must keep the kernel, and the memory that a launch works on, until the
//! stream has passed the launch.

pub mod api;
pub mod context;
pub mod driver;
pub mod error;
pub mod launch;
pub mod module;

pub use context::{Context, Entered};
pub use driver::Driver;
pub use error::Error;
pub use launch::{Argument, Launch};
pub use module::{Kernel, Module, Stream, WeakKernel};
