//! `dynamo-schedule-gpu`: assigns work to threads, and records the decision on the kernel as `dynamo.gpu`.
//!
//! | kernel | class | blocks and threads |
//! |---|---|---|
//! | nothing reduced | `points` | a thread takes `vector` neighbours of the innermost dimension |
//! | the last dimension reduced | `rows` | `threads` threads share a row, `across` rows share a block |
//! | another dimension reduced | `columns` | `across` columns side by side, `threads` threads share each |
//!
//! Before: `func.func @k(%x: memref<64x1024xf32>, …) attributes {dynamo.kernel}`, a phase that sums along the last dimension.
//! After: the same with `dynamo.gpu = {across = 1 : i64, chunks = 1 : i64, class = "rows", keep = 1 : i64, threads = 256 : i64, vector = 4
//! : i64}`, which may be edited: `dynamo-to-gpu` checks and follows it.
//!
//! The reason for not using transform-dialect loops as for the CPU: a GPU's schedule decides which *thread* has which elements, and the
//! phases of a kernel then communicate through registers and shuffles. `scf.forall` of threads with fused phases would put a buffer and a
//! barrier between any two phases, and upstream does not have a tiling into warps that share a reduction.
//!
//! With `keep`, a row fits the registers of its threads: the loop over its chunks is unrolled, and values that one phase has loaded or
//! computed are available to the next. Without it, the loop stays, and later phases recompute their elements from memory.
//!
//! Restriction: a kernel that is not a chain of phases over one domain (see `kernel.rs`) gets `dynamo.no_gpu` with the reason.

use dynamlir_dialect::{
    ir::{Attr, Ctx, Op},
    ops,
    pass::{Options, Pass, PassResult, Run, Statistic, Takes},
    pass_options,
    upstream::func,
};

use crate::{kernel::Kernel, matmul};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-schedule-gpu",
    description: "Decide which GPU thread computes which elements of a kernel",
    takes: Takes::Numbers,
    options: ScheduleOptions::DECLARED,
    statistics: &[SCHEDULED, REFUSED],
    run,
};

const SCHEDULED: Statistic = Statistic { name: "scheduled", description: "kernels distributed over threads" };
const REFUSED: Statistic = Statistic { name: "refused", description: "kernels that have no form for GPU threads" };

/// Threads of a warp.
pub(crate) const WARP: i64 = 32;
/// Threads of a block that computes points: enough of them to hide memory latency, few enough for several blocks per processor.
const BLOCK: i64 = 256;
/// The largest number of threads of a block.
const MOST_THREADS: i64 = 1024;
/// Bytes that one thread moves at once.
const VECTOR_BYTES: i64 = 16;
/// Elements of a row that a thread may keep in registers.
const KEPT_ELEMENTS: i64 = 32;
/// The largest number of operations that unrolling the phases' bodies may create.
const UNROLLED_OPS: i64 = 4096;
/// The chunks per thread if there are enough rows to fill the processor without the largest number of threads per row.
const CHUNKS: i64 = 2;
/// The same if one warp then has the whole row: it does not need shared memory and does not wait for other warps.
const MOST_CHUNKS: i64 = 4;
/// The number of rows that fill a processor.
const MANY_ROWS: i64 = 512;
/// The largest number of threads that share a column: their results are combined one by one.
const MOST_PER_COLUMN: i64 = 16;

/// The way the threads share a kernel's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A thread per vector of points.
    Points,
    /// Threads side by side along a row.
    Rows,
    /// Threads side by side on neighbouring columns.
    Columns,
}

/// The decision. For [`Class::Points`], `threads` counts a block's threads and `across` is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    pub(crate) class: Class,
    /// Neighbouring elements that a thread takes together.
    pub(crate) vector: i64,
    /// Threads that share a row or column.
    pub(crate) threads: i64,
    /// Rows or columns that share a block.
    pub(crate) across: i64,
    /// Vectors that each thread takes of a row.
    pub(crate) chunks: i64,
    /// True if these stay in registers between phases.
    pub(crate) keep: bool,
}

pass_options! {
    /// Options of `dynamo-schedule-gpu`.
    pub struct ScheduleOptions {
        /// round the f32 operands of matrix products to tf32 (false)
        tf32: bool = false,
    }
}

