//! `dynamo-prefetch`: prefetches memory in loops that the schedule has marked.
//!
//! The processor follows a stream on its own, but only up to the end of a page, and it stalls at the start of each row: a first phase has
//! little to compute while it waits. The phases after it have time, so they prefetch the next row.
//!
//! ```mlir
//! scf.for %j = %c0 to %c1024 step %c256 {                                              // before
//!   %s = memref.subview %row[0, %j] [1, 256] [1, 1] : …
//!   linalg.generic … ins(%s) …
//! } {dynamo.prefetch}
//!
//! scf.for %j = %c0 to %c1024 step %c256 {                                              // after
//!   %s = memref.subview %row[0, %j] [1, 256] [1, 1] : …
//!   %p = llvm.inttoptr (the address of %s, and 4096 bytes further)
//!   llvm.intr.prefetch %p …                                                            // and for each cache line
//!   linalg.generic … ins(%s) …
//! }
//! ```
//!
//! A loop prefetches at least [`AHEAD`] bytes of its own work ahead:
//! - a loop along a row prefetches the same place in a later row; if rows are long, or there is only one, the same row further on;
//! - a loop from row to row prefetches a later row.
//!
//! Only the kernel's arguments are prefetched, once per row, except those that are known to fit into the cache. Nothing is prefetched if
//! strides or the size of a row are not known. Loops along rows do not prefetch if all memory of a kernel fits some cache: there the
//! processor is in time on its own, and a kernel that does little else takes 0.85 of its time without prefetches (Zen 4).
//!
//! An address beyond the end of memory does no harm: a prefetch never faults. It is computed on integers, since LLVM may assume that
//! pointers stay within the object that they point to.

use dynamlir_dialect::{
    ir::{Block, Builder, DYNAMIC, Op, Type, Value},
    ops,
    pass::{Pass, PassError, PassResult, Run, Statistic, Takes},
    upstream::{arith, func, linalg, memref, scf, vector},
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-prefetch",
    description: "Prefetch memory in loops that the schedule has marked",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[PREFETCHED],
    run,
};

const PREFETCHED: Statistic = Statistic { name: "prefetches", description: "views prefetched by a loop" };

/// Bytes of a cache line.
const LINE: i64 = 64;
/// The minimum prefetch distance in bytes: time for memory to answer.
const AHEAD: i64 = 2048;
/// The maximum size in bytes of rows that are prefetched as a whole; of longer rows, the first-level cache could not hold two.
const ROW: i64 = 16 * 1024;
/// An argument with fewer bytes stays in the cache anyway.
const SMALL: i64 = 16 * 1024;
/// Arguments with fewer bytes in total are in some cache, from which the processor fetches a stream in time on its own.
const CACHED: i64 = 24 * 1024 * 1024;
/// The maximum number of cache lines that one iteration prefetches.
const MOST_LINES: i64 = 32;

fn run(module: Op, pass: &Run) -> PassResult {
    let mut loops = Vec::new();
    module.walk(&mut |op| {
        if op.is(scf::FOR) && ops::PREFETCH.is_on(op) {
            loops.push(op);
        }
    });
    if loops.is_empty() {
        pass.counts_all();
    }
    let mut asked = Vec::new();
    for marked in loops {
        ops::PREFETCH.remove(marked);
        prefetch(marked, &mut asked)?;
    }
    pass.count(&PREFETCHED, asked.len());
    Ok(())
}

/// Adds the prefetches of a marked loop. `asked` lists those that other loops on the same rows already have.
fn prefetch(marked: Op, asked: &mut Vec<(Option<Op>, Value)>) -> PassResult {
    let Some(body) = marked.body() else { return Ok(()) };
    let (Some(&index), Some(bounds)) = (body.args().first(), Bounds::read(marked)) else { return Ok(()) };
    for view in body.ops().into_iter().filter(|op| op.is(memref::SUBVIEW)) {
        let Some(access) = Access::read(view, index, &bounds).filter(|access| !access.is_stream || !is_cached(marked)) else {
            continue;
        };
        let key = (marked.parent(), access.argument);
        if !asked.contains(&key) {
            asked.push(key);
            ask(view, &access)?;
        }
    }
    Ok(())
}

