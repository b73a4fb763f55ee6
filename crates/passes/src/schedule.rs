//! `dynamo-schedule`: decides how a kernel's loops are cut, and applies the decision as a transform-dialect schedule.
//!
//! A kernel is a chain of `linalg.generic`s, the *phases*, numbered by `dynamo.phase`. The last is the *root*: every value that leaves the
//! kernel is one of its results. The schedule tiles the root and pulls the other phases into its loops, so that the values passed between
//! two phases are a block, or a single row, and stay in the innermost cache.
//!
//! | kernel | schedule |
//! |---|---|
//! | little work | no parallel loop |
//! | one phase, nothing reduced | parallel loop over blocks, in it a loop over vectors |
//! | reduction along the last dimension | parallel loop over blocks of rows, in it a loop over rows, in it strips of the row |
//! | reduction along other dimensions | parallel loop over blocks of columns, in it a loop over the rows of the block |
//! | reductions of everything | for each a parallel loop over pieces, then a reduction of the partial results |
//! | matrix product | register tiles, as specified by the kernel's `dynamo.matmul`; see [`crate::anchors`] |
//!
//! Blocks, strips and pieces depend only on shapes, never on the number of threads or the width of vectors.
//!
//! For dynamic sizes most of this is decided by their expected values (hints). Block sizes are computed when the kernel is called
//! ([`tiles`]), and so is whether its loop is parallel: `dynamo.parallel` is an expression that is negative if the work does not pay for
//! threads, which `dynamo-fork-if` uses.
//!
//! # The innermost loop
//!
//! A single phase without reductions is cut into vectors: [`UNROLL`] of the processor's vectors at a time, so that the operations of one
//! hide the latency of the other. The remainder of a row is peeled off as a loop (main loop and tail instead of masks, which cost a hundred
//! instructions for a bool on AVX2). [`vectors`] decides which phases are left to LLVM's vectorizer.
//!
//! Phases on rows are left to it too. When cut into vectors here they were no faster (softmax 1.03, layer norm 1.03 of the time, 4096 rows
//! of 1024) and took 10 to 20 % more time to compile: a phase that reduces and keeps what it reduces (`exp` in softmax) must be split,
//! since `tile_reduction_using_for` refuses it. Their rows are cut into strips instead.
//!
//! The innermost loops created here are marked `dynamo.prefetch`: there `dynamo-prefetch` prefetches memory that is needed later.
//!
//! Restriction: if a phase before the root is used outside the kernel's phases, the kernel is left unchanged, with the reason in
//! `dynamo.unscheduled`. LLVM 22's `fuse_into_containing_op` does not survive such a use.

mod domain;
mod pieces;
mod text;
mod tiles;
pub(crate) mod vectors;

use dynamlir_decisions::{Decision, Site};
use dynamlir_dialect::{
    ir::{Op, Target, sizes},
    ops,
    pass::{Options, Pass, PassResult, Run, Statistic, Takes},
    pass_options, transform,
    upstream::func,
};

use dynamlir_shapes::{Dim, Dimension, ShapeError};

use crate::anchors;
use domain::{Kernel, Phase};
use tiles::{Tile, cut, even};

/// The pass. Options: `threads=0` creates no parallel loops, `parallel-work=N` is the minimum number of elementary operations for a
/// parallel loop. The width of vectors is that of the module's target.
pub const PASS: Pass = Pass {
    name: "dynamo-schedule",
    description: "Tile kernels and fuse their phases with transform-dialect schedules",
    takes: Takes::Symbols,
    options: ScheduleOptions::DECLARED,
    statistics: &[SCHEDULED, UNSCHEDULED],
    run,
};

const SCHEDULED: Statistic = Statistic { name: "scheduled", description: "kernels scheduled" };
const UNSCHEDULED: Statistic = Statistic { name: "unscheduled", description: "kernels that stay one sequential loop nest" };