fn run(module: Op, pass: &Run) -> PassResult {
    let options: ScheduleOptions = pass.options()?;
    for function in kernels(module) {
        // A matrix product has code of its own, with nothing to decide.
        if matmul::is_product(function) {
            matmul::check(function, options.tf32);
            continue;
        }
        let decided = Kernel::read(function).and_then(|kernel| {
            let schedule = schedule(&kernel);
            let fits = i32::try_from(schedule.blocks(&kernel)).is_ok();
            if fits { Ok(schedule) } else { Err("it has more blocks than a grid".to_owned()) }
        });
        pass.count(if decided.is_ok() { &SCHEDULED } else { &REFUSED }, 1);
        match decided {
            Ok(schedule) => ops::GPU.set(function, schedule.to_attr(function.ctx())),
            Err(reason) => ops::NO_GPU.set(function, &reason),
        }
    }
    Ok(())
}

/// The kernels of a module.
pub(crate) fn kernels(module: Op) -> Vec<Op> {
    let mut found = Vec::new();
    module.walk(&mut |op| {
        if op.is(func::FUNC) && ops::KERNEL.is_on(op) {
            found.push(op);
        }
    });
    found
}

fn schedule(kernel: &Kernel) -> Schedule {
    let innermost = kernel.domain.len().wrapping_sub(1);
    if !kernel.reduces() {
        let vector = kernel.domain.last().map_or(1, |&range| vector(kernel, innermost, range));
        let points: i64 = kernel.domain.iter().product();
        let threads = pieces((points / vector).clamp(1, BLOCK), WARP) * WARP;
        return Schedule { class: Class::Points, vector, threads, across: 1, chunks: 1, keep: true };
    }
    let (rows, row) = (kernel.elements(true), kernel.elements(false));
    if kernel.kept[innermost] {
        let threads = power(row.min(MOST_PER_COLUMN));
        let chunks = pieces(row, threads);
        return Schedule { class: Class::Columns, vector: 1, threads, across: WARP, chunks, keep: keeps(kernel, chunks) };
    }
    let vector = vector(kernel, innermost, kernel.domain[innermost]);
    let vectors = row / vector;
    let many = rows >= MANY_ROWS;
    let threads = if vectors <= WARP * if many { MOST_CHUNKS } else { CHUNKS } {
        WARP
    } else {
        power(pieces(vectors, if many { CHUNKS } else { 1 })).min(MOST_THREADS)
    };
    let across = if threads == WARP { power(rows / MANY_ROWS + 1).min(BLOCK / WARP) } else { 1 };
    let chunks = pieces(vectors, threads);
    Schedule { class: Class::Rows, vector, threads, across, chunks, keep: keeps(kernel, chunks * vector) }
}

/// The number of pieces of this size in `whole`, rounded up.
pub(crate) fn pieces(whole: i64, size: i64) -> i64 {
    (whole + size - 1) / size
}

/// The smallest power of two that is not less than a number.
fn power(number: i64) -> i64 {
    number.max(1).cast_unsigned().next_power_of_two().cast_signed()
}

/// Returns true if that number of elements per thread can be kept in registers.
fn keeps(kernel: &Kernel, elements: i64) -> bool {
    let mut ops = 0;
    kernel.function.walk(&mut |_| ops += 1);
    elements <= KEPT_ELEMENTS && elements * ops <= UNROLLED_OPS
}

/// The number of neighbours along the innermost dimension that can be moved together: 16 bytes of the widest operand, as long as a row
/// consists of whole vectors. Operands that are indexed in another way do not count: their elements are moved one by one.
fn vector(kernel: &Kernel, innermost: usize, range: i64) -> i64 {
    let widths = kernel.accesses().into_iter().filter(|(argument, access)| along(kernel, *argument, access, innermost).is_some());
    let widest = widths.map(|(argument, _)| bytes(kernel, argument)).max();
    let most = widest.map_or(1, |bytes| VECTOR_BYTES / bytes);
    std::iter::successors(Some(most), |vector| Some(vector / 2)).find(|&vector| vector <= 1 || range % vector == 0).unwrap_or(1).max(1)
}

/// Bytes of an element of an argument.
pub(crate) fn bytes(kernel: &Kernel, argument: usize) -> i64 {
    i64::from(kernel.memory(argument).element().width().div_ceil(8)).max(1)
}

