//! Machines that code is compiled for: this one, others that a module names, and LLVM's description of them.

use std::sync::{Once, OnceLock};

use dynamlir_dialect::{ir::Target as Machine, llvm::set_loop_strength_reduction};
use inkwell::{
    OptimizationLevel,
    targets::{CodeModel, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple},
};

use crate::error::Error;

/// The vector width that functions of the math library may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimdLevel {
    /// No vector functions: SLEEF's narrower variants are not worth a call.
    Baseline,
    /// 256-bit vectors, with fused multiply-add.
    Avx2,
    /// 512-bit vectors.
    Avx512,
}

/// The widest math functions a machine can run.
pub fn simd_level(machine: &Machine) -> SimdLevel {
    if !machine.is_x86_64() || !machine.has("avx2") || !machine.has("fma") {
        SimdLevel::Baseline
    } else if ["avx512f", "avx512vl", "avx512dq", "avx512bw"].into_iter().all(|feature| machine.has(feature)) {
        SimdLevel::Avx512
    } else {
        SimdLevel::Avx2
    }
}

/// Bits of the vectors that generated code should use on a machine; 0 if it has none worth using.
///
/// Arm's 64-bit processors have NEON even if the features do not list it, unless they disable it. SVE's vectors have at least as many bits,
/// but their length is known only at run time: schedules need a number, so they use the one that every processor supports.
pub fn vector_bits(machine: &Machine) -> i64 {
    let lacks_neon = || machine.features.split(',').any(|feature| feature == "-neon");
    match simd_level(machine) {
        SimdLevel::Avx512 => 512,
        SimdLevel::Avx2 => 256,
        SimdLevel::Baseline if machine.is_aarch64() && !lacks_neon() => 128,
        SimdLevel::Baseline => 0,
    }
}

/// The ratio of SVE's vector length to its minimum (`vscale`), if a machine states one: naming more bits than every processor has, as
/// `dynamo-attach-target` can, means that this machine has exactly that many.
pub(crate) fn vector_scale(machine: &Machine) -> Option<u64> {
    let scale = machine.vector_bits / 128;
    (machine.is_aarch64() && machine.has("sve") && scale > 1).then_some(scale as u64)
}

/// The machine this process runs on. It is queried only once: on a virtual machine, querying the processor takes longer than a small
/// kernel.
pub fn host() -> Machine {
    static HOST: OnceLock<Machine> = OnceLock::new();
    HOST.get_or_init(|| {
        let mut machine = Machine {
            triple: TargetMachine::get_default_triple().as_str().to_string_lossy().into_owned(),
            cpu: TargetMachine::get_host_cpu_name().to_string(),
            features: TargetMachine::get_host_cpu_features().to_string(),
            ..Machine::default()
        };
        machine.vector_bits = vector_bits(&machine);
        machine.library_vector_bits = library_vector_bits(machine.vector_bits);
        machine
    })
    .clone()
}

/// Bits of the vectors that torch's matrix products use on this processor, if generated code uses `vector_bits`: MKL uses AVX-512 only on
/// Intel's processors.
fn library_vector_bits(vector_bits: i64) -> i64 {
    #[cfg(target_arch = "x86_64")]
    {
        let vendor = std::arch::x86_64::__cpuid(0);
        let name = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
        if name.concat() != b"GenuineIntel" {
            return vector_bits.min(256);
        }
    }
    vector_bits
}

/// Checks that this process can run code for a machine.
///
/// # Errors
/// A short text with the features that the machine has and this one lacks.
pub fn runs_here(machine: &Machine) -> Result<(), String> {
    let host = host();
    let architecture = |triple: &str| triple.split('-').next().unwrap_or_default().to_owned();
    let (wanted, own) = (architecture(&machine.triple), architecture(&host.triple));
    if wanted != own {
        return Err(format!("it is for {wanted}, and this is {own}"));
    }
    let lacking: Vec<&str> =
        machine.features.split(',').filter_map(|feature| feature.strip_prefix('+')).filter(|feature| !host.has(feature)).collect();
    if lacking.is_empty() { Ok(()) } else { Err(format!("this processor ({}) lacks {}", host.cpu, lacking.join(", "))) }
}