/// The minimum number of elementary operations for which waking threads (some microseconds) pays.
const PARALLEL_WORK: i64 = 32 * 1024;
/// Elementary operations in one block of a parallel loop: enough to hide the loop's overhead, few enough to share the work out.
const BLOCK_WORK: i64 = 64 * 1024;
/// Columns of a column reduction that are processed together: long enough for memory to stream.
const COLUMN_BLOCK: i64 = 512;
/// Elements of a piece when everything is reduced. Small pieces also keep the rounding error of long sums small.
const SPLIT_BLOCK: i64 = 4096;
/// The maximum number of pieces that a reduction is split into: their partial results are reduced by one thread.
const MOST_PIECES: i64 = 4096;
/// The same for dynamic sizes: some of the pieces may be empty.
const OPEN_PIECES: i64 = 64;
/// The maximum number of bytes of a temporary for one block of columns.
const TEMPORARY_BYTES: i64 = 128 * 1024;

/// Number of vectors that are processed together.
const UNROLL: i64 = 2;
/// The minimum number of iterations of a vector loop.
const FEWEST_VECTORS: i64 = 8;
/// The same if each row has a remainder, which takes as long as several vectors.
const FEWEST_BEFORE_REST: i64 = 32;
/// Elements of a strip of a row: a few iterations of LLVM's vector loop, and as many cache lines as can be prefetched at once.
const STRIP: i64 = 256;
/// The same if rows are only reduced: after each strip the vector lanes are combined.
const LONG_STRIP: i64 = 2048;
/// The number of elements of a kernel from which its rows are always cut into strips, for the sake of prefetching.
const LARGE: i64 = 4 * 1024 * 1024;
/// Rows are cut only into whole strips of a multiple of this: the remainder of a strip would be computed element by element.
const STRIP_MULTIPLE: i64 = 64;

/// The way a kernel's loops are cut. Tile sizes are per dimension of the root; 0 leaves a dimension whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The kernel is left unchanged.
    Leave,
    /// Parallel blocks, then single rows, then the innermost loops; any may be absent.
    Nest { blocks: Option<Vec<Tile>>, rows: Option<Vec<Tile>>, inner: Inner },
    /// In each phase that reduces: partial reductions in parallel, then one reduction of those.
    Split(Vec<i64>),
    /// The same with numbers of pieces instead of sizes; 0 leaves a dimension whole.
    SplitInto(Vec<i64>),
}

/// The way the innermost loops are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inner {
    /// They are left to LLVM's vectorizer unchanged.
    Loops,
    /// The root is cut into vectors of this number of elements, with a tail if `peel`.
    Vectors { lanes: i64, peel: bool },
    /// Rows are cut into strips of this number of elements, each left to LLVM's vectorizer.
    Strips(i64),
    /// Rows of a block of columns are processed one by one, each left to LLVM's vectorizer.
    Columns,
}

pass_options! {
    /// Options of `dynamo-schedule`.
    pub struct ScheduleOptions {
        /// let kernels use threads (true)
        threads: bool = true,
        /// minimum number of elementary operations for a kernel to use threads (32768)
        parallel_work: i64 = PARALLEL_WORK,
    }
}

/// Returns the decision that a kernel runs as plain loops, if it does. The kernel itself carries the reason, also in a dump of a later stage.
pub fn refusal(function: Op) -> Option<Decision> {
    let (name, reason) = (function.symbol()?, ops::UNSCHEDULED.of(function)?);
    let site = Site { what: name, location: function.loc().place() };
    Some(Decision::new(PASS.name, site, "plain loops", &["schedule"]).because(reason))
}

/// The settings that kernels are scheduled for.
struct Settings {
    parallel_work: i64,
    vector_bits: i64,
}

