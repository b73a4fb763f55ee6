//! `dynamo-prefetch`: asks for memory before it is needed, in loops that the schedule has marked.
//!
//! The processor follows a stream by itself, but only up to the end of a page, and it stands still at the start of each row:
//! a first phase has little to compute while it waits. The phases after it have time, so they ask for the next row.
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
//! What a loop asks for lies at least [`AHEAD`] bytes of its own work ahead:
//! - in a loop along a row the same place in a later row; where rows are long, or there is only one, the same row further on;
//! - in a loop from row to row a later row.
//!
//! Only the kernel's arguments are asked for, once per row, and not those that are known to fit into the cache; nothing is asked for
//! where strides or the size of a row are not known. Along rows nothing is asked for where all memory of a kernel fits some cache: there
//! the processor is in time by itself, and a kernel that does little else takes 0.85 of its time without being asked (Zen 4).
//!
//! An address beyond the end of memory does no harm: a prefetch never faults. It is computed on integers, since LLVM may
//! assume that pointers stay inside of what they point to.

use dynamlir_dialect::{
    ir::{Block, Builder, DYNAMIC, Op, Type, Value},
    ops,
    pass::{Pass, PassError, PassResult, Run, Statistic, Takes},
    upstream::{arith, func, linalg, memref, scf, vector},
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-prefetch",
    description: "Prefetch in the loops that schedules have marked",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[PREFETCHED],
    run,
};

const PREFETCHED: Statistic = Statistic { name: "prefetches", description: "views that a loop asks for ahead" };

/// Bytes of a cache line.
const LINE: i64 = 64;
/// How far ahead to ask, at least: time for memory to answer.
const AHEAD: i64 = 2048;
/// Rows up to this number of bytes are asked for as a whole, ahead; of longer ones the first level cache could not hold two.
const ROW: i64 = 16 * 1024;
/// An argument of so few bytes stays in the cache anyway.
const SMALL: i64 = 16 * 1024;
/// Arguments of so few bytes together are in some cache, from which the processor fetches a stream in time by itself.
const CACHED: i64 = 24 * 1024 * 1024;
/// Most lines that one iteration asks for.
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

/// What a marked loop asks for. `asked` holds what other loops on the same rows ask for already.
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

/// Returns true if all that the kernel of a loop goes through fits some cache.
fn is_cached(marked: Op) -> bool {
    let mut function = marked;
    while let Some(around) = function.parent().filter(|_| !function.is(func::FUNC)) {
        function = around;
    }
    let arguments = function.body().map(Block::args).unwrap_or_default();
    let sum = arguments.into_iter().try_fold(0, |sum: i64, argument| sum.checked_add(reach(argument.ty())?));
    sum.is_some_and(|bytes| bytes < CACHED)
}

/// Bytes from the first to the last element of an argument; None where a size is not known, or is an argument.
fn reach(ty: Type) -> Option<i64> {
    if !ty.is_memref() {
        return None;
    }
    let (sizes, strides) = (ty.shape(), ty.strides());
    let is_known = !sizes.iter().chain(&strides).any(|&number| number == DYNAMIC);
    let steps = || sizes.iter().zip(&strides).map(|(size, stride)| (size - 1).saturating_mul(stride.abs())).fold(1, i64::saturating_add);
    is_known.then(|| steps().saturating_mul(i64::from(ty.element().width().div_ceil(8))))
}

/// How a loop runs.
struct Bounds {
    step: i64,
    /// Iterations; None if that depends.
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

/// How a view goes through a kernel's argument, in bytes.
struct Access {
    argument: Value,
    /// What one iteration goes through.
    bytes: i64,
    /// How far ahead to ask.
    ahead: i64,
    /// True if it reads consecutive elements of a row.
    is_stream: bool,
}

impl Access {
    /// None where there is nothing to ask for: a temporary, something small, something that is not gone through.
    fn read(view: Op, index: Value, bounds: &Bounds) -> Option<Self> {
        let ty = view.result(0).ty();
        let element = i64::from(ty.element().width()) / 8;
        // Strides of the dimension that the loop moves, and of the row that another loop moves.
        let (mut moved, mut row) = (None, None);
        let mut memory = view.result(0);
        while let Some(op) = memory.def() {
            if op.is(memref::REINTERPRET_CAST) && op.operand(0).def().is_none() {
                // The window that an argument of open sizes is.
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
                    // The innermost loop outside is the one that moves the dimension furthest inside.
                    row = row.or(Some(stride));
                }
            }
        }
        let (sizes, strides) = (memory.ty().shape(), memory.ty().strides());
        if strides.iter().chain(&row).chain(sizes.last()).any(|&number| number == DYNAMIC) || row == Some(0) {
            return None;
        }
        // Of how many rows there are when that is an argument, the worst is to be expected: too many for the cache.
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
            // From row to row, each gone through inside of the loop.
            let (shape, strides) = (ty.shape(), ty.strides());
            let (&length, outer) = shape.split_last().filter(|_| !is_last)?;
            let is_row = length > 0 && strides.last() == Some(&1) && outer.iter().all(|&size| size == 1);
            let bytes = length.checked_mul(element).filter(|_| is_row)?;
            (bytes, steps_ahead(stride.saturating_mul(bounds.step).saturating_mul(element), bytes))
        };
        Some(Self { argument: memory, bytes, ahead, is_stream })
    }
}

/// Bytes to as many steps of `step` bytes ahead as it takes to be far enough, when each goes through `bytes`.
fn steps_ahead(step: i64, bytes: i64) -> i64 {
    step.saturating_mul((AHEAD + bytes.abs() - 1) / bytes.abs())
}

/// The dimensions along which a view is moved, innermost first, and by what.
fn offsets(view: Op) -> Vec<(usize, Value)> {
    let offsets: Vec<i64> = view.required("static_offsets");
    let dims = offsets.iter().enumerate().filter(|&(_, &offset)| offset == DYNAMIC).map(|(dim, _)| dim);
    let mut moved: Vec<_> = dims.zip(view.operands().into_iter().skip(1)).collect();
    moved.reverse();
    moved
}

/// Whether something is stored through a view.
fn writes(view: Op) -> bool {
    view.result(0).uses().into_iter().any(|used| {
        // Kernels' operations take their destinations last, and have a block argument for each operand.
        let is_last =
            || used.op.body().is_some_and(|body| body.terminator().is_some_and(|end| used.index + end.num_operands() >= body.args().len()));
        used.op.is(vector::TRANSFER_WRITE) || (used.op.is(linalg::GENERIC) && is_last())
    })
}

/// Asks for what an iteration will go through later.
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
