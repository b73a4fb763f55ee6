//! `dynamo-schedule`: decides how a kernel's loops are cut, and applies the decision as a transform-dialect schedule.
//!
//! A kernel is a chain of `linalg.generic`s, the *phases*, numbered by `dynamo.phase`. The last is the *root*: every
//! value that leaves the kernel is a result of it. The schedule tiles the root and pulls the other phases into its
//! loops, so that what lies between two phases is a block, or a single row, and stays in the innermost cache.
//!
//! | kernel | schedule |
//! |---|---|
//! | little work | no parallel loop |
//! | one phase, nothing reduced | parallel loop over blocks, in it a loop over vectors |
//! | reduction along the last dimension | parallel loop over blocks of rows, in it a loop over rows, in it strips of the row |
//! | reduction along other dimensions | parallel loop over blocks of columns, in it a loop over the rows of the block |
//! | reductions of everything | for each a parallel loop over pieces, then a reduction of the partial results |
//! | product of matrices | tiles of registers, as the kernel's `dynamo.matmul` says; see [`crate::anchors`] |
//!
//! Blocks, strips and pieces depend on shapes alone, never on the number of threads or the width of vectors.
//!
//! Of sizes that are arguments most of this is decided by what is to be expected of them. How large blocks are is computed when the
//! kernel is called ([`tiles`]), and so is whether its loop is parallel: `dynamo.parallel` is an expression that is negative where the
//! work does not pay for threads, which `dynamo-fork-if` looks at.
//!
//! # The innermost loop
//!
//! A phase that reduces nothing and stands alone is cut into vectors: [`UNROLL`] of the processor's at a time, so that one's
//! operations fill the other's waiting. What is left at the end of a row is peeled off as a loop (main loop and tail instead
//! of masks, which cost a hundred instructions for a bool on AVX2). [`vectors`] says which phases are left to LLVM's
//! vectorizer.
//!
//! Phases on rows are left to it too. Cut into vectors here they were no faster (softmax 1.03, layer norm 1.03 of the time,
//! 4096 rows of 1024) and took 10 to 20 % more time to compile: a phase that reduces and keeps what it reduces (`exp` in
//! softmax) must be split, since `tile_reduction_using_for` refuses it. Their rows are cut into strips instead.
//!
//! The innermost loops made here are marked `dynamo.prefetch`: there `dynamo-prefetch` asks for memory that is needed later.
//!
//! Restriction: if a phase before the root is used outside the kernel's phases, the kernel stays as it is, with
//! `dynamo.unscheduled` saying why. LLVM 22's `fuse_into_containing_op` does not survive such a use.

mod domain;
mod pieces;
mod text;
mod tiles;
pub(crate) mod vectors;

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

/// The pass. Options: `threads=0` makes no parallel loops, `parallel-work=N` sets from how many elementary operations
/// on a loop is worth a parallel region, `vector-bits=N` how wide vectors are (0: no vectors), else as this processor has
/// them.
pub const PASS: Pass = Pass {
    name: "dynamo-schedule",
    description: "Tile kernels and fuse their phases by transform-dialect schedules",
    takes: Takes::Symbols,
    options: ScheduleOptions::DECLARED,
    statistics: &[SCHEDULED, UNSCHEDULED],
    run,
};

const SCHEDULED: Statistic = Statistic { name: "scheduled", description: "kernels scheduled" };
const UNSCHEDULED: Statistic = Statistic { name: "unscheduled", description: "kernels that stay one sequential loop nest" };

/// Elementary operations from which on waking threads (some microseconds) pays.
const PARALLEL_WORK: i64 = 32 * 1024;
/// Elementary operations in one block of a parallel loop: enough to hide the loop, little enough to share it out.
const BLOCK_WORK: i64 = 64 * 1024;
/// Columns of a column reduction that are worked on together: long enough for the memory to stream.
const COLUMN_BLOCK: i64 = 512;
/// Elements of a piece when everything is reduced. Small pieces keep the rounding error of long sums small, too.
const SPLIT_BLOCK: i64 = 4096;
/// Most pieces a reduction is split into: their partial results are reduced by one thread.
const MOST_PIECES: i64 = 4096;
/// The same where sizes are known at run time only: some of them may be of nothing.
const OPEN_PIECES: i64 = 64;
/// Bytes of a temporary that are kept for one block of columns.
const TEMPORARY_BYTES: i64 = 128 * 1024;

/// Vectors that are worked on together.
const UNROLL: i64 = 2;
/// Fewest iterations of a vector loop for which there is one.
const FEWEST_VECTORS: i64 = 8;
/// The same if something is left over in each row: the rest takes as long as several vectors.
const FEWEST_BEFORE_REST: i64 = 32;
/// Elements of a strip of a row: a few iterations of LLVM's vector loop, and as many cache lines as can be asked for at once.
const STRIP: i64 = 256;
/// The same where rows are only reduced: after each strip what was combined side by side is combined.
const LONG_STRIP: i64 = 2048;
/// Elements of a kernel from which on its rows are cut into strips for the sake of what can be asked for, whatever they are for.
const LARGE: i64 = 4 * 1024 * 1024;
/// Rows are cut into whole strips of a multiple of this, or not at all: the rest of a strip would be computed one by one.
const STRIP_MULTIPLE: i64 = 64;

