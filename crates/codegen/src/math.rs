//! The vector variants of scalar math functions, and how they are declared to LLVM's vectorizer.
//!
//! The loops call plain libm functions. Each such call carries the attribute `vector-function-abi-variant`, which lets the loop vectorizer
//! replace eight or sixteen scalar calls by one call of SLEEF. SLEEF is not shipped here: torch's `libtorch_cpu.so` exports it, and the
//! process has that library loaded anyway.

use dynamlir_libm::{Function, Kind, find};

use crate::target::SimdLevel;

/// The element type of a math function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Real {
    /// `f32`
    F32,
    /// `f64`
    F64,
}

/// One vector variant of a scalar function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The number of elements that one call computes.
    pub lanes: u32,
    /// The symbol, for example `Sleef_expf8_u10avx2`.
    pub symbol: String,
}

/// A scalar function together with its vector variants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorFunction {
    /// The element type of operands and result.
    pub real: Real,
    /// The number of operands, each of that type.
    pub operands: usize,
    /// The variants the host can run, narrowest first.
    pub variants: Vec<Variant>,
}

/// The vector variants of the libm function `symbol` at an instruction set level, if it has any.
pub fn vector_function(symbol: &str, level: SimdLevel) -> Option<VectorFunction> {
    let (Function { name, kind: Kind::Vector { operands, bound } }, single) = find(symbol)? else { return None };
    let (real, letter, narrow) = if single { (Real::F32, 'f', 8) } else { (Real::F64, 'd', 4) };
    let mut variants = Vec::new();
    if level >= SimdLevel::Avx2 {
        variants.push(Variant { lanes: narrow, symbol: format!("Sleef_{name}{letter}{narrow}_{bound}avx2") });
    }
    if level >= SimdLevel::Avx512 {
        let wide = 2 * narrow;
        variants.push(Variant { lanes: wide, symbol: format!("Sleef_{name}{letter}{wide}_{bound}avx512f") });
    }
    (!variants.is_empty()).then_some(VectorFunction { real, operands, variants })
}

/// The name of a vector variant that is defined with the kernels; see [`crate::vector_functions`].
pub fn own_symbol(scalar: &str, lanes: u32) -> String {
    format!("dynamlir_{scalar}{lanes}")
}

/// Returns true if `symbol` is a libm function that depends only on its operands. `errno` and the rounding mode do not count: torch changes
/// neither.
pub fn is_pure_libm(symbol: &str) -> bool {
    find(symbol).is_some_and(|(function, _)| function.kind != Kind::Plain)
}

impl VectorFunction {
    /// The value of the call-site attribute `vector-function-abi-variant` for calls of `scalar`.
    ///
    /// `_ZGV_LLVM_N8v_expf(Sleef_expf8_u10avx2)` reads: LLVM's own mangling, no mask, 8 lanes, one vector operand.
    pub fn abi_attribute(&self, scalar: &str) -> String {
        let operands = "v".repeat(self.operands);
        let mangled: Vec<_> =
            self.variants.iter().map(|variant| format!("_ZGV_LLVM_N{}{operands}_{scalar}({})", variant.lanes, variant.symbol)).collect();
        mangled.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_both_variants_of_expf() {
        let function = vector_function("expf", SimdLevel::Avx512).expect("expf has variants");
        assert_eq!(function.abi_attribute("expf"), "_ZGV_LLVM_N8v_expf(Sleef_expf8_u10avx2),_ZGV_LLVM_N16v_expf(Sleef_expf16_u10avx512f)");
    }

    #[test]
    fn double_functions_have_half_the_lanes_and_two_operands_show() {
        let function = vector_function("pow", SimdLevel::Avx2).expect("pow has variants");
        assert_eq!(function.abi_attribute("pow"), "_ZGV_LLVM_N4vv_pow(Sleef_powd4_u10avx2)");
    }

    #[test]
    fn prefixes_of_other_names_do_not_match() {
        assert!(vector_function("exp10", SimdLevel::Avx512).is_none() && vector_function("expect", SimdLevel::Avx512).is_none());
        assert!(vector_function("expf", SimdLevel::Baseline).is_none());
        assert!(is_pure_libm("fmodf") && !is_pure_libm("puts") && !is_pure_libm("sqrt"));
    }
}
