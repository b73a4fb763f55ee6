//! `dynamo-attach-target`: says on a module what its kernels are made for.
//!
//! The driver does so for what it compiles. This is for those who run passes by hand: without a target they take no machine for
//! granted, and make nothing of vectors.
//!
//! ```mlir
//! module { … }   // before
//! module attributes {dynamo.target = #dynamo.target<"x86_64-unknown-linux-gnu", "x86-64-v4", "+avx2,…", vector_bits = 512, …>} { … }
//! ```
//!
//! Upstream's passes for GPUs (`nvvm-attach-target`) gave the name.

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
    description: "Say on a module what its kernels are made for",
    takes: Takes::Symbols,
    options: AttachTargetOptions::DECLARED,
    statistics: &[],
    run,
};

pass_options! {
    /// Options of `dynamo-attach-target`.
    pub struct AttachTargetOptions {
        /// LLVM's name of the processor, or `host` for this one (x86-64)
        cpu: String = Target::default().cpu,
        /// LLVM's triple (this machine's with cpu=host, aarch64-unknown-linux-gnu with cpu=neoverse-…, else x86_64-unknown-linux-gnu)
        triple: Option<String> = None,
        /// features as LLVM writes them, separated by semicolons: +avx2;+fma (known of x86-64-v3 and -v4, neoverse-n1, -v1 and -v2)
        features: Option<String> = None,
        /// bits of the vectors that generated code uses (as the features tell)
        vector_bits: Option<i64> = None,
        /// bits of the vectors that the library's products use (as generated code's; this machine's with cpu=host)
        library_vector_bits: Option<i64> = None,
        /// the GPU whose code kernels become, as sm_90 (none)
        chip: Option<String> = None,
    }
}

/// The levels of Intel's architecture that have vectors, and Arm's processors for servers, with the features that make them: of those
/// that vectors are for.
const LEVELS: &[(&str, &str)] = &[
    ("x86-64-v3", "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"),
    ("x86-64-v4", "+avx,+avx2,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"),
    ("neoverse-n1", "+neon"),
    ("neoverse-v1", "+neon,+sve"),
    ("neoverse-v2", "+neon,+sve,+sve2"),
];

/// The prefix of the names of Arm's processors for servers.
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
