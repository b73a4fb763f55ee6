//! The CUDA driver, found when the program runs.
//!
//! `libcuda.so.1` comes with a machine's driver, never with a program, and most machines have none: [`Driver::get`] is an
//! error there, with the loader's reason. `DYNAMLIR_CUDA_LIBRARY` names another library with the same functions; the tests
//! have one that runs PTX on the CPU.
//!
//! - [`api`]: the driver's functions as C has them, and nothing else: the signatures are those of `cuda.h` 12 and later,
//! - [`driver`]: the library, what its errors mean,
//! - [`context`]: a device's primary context, which is the one that torch works in,
//! - [`module`]: assembled PTX and the entries in it,
//! - [`launch`]: what must be known of an entry besides its code.
//!
//! # Ownership
//!
//! A kernel keeps its module loaded, a module its context retained, a context its library mapped. Whoever drops the last
//! kernel of a module unloads it, which waits for no launch: the memory that a launch works on, and the kernel, are kept by
//! the caller until the stream has passed it.

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
