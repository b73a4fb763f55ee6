//! Lowers kernels that write by index to loops over their source: `linalg.generic` cannot write to computed indices.
//!
//! ```mlir
//! scf.for %p = %c0 to %c3 step %c1 {
//!   %i = memref.load %index[%p] : memref<3xi64>
//!   %at = arith.index_cast %i : i64 to index
//!   %new = memref.load %source[%p] : memref<3xf32>
//!   %old = memref.load %out[%at] : memref<9xf32>       // these two only where elements are combined
//!   %sum = arith.addf %old, %new : f32
//!   memref.store %sum, %out[%at] : memref<9xf32>
//! }
//! ```
//! Elements that differ along a dimension common to source and result are written to different places. So the first such dimension is
//! shared out among threads, outside all other loops; the order of writes to one place is preserved. If sizes are arguments, the block size
//! is computed from them.

use dynamlir_dialect::{
    ir::{Block, Builder, Op, Type, Value},
    ops::{self, ReduceKind, ScatterOp},
    pass::{PassError, PassResult},
    upstream::{
        arith::CmpF,
        bufferization::{MATERIALIZE_IN_DESTINATION, TO_TENSOR},
    },
};

use dynamlir_shapes::{Dim, Dimension, ShapeError};

use super::{scalar::combine, sizes::open_windows};
use crate::values::Sizes;

/// The minimum number of source elements in one block of a parallel loop.
const BLOCK: i64 = 16 * 1024;
/// The maximum number of blocks. Each iterates over all indices.
const MOST_BLOCKS: i64 = 16;
/// The minimum number of adjacent elements in a block.
const NEIGHBOURS: i64 = 32;

/// The op of a kernel that writes by index.
pub(super) fn find(body: Block) -> Option<ScatterOp> {
    body.ops().into_iter().find_map(ScatterOp::cast)
}

/// The division of a dimension among threads.
struct Blocks {
    /// The size of a block.
    block: Dim,
    /// The number of blocks.
    count: Dim,
    /// The number of elements in excess of the work for a single thread.
    beyond: Dim,
}

/// A kernel's operands, in memory.
struct Scatter<'a> {
    op: ScatterOp,
    indices: Vec<Value>,
    source: Value,
    out: Value,
    dims: Vec<i64>,
    /// Sizes of the source.
    extents: Vec<Dim>,
    sizes: &'a Sizes,
}

/// Lowers a kernel that consists only of this op, its loads and its store.
pub(super) fn lower(function: Op, body: Block, scatter: ScatterOp) -> PassResult {
    let op = scatter.op();
    let index = Type::index(function.ctx());
    // Sizes come after the memory.
    let args: Vec<Value> = body.args().into_iter().filter(|arg| arg.ty() != index).collect();
    let loads: Vec<Op> = op.operands().iter().filter_map(|value| value.def()).collect();
    let stores: Vec<Op> = op.result(0).uses().into_iter().map(|used| used.op).collect();
    let [store] = stores[..] else { return Err(PassError::at(op, "expected one use: a store")) };
    let missing = |what| PassError::at(function, format!("a kernel needs a {what}"));
    let (end, first) = (body.terminator().ok_or_else(|| missing("terminator"))?, body.ops().first().copied());
    // Operands and arguments are the same, except that the result comes first among the operands and last among the arguments.
    let mut order = args.clone();
    order.rotate_right(1);
    let loaded = || loads.iter().filter(|load| load.is(TO_TENSOR)).map(|load| load.operand(0)).collect::<Vec<_>>();
    let stored = store.is(MATERIALIZE_IN_DESTINATION) && store.num_operands() == 2;
    if loaded() != order || !stored || store.operand(1) != order[0] || body.ops().len() != args.len() + 3 {
        return Err(PassError::at(
            op,
            "expected a kernel that loads indices, source and base, writes into the base, and does nothing else",
        ));
    }
    let (read, written) = args.split_at(args.len() - 1);
    let types = |values: &[Value]| values.iter().map(|value| value.ty()).collect::<Vec<_>>();
    ops::SIGNATURE.set(function, Type::function(function.ctx(), &types(read), &types(written)));

    let extents = scatter
        .source()
        .ty()
        .sizes()
        .ok_or_else(|| PassError::at(op, format!("expected a type that says its sizes, got {}", scatter.source().ty())))?;
    let sizes = Sizes::of(function, Builder::before(first.unwrap_or(end)).with_loc(function.loc()))?;
    open_windows(function, &sizes)?;
    let [out, indices @ .., source] = &loaded()[..] else { return Err(missing("base")) };
    let (indices, dims) = (indices.to_vec(), scatter.dims());
    let scatter = Scatter { op: scatter, indices, source: *source, out: *out, dims, extents, sizes: &sizes };
    scatter.loops(function, Builder::before(end).with_loc(op.loc()))?;
    store.erase();
    op.erase();
    for load in loads {
        load.erase();
    }
    Ok(())
}

