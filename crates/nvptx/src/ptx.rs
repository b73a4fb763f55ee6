//! `dynamo-gpu-to-ptx`: compiles the NVVM dialect to PTX, in this process, with LLVM's own code generator.
//!
//! Before: `gpu.module @device` whose functions are `llvm.func … {nvvm.kernel}`.
//! After: `gpu.binary @device [#gpu.object<#nvvm.target<chip = "sm_90">, assembly = "…">]` with `dynamo.launches`: the launch parameters of
//! each entry. PTX is text that the CUDA driver assembles for the chip when it is loaded; no other tool is needed.

use std::{path::Path, sync::Once};

use dynamlir_codegen::{
    Error as CodegenError,
    bridge::{Diagnostics, translate},
};
use dynamlir_dialect::{
    ir::{self, Attr, Block, Builder, Op},
    ops,
    pass::{Options, Pass, PassError, PassResult, Run, Statistic, Takes},
    pass_options,
    upstream::gpu,
};
use inkwell::{
    OptimizationLevel,
    context::Context,
    memory_buffer::MemoryBuffer,
    module::{Linkage, Module},
    passes::PassBuilderOptions,
    targets::{CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple},
};

use crate::{
    error::Error,
    launch::{self, Launch},
    math::{devices, library},
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-gpu-to-ptx",
    description: "Compile GPU modules of the NVVM dialect to PTX",
    takes: Takes::Lowered,
    options: PtxOptions::DECLARED,
    statistics: &[COMPILED],
    run,
};

const COMPILED: Statistic = Statistic { name: "modules", description: "modules compiled to PTX" };

/// The default chip: the first with all features that the code may use. Later ones run the code too.
pub const CHIP: &str = "sm_80";

/// Code for a device, and its launch parameters.
#[derive(Clone, Debug)]
pub struct Ptx {
    /// The assembly text.
    pub text: String,
    /// The chip it is for.
    pub chip: String,
    /// Its entries.
    pub launches: Vec<Launch>,
}

pass_options! {
    /// Options of `dynamo-gpu-to-ptx`.
    pub struct PtxOptions {
        /// the chip to compile for (that of the module's target, or sm_80)
        chip: Option<String> = None,
        /// path of CUDA's libdevice, or `none` (searched for)
        libdevice: Option<String> = None,
        /// write the PTX to standard output (false)
        print: bool = false,
    }
}

fn run(module: Op, pass: &Run) -> PassResult {
    let options: PtxOptions = pass.options()?;
    let chip = options.chip.or_else(|| ir::Target::of(module).chip).unwrap_or_else(|| CHIP.to_owned());
    for device in devices(module) {
        let ptx = compile(device, &chip, library(options.libdevice.as_deref()).as_deref())
            .map_err(|error| PassError::at(device, error.to_string()))?;
        if options.print {
            print!("{}", ptx.text);
        }
        replace(device, &ptx);
        pass.count(&COMPILED, 1);
    }
    Ok(())
}

/// Replaces a module by a `gpu.binary`.
fn replace(device: Op, ptx: &Ptx) {
    let ctx = device.ctx();
    let object = gpu::nvvm_assembly(ctx, &ptx.chip, &ptx.text);
    let launches: Vec<_> = ptx.launches.iter().map(|launch| (launch.name.as_str(), launch::to_attr(launch, ctx))).collect();
    let name = device.symbol().unwrap_or_default();
    let attrs = [
        ("sym_name", Attr::str(ctx, &name)),
        ("offloadingHandler", gpu::select_object(ctx)),
        ("objects", Attr::array(ctx, &[object])),
        ops::LAUNCHES.with(ctx, Attr::dict(ctx, &launches)),
    ];
    Builder::before(device).op(gpu::BINARY, &[], &[], &attrs);
    device.erase();
}

/// Compiles one `gpu.module` in the LLVM dialect.
pub fn compile(device: Op, chip: &str, libdevice: Option<&Path>) -> Result<Ptx, Error> {
    let launches: Vec<_> = device.body().into_iter().flat_map(Block::ops).filter_map(launch::of).collect();
    let context = Context::create();
    let diagnostics = Diagnostics::of(&context);
    let machine = machine(chip)?;
    let module = translate(device, &context)?;
    module.set_triple(&machine.get_triple());
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    link(&context, &module, libdevice)?;
    let entries: Vec<_> = launches.iter().map(|launch| launch.name.as_str()).collect();
    for function in module.get_functions().filter(|function| function.count_basic_blocks() > 0) {
        if !function.get_name().to_str().is_ok_and(|name| entries.contains(&name)) {
            function.set_linkage(Linkage::Internal);
        }
    }
    module.verify().map_err(|message| CodegenError::Verification(message.to_string()))?;
    module
        .run_passes("default<O3>", &machine, PassBuilderOptions::create())
        .map_err(|message| CodegenError::Optimization(message.to_string()))?;
    let code =
        machine.write_to_memory_buffer(&module, FileType::Assembly).map_err(|message| CodegenError::Emission(message.to_string()))?;
    diagnostics.check()?;
    let text = String::from_utf8_lossy(code.as_slice()).trim_end_matches('\0').to_owned();
    Ok(Ptx { text, chip: chip.to_owned(), launches })
}