/// How a kernel's loops are cut. Tile sizes are per dimension of the root; 0 leaves a dimension whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// As it is.
    Leave,
    /// Parallel blocks, then single rows, then something in them; any may be absent.
    Nest { blocks: Option<Vec<Tile>>, rows: Option<Vec<Tile>>, inner: Inner },
    /// In each phase that reduces: partial reductions in parallel, then one reduction of those.
    Split(Vec<i64>),
    /// The same by numbers of pieces; 0 leaves a dimension whole.
    SplitInto(Vec<i64>),
}

/// How the innermost loops are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inner {
    /// They are left to LLVM's vectorizer, as they are.
    Loops,
    /// The root becomes vectors of that number of elements, with a tail if `peel`.
    Vectors { lanes: i64, peel: bool },
    /// Rows become strips of that number of elements, each left to LLVM's vectorizer.
    Strips(i64),
    /// Rows of a block of columns are gone through one by one, each left to LLVM's vectorizer.
    Columns,
}

pass_options! {
    /// Options of `dynamo-schedule`.
    pub struct ScheduleOptions {
        /// whether kernels may use threads (true)
        threads: bool = true,
        /// elementary operations from which on a kernel uses threads (32768)
        parallel_work: i64 = PARALLEL_WORK,
    }
}

/// What kernels are scheduled for.
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

/// From here on sizes are values: what they were made of is said no more.
fn forget_expressions(module: Op) {
    if sizes::holds_expressions(module.ctx()) {
        module.walk(&mut |op| {
            if ops::DOMAIN.dims().of(op).is_some_and(|sizes| sizes.iter().any(|size| size.known().is_none())) {
                ops::DOMAIN.remove(op);
            }
        });
    }
}

/// Schedules one kernel; whatever stands in the way leaves it correct and unscheduled, and is said on it. False then.
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
    // A body that only seemed to compute something is folded before there are vectors of it: without them, then.
    let without = || match plan.without_inner() {
        None => false,
        Some(plan) => text::schedule(&kernel, &plan).is_none_or(|schedule| apply(function, &plan, &schedule)),
    };
    apply(function, &plan, &schedule) || without() || mark(function, "the transform schedule did not apply")
}

/// Says on a kernel of open sizes from where on its loop is parallel.
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

/// Applies a schedule; where it does not apply, the function stays as it was.
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

/// Says on a function why it has no schedule, which is false.
fn mark(function: Op, reason: &str) -> bool {
    ops::UNSCHEDULED.set(function, reason);
    false
}

fn plan(kernel: &Kernel, settings: &Settings) -> Result<Plan, ShapeError> {
    let root = kernel.root();
    let work = kernel.work();
    // Of open sizes it is not known: there is a parallel loop, which is left to one thread where they turn out to be small.
    let parallel = work >= settings.parallel_work || (kernel.is_open() && settings.parallel_work < i64::MAX);
    let several = kernel.phases.len() > 1;

    let Some(reduction) = kernel.phases.iter().find(|phase| phase.reduced.contains(&true)) else {
        // Without a reduction, several phases only arise from values that are kept: fuse them by blocks.
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
        // Columns. What is kept between phases is a block of columns in full height.
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
        // A block is what is copied together. The root may go over rows alone, which are the kept dimensions.
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

/// Pieces of a reduction of everything, so many elements each. Of open sizes there is a number of pieces: there are as many partial results.
fn split(reduction: &Phase, is_open: bool) -> Plan {
    if !is_open {
        let piece = SPLIT_BLOCK.max(reduction.elements() / MOST_PIECES);
        return Plan::Split(tiles::numbers(reduction, &reduction.reduced, piece));
    }
    let pieces = (reduction.elements() / SPLIT_BLOCK).min(OPEN_PIECES);
    // Rather outside: pieces of neighbours are gone through in one.
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

/// Vectors for a phase that reduces nothing, if they suit it.
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

/// Strips for rows that consist of some, and that the innermost cache can hold several of.
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
    /// The same with innermost loops left to LLVM; None if they are already.
    fn without_inner(&self) -> Option<Self> {
        match self {
            Self::Nest { blocks, rows, inner } if *inner != Inner::Loops => Some(nest(blocks.clone(), rows.clone(), Inner::Loops)),
            _ => None,
        }
    }
    /// Turns the parallel loop into a sequential one where threads do not pay.
    fn sequential_unless(self, parallel: bool) -> Self {
        match self {
            Self::Nest { blocks, rows: None, inner } if !parallel => Self::Nest { blocks: None, rows: blocks, inner },
            plan => plan,
        }
    }
}