/// The target features of a machine, and the tuning flags that LLVM 22 leaves out for it: on AMD's processors a gather takes several times
/// as many steps as separate loads (on Zen 4 about forty for eight numbers of 64 bits).
fn tuned(machine: &Machine) -> String {
    let gathers_slowly = machine.cpu.starts_with("znver");
    if gathers_slowly { format!("{},+prefer-no-gather", machine.features) } else { machine.features.clone() }
}

/// LLVM's code generator for a machine. Code is position independent: the linker may place it far from libm.
///
/// Loop strength reduction is off: kernels walk several arrays at the same pace, which x86 addresses with one counter, and the search for
/// something cheaper took up to half of the code generation time. Without it pointwise chains and gelu took 0.96 of their time, layer norm
/// 1.00 to 1.03, and ten other kernels the same as before.
pub(crate) fn code_generator(machine: &Machine) -> Result<TargetMachine, Error> {
    static INITIALIZED: Once = Once::new();
    INITIALIZED.call_once(|| {
        #[cfg(any(target_arch = "x86_64", feature = "strangers"))]
        Target::initialize_x86(&InitializationConfig::default());
        #[cfg(any(target_arch = "aarch64", feature = "strangers"))]
        Target::initialize_aarch64(&InitializationConfig::default());
        // An LLVM without the switch only takes more time.
        let _ = set_loop_strength_reduction(false);
    });
    let triple = TargetTriple::create(&machine.triple);
    let target = Target::from_triple(&triple).map_err(|message| Error::Target(message.to_string()))?;
    let features = tuned(machine);
    target
        .create_target_machine(&triple, &machine.cpu, &features, OptimizationLevel::Default, RelocMode::PIC, CodeModel::Default)
        .ok_or_else(|| Error::Target(format!("no code generator for {} ({})", machine.cpu, machine.triple)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(features: &str) -> Machine {
        Machine { features: features.into(), ..Machine::default() }
    }

    #[test]
    fn level_needs_every_feature() {
        assert_eq!(simd_level(&with("+avx2,+fma,-avx512f")), SimdLevel::Avx2);
        assert_eq!(simd_level(&with("+avx2,-fma")), SimdLevel::Baseline);
        assert_eq!(simd_level(&with("+avx2,+fma,+avx512f,+avx512vl,+avx512dq,+avx512bw")), SimdLevel::Avx512);
    }

    #[test]
    fn vectors_are_the_architectures() {
        assert_eq!([vector_bits(&with("")), vector_bits(&with("+avx2,+fma"))], [0, 256]);
        let arm = |features| Machine { triple: "aarch64-unknown-linux-gnu".into(), ..with(features) };
        assert_eq!((vector_bits(&arm("+neon")), simd_level(&arm("+neon"))), (128, SimdLevel::Baseline));
        assert_eq!(["", "+neon,+sve,+sve2", "-neon"].map(|features| vector_bits(&arm(features))), [128, 128, 0]);
    }

    #[test]
    fn vectors_of_sve_are_as_long_as_they_are_said_to_be() {
        let arm = |features: &str, vector_bits| Machine { triple: "aarch64-unknown-linux-gnu".into(), vector_bits, ..with(features) };
        assert_eq!([128, 256, 512].map(|bits| vector_scale(&arm("+neon,+sve", bits))), [None, Some(2), Some(4)]);
        assert_eq!([vector_scale(&arm("+neon", 256)), vector_scale(&Machine { vector_bits: 256, ..with("+sve") })], [None, None]);
    }

    #[cfg(feature = "strangers")]
    #[test]
    fn there_is_a_code_generator_for_each_architecture() {
        for triple in ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"] {
            let machine = Machine { triple: triple.into(), cpu: "generic".into(), ..with("") };
            assert!(code_generator(&machine).is_ok(), "{triple}");
        }
    }

    #[test]
    fn this_machine_runs_its_own_code_and_no_strangers() {
        assert_eq!(runs_here(&host()), Ok(()));
        let stranger = Machine { features: "+warp-drive".into(), ..host() };
        assert!(runs_here(&stranger).is_err_and(|what| what.ends_with("lacks warp-drive")));
        let other = if cfg!(target_arch = "aarch64") { "x86_64" } else { "aarch64" };
        let machine = Machine { triple: format!("{other}-unknown-linux-gnu"), ..with("") };
        assert!(runs_here(&machine).is_err_and(|what| what.starts_with(&format!("it is for {other}"))));
    }
}
