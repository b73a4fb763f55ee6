//! From the LLVM dialect to an object file in memory: translation, vector math, optimization, code emission.

use std::time::{Duration, Instant};

use dynamlir_dialect::{
    ir::{Op, Target},
    llvm::data_layout,
};
use inkwell::{
    attributes::{Attribute, AttributeLoc},
    context::Context,
    module::{Linkage, Module},
    passes::PassBuilderOptions,
    targets::{FileType, TargetMachine, TargetTriple},
};

use crate::{
    bridge::{Diagnostics, set_data_layout, translate},
    error::Error,
    packed::add_wrappers,
    target::{SimdLevel, code_generator, simd_level, vector_scale},
    vectorize_math::{annotate, release},
};

/// What to make of kernels.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether loops may call vector math functions. Whoever links the object must then supply SLEEF's.
    pub vector_math: bool,
    /// Functions that get a packed entry; see [`crate::packed`].
    pub kernels: Vec<String>,
    /// LLVM's pipeline. `default<O2>` vectorizes; `O3` was seen to cost compile time and to buy nothing.
    pub passes: String,
    /// Whether to keep the LLVM IR, before and after optimization.
    pub keep_ir: bool,
    /// Whether to keep assembly text.
    pub keep_assembly: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { vector_math: true, kernels: Vec::new(), passes: "default<O2>".into(), keep_ir: false, keep_assembly: false }
    }
}

/// How long each step took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seconds {
    /// LLVM dialect to LLVM IR.
    pub translate: f64,
    /// LLVM's optimizer.
    pub optimize: f64,
    /// Instruction selection and encoding.
    pub emit: f64,
}

/// Compiled kernels.
#[derive(Clone, Debug)]
pub struct KernelObject {
    /// A relocatable ELF object.
    pub object: Vec<u8>,
    /// The functions it defines.
    pub symbols: Vec<String>,
    /// The functions it needs from elsewhere: libm, SLEEF, the OpenMP entry points.
    pub imports: Vec<String>,
    /// LLVM IR as translated, with vector variants, if asked for.
    pub ir: Option<String>,
    /// LLVM IR after optimization, if asked for.
    pub optimized_ir: Option<String>,
    /// Assembly, if asked for.
    pub assembly: Option<String>,
    /// How many calls of math functions have vector variants.
    pub vector_math_calls: usize,
    /// The time it took.
    pub seconds: Seconds,
}

/// A module of the LLVM dialect (stage 08, usually `module @kernels`) as LLVM IR for the machine that it names, before
/// optimization. It needs no code generator for that machine.
pub fn to_llvm_ir(module: Op, options: &Options) -> Result<String, Error> {
    let context = Context::create();
    let llvm = translate(module, &context)?;
    let target = Target::of(module);
    llvm.set_triple(&TargetTriple::create(&target.triple));
    set_data_layout(&llvm, &data_layout(&target.triple));
    prepare(&context, &llvm, &target, options)?;
    Ok(llvm.print_to_string().to_string())
}

/// Adds what the optimizer is to know, and the packed entries; how many calls of math functions have vector variants.
fn prepare<'ctx>(context: &'ctx Context, llvm: &Module<'ctx>, target: &Target, options: &Options) -> Result<usize, Error> {
    let level = if options.vector_math { simd_level(target) } else { SimdLevel::Baseline };
    // Kernels are inlined into their entries, and the loops there are vectorized by what is said of the entries.
    add_wrappers(context, llvm, &options.kernels)?;
    if let Some(scale) = vector_scale(target) {
        let kind = Attribute::get_named_enum_kind_id("vscale_range");
        // At least and at most.
        let range = context.create_enum_attribute(kind, scale << 32 | scale);
        for function in llvm.get_functions().filter(|function| function.count_basic_blocks() > 0) {
            function.add_attribute(AttributeLoc::Function, range);
        }
    }
    Ok(annotate(context, llvm, level))
}

