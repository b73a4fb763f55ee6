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
    ir::{Attr, Block, Builder, Ctx, Op, Type, Value},
    pass::{PassError, PassResult},
};

use super::scalar::{FLOAT_NE, Library, Scalars, case};
use crate::matmul::{choose::ceiling, forall};

/// Fewest elements of the source in one block of a parallel loop.
const BLOCK: i64 = 16 * 1024;
/// Most blocks. Each goes through all indices.
const MOST_BLOCKS: i64 = 16;
/// Fewest neighbours in a block.
const NEIGHBOURS: i64 = 32;

/// `arith.cmpf` ogt and olt.
const FLOAT_GT: i64 = 2;
const FLOAT_LT: i64 = 4;

/// The op of a kernel that writes by index.
pub(super) fn find(body: Block) -> Option<Op> {
    body.ops().into_iter().find(|op| op.is("dynamo.scatter"))
}

/// A kernel's operands, in memory.
struct Scatter {
    op: Op,
    indices: Vec<Value>,
    source: Value,
    out: Value,
    dims: Vec<i64>,
}

/// Lowers a kernel that is nothing but this op, its loads and its store.
pub(super) fn lower(function: Op, body: Block, op: Op) -> PassResult {
    let args = body.args();
    let loads: Vec<Op> = op.operands().iter().filter_map(|value| value.def()).collect();
    let stores: Vec<Op> = op.result(0).uses().into_iter().map(|used| used.op).collect();
    let [store] = stores[..] else { return Err(PassError::at(op, "expected one use: a store")) };
    let end = body.terminator().ok_or_else(|| PassError::at(function, "a kernel needs a terminator"))?;
    // Operands and arguments are the same, but that the result comes first among the ones and last among the others.
    let mut order = args.clone();
    order.rotate_right(1);
    let memory: Vec<Value> = loads.iter().filter(|load| load.is("bufferization.to_tensor")).map(|load| load.operand(0)).collect();
    let stored = store.is("bufferization.materialize_in_destination") && store.num_operands() == 2;
    if memory != order || !stored || store.operand(1) != memory[0] || body.ops().len() != args.len() + 3 {
        return Err(PassError::at(
            op,
            "expected a kernel that loads indices, source and base, writes into the base, and does nothing else",
        ));
    }
    let (read, written) = args.split_at(args.len() - 1);
    let types = |values: &[Value]| values.iter().map(|value| value.ty()).collect::<Vec<_>>();
    function.set_attr("dynamo.signature", Type::function(function.ctx(), &types(read), &types(written)).as_attr());

    let (indices, source) = (read[..read.len() - 1].to_vec(), read[read.len() - 1]);
    let scatter = Scatter { op, indices, source, out: written[0], dims: op.attr_i64s("dims").unwrap_or_default() };
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
            let (body, number) = forall(b, blocks);
            let first = body.value("arith.muli", &[number, index(body, block)], number.ty(), &[]);
            let end = body.value("arith.addi", &[first, index(body, block)], number.ty(), &[]);
            let end = body.value("arith.minui", &[end, index(body, sizes[dim])], number.ty(), &[]);
            bounds = Some((dim, first, end));
            inner = body;
        }
        for (dim, &size) in sizes.iter().enumerate() {
            let (first, end) = match bounds {
                Some((shared, first, end)) if shared == dim => (first, end),
                _ if size == 1 => {
                    at[dim] = Some(index(inner, 0));
                    continue;
                }
                _ => (index(inner, 0), index(inner, size)),
            };
            let step = index(inner, 1);
            let (op, body) = inner.op_with_body("scf.for", &[first, end, step], &[], &[], &[step.ty()]);
            let body_end = Builder::at_end(body, b.loc).op("scf.yield", &[], &[], &[]);
            at[dim] = op.body().and_then(|body| body.args().first().copied());
            inner = Builder::before(body_end);
        }
        let at: Vec<Value> = at.into_iter().flatten().collect();
        self.element(inner, &at)
    }

    /// Moves one element.
    fn element(&self, b: Builder, at: &[Value]) -> PassResult {
        let load = |memory: Value, at: &[Value]| b.value("memref.load", &[&[memory], at].concat(), memory.ty().element(), &[]);
        let computed = self.indices.iter().map(|&memory| b.value("arith.index_cast", &[load(memory, at)], index_type(b.ctx()), &[]));
        let mut computed: Vec<Value> = computed.collect();
        computed.reverse();
        let place = |&dim: &i64| usize::try_from(dim).map_or_else(|_| computed.pop(), |dim| at.get(dim).copied());
        let places: Option<Vec<Value>> = self.dims.iter().map(place).collect();
        let places = places.ok_or_else(|| PassError::at(self.op, "expected as many indices as dims are -1"))?;
        let mut value = load(self.source, at);
        if self.op.attr("kind").is_some() {
            let old = load(self.out, &places);
            value = self.combined(b, old, value).ok_or_else(|| PassError::at(self.op, "a kind without a lowering"))?;
        }
        b.op("memref.store", &[&[value, self.out], places.as_slice()].concat(), &[], &[]);
        Ok(())
    }

    /// One step. Of equal floats the old one stays, whatever the signs of zeros are, as eager has it.
    fn combined(&self, b: Builder, old: Value, new: Value) -> Option<Value> {
        let mut library = Library::new();
        let scalars = Scalars { builder: b, library: &mut library };
        let predicate = match case(self.op, "kind").as_str() {
            "max" if old.ty().is_float() => FLOAT_LT,
            "min" if old.ty().is_float() => FLOAT_GT,
            _ => return scalars.combine(self.op, old, new),
        };
        let (beyond, is_nan) = (scalars.compare(old, new, predicate), scalars.compare(new, new, FLOAT_NE));
        let taken = b.value("arith.ori", &[beyond, is_nan], is_nan.ty(), &[]);
        Some(b.value("arith.select", &[taken, new, old], old.ty(), &[]))
    }
}

fn index_type(ctx: Ctx) -> Type {
    Type::index(ctx)
}

fn index(b: Builder, value: i64) -> Value {
    let ty = index_type(b.ctx());
    b.value("arith.constant", &[], ty, &[("value", Attr::int_of(ty, value))])
}
