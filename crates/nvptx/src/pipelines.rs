//! The GPU pipelines from stage 05: `dynamlir-opt 05-linalg.mlir --dynamlir-linalg-to-nvptx=chip=sm_90`.
//!
//! ```text
//! 05 linalg
//!    ▼  dynamo-schedule-gpu, dynamo-to-gpu
//! gpu        gpu.func kernels of gpu.module @device, each with its launch; what the GPU cannot run stays a func.func
//!    ▼  upstream lowerings
//! nvvm       the LLVM dialect with NVVM's operations
//!    ▼  dynamo-gpu-to-ptx
//! nvptx      gpu.binary @device: PTX, and how each entry is launched
//! ```

use std::sync::Once;

use dynamlir_dialect::pass::{OptionSpec, register, register_pipeline};

use crate::PASSES;

/// Leads to `gpu.func`s.
pub const TO_GPU: &str = "dynamo-schedule-gpu{$tf32},dynamo-to-gpu,canonicalize,cse";

/// Leads to the LLVM dialect. `expand-strided-metadata` and `lower-affine` are for memory with gaps, `dynamo-mark-backward` and
/// `dynamo-signed-addresses` for memory that is traversed backwards.
pub const TO_NVVM: &str = "dynamo-gpu-math{$libdevice},dynamo-mark-backward,gpu.module(canonicalize,cse,convert-scf-to-cf,expand-strided-metadata,lower-affine,\
    convert-gpu-to-nvvm{use-bare-ptr-memref-call-conv=1},canonicalize,cse,reconcile-unrealized-casts),dynamo-signed-addresses";

/// Leads to PTX.
pub const TO_NVPTX: &str = "dynamo-gpu-to-ptx{$chip $libdevice $print}";

/// The steps: name, passes. An option that is given to the pipeline replaces `$option` in the passes.
const STEPS: &[(&str, &str, &str)] = &[("linalg", "gpu", TO_GPU), ("gpu", "nvvm", TO_NVVM), ("nvvm", "nvptx", TO_NVPTX)];

/// Registers passes and pipelines: each step as `dynamlir-<from>-to-<to>`, and pipelines from stage 05 to each. Like the CPU's, they work
/// on the module nested in the given one. Safe to call more than once.
pub fn register_all() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for pass in PASSES {
            register(pass);
        }
        let mut all = Vec::new();
        for &(from, to, passes) in STEPS {
            all.push(passes);
            let name = format!("dynamlir-{from}-to-{to}");
            register_pipeline(
                &name,
                &format!("One step of the GPU's way, {from} to {to}"),
                &format!("builtin.module({passes})"),
                &options(passes),
            );
            if all.len() > 1 {
                let name = format!("dynamlir-linalg-to-{to}");
                register_pipeline(
                    &name,
                    &format!("The GPU's way from 05-linalg to {to}"),
                    &format!("builtin.module({})", all.join(",")),
                    &options(&all.join(",")),
                );
            }
        }
    });
}

/// The options of a pipeline: those of its passes that occur in it.
fn options(passes: &str) -> Vec<OptionSpec> {
    let declared = PASSES.iter().flat_map(|pass| pass.options);
    let mut found: Vec<OptionSpec> = Vec::new();
    for option in declared.filter(|option| passes.contains(&format!("${}", option.name))) {
        if found.iter().all(|known| known.name != option.name) {
            found.push(*option);
        }
    }
    found
}

/// Passes with the options given as name and value, and without the others.
pub fn with_options(passes: &str, given: &[(&str, &str)]) -> String {
    let names = PASSES.iter().flat_map(|pass| pass.options).map(|option| option.name);
    names.fold(passes.to_owned(), |passes, name| {
        let value = given.iter().find(|(given, _)| *given == name).map(|(_, value)| format!("{name}={value}"));
        passes.replace(&format!("${name}"), &value.unwrap_or_default())
    })
}

/// The whole pipeline for a module of kernels.
pub fn kernels_to_nvptx(options: &[(&str, &str)]) -> String {
    format!("builtin.module({})", with_options(&[TO_GPU, TO_NVVM, TO_NVPTX].join(","), options))
}
