//! `dynamo-attach-target`: states on a module the machine that its kernels are compiled for.
//!
//! The driver does so for everything it compiles. This pass is for running passes by hand: without a target they do not assume a machine,
//! and do not generate vector code.
//!
//! ```mlir
//! module { … }   // before
//! module attributes {dynamo.target = #dynamo.target<"x86_64-unknown-linux-gnu", "x86-64-v4", "+avx2,…", vector_bits = 512, …>} { … }
//! ```
//!
//! The name follows upstream's passes for GPUs (`nvvm-attach-target`).

use dynamlir_dialect::{
    ir::{Op, Target},
    ops,
    pass::{Options, Pass, PassError, PassResult, Run, Takes},
    pass_options,
};

use crate::target::{host, vector_bits};

/// The pass.
pub static PASS: Pass = Pass {
    name: "dynamo-attach-target",
    description: "Attach to a module the machine that its kernels are compiled for",
    takes: Takes::Symbols,
    options: AttachTargetOptions::DECLARED,
    statistics: &[],
    run,
};

pass_options! {
    /// Options of `dynamo-attach-target`.
    pub struct AttachTargetOptions {
        /// LLVM's name of the processor, or `host` for this machine's (x86-64)
        cpu: String = Target::default().cpu,
        /// LLVM's triple (this machine's for cpu=host, else that of Linux on aarch64 for cpu=neoverse-…, x86_64 for others)
        triple: Option<String> = None,
        /// LLVM's features: +avx2;+fma (built in for x86-64-v3, x86-64-v4, neoverse-n1, neoverse-v1 and neoverse-v2)
        features: Option<String> = None,
        /// vector width in bits of generated code (from the features)
        vector_bits: Option<i64> = None,
        /// vector width in bits of the library's matrix products (this machine's for cpu=host, else vector-bits)
        library_vector_bits: Option<i64> = None,
        /// the GPU to compile kernels for, such as sm_90 (none)
        chip: Option<String> = None,
    }
}

/// The levels of Intel's architecture that have vectors, and Arm's server processors, each with its features that matter for vectors.
const LEVELS: &[(&str, &str)] = &[
    ("x86-64-v3", "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"),
    ("x86-64-v4", "+avx,+avx2,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"),
    ("neoverse-n1", "+neon"),
    ("neoverse-v1", "+neon,+sve"),
    ("neoverse-v2", "+neon,+sve,+sve2"),
];

/// The prefix of the names of Arm's server processors.
const ARM: &str = "neoverse-";

fn run(module: Op, pass: &Run) -> PassResult {
    let options: AttachTargetOptions = pass.options()?;
    let is_host = options.cpu == "host";
    let mut target = if is_host { host() } else { Target { cpu: options.cpu, ..Target::default() } };
    if let Some(triple) = options.triple {
        target.triple = triple;
    } else if target.cpu.starts_with(ARM) && !is_host {
        target.triple = "aarch64-unknown-linux-gnu".into();
    }
    let of_level = || LEVELS.iter().find(|(level, _)| *level == target.cpu).map(|(_, features)| (*features).to_owned());
    if let Some(features) = options.features.map(|features| features.replace(';', ",")).or_else(of_level) {
        target.features = features;
    }
    let derived = vector_bits(&target);
    target.vector_bits = options.vector_bits.unwrap_or(derived);
    if !is_host || options.vector_bits.is_some() {
        target.library_vector_bits = target.vector_bits;
    }
    target.library_vector_bits = options.library_vector_bits.unwrap_or(target.library_vector_bits);
    target.chip = options.chip;
    if ops::TARGET.try_set(module, &target) { Ok(()) } else { Err(PassError::at(module, "these options make no target")) }
}
