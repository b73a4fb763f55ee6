//! Compiles a trace, or a module at any stage, to a callable.
//!
//! - [`stages`]: runs the pipelines stage by stage, dumps each, measures the time,
//! - [`alignment`]: the alignment of kernel arguments,
//! - [`cache`]: kernels compiled earlier in this process,
//! - [`detect`]: detects the stage of a text,
//! - [`gpu`]: kernels for a GPU,
//! - [`kernels`]: reports on each kernel,
//! - [`memory`]: the peak of live bytes in a plan's workspace,
//! - [`placement`]: the device of a module's tensors and the target of its kernels,
//! - [`opt`]: `dynamlir-opt` of the wheel,
//! - [`parts`]: compiles kernels to machine code on several threads,
//! - [`problems`]: a recorded trace as a module, and its matrix products for which there is more than one strategy,
//! - [`plan`]: reads planned entries into the runtime's plans,
//! - [`report`]: human-readable reports,
//! - [`compile`]: all of it in order.
#![forbid(unsafe_code)]

pub mod alignment;
pub mod cache;
pub mod compile;
pub mod detect;
mod error;
pub mod gpu;
pub mod kernels;
mod load;
pub mod memory;
pub mod opt;
pub mod parts;
pub mod placement;
pub mod plan;
pub mod problems;
pub mod report;
pub mod stages;

pub use compile::{Compiled, Entry, Options, compile_text, compile_trace, parses};
pub use error::Error;
pub use load::{CallReports, Loaded, load};
pub use problems::{Problem, list_problems, processor};
pub use report::{EntryReport, GraphReport, Report};