/// Returns true if all memory of the loop's kernel fits some cache.
fn is_cached(marked: Op) -> bool {
    let mut function = marked;
    while let Some(around) = function.parent().filter(|_| !function.is(func::FUNC)) {
        function = around;
    }
    let arguments = function.body().map(Block::args).unwrap_or_default();
    let sum = arguments.into_iter().try_fold(0, |sum: i64, argument| sum.checked_add(reach(argument.ty())?));
    sum.is_some_and(|bytes| bytes < CACHED)
}

/// Bytes from the first to the last element of an argument; `None` if a size or stride is dynamic.
fn reach(ty: Type) -> Option<i64> {
    if !ty.is_memref() {
        return None;
    }
    let (sizes, strides) = (ty.shape(), ty.strides());
    let is_known = !sizes.iter().chain(&strides).any(|&number| number == DYNAMIC);
    let steps = || sizes.iter().zip(&strides).map(|(size, stride)| (size - 1).saturating_mul(stride.abs())).fold(1, i64::saturating_add);
    is_known.then(|| steps().saturating_mul(i64::from(ty.element().width().div_ceil(8))))
}

/// The bounds of a loop.
struct Bounds {
    step: i64,
    /// Number of iterations; `None` if it is not constant.
    count: Option<i64>,
}

impl Bounds {
    fn read(op: Op) -> Option<Self> {
        let constant = |i| op.operand(i).def().filter(|def| def.is(arith::CONSTANT))?.attr_i64("value");
        let step = constant(2).filter(|&step| step > 0)?;
        let count = constant(0).zip(constant(1)).map(|(lower, upper)| upper.saturating_sub(lower) / step);
        Some(Self { step, count })
    }
}

/// The access pattern of a view of a kernel's argument, in bytes.
struct Access {
    argument: Value,
    /// Bytes accessed by one iteration.
    bytes: i64,
    /// The prefetch distance.
    ahead: i64,
    /// True if it reads consecutive elements of a row.
    is_stream: bool,
}

impl Access {
    /// Reads the access pattern of a view. `None` if a prefetch would be useless: for a temporary, a small argument, or one that the loop
    /// does not move through.
    fn read(view: Op, index: Value, bounds: &Bounds) -> Option<Self> {
        let ty = view.result(0).ty();
        let element = i64::from(ty.element().width()) / 8;
        // Strides of the dimension that this loop moves along, and of the row that another loop moves along.
        let (mut moved, mut row) = (None, None);
        let mut memory = view.result(0);
        while let Some(op) = memory.def() {
            if op.is(memref::REINTERPRET_CAST) && op.operand(0).def().is_none() {
                // The cast is the window of an argument with dynamic sizes.
                break;
            }
            if !op.is(memref::SUBVIEW) {
                return None;
            }
            memory = op.operand(0);
            let strides = memory.ty().strides();
            for (dim, offset) in offsets(op) {
                let (&stride, is_last) = (strides.get(dim)?, dim + 1 == strides.len());
                if offset == index {
                    moved = Some((stride, is_last));
                } else if !is_last {
                    // The innermost enclosing loop is the one that moves along the innermost dimension.
                    row = row.or(Some(stride));
                }
            }
        }
        let (sizes, strides) = (memory.ty().shape(), memory.ty().strides());
        if strides.iter().chain(&row).chain(sizes.last()).any(|&number| number == DYNAMIC) || row == Some(0) {
            return None;
        }
        // If the number of rows is dynamic, the worst case is assumed: they exceed the cache.
        let reach = || sizes.iter().zip(&strides).map(|(size, stride)| (size - 1).saturating_mul(stride.abs())).sum::<i64>();
        if element == 0 || (!sizes.contains(&DYNAMIC) && reach() < SMALL / element) {
            return None;
        }
        let (stride, is_last) = moved.filter(|&(stride, _)| stride != DYNAMIC && stride != 0)?;
        let is_stream = is_last && stride == 1;
        let (bytes, ahead) = if is_stream {
            // Along a row.
            let bytes = bounds.step.checked_mul(element)?;
            let fits = bounds.count.is_some_and(|count| count.saturating_mul(bytes) <= ROW);
            let next_row = row.filter(|_| fits).map(|row| row.saturating_mul(element));
            (bytes, next_row.map_or(AHEAD.max(bytes), |row| steps_ahead(row, row)))
        } else {
            // From row to row, each processed inside the loop.
            let (shape, strides) = (ty.shape(), ty.strides());
            let (&length, outer) = shape.split_last().filter(|_| !is_last)?;
            let is_row = length > 0 && strides.last() == Some(&1) && outer.iter().all(|&size| size == 1);
            let bytes = length.checked_mul(element).filter(|_| is_row)?;
            (bytes, steps_ahead(stride.saturating_mul(bounds.step).saturating_mul(element), bytes))
        };
        Some(Self { argument: memory, bytes, ahead, is_stream })
    }
}