fn run(module: Op, pass: &Run) -> PassResult {
    let options: ScheduleOptions = pass.options()?;
    let settings = Settings {
        parallel_work: if options.threads { options.parallel_work } else { i64::MAX },
        vector_bits: Target::of(module).vector_bits,
    };
    let mut kernels = Vec::new();
    module.walk(&mut |op| {
        if op.is(func::FUNC) && ops::KERNEL.is_on(op) {
            kernels.push(op);
        }
    });
    for function in kernels {
        pass.count(if schedule(function, &settings) { &SCHEDULED } else { &UNSCHEDULED }, 1);
    }
    forget_expressions(module);
    Ok(())
}

/// Removes size expressions: from here on sizes are values.
fn forget_expressions(module: Op) {
    if sizes::holds_expressions(module.ctx()) {
        module.walk(&mut |op| {
            if ops::DOMAIN.dims().of(op).is_some_and(|sizes| sizes.iter().any(|size| size.known().is_none())) {
                ops::DOMAIN.remove(op);
            }
        });
    }
}

/// Schedules one kernel. If that fails, returns false: the kernel stays correct and unscheduled, with the reason recorded on it.
fn schedule(function: Op, settings: &Settings) -> bool {
    match anchors::lower(function, settings.parallel_work) {
        Ok(true) => return true,
        Ok(false) => {}
        Err(reason) => return mark(function, reason),
    }
    let kernel = match Kernel::read(function) {
        Ok(Some(kernel)) => kernel,
        Ok(None) => return true,
        Err(reason) => return mark(function, &reason),
    };
    let Ok(plan) = plan(&kernel, settings) else { return mark(function, "sizes beyond 64 bits") };
    let Some(schedule) = text::schedule(&kernel, &plan) else { return true };
    if let Err(reason) = tiles::compute(function, &plan).and_then(|()| note_parallel(function, &kernel, settings)) {
        return mark(function, &reason);
    }
    // A body that only appeared to compute something is folded before it can be vectorized; then the schedule goes without vectors.
    let without = || match plan.without_inner() {
        None => false,
        Some(plan) => text::schedule(&kernel, &plan).is_none_or(|schedule| apply(function, &plan, &schedule)),
    };
    apply(function, &plan, &schedule) || without() || mark(function, "the transform schedule did not apply")
}

/// Records on a kernel with dynamic sizes when its loop is parallel.
fn note_parallel(function: Op, kernel: &Kernel, settings: &Settings) -> Result<(), String> {
    let beyond = || {
        let largest = kernel.phases.iter().max_by_key(|phase| phase.work());
        let work = largest.map_or(Ok(Dim::from(0)), |phase| phase.size_where(|_| true))?;
        let cost = kernel.work() / largest.map_or(1, Phase::elements).max(1);
        work.mul(&cost.max(1).into())?.sub(&settings.parallel_work.into())
    };
    if kernel.is_open() && settings.parallel_work < i64::MAX {
        let beyond: Dim = beyond().map_err(|error: ShapeError| error.to_string())?;
        ops::PARALLEL.dim().set(function, &beyond);
    }
    Ok(())
}

/// Applies a schedule; if that fails, the function stays unchanged.
fn apply(function: Op, plan: &Plan, schedule: &str) -> bool {
    let Plan::Split(tiles) = plan else { return transform::apply(function, schedule).is_some() };
    let positions = pieces::mark(function, tiles);
    let applied = transform::apply(function, schedule);
    if applied.is_some_and(|applied| positions == 0 || pieces::shift(applied, positions)) {
        return true;
    }
    pieces::unmark(function);
    if let Some(applied) = applied {
        function.move_before(applied);
        applied.erase();
    }
    false
}

/// Records on a function the reason why it is not scheduled, and returns false.
fn mark(function: Op, reason: &str) -> bool {
    ops::UNSCHEDULED.set(function, reason);
    false
}

