//! Rewrites the graph so that fusion encounters few different shapes.
//!
//! - Unit dims: everything is computed on shapes without them. `op(x)` becomes `reshape(op(reshape(x)))` and the reshapes fold with their
//!   neighbours, so a keepdim reduction chains as a row: `broadcast(reshape(row))` = `broadcast(row)`. A reduction over unit dims alone is
//!   a reshape.
//! - A reduction over zero elements is its neutral element.
//! - Views of constants are constants.
//! - [`pull`] then moves views over pointwise chains.
//!
//! Common subexpressions and dead code are eliminated along the way.

use std::collections::HashMap;

use super::{Kind, after, is_table, kind, pull, reduced_dims, shaped};
use dynamlir_dialect::{
    ir::{Attr, Block, Builder, Op, Type, Value},
    ops::{DynamoOp, FullOp, MatmulOp, ReduceKind, ReshapeOp},
};
use dynamlir_shapes::{Dim, Dimension};

/// Moving one view can enable moving the next. More than a few rounds indicate a long chain, where a cut is appropriate anyway.
const ROUNDS: usize = 4;

pub(super) fn run(function: Op) {
    let Some(body) = function.body() else { return };
    for op in body.ops() {
        squeeze(op);
    }
    clean(body);
    for _ in 0..ROUNDS {
        if !pull::run(function, body) {
            break;
        }
        clean(body);
    }
    for op in body.ops().into_iter().filter(|&op| kind(op).is_constant()) {
        split_constant(op);
    }
}

fn without_units(shape: &[Dim]) -> Vec<Dim> {
    shape.iter().filter(|size| !size.is(1)).cloned().collect()
}

/// Converts dims of `shape` to dims of the shape without its unit dims; unit dims are dropped.
fn squeezed_dims(shape: &[Dim], dims: &[i64]) -> Vec<i64> {
    let kept = dims.iter().filter(|&&dim| !shape[dim as usize].is(1));
    kept.map(|&dim| shape[..dim as usize].iter().filter(|size| !size.is(1)).count() as i64).collect()
}

fn squeeze(op: Op) {
    let build = Builder::before(op);
    let kind = kind(op);
    if op.num_results() != 1 || matches!(kind, Kind::Ordered | Kind::Free | Kind::Full) {
        return;
    }
    let result = op.result(0);
    let ty = result.ty();
    let small = without_units(&ty.dims());
    if kind == Kind::Iota {
        let shape = ty.dims();
        match squeezed_dims(&shape, &[op.required("dim")]).first() {
            Some(&dim) => {
                op.set_attr("dim", Attr::i64(op.ctx(), dim));
                retype(op, &[], &small);
            }
            None => result.replace_all_uses_with(full(&build, ty, Attr::scalar(ty.element(), 0.0))),
        }
        return;
    }
    let operand = op.operand(0);
    let from = operand.ty().dims();
    let squeezed = |value: Value| reshape(&build, value, &without_units(&value.ty().dims()));
    match kind {
        Kind::Pointwise if small.len() != ty.rank() => {
            let each = op.operands().into_iter().enumerate();
            let operands: Vec<_> = each.map(|(index, value)| if is_table(op, index) { value } else { squeezed(value) }).collect();
            retype(op, &operands, &small);
        }
        Kind::Product => squeeze_product(op, &build),
        Kind::Reduce if reduced_dims(op).iter().any(|&dim| from[dim as usize].is(0)) => {
            result.replace_all_uses_with(full(&build, ty, neutral(op.required("kind"), ty.element())));
        }
        Kind::Reduce => {
            let dims = squeezed_dims(&from, &reduced_dims(op));
            if dims.is_empty() {
                result.replace_all_uses_with(reshape(&build, operand, &ty.dims()));
            } else {
                op.set_attr("dims", Attr::i64s(op.ctx(), &dims));
                retype(op, &[squeezed(operand)], &small);
            }
        }
        Kind::ArgReduce | Kind::Scan => match squeezed_dims(&from, &[op.required("dim")]).first() {
            Some(&dim) => {
                op.set_attr("dim", Attr::i64(op.ctx(), dim));
                retype(op, &[squeezed(operand)], &small);
            }
            // The index along a unit dim is 0; a running combination of one element is the element.
            None if kind == Kind::Scan => result.replace_all_uses_with(operand),
            None => result.replace_all_uses_with(full(&build, ty, Attr::scalar(ty.element(), 0.0))),
        },
        Kind::Broadcast | Kind::Permute => {
            let dims: Vec<i64> = op.required("dims");
            let dims = if kind == Kind::Permute {
                squeezed_dims(&from, &dims)
            } else {
                let kept: Vec<_> = dims.iter().zip(&from).filter(|(_, size)| !size.is(1)).map(|(&dim, _)| dim).collect();
                squeezed_dims(&ty.dims(), &kept)
            };
            if dims.len() == small.len() && dims.iter().is_sorted() {
                result.replace_all_uses_with(reshape(&build, operand, &ty.dims()));
            } else {
                op.set_attr("dims", Attr::i64s(op.ctx(), &dims));
                retype(op, &[squeezed(operand)], &small);
                pull::fold_constant(op);
            }
        }
        Kind::Reshape => result.replace_all_uses_with(reshape(&build, operand, &ty.dims())),
        Kind::OtherView => pull::fold_constant(op),
        _ => {}
    }
}

