//! Links object code into the process through LLVM's ORC, and frees it when the last kernel is dropped.
//!
//! Objects are checked before they are linked: they must be valid ELF, and may refer only to the symbols of `symbols`. So an unknown symbol
//! causes a readable error, never a call to an invalid address.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::ptr;
use std::sync::{Arc, Once, Weak};

use llvm_sys::core::LLVMCreateMemoryBufferWithMemoryRangeCopy;
use llvm_sys::error::{LLVMDisposeErrorMessage, LLVMErrorRef, LLVMGetErrorMessage};
use llvm_sys::orc2::lljit::{
    LLVMOrcCreateLLJIT, LLVMOrcDisposeLLJIT, LLVMOrcLLJITAddObjectFile, LLVMOrcLLJITGetMainJITDylib, LLVMOrcLLJITLookup,
    LLVMOrcLLJITMangleAndIntern, LLVMOrcLLJITRef,
};
use llvm_sys::orc2::{
    LLVMJITEvaluatedSymbol, LLVMJITSymbolFlags, LLVMJITSymbolGenericFlags, LLVMOrcAbsoluteSymbols, LLVMOrcCSymbolMapPair,
    LLVMOrcDisposeMaterializationUnit, LLVMOrcJITDylibDefine,
};

use crate::symbols;
use crate::undefined::Symbols;

/// A kernel's entry: it takes the addresses of element 0 of its arguments, in order.
pub type PackedFn = unsafe extern "C" fn(*const *mut c_void);

/// Object code that cannot be linked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JitError(String);

impl fmt::Display for JitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for JitError {}

/// Linked code. It stays in memory while this or a [`Kernel`] of it lives.
pub struct Jit {
    lljit: LLVMOrcLLJITRef,
}

// SAFETY: after construction the JIT is only queried for symbols, which ORC serializes with its own session lock, and disposed once.
unsafe impl Send for Jit {}
// SAFETY: as for Send.
unsafe impl Sync for Jit {}

/// A linked kernel.
#[derive(Clone)]
pub struct Kernel {
    entry: PackedFn,
    /// Keeps the code in memory.
    code: Arc<dyn Send + Sync>,
}

/// A kernel that does not keep its code in memory.
pub struct WeakKernel {
    entry: PackedFn,
    code: Weak<dyn Send + Sync>,
}

impl WeakKernel {
    /// Returns the kernel, if its code is still in memory.
    #[must_use]
    pub fn upgrade(&self) -> Option<Kernel> {
        Some(Kernel { entry: self.entry, code: self.code.upgrade()? })
    }
}

impl Kernel {
    /// Returns a reference that does not keep the code in memory.
    #[must_use]
    pub fn downgrade(&self) -> WeakKernel {
        WeakKernel { entry: self.entry, code: Arc::downgrade(&self.code) }
    }

    /// Creates a kernel whose code lives as long as `code`.
    ///
    /// # Safety
    /// `entry` follows the convention of [`PackedFn`] and stays valid while `code` lives.
    pub unsafe fn from_parts<T: Send + Sync + 'static>(entry: PackedFn, code: Arc<T>) -> Self {
        Self { entry, code }
    }

    /// Calls it.
    ///
    /// # Safety
    /// The row holds the address of element 0 of each of the kernel's arguments, each with the layout it was compiled for.
    #[inline]
    pub unsafe fn call(&self, row: *const *mut c_void) {
        // SAFETY: the caller's promise; the code is kept alive by `code`.
        unsafe { (self.entry)(row) }
    }
}

/// Takes the message out of an ORC error; None for success.
///
/// Contract: the error is stolen.
fn message(error: LLVMErrorRef) -> Option<String> {
    if error.is_null() {
        return None;
    }
    // SAFETY: LLVMGetErrorMessage consumes the error and returns a new string, which we free.
    unsafe {
        let text = LLVMGetErrorMessage(error);
        let message = CStr::from_ptr(text).to_string_lossy().into_owned();
        LLVMDisposeErrorMessage(text);
        Some(message)
    }
}

fn check(error: LLVMErrorRef, what: &str) -> Result<(), JitError> {
    message(error).map_or(Ok(()), |m| Err(JitError(format!("{what}: {m}"))))
}

fn initialize_target() {
    static TARGET: Once = Once::new();
    TARGET.call_once(|| {
        // SAFETY: registration functions of LLVM; idempotent, and serialized here.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            {
                llvm_sys::target::LLVMInitializeX86TargetInfo();
                llvm_sys::target::LLVMInitializeX86Target();
                llvm_sys::target::LLVMInitializeX86TargetMC();
                llvm_sys::target::LLVMInitializeX86AsmPrinter();
            }
            #[cfg(target_arch = "aarch64")]
            {
                llvm_sys::target::LLVMInitializeAArch64TargetInfo();
                llvm_sys::target::LLVMInitializeAArch64Target();
                llvm_sys::target::LLVMInitializeAArch64TargetMC();
                llvm_sys::target::LLVMInitializeAArch64AsmPrinter();
            }
        }
    });
}

