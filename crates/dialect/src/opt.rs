//! `mlir-opt`'s main, with our dialect and the passes registered so far.

use std::ffi::CString;

use melior::dialect::DialectRegistry;
use mlir_sys::MlirDialectRegistry;

use crate::{context, ffi, ir::sizes};

/// The upstream dialects and passes that are registered. A program links what it names.
#[derive(Clone, Copy)]
pub struct Upstream(fn(MlirDialectRegistry));

impl Upstream {
    /// Everything, as in upstream's `mlir-opt`.
    pub const ALL: Self = Self(|registry| {
        // SAFETY: the registry is alive.
        unsafe { ffi::dynamoRegisterAllOfUpstream(registry) };
    });
    /// Those that our pipelines use.
    pub const USED: Self = Self(|registry| {
        context::register_upstream_passes();
        // SAFETY: the registry is alive.
        unsafe { ffi::dynamoRegisterDialects(registry) };
    });
}

/// Reads the command line, does the work and returns the exit code. Call it once per process: LLVM's options are global to the process.
pub fn main(args: impl IntoIterator<Item = String>, upstream: Upstream) -> i32 {
    sizes::register();
    let registry = DialectRegistry::new();
    (upstream.0)(registry.to_raw());
    let owned: Vec<_> = args.into_iter().filter_map(|arg| CString::new(arg).ok()).collect();
    let mut pointers: Vec<_> = owned.iter().map(|arg| arg.as_ptr().cast_mut()).collect();
    let count = pointers.len() as i32;
    pointers.push(std::ptr::null_mut());
    // SAFETY: a null-terminated array of terminated strings, and a registry, all of which live through the call.
    unsafe { ffi::dynamoOptMain(count, pointers.as_mut_ptr(), registry.to_raw()) }
}
