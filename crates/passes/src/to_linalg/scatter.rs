//! Kernels that write by index become loops over their source: `linalg.generic` has no writes to computed places.
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
//! Elements that differ along a dimension which both source and result have go to different places. So the first such
//! dimension is shared out among threads, outside all other loops; the order of writes to one place stays.

use dynamlir_dialect::{
    ir::{Block, Builder, Op, Type, Value},
    ops::{self, ReduceKind, ScatterOp},
    pass::{PassError, PassResult},
    upstream::{
        arith::CmpF,
        bufferization::{MATERIALIZE_IN_DESTINATION, TO_TENSOR},
    },
};

use super::scalar::combine;
use crate::anchors::choose::ceiling;

/// Fewest elements of the source in one block of a parallel loop.
const BLOCK: i64 = 16 * 1024;
/// Most blocks. Each goes through all indices.
const MOST_BLOCKS: i64 = 16;
/// Fewest neighbours in a block.
const NEIGHBOURS: i64 = 32;

/// The op of a kernel that writes by index.
pub(super) fn find(body: Block) -> Option<ScatterOp> {
    body.ops().into_iter().find_map(ScatterOp::cast)
}

/// A kernel's operands, in memory.
struct Scatter {
    op: ScatterOp,
    indices: Vec<Value>,
    source: Value,
    out: Value,
    dims: Vec<i64>,
}

/// Lowers a kernel that is nothing but this op, its loads and its store.
pub(super) fn lower(function: Op, body: Block, scatter: ScatterOp) -> PassResult {
    let op = scatter.op();
    let args = body.args();
    let loads: Vec<Op> = op.operands().iter().filter_map(|value| value.def()).collect();
    let stores: Vec<Op> = op.result(0).uses().into_iter().map(|used| used.op).collect();
    let [store] = stores[..] else { return Err(PassError::at(op, "expected one use: a store")) };
    let end = body.terminator().ok_or_else(|| PassError::at(function, "a kernel needs a terminator"))?;
    // Operands and arguments are the same, but that the result comes first among the ones and last among the others.
    let mut order = args.clone();
    order.rotate_right(1);
    let memory: Vec<Value> = loads.iter().filter(|load| load.is(TO_TENSOR)).map(|load| load.operand(0)).collect();
    let stored = store.is(MATERIALIZE_IN_DESTINATION) && store.num_operands() == 2;
    if memory != order || !stored || store.operand(1) != memory[0] || body.ops().len() != args.len() + 3 {
        return Err(PassError::at(
            op,
            "expected a kernel that loads indices, source and base, writes into the base, and does nothing else",
        ));
    }
    let (read, written) = args.split_at(args.len() - 1);
    let types = |values: &[Value]| values.iter().map(|value| value.ty()).collect::<Vec<_>>();
    ops::SIGNATURE.set(function, Type::function(function.ctx(), &types(read), &types(written)));

    let (indices, source) = (read[..read.len() - 1].to_vec(), read[read.len() - 1]);
    let scatter = Scatter { op: scatter, indices, source, out: written[0], dims: scatter.dims() };
    scatter.loops(Builder::before(end).with_loc(op.loc()))?;
    store.erase();
    op.erase();
    for load in loads {
        load.erase();
    }
    Ok(())
}

impl Scatter {
    fn loops(&self, b: Builder) -> PassResult {
        let sizes = self.source.ty().shape();
        let mut at: Vec<Option<Value>> = vec![None; sizes.len()];
        let mut inner = b;
        let mut bounds = None;
        let elements: i64 = sizes.iter().product();
        let shared = (0..sizes.len()).find(|&dim| sizes[dim] > 1 && self.dims.contains(&(dim as i64)));
        let block = |dim: usize| {
            let (size, rest) = (sizes[dim], elements / sizes[dim]);
            let neighbours = if dim + 1 == sizes.len() { NEIGHBOURS } else { 1 };
            (BLOCK / rest).max(ceiling(size, MOST_BLOCKS)).max(neighbours)
        };
        if let Some((dim, block)) = shared.map(|dim| (dim, block(dim))).filter(|&(dim, block)| block < sizes[dim]) {
            let blocks = ceiling(sizes[dim], block);
            let (body, number) = b.scf_forall(blocks);
            let first = body.muli(number, body.index(block));
            let end = body.addi(first, body.index(block));
            let end = body.minui(end, body.index(sizes[dim]));
            bounds = Some((dim, first, end));
            inner = body;
        }
        for (dim, &size) in sizes.iter().enumerate() {
            let (first, end) = match bounds {
                Some((shared, first, end)) if shared == dim => (first, end),
                _ if size == 1 => {
                    at[dim] = Some(inner.index(0));
                    continue;
                }
                _ => (inner.index(0), inner.index(size)),
            };
            let (_, body) = inner.scf_for([first, end, inner.index(1)], &[]);
            at[dim] = body.args().first().copied();
            inner = Builder::before(Builder::at_end(body, b.loc).scf_yield(&[]));
        }
        let at: Vec<Value> = at.into_iter().flatten().collect();
        self.element(inner, &at)
    }

    /// Moves one element.
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

    /// One step. Of equal floats the old one stays, whatever the signs of zeros are, as eager has it.
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