impl Jit {
    /// Links objects together. They may refer to each other and to the known runtime functions, and to nothing else.
    pub fn link(objects: &[&[u8]]) -> Result<Arc<Self>, JitError> {
        let mut needed = BTreeSet::new();
        let mut defined = HashSet::new();
        for (i, object) in objects.iter().enumerate() {
            let names = Symbols::read(object).map_err(|e| JitError(format!("object {i}: {e}")))?;
            needed.extend(names.undefined);
            defined.extend(names.defined);
        }
        needed.retain(|n| !defined.contains(n));
        let mut found = Vec::with_capacity(needed.len());
        let mut missing = Vec::new();
        for name in needed {
            match symbols::resolve(&name) {
                Some(address) => found.push((name, address)),
                // The linker defines this one itself if an object refers to it.
                None if name == "_GLOBAL_OFFSET_TABLE_" => {}
                None => missing.push(name),
            }
        }
        if !missing.is_empty() {
            return Err(JitError(format!("the generated code calls functions that the runtime does not provide: {}", missing.join(", "))));
        }
        let jit = Self::create()?;
        jit.define(&found)?;
        for object in objects {
            jit.add(object)?;
        }
        Ok(Arc::new(jit))
    }

    fn create() -> Result<Self, JitError> {
        initialize_target();
        let mut lljit = ptr::null_mut();
        // SAFETY: a null builder means defaults; on success the JIT is new and ours.
        let error = unsafe { LLVMOrcCreateLLJIT(&raw mut lljit, ptr::null_mut()) };
        check(error, "cannot start the linker")?;
        Ok(Self { lljit })
    }

    fn define(&self, found: &[(String, *const c_void)]) -> Result<(), JitError> {
        if found.is_empty() {
            return Ok(());
        }
        let flags = LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsExported as u8
            | LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsCallable as u8;
        let mut pairs = Vec::with_capacity(found.len());
        for (name, address) in found {
            let name = CString::new(name.as_str()).map_err(|_| JitError("a symbol's name holds a zero byte".to_owned()))?;
            let symbol =
                LLVMJITEvaluatedSymbol { Address: *address as u64, Flags: LLVMJITSymbolFlags { GenericFlags: flags, TargetFlags: 0 } };
            // SAFETY: the name is a C string; the interned string is new, and the definition below steals it.
            let name = unsafe { LLVMOrcLLJITMangleAndIntern(self.lljit, name.as_ptr()) };
            pairs.push(LLVMOrcCSymbolMapPair { Name: name, Sym: symbol });
        }
        // SAFETY: the unit copies the pairs and steals their names; the dylib steals the unit, unless it fails.
        unsafe {
            let unit = LLVMOrcAbsoluteSymbols(pairs.as_mut_ptr(), pairs.len());
            let error = LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(self.lljit), unit);
            if let Some(m) = message(error) {
                LLVMOrcDisposeMaterializationUnit(unit);
                return Err(JitError(format!("cannot define runtime functions: {m}")));
            }
        }
        Ok(())
    }

    fn add(&self, object: &[u8]) -> Result<(), JitError> {
        // SAFETY: the bytes are copied into a new buffer, which the JIT steals whether it succeeds or not.
        unsafe {
            let buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(object.as_ptr().cast(), object.len(), c"kernels".as_ptr());
            if buffer.is_null() {
                return Err(JitError("no memory for object code".to_owned()));
            }
            let dylib = LLVMOrcLLJITGetMainJITDylib(self.lljit);
            check(LLVMOrcLLJITAddObjectFile(self.lljit, dylib, buffer), "cannot add object code")
        }
    }

    /// Returns the address of a function in the linked code.
    pub fn address(&self, name: &str) -> Result<*const c_void, JitError> {
        let c_name = CString::new(name).map_err(|_| JitError("a symbol's name holds a zero byte".to_owned()))?;
        let mut address = 0;
        // SAFETY: the JIT is alive; the out value is written on success.
        let error = unsafe { LLVMOrcLLJITLookup(self.lljit, &raw mut address, c_name.as_ptr()) };
        check(error, &format!("cannot link {name}"))?;
        if address == 0 {
            return Err(JitError(format!("{name} was linked to nothing")));
        }
        Ok(ptr::with_exposed_provenance(address as usize))
    }

    /// Returns the kernel `name`, by its packed entry `<name>__packed`.
    pub fn kernel(self: &Arc<Self>, name: &str) -> Result<Kernel, JitError> {
        let address = self.address(&format!("{name}__packed"))?;
        // SAFETY: code generation gives every kernel a packed entry of this type; the Arc keeps it loaded.
        Ok(unsafe { Kernel::from_parts(std::mem::transmute::<*const c_void, PackedFn>(address), Arc::clone(self)) })
    }
}

impl Drop for Jit {
    fn drop(&mut self) {
        // SAFETY: ours, disposed once; no kernel is left, since each holds an Arc of this. An error cannot be reported here.
        let _ = message(unsafe { LLVMOrcDisposeLLJIT(self.lljit) });
    }
}

#[cfg(test)]
#[path = "jit_tests.rs"]
mod tests;