fn plan(kernel: &Kernel, settings: &Settings) -> Result<Plan, ShapeError> {
    let root = kernel.root();
    let work = kernel.work();
    // For dynamic sizes the work is not known: the loop is parallel, and is left to one thread at run time if the work is small.
    let parallel = work >= settings.parallel_work || (kernel.is_open() && settings.parallel_work < i64::MAX);
    let several = kernel.phases.len() > 1;

    let Some(reduction) = kernel.phases.iter().find(|phase| phase.reduced.contains(&true)) else {
        // Without a reduction, several phases only arise from values that are kept: they are fused by blocks.
        let block = (BLOCK_WORK / (work / root.elements().max(1)).max(1)).max(1024);
        let blocks = match root.crossed {
            _ if !parallel => None,
            Some(along) => Some(tiles::square(root, along, block)),
            None => Some(cut(root, &vec![true; root.ranges.len()], &block.into())?),
        };
        let inner = if several { Inner::Loops } else { vectors(root, blocks.as_deref(), settings.vector_bits) };
        return Ok(nest(blocks, None, inner));
    };
    let kept: Vec<_> = reduction.reduced.iter().map(|reduced| !reduced).collect();
    if kernel.phases.iter().any(|phase| !phase.fits(&kept)) {
        return Ok(Plan::Leave);
    }
    let kept_elements = reduction.elements_where(|d| kept[d]);
    let row = reduction.size_where(|d| !kept[d])?;

    let keeps_open = kept.iter().zip(&reduction.open).any(|(&kept, &open)| kept && open);
    if kept_elements == 1 && !keeps_open {
        let splits = parallel && kernel.phases.iter().all(|phase| phase.elements() == 1 || phase.is_single);
        return Ok(if splits { split(reduction, kernel.is_open()) } else { Plan::Leave });
    }
    let root_kept = root.kept(&kept);
    if kept.last() == Some(&true) {
        // Columns. The values kept between phases are a block of columns in full height.
        let shared_out = Dim::from(COLUMN_BLOCK).min(&reduction.size_where(|d| kept[d])?.floordiv(&4.into())?)?.max(&64.into())?;
        let is_full = |phase: &Phase| !kernel.is_open() || phase.ranges.len() == reduction.ranges.len();
        let keeps = kernel.phases.iter().rev().skip(1).any(|phase| phase.keeps && is_full(phase));
        let height = reduction.elements() / kept_elements.max(1);
        let fitting = if keeps { Dim::from((TEMPORARY_BYTES / (8 * height)).max(16)) } else { shared_out.clone() };
        let blocks = cut(root, &root_kept, &shared_out.min(&fitting)?)?;
        let inner = if kernel.phases.iter().any(|phase| phase.scans) { Inner::Loops } else { Inner::Columns };
        return Ok(nest((parallel || several).then_some(blocks), None, inner).sequential_unless(parallel));
    }
    let row_work = (work / kept_elements).max(1);
    let row_work = match row.known() {
        Some(_) => Dim::from(row_work),
        None => row.mul(&(row_work / reduction.elements_where(|d| !kept[d])).max(1).into())?,
    };
    let blocks = match kernel.staged() {
        // A block consists of the rows that are copied together. The root may iterate over rows only, which are the kept dimensions.
        Some((along, rows)) => {
            let along = if root.ranges.len() == kept.len() { along } else { kept[..along].iter().filter(|&&kept| kept).count() };
            let tile = |d: usize| Tile::from(if d == along { rows } else { i64::from(root_kept[d]) });
            (0..root.ranges.len()).map(tile).collect()
        }
        None => cut(root, &root_kept, &Dim::from(BLOCK_WORK).floordiv(&row_work)?.max(&1.into())?)?,
    };
    let several_of = |d: usize| root.ranges[d] > 1 || root.open[d];
    let rows: Vec<_> = root_kept.iter().enumerate().map(|(d, &kept)| Tile::from(i64::from(kept && several_of(d)))).collect();
    let inner = if kernel.phases.iter().any(|phase| phase.scans) { Inner::Loops } else { strips(kernel, reduction) };
    Ok(nest(parallel.then_some(blocks), (several || inner != Inner::Loops).then_some(rows), inner))
}

