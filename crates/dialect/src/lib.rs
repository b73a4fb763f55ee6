//! The dynamo dialect from Rust.
//!
//! This crate is the only one that calls the MLIR C API. It builds `dialects/dynamo` (see `build.rs`) and offers
//! - [`ir`]: one-word handles on operations, values, types and attributes, for rewriting straight-line IR,
//! - [`context`]: contexts with the dialects in use registered, parsing, printing, running pipelines,
//! - [`llvm`]: per-process settings of LLVM's code generator,
//! - [`pass`]: passes written in Rust under names that pipelines, `mlir-opt` and plugins know,
//! - [`program`]: the entries and kernels of a module,
//! - [`transform`]: running transform-dialect schedules,
//! - [`ops`]: the dialect's operations and attributes with their types, generated from its ODS files,
//! - [`upstream`]: names and builders of the upstream operations in use.

pub mod context;
pub mod ffi;
pub mod ir;
pub mod llvm;
pub mod ops;

pub mod pass;
pub mod program;
pub mod tools;
pub mod transform;
pub mod upstream;

pub use context::{Error, Session};
