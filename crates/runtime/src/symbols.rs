//! Resolves the functions that generated code calls. A closed set: nothing is resolved by chance.

use std::ffi::{CStr, CString, c_void};

use dynamlir_torch_abi::TorchAbi;

use crate::omp;

const MEMORY: &[&str] = &["memcpy", "memmove", "memset", "malloc", "free", "aligned_alloc", "abort"];

/// Conversion functions called by x86-64 code for CPUs without the instructions.
const COMPILER_RUNTIME: &[&str] = &[
    "__truncsfhf2",
    "__truncdfhf2",
    "__extendhfsf2",
    "__truncsfbf2",
    "__truncdfbf2",
    "__extendbfsf2",
    "__gnu_f2h_ieee",
    "__gnu_h2f_ieee",
    "__udivti3",
    "__umodti3",
    "__divti3",
    "__modti3",
];

/// Returns the address of a symbol that generated code may use.
pub(crate) fn resolve(name: &str) -> Option<*const c_void> {
    if let Some(address) = omp::symbol(name) {
        return Some(address);
    }
    let c_name = CString::new(name).ok()?;
    if name.starts_with("Sleef_") {
        return TorchAbi::get().ok()?.symbol(&c_name).map(<*mut c_void>::cast_const);
    }
    if dynamlir_libm::find(name).is_some() || MEMORY.contains(&name) || COMPILER_RUNTIME.contains(&name) {
        in_process(&c_name)
    } else {
        None
    }
}

fn in_process(name: &CStr) -> Option<*const c_void> {
    // SAFETY: looks a name up in the libraries loaded into the process; Rust programs link the C and math libraries and libgcc.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address.cast_const())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_is_closed() {
        for name in ["expf", "exp", "memcpy", "__kmpc_barrier", "roundevenf"] {
            assert!(resolve(name).is_some(), "{name}");
        }
        for name in ["system", "dlopen", "printf", ""] {
            assert!(resolve(name).is_none(), "{name}");
        }
    }
}
