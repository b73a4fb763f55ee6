//! From a trace, or a module at any stage, to something that can be called.
//!
//! - [`stages`]: runs the pipelines stage by stage, dumps each, takes the time,
//! - [`alignment`]: at what multiples the arguments of kernels lie,
//! - [`cache`]: kernels compiled before in this process,
//! - [`detect`]: at which stage a text is,
//! - [`gpu`]: kernels for a GPU,
//! - [`kernels`]: what reports say of each kernel,
//! - [`memory`]: how much of a plan's workspace lives at a time,
//! - [`placement`]: where tensors live and what kernels are made for, as a module says it,
//! - [`opt`]: `dynamlir-opt` of the wheel,
//! - [`parts`]: kernels become machine code on several threads,
//! - [`problems`]: a recorded trace as a module, and the products in it that there is more than one strategy for,
//! - [`plan`]: reads planned entries into the runtime's plans,
//! - [`report`]: what was done, for people,
//! - [`compile`]: all of it in order.
#![forbid(unsafe_code)]

pub mod alignment;
pub mod cache;
pub mod compile;
pub mod detect;
mod error;
pub mod gpu;
pub mod kernels;
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
pub use problems::{Problem, list_problems, processor};
pub use report::{EntryReport, Report};
