//! Moves views towards the graph's inputs, over pointwise chains.
//!
//! `view(op(x))` = `op(view(x))`. A view of a materialized value costs nothing; a view between two computations is a boundary between
//! kernels. A view moves in these cases:
//! - a broadcast, if the repeated value is cheap to recompute, or does not change along the innermost dimension (then the loop over it
//!   computes it once). Results of reductions stay: kernels support rows. Values computed from single numbers also stay, such as an
//!   optimizer's bias correction: they are computed once, and kernels that use the same number do not count as sharing a tensor.
//! - a reshape over a matrix product, if it only splits or joins lines of the left operand.
//! - a permute or reshape, if the whole chain above it serves only this view, and for a reshape if the chain's inputs can be viewed in the
//!   new shape without a copy.
//!
//! A view moves only if a computation uses it.

use super::{Kind, elements, is_table, kind, normalize, shaped, weight};
use dynamlir_dialect::{
    ir::{AttrValue, Block, Builder, Op, Value, sizes},
    ops::{self, BroadcastOp, DynamoOp, FullOp, IotaOp, MatmulOp, PermuteOp},
};
use dynamlir_shapes::{Dim, Dimension, Relation, Scope, Window};

/// The maximum number of operations in a chain, counted once per path: moving a view copies shared ones until they are merged again.
const LONGEST: usize = 32;
/// The maximum number of additions per element in a chain that is repeated.
const CHEAP: usize = 8;

/// One round over the block, last view first. Returns true if anything changed.
pub(super) fn run(function: Op, body: Block) -> bool {
    let mut work: Vec<_> =
        body.ops().into_iter().filter(|&op| matches!(kind(op), Kind::Broadcast | Kind::Permute | Kind::Reshape)).collect();
    let mut changed = false;
    while let Some(view) = work.pop() {
        if view.is_unused() {
            view.erase();
            continue;
        }
        let producer = view.operand(0).def();
        let Some(value) = step(function, view, &mut work) else { continue };
        changed = true;
        view.result(0).replace_all_uses_with(value);
        view.erase();
        // The chain that only this view used must not prevent its own inputs' views from moving.
        let mut dead: Vec<_> = producer.into_iter().collect();
        while let Some(op) = dead.pop() {
            if kind(op) == Kind::Pointwise && op.is_unused() {
                let above = op.operands();
                op.erase();
                for next in above.into_iter().filter_map(Value::def) {
                    // A duplicate on the list would become a dead handle once it is erased.
                    if !dead.contains(&next) {
                        dead.push(next);
                    }
                }
            }
        }
    }
    changed
}

/// Replaces a view of a constant by a constant.
pub(super) fn fold_constant(view: Op) {
    if let Some(value) = constant(view) {
        view.result(0).replace_all_uses_with(value);
    }
}

fn constant(view: Op) -> Option<Value> {
    let source = view.operand(0);
    let build = Builder::before(view);
    let ty = view.result(0).ty();
    if let Some(full) = FullOp::defining(source) {
        return Some(normalize::full(&build, ty, full.value()));
    }
    let dim = IotaOp::defining(source)?.dim();
    let dim = if let Some(spread) = BroadcastOp::cast(view) {
        let to = spread.dims()[dim as usize];
        Some(to).filter(|&to| source.ty().dims()[dim as usize] == ty.dims()[to as usize])?
    } else {
        PermuteOp::cast(view)?.dims().iter().position(|&from| from == dim)? as i64
    };
    Some(IotaOp::build(&build, dim, ty).result())
}

