//! `dynamo-fuse`: groups primitives into kernel functions (stage 02 to 03).
//!
//! Steps: [`normalize`] rewrites the graph so that related values have one shape, [`group`] decides which operations share a kernel,
//! [`duplicate`] recomputes cheap values instead of storing them, [`outline`] moves each group into a function of `module @kernels`, and
//! [`dedupe`] merges equal functions.
//!
//! A kernel has one iteration domain D (no unit dims) and one set R of reduced dims; each of its values has the shape D or the *row shape*,
//! D without R. [`verify`] defines the whole grammar.
//!
//! A `gather` is pointwise in its indices. Its table has any shape and is never computed in the same kernel: tables are the last arguments
//! of a kernel, and only gathers use them. The same applies to the operands of a `matmul` or a `convolution`. A kernel has at most one of
//! those; the operations after it are pointwise, its *epilogue*.
//!
//! Decisions depend on a group and its surroundings only, never on the position in the graph: a model with 48 equal layers has the same
//! kernels as one with 4.

mod dedupe;
mod duplicate;
mod graph;
mod group;
mod line;
mod normalize;
mod outline;
mod pull;
pub mod verify;

use crate::{anchors, extent};
use dynamlir_dialect::{
    ir::{Block, Builder, Op, Type, Value},
    ops::{AtenOp, BroadcastOp, DynamoOp, GatherOp},
    pass::{Options, Pass, PassError, PassResult, Run, Statistic, Takes},
    pass_options,
    upstream::func,
};
use dynamlir_shapes::{Dim, Scope};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-fuse",
    description: "Group primitives into kernel functions called by dynamo.launch, and merge equal kernels",
    takes: Takes::Symbols,
    options: FuseOptions::DECLARED,
    statistics: &[KERNELS, MERGED],
    run,
};

const KERNELS: Statistic = Statistic { name: "kernels", description: "kernel functions outlined" };
const MERGED: Statistic = Statistic { name: "merged", description: "kernel functions that equal an earlier one" };

pass_options! {
    /// Options of `dynamo-fuse`: the maximum size of a kernel, and debug output.
    #[derive(Copy)]
    pub struct FuseOptions {
        /// maximum number of operations of a kernel (64)
        max_ops: usize = 64,
        /// maximum number of inputs and outputs of a kernel (24)
        max_args: usize = 24,
        /// print each fusion with the bytes it saves, and each refusal with its reason (false)
        print_fusion: bool = false,
    }
}

fn run(module: Op, pass: &Run) -> PassResult {
    let options: FuseOptions = pass.options()?;
    let Some(top) = module.body() else { return Ok(()) };
    let functions: Vec<_> = top.ops().into_iter().filter(|op| op.is(func::FUNC) && op.body().is_some()).collect();
    let mut kernels = dedupe::Kernels::of(module);
    for function in functions {
        check(function)?;
        normalize::run(function);
        let mut graph = graph::Graph::of(function, options);
        group::run(&mut graph);
        graph.decisions.drain(..).for_each(|decision| pass.decide(decision));
        let groups = duplicate::run(&mut graph);
        // Recomputed values are new operations, so operations are renumbered.
        let mut graph = graph::Graph::of(function, options);
        graph.assign(function, groups)?;
        // Kernels that read a stored value may now read the values it was computed from, as others do.
        group::join_siblings(&mut graph);
        graph.decisions.drain(..).for_each(|decision| pass.decide(decision));
        outline::run(function, &graph, &mut kernels)?;
    }
    pass.count(&KERNELS, kernels.outlined);
    pass.count(&MERGED, kernels.merged);
    Ok(())
}

/// Checks the assumptions of every later step: straight-line code, with shapes that specify their sizes.
fn check(function: Op) -> PassResult {
    if function.region(0).blocks().len() != 1 {
        return Err(PassError::at(function, "expected straight-line code: one block"));
    }
    for op in function.body().map(Block::ops).unwrap_or_default() {
        if op.is(AtenOp::NAME) && op.num_regions() > 0 {
            return Err(PassError::at(op, "the call has code beside it: dynamo-select takes one of the two first"));
        }
        let values = || op.operands().into_iter().chain(op.results());
        if kind(op) != Kind::Ordered && values().any(|value| value.ty().is_open() && value.ty().sizes().is_none()) {
            return Err(PassError::at(op, "dynamo-fuse needs to know sizes, as numbers or expressions"));
        }
    }
    Ok(())
}

/// The kind of an operation, as far as fusion is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Pointwise,
    Full,
    Iota,
    Reduce,
    ArgReduce,
    Scan,
    /// A product of matrices, or a convolution: it reads memory of any shape, and ends in an epilogue.
    Product,
    Broadcast,
    Permute,
    Reshape,
    /// A view that is never moved: `slice`, `reverse`, `as_strided`.
    OtherView,
    /// Stays in the graph function and may move: `concatenate`, `pad`, `as_strided_scatter`.
    Free,
    /// Stays in the graph function and keeps its order relative to others of this kind: extern calls, launches, return.
    Ordered,
}

