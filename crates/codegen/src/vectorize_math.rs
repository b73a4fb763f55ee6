//! Declares the vector variants of math functions to LLVM's loop vectorizer, call by call.

use std::collections::BTreeMap;

use inkwell::{
    attributes::{Attribute, AttributeLoc},
    context::Context,
    module::{Linkage, Module},
    types::{BasicMetadataTypeEnum, BasicTypeEnum},
    values::{CallSiteValue, FunctionValue},
};

use crate::{
    math::{Real, VectorFunction, is_pure_libm, own_symbol, vector_function},
    target::SimdLevel,
};

/// Annotates every call of a libm function in `module`; returns how many calls got vector variants.
///
/// A call is only replaced if the variant's declaration is in the module, so declarations are added and kept alive through
/// `llvm.compiler.used`; unused ones leave no trace in the object.
pub(crate) fn annotate<'ctx>(context: &'ctx Context, module: &Module<'ctx>, level: SimdLevel) -> usize {
    let mut variants = BTreeMap::new();
    let mut annotated = 0;
    for function in module.get_functions() {
        if function.count_basic_blocks() == 0 {
            mark_pure(context, function);
            continue;
        }
        for call in calls(function) {
            let Some(name) = callee(call) else { continue };
            let Some(mut vector) = vector_function(&name, level) else { continue };
            for variant in &mut vector.variants {
                let own = own_symbol(&name, variant.lanes);
                if let Some(function) = module.get_function(&own) {
                    let inline = Attribute::get_named_enum_kind_id("alwaysinline");
                    function.add_attribute(AttributeLoc::Function, context.create_enum_attribute(inline, 0));
                    variant.symbol = own;
                }
            }
            let attribute = context.create_string_attribute("vector-function-abi-variant", &vector.abi_attribute(&name));
            call.add_attribute(AttributeLoc::Function, attribute);
            for variant in &vector.variants {
                variants.insert(variant.symbol.clone(), (variant.lanes, vector.clone()));
            }
            annotated += 1;
        }
        // LLVM prefers 256 bits on many processors, to avoid lower clock rates. These kernels compute much between loads and stores: 512
        // bits are faster by a third where there is any math, and were never measured to be slower.
        if level == SimdLevel::Avx512 {
            let width = context.create_string_attribute("prefer-vector-width", "512");
            function.add_attribute(AttributeLoc::Function, width);
        }
    }
    let declared: Vec<_> =
        variants.into_iter().map(|(symbol, (lanes, vector))| declare(context, module, &symbol, lanes, &vector)).collect();
    keep(context, module, &declared);
    annotated
}

/// All call instructions of a function.
fn calls(function: FunctionValue<'_>) -> impl Iterator<Item = CallSiteValue<'_>> {
    function
        .get_basic_block_iter()
        .flat_map(inkwell::basic_block::BasicBlock::get_instructions)
        .filter_map(|instruction| CallSiteValue::try_from(instruction).ok())
}

/// The name of the function that a direct call calls.
fn callee(call: CallSiteValue<'_>) -> Option<String> {
    Some(call.get_called_fn_value()?.get_name().to_str().ok()?.to_owned())
}

/// Marks a function as pure: the vectorizer only handles calls that do not access memory, and libm's declarations do not state that.
fn mark_pure(context: &Context, function: FunctionValue<'_>) {
    if !function.get_name().to_str().is_ok_and(is_pure_libm) {
        return;
    }
    for (name, value) in [("memory", 0), ("nounwind", 0), ("willreturn", 0)] {
        let kind = Attribute::get_named_enum_kind_id(name);
        function.add_attribute(AttributeLoc::Function, context.create_enum_attribute(kind, value));
    }
}

/// Declares one vector variant.
fn declare<'ctx>(
    context: &'ctx Context,
    module: &Module<'ctx>,
    symbol: &str,
    lanes: u32,
    function: &VectorFunction,
) -> FunctionValue<'ctx> {
    if let Some(existing) = module.get_function(symbol) {
        return existing;
    }
    let vector = match function.real {
        Real::F32 => context.f32_type().vec_type(lanes),
        Real::F64 => context.f64_type().vec_type(lanes),
    };
    let operands = vec![BasicMetadataTypeEnum::from(BasicTypeEnum::from(vector)); function.operands];
    let declared = module.add_function(symbol, vector.fn_type(&operands, false), None);
    for (name, value) in [("memory", 0), ("nounwind", 0), ("willreturn", 0)] {
        let kind = Attribute::get_named_enum_kind_id(name);
        declared.add_attribute(AttributeLoc::Function, context.create_enum_attribute(kind, value));
    }
    declared
}

/// The list of functions that must not be dropped before the vectorizer has run.
const KEPT: &str = "llvm.compiler.used";

/// Releases the functions that [`annotate`] has kept: variants of our own that no loop calls are not part of the object. Returns true if
/// there were any.
pub(crate) fn release(module: &Module<'_>) -> bool {
    let list = module.get_global(KEPT);
    if let Some(list) = list {
        // SAFETY: nothing refers to the list.
        unsafe { list.delete() };
    }
    list.is_some()
}

/// Keeps still unused functions from being dropped before the vectorizer runs.
fn keep<'ctx>(context: &'ctx Context, module: &Module<'ctx>, functions: &[FunctionValue<'_>]) {
    if functions.is_empty() {
        return;
    }
    let pointer = context.ptr_type(inkwell::AddressSpace::default());
    let pointers: Vec<_> = functions.iter().map(|function| function.as_global_value().as_pointer_value()).collect();
    let list = module.add_global(pointer.array_type(pointers.len() as u32), None, KEPT);
    list.set_linkage(Linkage::Appending);
    list.set_section(Some("llvm.metadata"));
    list.set_initializer(&pointer.const_array(&pointers));
}