/// Returns the replacement of the view, if any; views created along the way are added to `work`.
fn step(function: Op, view: Op, work: &mut Vec<Op>) -> Option<Value> {
    if let Some(value) = constant(view) {
        return Some(value);
    }
    let source = view.operand(0).def()?;
    let build = Builder::before(view);
    let ty = view.result(0).ty();
    let dims = |op: Op| op.required::<Vec<i64>>("dims");
    let made = match (kind(view), kind(source)) {
        // reshape(reshape(x)) = reshape(x); the new one is as movable as this one
        (Kind::Reshape, Kind::Reshape) => normalize::reshape(&build, view.operand(0), &ty.dims()),
        // permute(permute(x, p), q) = permute(x, p∘q)
        (Kind::Permute, Kind::Permute) => {
            let inner = dims(source);
            let both: Vec<_> = dims(view).iter().map(|&dim| inner[dim as usize]).collect();
            if both.is_sorted() {
                return Some(source.operand(0));
            }
            PermuteOp::build(&build, source.operand(0), &both, ty).result()
        }
        // broadcast(broadcast(x, p), q) = broadcast(x, q∘p)
        (Kind::Broadcast, Kind::Broadcast) => {
            let outer = dims(view);
            let both: Vec<_> = dims(source).iter().map(|&dim| outer[dim as usize]).collect();
            BroadcastOp::build(&build, source.operand(0), &both, ty).result()
        }
        // permute(broadcast(x)) = broadcast(permute(x)): kernels support broadcasts, not permutes
        (Kind::Permute, Kind::Broadcast) => {
            let order = dims(view);
            let inner = dims(source);
            let mut moved: Vec<_> =
                (0..order.len()).filter_map(|at| Some((at as i64, inner.iter().position(|&d| d == order[at])? as i64))).collect();
            moved.sort_unstable();
            let (to, from): (Vec<_>, Vec<_>) = moved.into_iter().unzip();
            let mut x = source.operand(0);
            if !from.is_sorted() {
                let shape: Vec<_> = from.iter().map(|&dim| x.ty().dims()[dim as usize].clone()).collect();
                x = PermuteOp::build(&build, x, &from, shaped(x.ty(), &shape)).result();
                work.extend(x.def());
            }
            BroadcastOp::build(&build, x, &to, ty).result()
        }
        (Kind::Reshape, Kind::Broadcast) if serves_computation(view) => {
            let scope = sizes::scope(function);
            let (shape, to) = factor(&source.result(0).ty().dims(), &dims(source), &ty.dims(), &scope)?;
            if !contiguous(function, source.operand(0)) {
                return None;
            }
            let x = normalize::reshape(&build, source.operand(0), &shape);
            work.extend(x.def().filter(|&op| kind(op) == Kind::Reshape));
            BroadcastOp::build(&build, x, &to, ty).result()
        }
        (Kind::Reshape, Kind::Product) if source.is(MatmulOp::NAME) && serves_computation(view) => {
            return reshape_product(function, view, source, work);
        }
        (_, Kind::Pointwise) if serves_computation(view) && may_move(function, view) => return Some(lift(view, work)),
        _ => return None,
    };
    let again = made.def().filter(|op| matches!(kind(*op), Kind::Broadcast | Kind::Permute | Kind::Reshape) && !work.contains(op));
    work.extend(again);
    Some(made)
}

fn serves_computation(view: Op) -> bool {
    let serves = |kind| matches!(kind, Kind::Pointwise | Kind::Reduce | Kind::ArgReduce | Kind::Broadcast);
    view.result(0).uses().iter().any(|used| serves(kind(used.op)) && !is_table(used.op, used.index))
}

/// `reshape(matmul(x, w))` to `matmul(reshape(x), w)`, if the product has no other user.
fn reshape_product(function: Op, view: Op, product: Op, work: &mut Vec<Op>) -> Option<Value> {
    let (batch, lhs, rhs) = MatmulOp::cast(product).map(|product| (product.batch() as usize, product.lhs(), product.rhs()))?;
    let columns = rhs.ty().rank() - batch - 1;
    let (from, to) = (product.result(0).ty().dims(), view.result(0).ty().dims());
    let keeps = to.len() >= batch + columns && from[..batch] == to[..batch] && from[from.len() - columns..] == to[to.len() - columns..];
    let lines = to.get(batch..to.len().checked_sub(columns)?)?;
    if !keeps || product.result(0).uses().len() != 1 || !contiguous(function, lhs) || lines.is_empty() {
        return None;
    }
    let build = Builder::before(view);
    let shape = [&to[..batch], lines, &lhs.ty().dims()[lhs.ty().rank() - 1..]].concat();
    let lhs = normalize::reshape(&build, lhs, &shape);
    work.extend(lhs.def().filter(|&op| kind(op) == Kind::Reshape && !work.contains(&op)));
    let copy = product.clone_detached();
    copy.set_operand(0, lhs);
    copy.result(0).set_type(view.result(0).ty());
    build.insert(copy);
    Some(copy.result(0))
}