impl Kind {
    /// Returns true if the operation always ends up inside a kernel.
    fn is_compute(self) -> bool {
        matches!(self, Self::Pointwise | Self::Reduce | Self::ArgReduce | Self::Scan | Self::Product)
    }
    /// Constants are copied into every kernel that uses them; they are never kernel arguments.
    fn is_constant(self) -> bool {
        matches!(self, Self::Full | Self::Iota)
    }
}

fn kind(op: Op) -> Kind {
    use DynamoOp as D;
    match DynamoOp::of(op) {
        Some(D::Full(_)) => Kind::Full,
        Some(D::Iota(_)) => Kind::Iota,
        Some(D::Reduce(_)) => Kind::Reduce,
        Some(D::ArgReduce(_)) => Kind::ArgReduce,
        Some(D::Scan(_)) => Kind::Scan,
        Some(D::Matmul(_) | D::Convolution(_) | D::MaxPool(_) | D::Attention(_)) => Kind::Product,
        Some(D::Broadcast(_)) => Kind::Broadcast,
        Some(D::Permute(_)) => Kind::Permute,
        Some(D::Reshape(_)) => Kind::Reshape,
        Some(D::Slice(_) | D::Reverse(_) | D::AsStrided(_)) => Kind::OtherView,
        Some(D::Gather(_)) => Kind::Pointwise,
        Some(_) if op.is_elementwise() => Kind::Pointwise,
        _ if op.is_pure() => Kind::Free,
        _ => Kind::Ordered,
    }
}

/// Returns true if an operand is the table of a `gather` or an operand of a product: memory of any shape, which is not read element by
/// element of the result. All other operands of pointwise operations have the shape of the result.
fn is_table(op: Op, index: usize) -> bool {
    index < table_count(op)
}

/// The number of its operands that are tables; they come first.
fn table_count(op: Op) -> usize {
    match () {
        () if op.is(GatherOp::NAME) => 1,
        () if anchors::is_anchor(op) => op.num_operands(),
        () => 0,
    }
}

/// The operands that are read element by element: all except tables.
fn elements(op: Op) -> impl Iterator<Item = Value> {
    (table_count(op)..op.num_operands()).map(move |index| op.operand(index))
}

/// The operands that are tables.
fn tables(op: Op) -> impl Iterator<Item = Value> {
    (0..table_count(op)).map(move |index| op.operand(index))
}

/// The approximate cost of an operation in additions per element; `None` for transcendental ones, which are not worth repeating.
fn weight(op: Op) -> Option<usize> {
    use DynamoOp as D;
    match DynamoOp::of(op)? {
        D::Convert(_)
        | D::Bitcast(_)
        | D::Add(_)
        | D::Sub(_)
        | D::Mul(_)
        | D::Fma(_)
        | D::Neg(_)
        | D::Abs(_)
        | D::Not(_)
        | D::Max(_)
        | D::Min(_)
        | D::And(_)
        | D::Or(_)
        | D::Xor(_)
        | D::Shl(_)
        | D::Shr(_)
        | D::Compare(_)
        | D::Select(_)
        | D::Copysign(_)
        | D::Floor(_)
        | D::Ceil(_)
        | D::Round(_)
        | D::Trunc(_) => Some(1),
        D::Div(_) | D::Rem(_) | D::Sqrt(_) | D::Rsqrt(_) => Some(4),
        _ => None,
    }
}

/// The reduced dims of a reduction, increasing; empty for anything else.
fn reduced_dims(op: Op) -> Vec<i64> {
    let mut dims = match DynamoOp::of(op) {
        Some(DynamoOp::Reduce(reduce)) => reduce.dims(),
        Some(DynamoOp::ArgReduce(reduce)) => vec![reduce.dim()],
        _ => Vec::new(),
    };
    dims.sort_unstable();
    dims
}

/// The remaining dims, and the shape over them.
fn row_of(domain: &[Dim], reduced: &[i64]) -> (Vec<i64>, Vec<Dim>) {
    (0..).zip(domain.iter().cloned()).filter(|(dim, _)| !reduced.contains(dim)).unzip()
}

/// The number of elements of a shape, using the expected values (hints) of symbols.
fn expected(shape: &[Dim], scope: &Scope) -> i64 {
    shape.iter().map(|size| extent::expected(size, scope)).fold(1, i64::saturating_mul)
}

/// The bytes that reading the value costs. A broadcast is a view with stride 0: it costs its source.
fn bytes(value: Value, scope: &Scope) -> i64 {
    if let Some(spread) = BroadcastOp::defining(value) {
        return bytes(spread.operand(), scope);
    }
    let ty = value.ty();
    let count = if ty.is_open() { expected(&ty.dims(), scope) } else { ty.numel() };
    count.saturating_mul(i64::from(ty.element().width().div_ceil(8)))
}

/// The same tensor type with another shape.
fn shaped(ty: Type, shape: &[Dim]) -> Type {
    Type::tensor_of(shape, ty.element())
}

/// A builder that inserts after an operation that is not a terminator.
fn after(op: Op) -> Builder {
    match (op.next(), op.block()) {
        (Some(next), _) => Builder::before(next).with_loc(op.loc()),
        (None, Some(block)) => Builder::at_end(block, op.loc()),
        (None, None) => Builder::before(op),
    }
}
