//! The one place where MLIR's C API, LLVM's and inkwell meet; all of this crate's unsafe code.

use std::ffi::CString;

use dynamlir_dialect::ir::Op;
use inkwell::{context::Context, llvm_sys::prelude::LLVMModuleRef, module::Module};
use mlir_sys::mlirTranslateModuleToLLVMIR;

use crate::error::Error;

/// Writes a module of the LLVM dialect (OpenMP and NVVM operations included) as LLVM IR in `context`.
///
/// The translations must be registered in the operation's context, which a `Session` sees to.
pub fn translate(module: Op, context: &Context) -> Result<Module<'_>, Error> {
    // SAFETY: the operation is alive by the contract of `ir` handles. Both crates declare `LLVMContextRef` for the
    // same C type, and there is one LLVM in the process.
    let raw = unsafe { mlirTranslateModuleToLLVMIR(module.raw(), context.raw().cast()) };
    let raw: LLVMModuleRef = raw.cast();
    if raw.is_null() {
        return Err(Error::Translation);
    }
    // SAFETY: a fresh module, owned by nobody else, that lives in `context`.
    Ok(unsafe { Module::new(raw) })
}

/// Sets a data layout that comes as text: inkwell has it from code generators only.
pub fn set_data_layout(module: &Module<'_>, layout: &str) {
    let layout = CString::new(layout).unwrap_or_default();
    // SAFETY: the module is alive; the text is terminated, and copied.
    unsafe { inkwell::llvm_sys::core::LLVMSetDataLayout(module.as_mut_ptr(), layout.as_ptr()) }
}