/// The distance in bytes to the nearest whole number of steps that is far enough ahead, for steps of `step` bytes of which each processes
/// `bytes`.
fn steps_ahead(step: i64, bytes: i64) -> i64 {
    step.saturating_mul((AHEAD + bytes.abs() - 1) / bytes.abs())
}

/// The dimensions along which a view has a dynamic offset, innermost first, with the offset.
fn offsets(view: Op) -> Vec<(usize, Value)> {
    let offsets: Vec<i64> = view.required("static_offsets");
    let dims = offsets.iter().enumerate().filter(|&(_, &offset)| offset == DYNAMIC).map(|(dim, _)| dim);
    let mut moved: Vec<_> = dims.zip(view.operands().into_iter().skip(1)).collect();
    moved.reverse();
    moved
}

/// Returns true if a view is written through.
fn writes(view: Op) -> bool {
    view.result(0).uses().into_iter().any(|used| {
        // The destinations are the last operands of these operations, which have a block argument for each operand.
        let is_last =
            || used.op.body().is_some_and(|body| body.terminator().is_some_and(|end| used.index + end.num_operands() >= body.args().len()));
        used.op.is(vector::TRANSFER_WRITE) || (used.op.is(linalg::GENERIC) && is_last())
    })
}

/// Emits the prefetches for a later iteration.
fn ask(view: Op, access: &Access) -> PassResult {
    let next = view.next().ok_or_else(|| PassError::at(view, "a view at the end of a block"))?;
    let b = Builder::before(next).with_loc(view.loc());
    let (long, memory) = (Type::int(view.ctx(), 64), view.result(0));
    let parts = b.memref_extract_strided_metadata(memory);
    let start = b.memref_address(parts.result(0));
    let bytes = b.muli(parts.result(1), b.index(i64::from(memory.ty().element().width()) / 8));
    let address = b.index_cast(b.addi(start, bytes), long);
    let writes = writes(view);
    for line in 0..((access.bytes + LINE - 1) / LINE).min(MOST_LINES) {
        let at = b.addi(address, b.int(long, access.ahead.saturating_add(LINE * line)));
        b.llvm_prefetch(b.llvm_inttoptr(at), writes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_ahead_are_far_enough() {
        assert_eq!(steps_ahead(4096, 4096), 4096);
        assert_eq!(steps_ahead(768, 768), 2304);
        assert_eq!(steps_ahead(-512, 512), -2048);
        assert_eq!(steps_ahead(1024, 256), 8192);
    }
}
