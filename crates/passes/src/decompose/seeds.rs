//! The keys of random numbers: 64 bits each, drawn by torch's default generator.
//!
//! Each lowering draws its own key ([`draw`]), by a call of `aten.randint.low` over all 64-bit numbers. At the end all keys of a function
//! are merged into one call ([`gather`]):
//!
//! ```mlir
//! %keys = dynamo.aten "aten.randint.low"() args [-9223372036854775808, 9223372036854775807, [2], …] : () -> tensor<2xi64>
//! %0 = dynamo.slice %keys starts [1] steps [1] : tensor<2xi64> -> tensor<1xi64>
//! %1 = dynamo.reshape %0 : tensor<1xi64> -> tensor<i64>
//! ```
//!
//! In an entry that is differentiated, `dynamo-autodiff` numbers the draws (`dynamo.draw`); the numbers are the positions of their keys.
//! Then the call is marked (`dynamo.keys`), so that its result is saved. For double backward the keys are passed as an argument: the
//! gradients' graph recomputes values of the first graph with the same random numbers.
//!
//! The call is an extern call like any other: it runs once, before its uses, in a fixed order among the calls that draw numbers themselves.
//! `dynamo-partition` never recomputes it, but saves its result, which is all that backward needs of a random tensor. (An alternative was
//! considered: one number for the call, with the position of an operation as part of the counter. Then no two kernels that draw numbers
//! would be equal, and a model with 48 layers would have 48 of each.)

use dynamlir_dialect::{
    ir::{Attr, AttrValue, Block, Builder, Device, Op, Type, Value},
    ops::{self, AtenOp},
    pass::{PassError, PassResult},
};

use crate::emit::Emit;

const SCHEMA: &str = "aten.randint.low";

/// Draws a key at the builder's position.
pub(super) fn draw(b: &Builder) -> Value {
    call(b, &[])
}

/// Copies an operator's draw number to the key in the ops that it was lowered to.
pub(super) fn number(op: Op, lowered: &[Op]) {
    let Some(draw) = ops::DRAW.of(op) else { return };
    if let [key] = lowered.iter().filter(|op| is_key(**op)).collect::<Vec<_>>()[..] {
        ops::DRAW.set(*key, draw);
    }
}

/// Returns the number of draw numbers that are used in a block.
pub(crate) fn numbered(ops: &[Op]) -> i64 {
    ops.iter().filter_map(|&op| ops::DRAW.of(op)).max().map_or(0, |last| last + 1)
}

/// Replaces all draws of a key in a function's block by one call, or by the argument that has the keys.
///
/// # Errors
/// If there is such an argument and a draw without a number.
pub(super) fn gather(function: Op, block: Block, numbered: i64) -> PassResult {
    let drawn: Vec<Op> = block.ops().into_iter().filter(|&op| is_key(op)).collect();
    let (used, unused): (Vec<Op>, Vec<Op>) = drawn.iter().partition(|op| !op.is_unused());
    if let [first, ..] = used[..] {
        let given = (0..block.args().len()).find(|&at| ops::KEYS.of_arg(function, at).is_some()).map(|at| block.args()[at]);
        let b = Builder::before(drawn[0]).with_loc(first.loc());
        let others = used.iter().filter(|&&op| ops::DRAW.of(op).is_none()).count();
        if given.is_some() && others > 0 {
            return Err(PassError::at(first, "the graph of the gradients would draw other random numbers"));
        }
        let keys = given.unwrap_or_else(|| call(&b, &[numbered + others as i64]));
        if others == 0 && given.is_none() {
            keys.def().into_iter().for_each(|op| ops::KEYS.set(op, ()));
        }
        let (e, mut next) = (Emit::new(b), numbered..);
        for op in &used {
            let at = ops::DRAW.of(*op).or_else(|| next.next()).unwrap_or_default();
            op.result(0).replace_all_uses_with(e.reshape::<i64>(e.slice_dim(keys, 0, at, 1, 1), &[]));
        }
    }
    used.into_iter().chain(unused).for_each(Op::erase);
    Ok(())
}

/// Returns true if an op draws a key. The program's own call for a single number of all 64 bits matches too; it may share the call, since
/// its distribution is the same.
fn is_key(op: Op) -> bool {
    let Some(call) = AtenOp::cast(op).filter(|call| call.schema() == SCHEMA) else { return false };
    let bound = |at: usize| call.args().get(at).and_then(|arg| arg.as_i64());
    let long = |ty: Type| ty.rank() == 0 && ty.element().is_int() && ty.element().width() == 64;
    (bound(0), bound(1)) == (Some(i64::MIN), Some(i64::MAX)) && long(op.result(0).ty())
}

fn call(b: &Builder, sizes: &[i64]) -> Value {
    let (ctx, long) = (b.ctx(), Type::int(b.ctx(), 64));
    let (none, listed) = (Attr::unit(ctx), sizes.iter().map(|&size| Attr::i64(ctx, size)).collect::<Vec<_>>());
    let bounds = [i64::MIN, i64::MAX].map(|bound| Attr::i64(ctx, bound));
    let cpu = Device::write(ctx, "cpu");
    let args = [bounds[0], bounds[1], Attr::array(ctx, &listed), long.as_attr(), none, cpu, none];
    let strides = [Attr::i64s(ctx, &vec![1; sizes.len()])];
    let result = Type::tensor(sizes, long);
    let op = AtenOp::build(b, SCHEMA, &[], &args, None, None, None, None, None, Some(&[]), Some(&strides), false, &[result]);
    op.op().result(0)
}
