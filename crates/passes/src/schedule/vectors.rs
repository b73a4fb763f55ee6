//! Decides which phases can be computed in vectors, by their operations and memory accesses.
//!
//! A phase is left to LLVM's loop vectorizer if it
//! - calls a function: the vectorizer knows the vector variants of a library, while `convert-math-to-libm` scalarizes vectors;
//! - works on 16-bit floats, whose conversions LLVM matches to instructions better in loops than in vectors of two widths;
//! - reads by computed indices or uses the loop's own index;
//! - has an operand that the innermost loop neither accesses contiguously nor keeps fixed.

use dynamlir_dialect::{
    ir::{Op, Type, Value},
    upstream::{bufferization, linalg, tensor},
};

use super::domain::accesses;
use crate::{approximate_math::is_expanded, transpose_tiles};

/// Operations that are as efficient on vectors as on scalars.
const ARITH: &[&str] = &[
    "addf", "addi", "andi", "bitcast", "cmpf", "cmpi", "constant", "divf", "extf", "extsi", "extui", "fptosi", "maximumf", "maxnumf",
    "maxsi", "maxui", "minimumf", "minnumf", "minsi", "minui", "mulf", "muli", "negf", "ori", "select", "shli", "shrsi", "shrui", "sitofp",
    "subf", "subi", "truncf", "trunci", "uitofp", "xori",
];
/// Functions that are single instructions.
const MATH: &[&str] = &["absf", "ceil", "copysign", "floor", "fma", "roundeven", "sqrt", "trunc"];
/// The bits of the widest element type in the phase; `None` if it cannot be computed in vectors.
pub(super) fn widest(generic: Op) -> Option<u32> {
    let innermost = linalg::reductions(generic).len().checked_sub(1)?;
    let accesses = accesses(generic)?;
    if accesses.iter().zip(generic.operands()).any(|(access, operand)| !is_straight(access, innermost, operand)) {
        return None;
    }
    let mut widest = 0;
    for op in generic.body()?.ops() {
        if !op.is(linalg::YIELD) && !is_vectorizable(op) {
            return None;
        }
        for value in op.operands().into_iter().chain(op.results()) {
            let ty = value.ty();
            if !(ty.is_int() || ty.is_float()) || (ty.is_float() && ty.width() < 32) {
                return None;
            }
            widest = widest.max(ty.width());
        }
    }
    Some(widest).filter(|&bits| bits > 1)
}

/// The loop along which some operand is contiguous, if it is not the innermost loop.
pub(super) fn crossed(generic: Op) -> Option<usize> {
    let innermost = linalg::reductions(generic).len().checked_sub(1)?;
    let inputs = generic.num_operands() - linalg::outputs(generic);
    accesses(generic)?.into_iter().zip(generic.operands()).take(inputs).find_map(|(access, operand)| {
        let (ty, access) = (memory(operand)?, access.into_iter().collect::<Option<Vec<_>>>()?);
        transpose_tiles::crossed(&access, &ty.shape(), &ty.strides(), innermost)
    })
}

/// Returns true if a scalar operation can be applied to vectors unchanged.
pub(crate) fn is_vectorizable(op: Op) -> bool {
    let name = op.name();
    if let Some(name) = name.strip_prefix("arith.") {
        return ARITH.contains(&name);
    }
    let is_instruction = name.strip_prefix("math.").is_some_and(|name| MATH.contains(&name));
    is_instruction || (is_expanded(&name) && op.result(0).ty() == Type::f32(op.ctx()))
}

/// Returns true if the innermost loop accesses the operand's memory contiguously.
fn is_straight(access: &[Option<usize>], innermost: usize, operand: Value) -> bool {
    if !operand.ty().is_tensor() || access.contains(&None) {
        return false;
    }
    match access.iter().position(|&dim| dim == Some(innermost)) {
        None => true,
        Some(place) => place + 1 == access.len() && memory(operand).and_then(|ty| ty.strides().last().copied()) == Some(1),
    }
}

/// The buffer that a tensor is loaded from or stored to.
fn memory(operand: Value) -> Option<Type> {
    let mut def = operand.def()?;
    if def.is(tensor::EXTRACT_SLICE) {
        // Skips the slice that provides the sizes of memory with a dynamic type.
        def = def.operand(0).def()?;
    }
    if def.is(bufferization::TO_TENSOR) {
        return Some(def.operand(0).ty());
    }
    // A destination: the buffer is found through the uses of the result.
    let uses = operand.uses();
    let [used] = uses.as_slice() else { return None };
    let first = used.op.num_operands().checked_sub(used.op.num_results())?;
    let stored = used.op.result(used.index.checked_sub(first)?).uses();
    let [store] = stored.as_slice() else { return None };
    store.op.is(bufferization::MATERIALIZE_IN_DESTINATION).then(|| store.op.operand(1).ty())
}
