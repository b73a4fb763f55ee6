//! The one place where MLIR's C API, LLVM's and inkwell meet; all of this crate's unsafe code.

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

/// What LLVM says of the code that it compiles in a context. It would print that where the program prints its errors, remarks on loops
/// that it could not make vectors of among it, and end the process at an error.
pub struct Diagnostics<'c> {
    context: &'c Context,
    /// The errors. LLVM's handler has its address.
    errors: Box<RefCell<Vec<String>>>,
}

impl<'c> Diagnostics<'c> {
    /// Listens until this is dropped.
    pub fn of(context: &'c Context) -> Self {
        let errors = Box::<RefCell<Vec<String>>>::default();
        let address = ptr::from_ref(&*errors).cast_mut().cast::<c_void>();
        // SAFETY: the context is alive. The errors stay where they are until `drop` has taken the handler away.
        unsafe { LLVMContextSetDiagnosticHandler(context.raw(), Some(note), address) };
        Self { context, errors }
    }

    /// The errors that there were, if any, as one of emission.
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

/// Keeps an error; warnings and remarks are for nobody who calls a model.
extern "C" fn note(told: LLVMDiagnosticInfoRef, errors: *mut c_void) {
    // SAFETY: LLVM lends what it tells for this call, and gives back the address that `Diagnostics::of` gave it, of what is alive.
    let (severity, errors) = unsafe { (LLVMGetDiagInfoSeverity(told), &*errors.cast::<RefCell<Vec<String>>>()) };
    if !matches!(severity, LLVMDiagnosticSeverity::LLVMDSError) {
        return;
    }
    // SAFETY: the text is terminated, and ours until it is disposed of, once.
    let text = unsafe {
        let text = LLVMGetDiagInfoDescription(told);
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        LLVMDisposeMessage(text);
        copy
    };
    errors.borrow_mut().push(text);
}
