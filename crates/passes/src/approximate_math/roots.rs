//! Square roots of whole 512-bit vectors: an estimate by one instruction, Newton steps, and Markstein's last step, which rounds correctly.
//! The processor's square root takes two to three times as long. It is used for the rare cases: zeros, infinite, negative or nearly
//! subnormal numbers, and NaN.

use dynamlir_dialect::{
    ir::{Builder, Op, Target, Type, Value},
    upstream::{arith::CmpI, math, vector::Reduction},
};

/// The width of the vectors for which there is an estimate instruction.
const BITS: i64 = 512;

/// The differences between the element types.
struct Kind {
    estimate: &'static str,
    /// The bits of the smallest common number, whose residuals are exact, and the bits of infinity.
    common: [i64; 2],
    /// The number of Newton steps before the last one; each doubles the number of correct bits. The estimate has 14.
    steps: usize,
}

const SINGLE: Kind = Kind { estimate: "llvm.x86.avx512.rsqrt14.ps.512", common: [27 << 23, 0xff << 23], steps: 1 };
const DOUBLE: Kind = Kind { estimate: "llvm.x86.avx512.rsqrt14.pd.512", common: [123 << 52, 0x7ff << 52], steps: 2 };

/// Expands the square roots of one or two vectors inside an operation; returns their number.
pub(super) fn expand(module: Op) -> usize {
    let target = Target::of(module);
    let mut found = Vec::new();
    if target.vector_bits >= BITS && target.triple.starts_with("x86_64") {
        module.walk(&mut |op| found.extend(op.is(math::SQRT).then_some(op)));
    }
    found.retain(|op| vectors(op.result(0).ty()).is_some());
    for &op in &found {
        let count = vectors(op.result(0).ty()).unwrap_or_default();
        let value = root_of_vectors(Builder::before(op), op.operand(0), count);
        op.result(0).replace_all_uses_with(value);
        op.erase();
    }
    found.len()
}

/// Returns the number of the processor's vectors that a type fills, if it is one or two.
fn vectors(ty: Type) -> Option<i64> {
    if !ty.is_vector() || !(ty.element().is_f32() || ty.element().is_f64()) {
        return None;
    }
    let &[lanes] = &ty.shape()[..] else { return None };
    let bits = lanes * i64::from(ty.element().width());
    (bits == BITS || bits == 2 * BITS).then_some(bits / BITS)
}

fn root_of_vectors(b: Builder, x: Value, count: i64) -> Value {
    if count == 1 {
        return root(b, x);
    }
    let lanes = x.ty().shape()[0] / count;
    let half = |first: i64| b.vector_shuffle(x, x, &(first..first + lanes).collect::<Vec<_>>());
    let [first, second] = [half(0), half(lanes)].map(|part| root(b, part));
    b.vector_shuffle(first, second, &(0..2 * lanes).collect::<Vec<_>>())
}

fn root(b: Builder, x: Value) -> Value {
    let ty = x.ty();
    let width = ty.element().width();
    let kind = if width == 32 { &SINGLE } else { &DOUBLE };
    let lanes = u32::try_from(BITS).unwrap_or_default() / width;
    let all = b.int(Type::int(b.ctx(), lanes), -1);
    let estimate = b.llvm_call_instruction(kind.estimate, &[x, x, all], ty);
    let half = b.float(ty, 0.5);
    let (mut root, mut inverse) = (b.mulf(x, estimate), b.mulf(estimate, half));
    for _ in 0..kind.steps {
        let off = b.fma(b.negf(inverse), root, half);
        (root, inverse) = (b.fma(root, off, root), b.fma(inverse, off, inverse));
    }
    // The residual is exact, so this rounds once.
    let left = b.fma(b.negf(root), root, x);
    let value = b.fma(left, inverse, root);

    let word = ty.with_element(Type::int(b.ctx(), width));
    let [least, end] = kind.common;
    let place = b.subi(b.bitcast(x, word), b.int(word, least));
    let is_rare = b.vector_reduction(Reduction::Or, b.cmpi(CmpI::Uge, place, b.int(word, end - least)));
    let ([yes, no], result) = b.scf_if_value(is_rare, ty);
    let rare = Builder::at_end(yes, b.loc);
    rare.scf_yield(&[rare.sqrt(x)]);
    Builder::at_end(no, b.loc).scf_yield(&[value]);
    result
}
