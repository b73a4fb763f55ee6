//! The plugin: `mlir-opt --load-dialect-plugin=… --load-pass-plugin=…` looks up two functions here.
//!
//! The C++ library defines them under other names, since a Rust shared library exports only symbols defined in Rust.

mod registered;

use std::ffi::{c_char, c_void};

/// `mlir::DialectPluginLibraryInfo` and `mlir::PassPluginLibraryInfo`, which differ only in the callback's parameter. Strings and callback
/// live as long as the library.
#[repr(C)]
pub struct PluginInfo {
    api_version: u32,
    name: *const c_char,
    version: *const c_char,
    register: *const c_void,
}

unsafe extern "C" {
    fn dynamoDialectPluginInfo() -> PluginInfo;
    fn dynamoPassPluginInfo() -> PluginInfo;
}

/// Called by `--load-dialect-plugin`.
#[unsafe(no_mangle)]
pub extern "C" fn mlirGetDialectPluginInfo() -> PluginInfo {
    dynamlir_dialect::ir::sizes::register();
    // SAFETY: takes nothing, returns statics; defined in dialects/dynamo/lib/Plugin.cpp with this layout.
    unsafe { dynamoDialectPluginInfo() }
}

/// Called by `--load-pass-plugin`.
#[unsafe(no_mangle)]
pub extern "C" fn mlirGetPassPluginInfo() -> PluginInfo {
    // SAFETY: as above.
    unsafe { dynamoPassPluginInfo() }
}

/// Called back by the pass plugin's entry point.
#[unsafe(no_mangle)]
pub extern "C" fn dynamlirRegisterPasses() {
    registered::register_all();
}
