//! Makes kernel bodies simpler before they are split into phases: equal primitives become one, and `arg_reduce`
//! becomes primitives.
//!
//! The index of the largest element takes two reductions, each of which vectorizes, where one that carries value and
//! index along would not: the maximum, then the smallest index at which it stands. In `max`, where both are wanted,
//! the first is shared.
//!
//! Before: `%i = dynamo.arg_reduce max %x dim 1 : tensor<4x8xf32> -> tensor<4xi64>`
//!
//! After:
//! ```mlir
//! %m = dynamo.reduce max %x dims [1] : tensor<4x8xf32> -> tensor<4xf32>
//! %hit = …                             // %x == %m; or %x is NaN, which counts as the largest
//! %j = dynamo.select %hit, %iota, %never : tensor<4x8xi1>, tensor<4x8xi64>
//! %i = dynamo.reduce min %j dims [1] : tensor<4x8xi64> -> tensor<4xi64>
//! ```

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt::Write as _,
};

use dynamlir_dialect::ir::{Attr, Block, Builder, Op, Type, Value};

/// Rewrites the body of one kernel.
pub(super) fn run(block: Block) {
    for op in block.ops() {
        if op.is("dynamo.arg_reduce") {
            arg_reduce(op);
        }
    }
    merge_equal(block);
}

fn arg_reduce(op: Op) {
    let ctx = op.ctx();
    let build = Builder::before(op);
    let parse = |text: &str| Attr::parse(ctx, text);
    let (Some(kind), Some(dim), Some(min), Some(eq), Some(ne)) = (
        op.attr("kind"),
        op.attr("dim"),
        parse("#dynamo<reduce_kind min>"),
        parse("#dynamo<predicate eq>"),
        parse("#dynamo<predicate ne>"),
    ) else {
        return;
    };
    let Some(axis) = dim.as_i64() else { return };
    let x = op.operand(0);
    let shape = x.ty().shape();
    let of = |element| Type::tensor(&shape, element);
    let (bools, indices) = (of(Type::int(ctx, 1)), of(Type::int(ctx, 64)));
    let dims = Attr::i64s(ctx, &[axis]);
    let kept: Vec<_> = (0..shape.len() as i64).filter(|&d| d != axis).collect();

    let extreme_type = Type::tensor(&op.result(0).ty().shape(), x.ty().element());
    let extreme = build.value("dynamo.reduce", &[x], extreme_type, &[("kind", kind), ("dims", dims)]);
    let everywhere = build.value("dynamo.broadcast", &[extreme], x.ty(), &[("dims", Attr::i64s(ctx, &kept))]);
    let mut hit = build.value("dynamo.compare", &[x, everywhere], bools, &[("predicate", eq)]);
    if x.ty().element().is_float() {
        let nan = build.value("dynamo.compare", &[x, x], bools, &[("predicate", ne)]);
        hit = build.value("dynamo.or", &[hit, nan], bools, &[]);
    }
    let iota = build.value("dynamo.iota", &[], indices, &[("dim", dim)]);
    let never = build.value("dynamo.full", &[], indices, &[("value", Attr::i64(ctx, i64::MAX))]);
    let candidate = build.value("dynamo.select", &[hit, iota, never], indices, &[]);
    let index = build.value("dynamo.reduce", &[candidate], op.result(0).ty(), &[("kind", min), ("dims", dims)]);
    op.result(0).replace_all_uses_with(index);
    op.erase();
}

/// Value numbering over the straight-line body. Primitives have no effects, so the first of equals serves for all.
fn merge_equal(block: Block) {
    let mut first: HashMap<(String, Vec<Value>), Value> = HashMap::new();
    for op in block.ops() {
        let name = op.name();
        if !name.starts_with("dynamo.") || op.num_results() != 1 {
            continue;
        }
        let mut key = format!("{name} {}", op.result(0).ty());
        for (name, value) in op.attrs() {
            let _ = write!(key, " {name}={value}");
        }
        match first.entry((key, op.operands())) {
            Entry::Vacant(entry) => {
                entry.insert(op.result(0));
            }
            Entry::Occupied(entry) => {
                op.result(0).replace_all_uses_with(*entry.get());
                op.erase();
            }
        }
    }
}