/// Removes a matmul's unit dims, except k, which is always kept; for other products, removes unit dims of the result only.
fn squeeze_product(op: Op, build: &Builder) {
    let Some(product) = MatmulOp::cast(op) else {
        return retype(op, &[], &without_units(&op.result(0).ty().dims()));
    };
    let batch = product.batch() as usize;
    let without = |value: Value, k: usize| {
        let shape = value.ty().dims();
        let kept: Vec<Dim> =
            shape.iter().enumerate().filter(|(dim, size)| *dim == k || !size.is(1)).map(|(_, size)| size.clone()).collect();
        reshape(build, value, &kept)
    };
    let (lhs, rhs) = (product.lhs(), product.rhs());
    let batches = lhs.ty().dims()[..batch].iter().filter(|size| !size.is(1)).count();
    let operands = [without(lhs, lhs.ty().rank() - 1), without(rhs, batch)];
    op.set_attr("batch", Attr::i64(op.ctx(), batches as i64));
    retype(op, &operands, &without_units(&op.result(0).ty().dims()));
}

/// Gives the operation new operands and a result of another shape; its users see the old shape through a reshape.
fn retype(op: Op, operands: &[Value], shape: &[Dim]) {
    for (index, &operand) in operands.iter().enumerate() {
        op.set_operand(index, operand);
    }
    let result = op.result(0);
    let old = result.ty();
    if old.dims() == shape {
        return;
    }
    result.set_type(shaped(old, shape));
    let uses = result.uses();
    let back = ReshapeOp::build(&after(op), result, old).result();
    for used in uses {
        used.op.set_operand(used.index, back);
    }
}

/// Reshapes the value; `reshape(reshape(x))` = `reshape(x)`, a reshaped `full` is a `full`.
pub(super) fn reshape(build: &Builder, value: Value, shape: &[Dim]) -> Value {
    let mut source = value;
    while let Some(inner) = source.def().filter(|&op| kind(op) == Kind::Reshape) {
        source = inner.operand(0);
    }
    let ty = shaped(source.ty(), shape);
    if source.ty() == ty {
        return source;
    }
    match FullOp::defining(source) {
        Some(constant) => full(build, ty, constant.value()),
        None => ReshapeOp::build(build, source, ty).result(),
    }
}

pub(super) fn full(build: &Builder, ty: Type, value: Attr) -> Value {
    FullOp::build(build, value, ty).result()
}

/// The result of a reduction over zero elements. The verifier refuses `max` and `min` over zero elements.
fn neutral(kind: ReduceKind, element: Type) -> Attr {
    let (ones, product) = (kind == ReduceKind::BitAnd, kind == ReduceKind::Prod);
    match () {
        () if element.is_bool() => Attr::bool(element.ctx(), ones || product),
        () if ones && element.is_unsigned() => Attr::int_of(element, 255),
        () if ones => Attr::int_of(element, -1),
        () => Attr::scalar(element, if product { 1.0 } else { 0.0 }),
    }
}

/// Gives users outside kernels a separate constant, which becomes a kernel; users inside kernels copy the constant into them.
fn split_constant(op: Op) {
    let outside: Vec<_> =
        op.result(0).uses().into_iter().filter(|used| !kind(used.op).is_compute() || is_table(used.op, used.index)).collect();
    if outside.is_empty() {
        return;
    }
    let copy = op.clone_detached();
    after(op).insert(copy);
    for used in outside {
        used.op.set_operand(used.index, copy.result(0));
    }
    retype(copy, &[], &without_units(&copy.result(0).ty().dims()));
    if op.is_unused() {
        op.erase();
    }
}

/// Returns true if an operation computes an index: sums and products of counters and constants. Every user keeps its own copy, which takes
/// no memory. This keeps the operations of equal layers in one order: two operators that draw random numbers must not come to share such
/// values.
fn is_index(op: Op) -> bool {
    let is_counted = |value: Value| value.def().is_some_and(|def| kind(def).is_constant() || is_index(def));
    let is_sum = matches!(DynamoOp::of(op), Some(DynamoOp::Add(_) | DynamoOp::Mul(_)));
    is_sum && op.result(0).ty().element().is_int() && op.operands().into_iter().all(is_counted)
}

/// Common subexpression and dead code elimination in a block.
pub(super) fn clean(body: Block) {
    let mut known: HashMap<_, Op> = HashMap::new();
    for op in body.ops().into_iter().filter(|op| op.is_pure() && op.num_results() == 1 && op.num_regions() == 0) {
        if is_index(op) {
            continue;
        }
        let key = (op.name(), op.operands(), op.attrs(), op.result(0).ty());
        match known.get(&key) {
            Some(earlier) => op.result(0).replace_all_uses_with(earlier.result(0)),
            None => _ = known.insert(key, op),
        }
    }
    sweep(body);
}

/// Erases unused operations.
pub(super) fn sweep(body: Block) {
    for op in body.ops().into_iter().rev() {
        if op.is_pure() && op.num_results() > 0 && op.is_unused() {
            op.erase();
        }
    }
}