/// Links the math functions that are called; an error if some are not available.
fn link<'ctx>(context: &'ctx Context, module: &Module<'ctx>, libdevice: Option<&Path>) -> Result<(), Error> {
    if undefined(module).is_empty() {
        return Ok(());
    }
    let Some(path) = libdevice else {
        let why = "which was not found: DYNAMLIR_LIBDEVICE may name the file".into();
        return Err(Error::Undefined { functions: undefined(module).join(", "), why });
    };
    let refuse = |message: String| Error::Libdevice { path: path.display().to_string(), message };
    let buffer = MemoryBuffer::create_from_file(path).map_err(|message| refuse(message.to_string()))?;
    let library = Module::parse_bitcode_from_buffer(&buffer, context).map_err(|message| refuse(message.to_string()))?;
    // The library does not name a machine; LLVM would warn about the difference.
    library.set_triple(&module.get_triple());
    library.set_data_layout(&module.get_data_layout());
    module.link_in_module(library).map_err(|message| refuse(message.to_string()))?;
    let left = undefined(module);
    // LLVM replaces calls of this function by a constant.
    let left: Vec<_> = left.into_iter().filter(|name| name != "__nvvm_reflect").collect();
    if left.is_empty() { Ok(()) } else { Err(Error::Undefined { functions: left.join(", "), why: "which lacks them".into() }) }
}

/// Functions that are only declared, except LLVM's own.
fn undefined(module: &Module<'_>) -> Vec<String> {
    module
        .get_functions()
        .filter(|function| function.count_basic_blocks() == 0)
        .map(|function| function.get_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with("llvm."))
        .collect()
}

/// The chips that LLVM knows, and the oldest PTX version that supports each, which bounds the drivers that accept the code. LLVM exits the
/// process for other chips, and for older versions.
const CHIPS: &[(u32, &str)] = &[
    (80, "+ptx71"),
    (86, "+ptx71"),
    (87, "+ptx74"),
    (89, "+ptx78"),
    (90, "+ptx80"),
    (100, "+ptx86"),
    (101, "+ptx86"),
    (103, "+ptx88"),
    (120, "+ptx87"),
    (121, "+ptx88"),
];

/// Returns true if code can be generated for a chip: it has all features that the code may use, and LLVM knows it.
pub fn is_supported(chip: &str) -> bool {
    features(chip).is_some()
}

/// The chip to generate code for, given a device's chip: the oldest one for which the generated code is the same. All later chips accept
/// its PTX, including those that LLVM does not know yet, and so do the oldest drivers.
pub fn for_device(chip: &str) -> Option<&'static str> {
    match number(chip)? {
        ..80 => None,
        80..90 => Some(CHIP),
        _ => Some("sm_90"),
    }
}

/// `90` for `sm_90` and `sm_90a`.
fn number(chip: &str) -> Option<u32> {
    let digits = chip.strip_prefix("sm_")?;
    digits.strip_suffix('a').unwrap_or(digits).parse().ok()
}

/// The PTX version for a known chip. Names with an `a` exist only from 90 on.
fn features(chip: &str) -> Option<&'static str> {
    let number = number(chip).filter(|&number| number >= 90 || !chip.ends_with('a'))?;
    CHIPS.iter().find(|(known, _)| *known == number).map(|(_, features)| *features)
}

/// LLVM's code generator for a chip.
fn machine(chip: &str) -> Result<TargetMachine, Error> {
    static INITIALIZED: Once = Once::new();
    INITIALIZED.call_once(|| Target::initialize_nvptx(&InitializationConfig::default()));
    let features = features(chip).ok_or_else(|| Error::Chip(chip.to_owned()))?;
    let triple = TargetTriple::create("nvptx64-nvidia-cuda");
    let target = Target::from_triple(&triple).map_err(|message| CodegenError::Target(message.to_string()))?;
    target
        .create_target_machine(&triple, chip, features, OptimizationLevel::Aggressive, RelocMode::Default, CodeModel::Default)
        .ok_or_else(|| Error::Chip(chip.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_get_code_that_they_and_their_drivers_take() {
        assert_eq!(for_device("sm_89"), Some("sm_80"));
        assert_eq!(for_device("sm_100"), Some("sm_90"));
        assert_eq!(for_device("sm_130"), Some("sm_90"), "a chip of the future");
        assert_eq!(for_device("sm_75"), None);
    }

    #[test]
    fn llvm_knows_all_chips_that_may_be_named() {
        for (number, _) in CHIPS {
            assert!(machine(&format!("sm_{number}")).is_ok(), "{number}");
        }
        for chip in ["sm_75", "sm_81", "sm_130", "sm_80a", "sm_", "90", "gfx90a"] {
            assert!(!is_supported(chip) && machine(chip).is_err(), "{chip}");
        }
    }
}
