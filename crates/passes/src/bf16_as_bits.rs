//! `dynamo-bf16-as-bits`: represents `bf16` numbers in kernels as 16-bit integers, as in memory.
//!
//! Generated code never computes in `bf16`; it loads, selects and stores it. LLVM nevertheless widens a `bf16` that lives longer than its
//! basic block to `f32`, and calls `__truncsfbf2` to store it: once per element, and not every libgcc has that function. As integers the
//! same numbers remain unchanged.
//!
//! ```mlir
//! %0 = memref.load %x[%i] : memref<8xbf16>      // before
//! %1 = arith.extf %0 : bf16 to f32
//!
//! %0 = memref.load %x[%i] : memref<8xi16>       // after
//! %1 = arith.extui %0 : i16 to i32
//! %2 = arith.shli %1, %c16 : i32
//! %3 = arith.bitcast %2 : i32 to f32
//! ```
//!
//! Runs after `dynamo-legalize-arith`, which has lowered rounding to `bf16` to integer arithmetic. A function in which some other operation
//! works on `bf16` is left unchanged.

use dynamlir_dialect::{
    ir::{Block, Builder, Op, Type, Value},
    pass::{Pass, PassResult, Run, Statistic, Takes},
    upstream::{arith, func, memref, scf, vector},
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-bf16-as-bits",
    description: "Represent bf16 numbers as 16-bit integers in kernels",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[CHANGED],
    run,
};

const CHANGED: Statistic = Statistic { name: "functions", description: "functions whose bf16 numbers became bits" };

/// Operations that move numbers and bits alike.
const MOVERS: &[&str] =
    &[arith::BITCAST, arith::CONSTANT, arith::EXTF, arith::SELECT, func::FUNC, func::RETURN, vector::LOAD, vector::SHUFFLE, vector::STORE];

fn run(module: Op, pass: &Run) -> PassResult {
    pass.counts_all();
    for function in module.body().map(Block::ops).unwrap_or_default() {
        let mut ops = Vec::new();
        function.walk(&mut |op| ops.push(op));
        if function.is(func::FUNC) && ops.iter().copied().any(touches) && ops.iter().all(|&op| !touches(op) || can_move(op)) {
            pass.count(&CHANGED, 1);
            ops.into_iter().for_each(rewrite);
        }
    }
    Ok(())
}

fn blocks(op: Op) -> Vec<Block> {
    (0..op.num_regions()).flat_map(|i| op.region(i).blocks()).collect()
}

fn is_bf16(ty: Type) -> bool {
    ty.element().is_bf16()
}

/// Returns true for the integer type that represents `bf16`.
fn is_bits(ty: Type) -> bool {
    ty.element().is_int() && ty.element().width() == 16
}

/// Returns true if a `bf16` is an operand or result of the operation, or an argument of its blocks.
fn touches(op: Op) -> bool {
    let args = blocks(op).into_iter().flat_map(Block::args);
    op.operands().into_iter().chain(op.results()).chain(args).any(|value| is_bf16(value.ty()))
}

fn can_move(op: Op) -> bool {
    MOVERS.contains(&op.name().as_str()) || op.is_of(memref::DIALECT) || op.is_of(scf::DIALECT)
}

fn rewrite(op: Op) {
    if op.is(arith::EXTF) && is_bits(op.operand(0).ty()) {
        return replace(op, widened(op)); // its operand, defined before, is bits by now
    }
    if op.is(arith::CONSTANT) && is_bf16(op.result(0).ty()) {
        return replace(op, constant(op));
    }
    for value in op.results().into_iter().chain(blocks(op).into_iter().flat_map(Block::args)) {
        if is_bf16(value.ty()) {
            value.set_type(as_bits(value.ty()));
        }
    }
    if let Some(ty) = op.optional::<Type>("function_type") {
        let bits = |types: Vec<Type>| types.into_iter().map(|ty| if is_bf16(ty) { as_bits(ty) } else { ty }).collect::<Vec<_>>();
        let ty = Type::function(op.ctx(), &bits(ty.function_inputs()), &bits(ty.function_results()));
        op.set_attr("function_type", ty.as_attr());
    }
    if op.is(arith::BITCAST) && op.operand(0).ty() == op.result(0).ty() {
        replace(op, op.operand(0));
    }
}

fn replace(op: Op, value: Value) {
    op.result(0).replace_all_uses_with(value);
    op.erase();
}

/// The same type with bits instead of numbers.
fn as_bits(ty: Type) -> Type {
    ty.with_element(Type::int(ty.ctx(), 16))
}

/// Widens a `bf16`: it is the upper half of the `f32` of the same value.
fn widened(op: Op) -> Value {
    let (b, ty) = (Builder::before(op), op.result(0).ty());
    let [word, single] = [Type::int(op.ctx(), 32), Type::f32(op.ctx())].map(|element| ty.with_element(element));
    let wide = b.extui(op.operand(0), word);
    let number = b.bitcast(b.shli(wide, b.int(word, 16)), single);
    if ty == single { number } else { b.extf(number, ty) }
}

fn constant(op: Op) -> Value {
    let number: f64 = op.required("value");
    // A `bf16` is an `f32` whose lower half is zero, so nothing is rounded here.
    let bits = ((number as f32).to_bits() >> 16) as i16;
    Builder::before(op).int(Type::int(op.ctx(), 16), bits.into())
}
