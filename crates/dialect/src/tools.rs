//! The mains of MLIR's tools, with our dialect and the passes registered so far.
//!
//! Call one of them, once per process: LLVM's options are global to the process. Each reads the command line, whose first entry is the
//! tool's name, and returns the exit code. They are inlined so that a program links only the one that it calls.

use std::{
    ffi::{CString, c_char, c_int},
    ptr,
};

use melior::{StringRef, dialect::DialectRegistry};
use mlir_sys::MlirDialectRegistry;

use crate::{context, ffi, ir::sizes};

/// The upstream dialects and passes that are registered. A program links what it names.
#[derive(Clone, Copy)]
pub struct Upstream(fn(MlirDialectRegistry));

impl Upstream {
    /// Everything, as in upstream's tools.
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

/// `mlir-opt`: reads a module, runs passes, writes it.
#[inline]
pub fn opt(args: impl IntoIterator<Item = String>, upstream: Upstream) -> i32 {
    run(ffi::dynamoOptMain, args, upstream)
}

/// `mlir-lsp-server`: answers an editor's questions on standard input and output.
#[inline]
pub fn lsp_server(args: impl IntoIterator<Item = String>) -> i32 {
    run(ffi::dynamoLspServerMain, args, Upstream::ALL)
}

type Main = unsafe extern "C" fn(c_int, *mut *mut c_char, MlirDialectRegistry) -> c_int;

fn run(main: Main, args: impl IntoIterator<Item = String>, upstream: Upstream) -> i32 {
    sizes::register();
    let registry = DialectRegistry::new();
    (upstream.0)(registry.to_raw());
    let owned: Vec<_> = args.into_iter().filter_map(|arg| CString::new(arg).ok()).collect();
    let tool = owned.first().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    let tool = tool.rsplit('/').next().unwrap_or_default();
    // SAFETY: both strings live through the call, which copies them.
    unsafe { ffi::dynamoSetVersion(StringRef::new(tool).to_raw(), StringRef::new(env!("CARGO_PKG_VERSION")).to_raw()) };
    let mut pointers: Vec<_> = owned.iter().map(|arg| arg.as_ptr().cast_mut()).collect();
    let count = pointers.len() as i32;
    pointers.push(ptr::null_mut());
    // SAFETY: a null-terminated array of terminated strings, and a registry, all of which live through the call.
    unsafe { main(count, pointers.as_mut_ptr(), registry.to_raw()) }
}
