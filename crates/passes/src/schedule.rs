//! `dynamo-schedule`: decides how a kernel's loops are cut, and applies the decision as a transform-dialect schedule.
//!
//! A kernel is a chain of `linalg.generic`s, the *phases*, numbered by `dynamo.phase`. The last is the *root*: every
//! value that leaves the kernel is a result of it. The schedule tiles the root and pulls the other phases into its
//! loops, so that what lies between two phases is a block, or a single row, and stays in the innermost cache.
//!
//! | kernel | schedule |
//! |---|---|
//! | little work | no parallel loop |
//! | one phase, nothing reduced | parallel loop over blocks |
//! | reduction along the last dimension | parallel loop over blocks of rows; with several phases a loop over rows inside |
//! | reduction along other dimensions | parallel loop over blocks of columns |
//! | reduction of everything, in one phase | parallel loop over pieces, then a reduction of the partial results |
//!
//! Blocks depend on shapes alone, never on the number of threads, so results are the same on every machine.
//!
//! Restriction: if a phase before the root is used outside the kernel's phases, the kernel stays as it is, with
//! `dynamo.unscheduled` saying why. LLVM 22's `fuse_into_containing_op` does not survive such a use.

mod domain;
mod text;

use dynamlir_dialect::{
    ir::{Attr, Builder, Op},
    pass::{Config, Pass, PassResult},
    transform,
};

use domain::{Kernel, Phase};

/// The pass. Options: `threads=0` makes no parallel loops, `parallel-work=N` sets from how many elementary operations
/// on a loop is worth a parallel region.
pub const PASS: Pass =
    Pass { name: "dynamo-schedule", description: "Tile kernels and fuse their phases by transform-dialect schedules", run };

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
/// Bytes of a temporary that are kept for one block of columns.
const TEMPORARY_BYTES: i64 = 128 * 1024;

/// How a kernel's loops are cut. Tile sizes are per dimension of the root; 0 leaves a dimension whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// As it is.
    Leave,
    /// Parallel blocks, then single rows; either may be absent.
    Nest { blocks: Option<Vec<i64>>, rows: Option<Vec<i64>> },
    /// Partial reductions in parallel, then one reduction of those.
    Split(Vec<i64>),
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of all passes")]
fn run(module: Op, config: &Config) -> PassResult {
    let parallel_work = match config.number("threads") {
        Some(0) => i64::MAX,
        _ => config.number("parallel-work").unwrap_or(PARALLEL_WORK),
    };
    let mut kernels = Vec::new();
    module.walk(&mut |op| {
        if op.is("func.func") && op.attr("dynamo.kernel").is_some() {
            kernels.push(op);
        }
    });
    for function in kernels {
        schedule(function, parallel_work);
    }
    Ok(())
}

/// Schedules one kernel; whatever stands in the way leaves it correct and unscheduled.
fn schedule(function: Op, parallel_work: i64) {
    let kernel = match Kernel::read(function) {
        Ok(Some(kernel)) => kernel,
        Ok(None) => return,
        Err(reason) => return mark(function, &reason),
    };
    let plan = plan(&kernel, parallel_work);
    let Some(schedule) = text::schedule(&kernel, &plan) else { return };
    let backup = function.clone_detached();
    if transform::apply(function, &schedule) {
        return;
    }
    Builder::before(function).insert(backup);
    function.erase();
    mark(backup, "the transform schedule did not apply");
}

fn mark(function: Op, reason: &str) {
    function.set_attr("dynamo.unscheduled", Attr::str(function.ctx(), reason));
}

