//! Decisions of LLVM's code generator that hold for the process.

use crate::ffi;

/// Whether address arithmetic in loops is made cheaper by induction variables of its own (loop strength reduction). False
/// where this LLVM has no such switch. To be called before code is generated, by whoever sets the code generator up.
pub fn set_loop_strength_reduction(enabled: bool) -> bool {
    // SAFETY: writes a word of LLVM's that code generation only reads.
    unsafe { ffi::dynamoSetLoopStrengthReduction(enabled) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_llvm_has_the_switch() {
        assert!(super::set_loop_strength_reduction(true));
    }
}
