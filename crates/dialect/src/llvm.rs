//! LLVM's knowledge of machines, and per-process settings of its code generator.

use std::ffi::c_void;

use mlir_sys::MlirStringRef;

use crate::{
    ffi,
    ir::{str_ref, to_string},
};

/// Turns loop strength reduction on or off: the use of additional induction variables that make address arithmetic in loops cheaper.
/// Returns false if this LLVM does not have such a switch. Must be called before code is generated, by the code that sets up the code
/// generator.
pub fn set_loop_strength_reduction(enabled: bool) -> bool {
    // SAFETY: writes one word of LLVM's, which code generation only reads.
    unsafe { ffi::dynamoSetLoopStrengthReduction(enabled) }
}

/// LLVM's data layout for a triple; empty for an unknown one.
pub fn data_layout(triple: &str) -> String {
    unsafe extern "C" fn take(layout: MlirStringRef, text: *mut c_void) {
        // SAFETY: the text belongs to the caller and lives through the call.
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