/// `view(op(x))` to `op(view(x))`.
fn lift(view: Op, work: &mut Vec<Op>) -> Value {
    let build = Builder::before(view);
    let shape = view.result(0).ty().dims();
    let Some(producer) = view.operand(0).def() else { return view.result(0) };
    let copy = producer.clone_detached();
    let mut seen: Vec<(Value, Value)> = Vec::new();
    for (index, operand) in producer.operands().into_iter().enumerate().filter(|&(index, _)| !is_table(producer, index)) {
        let known = seen.iter().find(|(from, _)| *from == operand).map(|&(_, to)| to);
        let value = known.unwrap_or_else(|| {
            if kind(view) == Kind::Reshape {
                return normalize::reshape(&build, operand, &shape);
            }
            let attrs = view.attrs();
            let attrs: Vec<_> = attrs.iter().map(|(name, attr)| (name.as_str(), *attr)).collect();
            build.value(&view.name(), &[operand], shaped(operand.ty(), &shape), &attrs)
        });
        if known.is_none() {
            work.extend(value.def().filter(|&op| kind(op) == kind(view)));
            seen.push((operand, value));
        }
        copy.set_operand(index, value);
    }
    copy.result(0).set_type(shaped(copy.result(0).ty(), &shape));
    build.insert(copy);
    copy.result(0)
}

/// The pointwise operations above a view.
#[derive(Default)]
struct Chain {
    ops: Vec<Op>,
    leaves: Vec<Value>,
    paths: usize,
    /// `None` if it contains a transcendental operation.
    cost: Option<usize>,
}

impl Chain {
    fn above(view: Op) -> Option<Self> {
        let mut chain = Self { cost: Some(0), ..Self::default() };
        let mut stack = vec![view.operand(0)];
        while let Some(value) = stack.pop() {
            let Some(op) = value.def().filter(|&op| kind(op) == Kind::Pointwise) else {
                chain.leaves.push(value);
                continue;
            };
            chain.paths += 1;
            if chain.paths > LONGEST {
                return None;
            }
            chain.cost = chain.cost.zip(weight(op)).map(|(sum, more)| sum + more);
            chain.ops.push(op);
            stack.extend(elements(op));
        }
        Some(chain)
    }

    /// Returns true if a reduction feeds the chain, directly or broadcast over its shape.
    fn has_reduction(&self) -> bool {
        let is_reduction = |value: Value| value.def().is_some_and(|op| matches!(kind(op), Kind::Reduce | Kind::ArgReduce));
        let spread = |value: Value| value.def().is_some_and(|op| kind(op) == Kind::Broadcast && row_of_reduction(op.operand(0)));
        self.leaves.iter().any(|&leaf| is_reduction(leaf) || spread(leaf))
    }

    /// Returns true if only the view, or an equal one, uses the chain's values.
    fn is_closed(&self, view: Op) -> bool {
        let equal = |op: Op| {
            op == view
                || (kind(op) == kind(view)
                    && op.attr("dims") == view.attr("dims")
                    && op.result(0).ty().dims() == view.result(0).ty().dims())
        };
        self.ops.iter().all(|op| op.result(0).uses().iter().all(|used| self.ops.contains(&used.op) || equal(used.op)))
    }
}

