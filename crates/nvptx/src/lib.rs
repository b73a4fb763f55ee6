//! The GPU half of code generation: compiles the kernels of stage 05 to PTX, which `dynamlir-cuda` loads.
//!
//! - `kernel`: the computation of a kernel, [`schedule`]: the assignment of work to threads, [`emit`]: the code of one thread,
//! - [`matmul`]: matrix products on tensor cores,
//! - [`math`], [`libdevice`]: math functions,
//! - [`ptx`]: LLVM's code generator, [`launch`]: the launch parameters of an entry,
//! - [`pipelines`]: all of it by name.
#![forbid(unsafe_code)]

mod kernel;

pub mod emit;
pub mod error;
pub mod launch;
pub mod libdevice;
pub mod math;
pub mod matmul;
pub mod pipelines;
pub mod ptx;
pub mod schedule;

pub use error::Error;
pub use launch::{Argument, Launch};

use dynamlir_dialect::pass::Pass;

/// Every pass of this crate.
pub const PASSES: &[&Pass] = &[&schedule::PASS, &emit::PASS, &math::PASS, &ptx::PASS];