/// Compiles a module of the LLVM dialect (stage 08, usually `module @kernels`) for the machine that it names.
///
/// The module's context may belong to any thread; the LLVM context used here is this call's own.
pub fn compile_kernels(module: Op, options: &Options) -> Result<KernelObject, Error> {
    let context = Context::create();
    let diagnostics = Diagnostics::of(&context);
    let target = Target::of(module);
    let machine = code_generator(&target)?;

    let (llvm, translate_time) = timed(|| translate(module, &context));
    let llvm = llvm?;
    llvm.set_triple(&machine.get_triple());
    llvm.set_data_layout(&machine.get_target_data().get_data_layout());
    let vector_math_calls = prepare(&context, &llvm, &target, options)?;
    let ir = options.keep_ir.then(|| llvm.print_to_string().to_string());
    llvm.verify().map_err(|message| Error::Verification(message.to_string()))?;

    let (outcome, optimize_time) = timed(|| optimize(&llvm, &machine, &options.passes));
    outcome?;
    let optimized_ir = options.keep_ir.then(|| llvm.print_to_string().to_string());
    let assembly =
        if options.keep_assembly { Some(String::from_utf8_lossy(&emit(&llvm, &machine, FileType::Assembly)?).into_owned()) } else { None };
    let (object, emit_time) = timed(|| emit(&llvm, &machine, FileType::Object));
    diagnostics.check()?;

    Ok(KernelObject {
        object: object?,
        symbols: defined(&llvm),
        imports: imported(&llvm),
        ir,
        optimized_ir,
        assembly,
        vector_math_calls,
        seconds: Seconds { translate: translate_time.as_secs_f64(), optimize: optimize_time.as_secs_f64(), emit: emit_time.as_secs_f64() },
    })
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

/// Runs LLVM's optimizer with vectorization on and loop unrolling off.
///
/// Unrolling would copy a whole row loop once per row of a block (twenty times the code, ten times the compile
/// time); the vectorizer interleaves its own loops, which is all that these kernels gain from.
fn optimize(module: &Module<'_>, machine: &TargetMachine, passes: &str) -> Result<(), Error> {
    let run = |passes: &str| {
        let options = PassBuilderOptions::create();
        options.set_loop_vectorization(true);
        options.set_loop_interleaving(true);
        options.set_loop_unrolling(false);
        options.set_loop_slp_vectorization(false);
        module.run_passes(passes, machine, options).map_err(|message| Error::Optimization(message.to_string()))
    };
    run(passes)?;
    // The vectorizer has put variants in the place of functions: those of ours become part of the loops, which then load constants once.
    if release(module) {
        run("always-inline,function(instcombine<no-verify-fixpoint>,early-cse,loop-mssa(licm)),globaldce")
    } else {
        Ok(())
    }
}

fn emit(module: &Module<'_>, machine: &TargetMachine, kind: FileType) -> Result<Vec<u8>, Error> {
    let buffer = machine.write_to_memory_buffer(module, kind).map_err(|message| Error::Emission(message.to_string()))?;
    Ok(buffer.as_slice().to_vec())
}

fn defined(module: &Module<'_>) -> Vec<String> {
    module
        .get_functions()
        .filter(|function| function.count_basic_blocks() > 0 && function.get_linkage() == Linkage::External)
        .map(|function| function.get_name().to_string_lossy().into_owned())
        .collect()
}

/// Functions that the optimized code still calls. Declarations kept for the vectorizer are used by the list that
/// keeps them, so a use by an instruction is looked for.
fn imported(module: &Module<'_>) -> Vec<String> {
    let mut called: Vec<_> = module
        .get_functions()
        .flat_map(inkwell::values::FunctionValue::get_basic_block_iter)
        .flat_map(inkwell::basic_block::BasicBlock::get_instructions)
        .filter_map(|instruction| inkwell::values::CallSiteValue::try_from(instruction).ok())
        .filter_map(inkwell::values::CallSiteValue::get_called_fn_value)
        .filter(|function| function.count_basic_blocks() == 0)
        .map(|function| function.get_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with("llvm."))
        .collect();
    called.sort();
    called.dedup();
    called
}