/// Returns true if a value is computed from a reduction of its own shape.
fn row_of_reduction(value: Value) -> bool {
    let Some(op) = value.def() else { return false };
    match kind(op) {
        Kind::Reduce | Kind::ArgReduce => true,
        Kind::Pointwise => op.operands().into_iter().filter_map(Value::def).any(|op| matches!(kind(op), Kind::Reduce | Kind::ArgReduce)),
        _ => false,
    }
}

fn may_move(function: Op, view: Op) -> bool {
    let Some(chain) = Chain::above(view).filter(|chain| !chain.has_reduction()) else { return false };
    match kind(view) {
        Kind::Broadcast => {
            if view.operand(0).ty().is_single() {
                return false;
            }
            let last = view.result(0).ty().rank() as i64 - 1;
            let invariant = !view.required::<Vec<i64>>("dims").contains(&last);
            invariant || chain.cost.is_some_and(|cost| cost <= CHEAP)
        }
        Kind::Permute => chain.is_closed(view),
        _ => {
            let (shape, scope) = (view.result(0).ty().dims(), sizes::scope(function));
            let free = |&leaf: &Value| match leaf.def().and_then(DynamoOp::of) {
                Some(DynamoOp::Full(_)) => true,
                Some(DynamoOp::Broadcast(spread)) => {
                    contiguous(function, spread.operand()) && factor(&leaf.ty().dims(), &spread.dims(), &shape, &scope).is_some()
                }
                _ => contiguous(function, leaf),
            };
            chain.is_closed(view) && chain.leaves.iter().all(free)
        }
    }
}

/// Reshapes a broadcast: returns the source's new shape and its new dims. `from` and `to` are cut into runs of equal size; each run of
/// `from` must be repeated as a whole or come from the source as a whole. If it depends on symbols which run is longer, the broadcast is
/// not reshaped.
fn factor(from: &[Dim], dims: &[i64], to: &[Dim], scope: &Scope) -> Option<(Vec<Dim>, Vec<i64>)> {
    if from.iter().chain(to).any(|size| size.known().is_some_and(|size| size < 2)) {
        return None;
    }
    let (mut shape, mut new_dims) = (Vec::new(), Vec::new());
    let (mut i, mut j) = (0, 0);
    while i < from.len() && j < to.len() {
        let kept = dims.contains(&(i as i64));
        let (mut left, mut right) = (from[i].clone(), to[j].clone());
        let first = j;
        while left != right {
            if left.compare(Relation::Lt, &right, scope).ok()? {
                i += 1;
                left = left.mul(from.get(i)?).ok()?;
                if dims.contains(&(i as i64)) != kept {
                    return None;
                }
            } else {
                j += 1;
                right = right.mul(to.get(j)?).ok()?;
            }
        }
        if kept {
            shape.extend_from_slice(&to[first..=j]);
            new_dims.extend(first as i64..=j as i64);
        }
        (i, j) = (i + 1, j + 1);
    }
    Some((shape, new_dims))
}

/// Returns true if a reshape of the value is free: its memory is in row-major order.
fn contiguous(function: Op, value: Value) -> bool {
    let is_row_major = |strides: &[Dim]| {
        let window = Window { sizes: value.ty().dims(), strides: strides.to_vec(), offset: Dim::from(0) };
        window.is_contiguous_in(&sizes::scope(function)).unwrap_or(false)
    };
    let row_major = |strides: Option<Vec<Dim>>| strides.is_none_or(|strides| is_row_major(&strides));
    let Some(op) = value.def() else {
        return row_major(value.arg_index().and_then(|index| ops::STRIDES.dims().of_arg(function, index)));
    };
    match kind(op) {
        Kind::Reshape => contiguous(function, op.operand(0)),
        Kind::Broadcast | Kind::Permute | Kind::OtherView | Kind::Iota => false,
        Kind::Ordered => match DynamoOp::of(op) {
            Some(DynamoOp::CheckRange(check)) => contiguous(function, check.operand()),
            Some(DynamoOp::Aten(call)) => {
                row_major(value.result_index().and_then(|index| Vec::<Dim>::read(*call.result_strides()?.get(index)?)))
            }
            _ => true,
        },
        _ => true,
    }
}
