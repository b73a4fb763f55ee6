//! The only place where MLIR's C API, LLVM's and inkwell meet; contains all of this crate's unsafe code.

use std::{
    cell::RefCell,
    ffi::{CStr, CString, c_void},
    ptr,
};

use dynamlir_dialect::ir::Op;
use inkwell::{
    context::Context,
    llvm_sys::{
        LLVMDiagnosticSeverity,
        core::{LLVMContextSetDiagnosticHandler, LLVMDisposeMessage, LLVMGetDiagInfoDescription, LLVMGetDiagInfoSeverity},
        prelude::{LLVMDiagnosticInfoRef, LLVMModuleRef},
    },
    module::Module,
};
use mlir_sys::mlirTranslateModuleToLLVMIR;

use crate::error::Error;

/// Translates a module of the LLVM dialect (OpenMP and NVVM operations included) to LLVM IR in `context`.
///
/// The translations must be registered in the operation's context, which `Session` does.
pub fn translate(module: Op, context: &Context) -> Result<Module<'_>, Error> {
    // SAFETY: the operation is alive by the contract of `ir` handles. Both crates declare `LLVMContextRef` for the
    // same C type, and there is one LLVM in the process.
    let raw = unsafe { mlirTranslateModuleToLLVMIR(module.raw(), context.raw().cast()) };
    let raw: LLVMModuleRef = raw.cast();
    if raw.is_null() {
        return Err(Error::Translation);
    }
    // SAFETY: a new module that has no other owner and lives in `context`.
    Ok(unsafe { Module::new(raw) })
}

/// Sets a data layout given as text: inkwell only takes one from a code generator.
pub fn set_data_layout(module: &Module<'_>, layout: &str) {
    let layout = CString::new(layout).unwrap_or_default();
    // SAFETY: the module is alive; the text is terminated, and copied.
    unsafe { inkwell::llvm_sys::core::LLVMSetDataLayout(module.as_mut_ptr(), layout.as_ptr()) }
}

/// Collects LLVM's diagnostics for the code compiled in a context. By default LLVM would print them to standard error, including remarks on
/// loops that it could not vectorize, and exit the process on an error.
pub struct Diagnostics<'c> {
    context: &'c Context,
    /// The errors. LLVM's handler holds their address.
    errors: Box<RefCell<Vec<String>>>,
}

impl<'c> Diagnostics<'c> {
    /// Collects diagnostics until this is dropped.
    pub fn of(context: &'c Context) -> Self {
        let errors = Box::<RefCell<Vec<String>>>::default();
        let address = ptr::from_ref(&*errors).cast_mut().cast::<c_void>();
        // SAFETY: the context is alive. The errors do not move until `drop` has removed the handler.
        unsafe { LLVMContextSetDiagnosticHandler(context.raw(), Some(note), address) };
        Self { context, errors }
    }

    /// Returns the collected errors, if any, as an emission error.
    pub fn check(&self) -> Result<(), Error> {
        let errors = self.errors.borrow();
        if errors.is_empty() { Ok(()) } else { Err(Error::Emission(errors.join("; "))) }
    }
}

impl Drop for Diagnostics<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is alive, since it is borrowed.
        unsafe { LLVMContextSetDiagnosticHandler(self.context.raw(), None, ptr::null_mut()) };
    }
}

/// Stores an error; warnings and remarks do not help users of models.
extern "C" fn note(told: LLVMDiagnosticInfoRef, errors: *mut c_void) {
    // SAFETY: the diagnostic is borrowed for this call; the address is the one that `Diagnostics::of` passed, of a value that is alive.
    let (severity, errors) = unsafe { (LLVMGetDiagInfoSeverity(told), &*errors.cast::<RefCell<Vec<String>>>()) };
    if !matches!(severity, LLVMDiagnosticSeverity::LLVMDSError) {
        return;
    }
    // SAFETY: the text is terminated, and we own it until it is disposed of, once.
    let text = unsafe {
        let text = LLVMGetDiagInfoDescription(told);
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        LLVMDisposeMessage(text);
        copy
    };
    errors.borrow_mut().push(text);
}
