//! Lowers scheduled kernels: the named pipelines between dialects, and LLVM IR to object code through inkwell.
//!
//! - [`pipelines`]: the stages in order, each with the passes that lead to it,
//! - [`llvm`]: compiles a module of the LLVM dialect to an object file,
//! - [`packed`]: one calling convention for all kernels,
//! - [`math`]: the math functions that have vector variants,
//! - [`target`]: machines to compile for,
//! - [`vector_functions`]: vector variants of our own,
//! - [`attach_target`], [`print_llvm_ir`]: passes for use by hand,
//! - [`bridge`]: from MLIR's modules to LLVM's, for any target.

pub mod attach_target;
pub mod bridge;
pub mod error;
pub mod llvm;
pub mod math;
pub mod packed;
pub mod pipelines;
pub mod print_llvm_ir;
pub mod target;
pub mod vector_functions;

mod vectorize_math;

pub use error::Error;
pub use llvm::{KernelObject, Options, compile_kernels};