fn plan(kernel: &Kernel, parallel_work: i64) -> Plan {
    let root = kernel.root();
    let work = kernel.phases.iter().map(Phase::work).sum::<i64>();
    let parallel = work >= parallel_work;
    let several = kernel.phases.len() > 1;

    let Some(reduction) = kernel.phases.iter().find(|phase| phase.reduced.contains(&true)) else {
        // Without a reduction, several phases only arise from values that are kept: fuse them by blocks.
        let block = (BLOCK_WORK / (work / root.elements().max(1)).max(1)).max(1024);
        let blocks = cut(&root.ranges, &vec![true; root.ranges.len()], block);
        return nest(parallel.then_some(blocks), None);
    };
    let kept: Vec<_> = reduction.reduced.iter().map(|reduced| !reduced).collect();
    if kernel.phases.iter().any(|phase| !phase.fits(&kept)) {
        return Plan::Leave;
    }
    let kept_elements = reduction.elements_where(|d| kept[d]);
    let row = reduction.elements() / kept_elements.max(1);

    if kept_elements == 1 {
        let splits = parallel && !several;
        let piece = SPLIT_BLOCK.max(reduction.elements() / MOST_PIECES);
        return if splits { Plan::Split(cut(&reduction.ranges, &reduction.reduced, piece)) } else { Plan::Leave };
    }
    let root_kept = root.kept(&kept);
    if kept.last() == Some(&true) {
        // Columns. A temporary holds a block of columns in full height.
        let shared_out = COLUMN_BLOCK.min(kept_elements / 4).max(64);
        let fitting = if several { (TEMPORARY_BYTES / (8 * row)).max(16) } else { shared_out };
        let blocks = cut(&root.ranges, &root_kept, shared_out.min(fitting));
        return nest((parallel || several).then_some(blocks), None).sequential_unless(parallel);
    }
    let row_work = (work / kept_elements).max(1);
    let blocks = cut(&root.ranges, &root_kept, (BLOCK_WORK / row_work).max(1));
    let rows = root_kept.iter().zip(&root.ranges).map(|(&kept, &range)| i64::from(kept && range > 1)).collect();
    nest(parallel.then_some(blocks), several.then_some(rows))
}

fn nest(blocks: Option<Vec<i64>>, rows: Option<Vec<i64>>) -> Plan {
    let some = |tiles: Option<Vec<i64>>| tiles.filter(|tiles| tiles.iter().any(|&tile| tile > 0));
    match (some(blocks), some(rows)) {
        (None, None) => Plan::Leave,
        (blocks, rows) => Plan::Nest { blocks, rows },
    }
}

impl Plan {
    /// Turns the parallel loop into a sequential one where threads do not pay.
    fn sequential_unless(self, parallel: bool) -> Self {
        match self {
            Self::Nest { blocks, rows: None } if !parallel => Self::Nest { blocks: None, rows: blocks },
            plan => plan,
        }
    }
}

/// Cuts the `eligible` dimensions into tiles of about `budget` elements: inner dimensions whole as long as they fit,
/// one dimension in part, outer ones element by element. A dimension that is not cut gets 0.
fn cut(ranges: &[i64], eligible: &[bool], budget: i64) -> Vec<i64> {
    let mut tiles = vec![0; ranges.len()];
    let mut left = budget.max(1);
    for d in (0..ranges.len()).rev().filter(|&d| eligible[d]) {
        if ranges[d] <= left {
            left /= ranges[d].max(1);
        } else {
            tiles[d] = even(ranges[d], left);
            left = 1;
        }
    }
    tiles
}

/// A tile of at most `limit` that divides `range`, if one is not much smaller: then there is no odd last block.
fn even(range: i64, limit: i64) -> i64 {
    (limit / 2 + 1..=limit).rev().find(|tile| range % tile == 0).unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cutting_keeps_inner_dimensions_whole() {
        assert_eq!(cut(&[4096, 1024], &[true, true], 16384), [16, 0]);
        assert_eq!(cut(&[8, 4096], &[true, true], 1024), [1, 1024]);
        assert_eq!(cut(&[4, 8, 64, 128], &[true, true, true, false], 16), [1, 1, 16, 0]);
        assert_eq!(cut(&[10, 10], &[true, true], 1000), [0, 0]);
    }

    #[test]
    fn tiles_divide_where_they_can() {
        assert_eq!(even(4096, 1000), 512);
        assert_eq!(even(768, 500), 384);
        assert_eq!(even(1021, 500), 500);
    }
}