/// If an access goes along `innermost` element by element: the largest power of two that divides its other strides, which is the longest
/// vector all of whose addresses are aligned, provided that the first one is aligned as `dynamo.alignments` states.
pub(crate) fn along(kernel: &Kernel, argument: usize, access: &[Option<usize>], innermost: usize) -> Option<i64> {
    let strides = kernel.memory(argument).strides();
    let at = access.iter().position(|&dim| dim == Some(innermost))?;
    // Vectors are loaded only along the memory's last dimension.
    if strides[at] != 1 || at + 1 != strides.len() || access.iter().filter(|&&dim| dim == Some(innermost)).count() != 1 {
        return None;
    }
    let others = strides.iter().enumerate().filter(|&(d, _)| d != at && access[d].is_some()).map(|(_, &stride)| stride);
    let by_strides = others.filter(|&stride| stride != 0).map(|stride| 1 << stride.trailing_zeros().min(6)).min().unwrap_or(64);
    Some(by_strides.min(start(kernel, argument) / bytes(kernel, argument)).max(1))
}

/// The alignment of an argument in bytes, from `dynamo.alignments` if the kernel has it.
fn start(kernel: &Kernel, argument: usize) -> i64 {
    ops::ALIGNMENTS.of(kernel.function).and_then(|known| known.get(argument).copied()).unwrap_or(VECTOR_BYTES)
}

impl Schedule {
    /// The number of blocks.
    pub(crate) fn blocks(&self, kernel: &Kernel) -> i64 {
        match self.class {
            Class::Points => pieces(kernel.elements(true) / self.vector, self.threads),
            Class::Rows | Class::Columns => pieces(kernel.elements(true), self.across),
        }
    }

    fn to_attr(self, ctx: Ctx) -> Attr {
        let class = match self.class {
            Class::Points => "points",
            Class::Rows => "rows",
            Class::Columns => "columns",
        };
        let number = |value: i64| Attr::i64(ctx, value);
        Attr::dict(
            ctx,
            &[
                ("across", number(self.across)),
                ("chunks", number(self.chunks)),
                ("class", Attr::str(ctx, class)),
                ("keep", number(self.keep.into())),
                ("threads", number(self.threads)),
                ("vector", number(self.vector)),
            ],
        )
    }

    /// Reads a schedule, which a user may have edited, and checks that every element is still computed.
    pub(crate) fn from_attr(attr: Attr, kernel: &Kernel) -> Result<Self, String> {
        let number =
            |name: &str| attr.get(name).and_then(Attr::as_i64).filter(|&n| n >= 0).ok_or_else(|| format!("dynamo.gpu lacks {name}"));
        let class = match attr.get("class").and_then(Attr::as_str).as_deref() {
            Some("points") => Class::Points,
            Some("rows") => Class::Rows,
            Some("columns") => Class::Columns,
            _ => return Err("dynamo.gpu lacks a class: points, rows or columns".into()),
        };
        let schedule = Self {
            class,
            vector: number("vector")?,
            threads: number("threads")?,
            across: number("across")?,
            chunks: number("chunks")?,
            keep: number("keep")? != 0,
        };
        schedule.check(kernel).map(|()| schedule)
    }

    fn check(&self, kernel: &Kernel) -> Result<(), String> {
        let Self { class, vector, threads, across, chunks, keep } = *self;
        if (class == Class::Points) == kernel.reduces() {
            return Err("the class of dynamo.gpu does not fit a kernel that reduces, or does not".into());
        }
        let innermost = kernel.domain.last().copied().unwrap_or(1);
        if ![1, 2, 4, 8, 16].contains(&vector) || innermost % vector != 0 || (class == Class::Columns && vector != 1) {
            return Err(format!("a row of {innermost} does not consist of vectors of {vector}"));
        }
        let block = threads.saturating_mul(across);
        let whole = match class {
            Class::Points => across == 1 && threads % WARP == 0,
            Class::Rows => threads % WARP == 0 && power(threads) == threads && (threads == WARP || across == 1),
            Class::Columns => across == WARP && power(threads) == threads,
        };
        if !whole || !(1..=MOST_THREADS).contains(&block) {
            return Err(format!("{threads} by {across} threads are not a block for this class"));
        }
        if class == Class::Rows && kernel.kept.last() == Some(&true) {
            return Err("the last dimension is kept: the class is columns".into());
        }
        if class != Class::Points && chunks.saturating_mul(threads).saturating_mul(vector) < kernel.elements(false) {
            return Err(format!("{chunks} chunks of {threads} vectors of {vector} do not cover a row of {}", kernel.elements(false)));
        }
        if keep && chunks > 256 {
            return Err("that many chunks are a loop".into());
        }
        Ok(())
    }
}