impl Scatter<'_> {
    fn loops(&self, function: Op, b: Builder) -> PassResult {
        let mut at: Vec<Option<Value>> = vec![None; self.extents.len()];
        let mut inner = b;
        let mut bounds = None;
        let shared = (0..self.extents.len()).find(|&dim| !self.extents[dim].is(1) && self.dims.contains(&(dim as i64)));
        let beyond = || PassError::at(self.op.op(), "sizes beyond 64 bits");
        let blocks = shared.map(|dim| Ok((dim, self.block(dim)?))).transpose().map_err(|_: ShapeError| beyond())?;
        if let Some((dim, Blocks { block, count, beyond })) = blocks.filter(|(_, blocks)| !blocks.count.is(1)) {
            let (body, number) = match count.known() {
                Some(count) => b.scf_forall(count),
                None => b.scf_forall_to(self.sizes.value(&count)),
            };
            let first = body.muli(number, self.value(body, &block));
            let end = body.addi(first, self.value(body, &block));
            let end = body.minui(end, self.value(body, &self.extents[dim]));
            bounds = Some((dim, first, end));
            inner = body;
            if beyond.known().is_none() {
                ops::PARALLEL.dim().set(function, &beyond);
            }
        }
        for (dim, size) in self.extents.iter().enumerate() {
            let (first, end) = match bounds {
                Some((shared, first, end)) if shared == dim => (first, end),
                _ if size.is(1) => {
                    at[dim] = Some(inner.index(0));
                    continue;
                }
                _ => (inner.index(0), self.value(inner, size)),
            };
            let (_, body) = inner.scf_for([first, end, inner.index(1)], &[]);
            at[dim] = body.args().first().copied();
            inner = Builder::before(Builder::at_end(body, b.loc).scf_yield(&[]));
        }
        let at: Vec<Value> = at.into_iter().flatten().collect();
        self.element(inner, &at)
    }

    /// Divides a dimension among threads.
    fn block(&self, dim: usize) -> Result<Blocks, ShapeError> {
        let size = &self.extents[dim];
        let others = self.extents.iter().enumerate().filter(|&(other, _)| other != dim);
        let rest = others.map(|(_, size)| size).try_fold(Dim::from(1), |rest, size| rest.mul(size))?;
        let neighbours = if dim + 1 == self.extents.len() { NEIGHBOURS } else { 1 };
        let block = Dim::from(BLOCK).floordiv(&rest)?.max(&size.ceildiv(&MOST_BLOCKS.into())?)?.max(&neighbours.into())?;
        Ok(Blocks { count: size.ceildiv(&block)?, beyond: size.mul(&rest)?.sub(&BLOCK.into())?, block })
    }

    /// A size as a value: a constant at this point, or computed at the beginning of the kernel.
    fn value(&self, b: Builder, size: &Dim) -> Value {
        size.known().map_or_else(|| self.sizes.value(size), |number| b.index(number))
    }

    /// Writes one element.
    fn element(&self, b: Builder, at: &[Value]) -> PassResult {
        let index = Type::index(b.ctx());
        let mut computed: Vec<_> = self.indices.iter().map(|&memory| b.index_cast(b.memref_load(memory, at), index)).collect();
        computed.reverse();
        let refuse = |what| PassError::at(self.op.op(), what);
        let place = |&dim: &i64| usize::try_from(dim).map_or_else(|_| computed.pop(), |dim| at.get(dim).copied());
        let places: Option<Vec<Value>> = self.dims.iter().map(place).collect();
        let places = places.ok_or_else(|| refuse("expected as many indices as dims are -1"))?;
        let mut value = b.memref_load(self.source, at);
        if let Some(kind) = self.op.kind() {
            let old = b.memref_load(self.out, &places);
            value = self.combined(b, kind, old, value).ok_or_else(|| refuse("a kind without a lowering"))?;
        }
        b.memref_store(value, self.out, &places);
        Ok(())
    }

    /// Combines two elements. Of equal floats the old one is kept, regardless of the signs of zeros, as in eager.
    fn combined(&self, b: Builder, kind: ReduceKind, old: Value, new: Value) -> Option<Value> {
        let predicate = match kind {
            ReduceKind::Max if old.ty().is_float() => CmpF::Olt,
            ReduceKind::Min if old.ty().is_float() => CmpF::Ogt,
            _ => return combine(b, self.op.op(), kind, old, new),
        };
        let (beyond, is_nan) = (b.cmpf(predicate, old, new), b.cmpf(CmpF::Une, new, new));
        Some(b.select(b.ori(beyond, is_nan), new, old))
    }
}
