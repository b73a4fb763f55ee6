//! What LLVM knows of machines, and decisions of its code generator that hold for the process.

use std::ffi::c_void;

use mlir_sys::MlirStringRef;

use crate::{
    ffi,
    ir::{str_ref, to_string},
};

/// Whether address arithmetic in loops is made cheaper by induction variables of its own (loop strength reduction). False
/// where this LLVM has no such switch. To be called before code is generated, by whoever sets the code generator up.
pub fn set_loop_strength_reduction(enabled: bool) -> bool {
    // SAFETY: writes a word of LLVM's that code generation only reads.
    unsafe { ffi::dynamoSetLoopStrengthReduction(enabled) }
}

/// LLVM's data layout for a triple; empty for one that it does not know.
pub fn data_layout(triple: &str) -> String {
    unsafe extern "C" fn take(layout: MlirStringRef, text: *mut c_void) {
        // SAFETY: the text is the caller's own, and lives through the call.
        unsafe { *text.cast::<String>() = to_string(layout) };
    }
    let mut text = String::new();
    // SAFETY: the triple is borrowed for the call, in which the text is written.
    unsafe { ffi::dynamoDataLayout(str_ref(triple), (&raw mut text).cast(), take) };
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_llvm_has_the_switch() {
        assert!(super::set_loop_strength_reduction(true));
    }

    #[test]
    fn a_layout_needs_no_code_generator() {
        assert!(super::data_layout("aarch64-unknown-linux-gnu").starts_with("e-m:e-"));
        assert!(super::data_layout("x86_64-unknown-linux-gnu").contains("i64:64"));
    }
}