/// Splits a reduction of everything into pieces of a given number of elements. For dynamic sizes the number of pieces is given instead,
/// since it is the number of partial results.
fn split(reduction: &Phase, is_open: bool) -> Plan {
    if !is_open {
        let piece = SPLIT_BLOCK.max(reduction.elements() / MOST_PIECES);
        return Plan::Split(tiles::numbers(reduction, &reduction.reduced, piece));
    }
    let pieces = (reduction.elements() / SPLIT_BLOCK).min(OPEN_PIECES);
    // Prefers outer dimensions, so that each piece is one contiguous run.
    let dims = 0..reduction.ranges.len();
    let cut = dims.clone().find(|&d| reduction.ranges[d] >= pieces).or_else(|| dims.clone().max_by_key(|&d| reduction.ranges[d]));
    let counts = dims.map(|d| if Some(d) == cut { pieces } else { 0 }).collect();
    if pieces > 1 && reduction.positions == 0 { Plan::SplitInto(counts) } else { Plan::Leave }
}

fn nest(blocks: Option<Vec<Tile>>, rows: Option<Vec<Tile>>, inner: Inner) -> Plan {
    let some = |tiles: Option<Vec<Tile>>| tiles.filter(|tiles| tiles.iter().any(Tile::cuts));
    match (some(blocks), some(rows), inner) {
        (None, None, Inner::Loops) => Plan::Leave,
        (blocks, rows, inner) => Plan::Nest { blocks, rows, inner },
    }
}

/// Chooses vectors for a phase without reductions, if they suit it.
fn vectors(root: &Phase, blocks: Option<&[Tile]>, vector_bits: i64) -> Inner {
    let (Some(bits), Some(&range), Some(false)) = (root.widest, root.ranges.last(), root.open.last()) else { return Inner::Loops };
    let lanes = UNROLL * vector_bits / i64::from(bits.max(32));
    let inner = blocks.and_then(|tiles| tiles.last()?.number()).unwrap_or(range);
    let fewest = if inner % lanes.max(1) == 0 { FEWEST_VECTORS } else { FEWEST_BEFORE_REST };
    if lanes == 0 || inner < fewest * lanes {
        return Inner::Loops;
    }
    Inner::Vectors { lanes, peel: inner % lanes != 0 || range % inner != 0 }
}

/// Chooses strips that are small enough for the innermost cache to hold several, for rows that consist of whole strips.
fn strips(kernel: &Kernel, reduction: &Phase) -> Inner {
    if reduction.open.last() == Some(&true) {
        return Inner::Loops;
    }
    let row = reduction.ranges.last().copied().unwrap_or(0);
    let goes_on = |phase: &Phase| phase.number != reduction.number && phase.ranges.len() == reduction.ranges.len();
    let only_reduces = !reduction.keeps && reduction.elements() < LARGE && !kernel.phases.iter().any(goes_on);
    let strip = even(row, if only_reduces { LONG_STRIP } else { STRIP });
    let is_cut = row > strip && row % strip == 0 && strip % STRIP_MULTIPLE == 0;
    if is_cut && reduction.reduced.iter().filter(|&&reduced| reduced).count() == 1 { Inner::Strips(strip) } else { Inner::Loops }
}

impl Plan {
    /// The same plan with the innermost loops left to LLVM; `None` if they already are.
    fn without_inner(&self) -> Option<Self> {
        match self {
            Self::Nest { blocks, rows, inner } if *inner != Inner::Loops => Some(nest(blocks.clone(), rows.clone(), Inner::Loops)),
            _ => None,
        }
    }
    /// Turns the parallel loop into a sequential one unless `parallel`.
    fn sequential_unless(self, parallel: bool) -> Self {
        match self {
            Self::Nest { blocks, rows: None, inner } if !parallel => Self::Nest { blocks: None, rows: blocks, inner },
            plan => plan,
        }
    }
}
