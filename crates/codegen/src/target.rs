//! The machine that code is made for: the host processor, its features and LLVM's description of it.

use std::sync::Once;

use dynamlir_dialect::llvm::set_loop_strength_reduction;
use inkwell::{
    OptimizationLevel,
    targets::{CodeModel, InitializationConfig, RelocMode, Target, TargetMachine},
};

use crate::error::Error;

/// How wide the vector functions of the math library may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimdLevel {
    /// No vector functions: SLEEF's narrower variants are not worth a call.
    Baseline,
    /// 256-bit vectors, with fused multiply-add.
    Avx2,
    /// 512-bit vectors.
    Avx512,
}

/// A processor to compile for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// LLVM's name of it, for example `cascadelake`.
    pub name: String,
    /// Its features in LLVM's notation, for example `+avx2,+fma,-avx512f`.
    pub features: String,
}

impl Processor {
    /// The processor this process runs on.
    pub fn host() -> Self {
        Self { name: TargetMachine::get_host_cpu_name().to_string(), features: TargetMachine::get_host_cpu_features().to_string() }
    }

    /// The widest math functions it can run.
    pub fn simd_level(&self) -> SimdLevel {
        let has = |wanted: &str| self.features.split(',').any(|feature| feature == wanted);
        if !has("+avx2") || !has("+fma") {
            SimdLevel::Baseline
        } else if has("+avx512f") && has("+avx512vl") && has("+avx512dq") && has("+avx512bw") {
            SimdLevel::Avx512
        } else {
            SimdLevel::Avx2
        }
    }

    /// LLVM's code generator for it. Code is position independent: the linker may place it far from libm.
    ///
    /// It goes without loop strength reduction: kernels walk several arrays at one pace, which x86 addresses by one counter, and
    /// the search for something cheaper took up to half of the time of code generation. Without it pointwise chains and gelu
    /// took 0.96 of their time, layer norm 1.00 to 1.03, and ten other kernels the same as before.
    pub(crate) fn machine(&self) -> Result<TargetMachine, Error> {
        static INITIALIZED: Once = Once::new();
        INITIALIZED.call_once(|| {
            Target::initialize_x86(&InitializationConfig::default());
            // An LLVM without the switch takes more time, and that is all.
            let _ = set_loop_strength_reduction(false);
        });
        let triple = TargetMachine::get_default_triple();
        let target = Target::from_triple(&triple).map_err(|message| Error::Target(message.to_string()))?;
        target
            .create_target_machine(&triple, &self.name, &self.features, OptimizationLevel::Default, RelocMode::PIC, CodeModel::Default)
            .ok_or_else(|| Error::Target(format!("no code generator for {} ({})", self.name, triple)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_needs_every_feature() {
        let with = |features: &str| Processor { name: "x".into(), features: features.into() }.simd_level();
        assert_eq!(with("+avx2,+fma,-avx512f"), SimdLevel::Avx2);
        assert_eq!(with("+avx2,-fma"), SimdLevel::Baseline);
        assert_eq!(with("+avx2,+fma,+avx512f,+avx512vl,+avx512dq,+avx512bw"), SimdLevel::Avx512);
    }
}
