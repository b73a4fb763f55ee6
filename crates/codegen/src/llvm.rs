//! Compiles the LLVM dialect to an object file in memory: translation, vector math, optimization, code emission.

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

/// Options for compiling kernels.
#[derive(Clone, Debug)]
pub struct Options {
    /// True if loops may call vector math functions. The code that links the object must then supply SLEEF's.
    pub vector_math: bool,
    /// Functions that get a packed entry; see [`crate::packed`].
    pub kernels: Vec<String>,
    /// LLVM's pipeline. `default<O2>` vectorizes; `O3` was measured to cost compile time without any gain.
    pub passes: String,
    /// Keep the LLVM IR, before and after optimization.
    pub keep_ir: bool,
    /// Keep the assembly text.
    pub keep_assembly: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { vector_math: true, kernels: Vec::new(), passes: "default<O2>".into(), keep_ir: false, keep_assembly: false }
    }
}

/// The duration of each step.
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
    /// LLVM IR as translated, with vector variants, if requested.
    pub ir: Option<String>,
    /// LLVM IR after optimization, if requested.
    pub optimized_ir: Option<String>,
    /// Assembly, if requested.
    pub assembly: Option<String>,
    /// The number of calls of math functions that have vector variants.
    pub vector_math_calls: usize,
    /// The duration of each step.
    pub seconds: Seconds,
}

/// Translates a module of the LLVM dialect (stage 08, usually `module @kernels`) to LLVM IR for its target, before optimization. This does
/// not need a code generator for that machine.
pub fn to_llvm_ir(module: Op, options: &Options) -> Result<String, Error> {
    let context = Context::create();
    let llvm = translate(module, &context)?;
    let target = Target::of(module);
    llvm.set_triple(&TargetTriple::create(&target.triple));
    set_data_layout(&llvm, &data_layout(&target.triple));
    prepare(&context, &llvm, &target, options)?;
    Ok(llvm.print_to_string().to_string())
}

/// Adds information for the optimizer, and the packed entries. Returns the number of calls of math functions that have vector variants.
fn prepare<'ctx>(context: &'ctx Context, llvm: &Module<'ctx>, target: &Target, options: &Options) -> Result<usize, Error> {
    let level = if options.vector_math { simd_level(target) } else { SimdLevel::Baseline };
    // Kernels are inlined into their entries, whose attributes then control how the loops are vectorized.
    add_wrappers(context, llvm, &options.kernels)?;
    if let Some(scale) = vector_scale(target) {
        let kind = Attribute::get_named_enum_kind_id("vscale_range");
        // Minimum and maximum are equal.
        let range = context.create_enum_attribute(kind, scale << 32 | scale);
        for function in llvm.get_functions().filter(|function| function.count_basic_blocks() > 0) {
            function.add_attribute(AttributeLoc::Function, range);
        }
    }
    Ok(annotate(context, llvm, level))
}

/// Compiles a module of the LLVM dialect (stage 08, usually `module @kernels`) for its target.
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
/// Unrolling would copy a whole row loop once per row of a block (twenty times the code, ten times the compile time); the vectorizer
/// interleaves its own loops, and these kernels do not gain from more than that.
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
    // The vectorizer has replaced functions by variants. Inlining our own variants into the loops now lets these load constants only once.
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

/// Functions that the optimized code still calls. Declarations kept for the vectorizer are used by the list that keeps them, so only uses
/// by instructions count.
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
