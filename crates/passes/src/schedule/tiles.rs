//! Tile sizes: numbers, or expressions that are evaluated from a kernel's sizes when it is called.
//!
//! If an inner dimension is dynamic, the part of the outer ones that fits a block is not known:
//! ```mlir
//! %rows = … // max(1, 16384 floordiv s1)
//! %tile = arith.minsi %rows, %s0 {dynamo.tile = 0 : i64} : index     // by this tag a schedule finds it
//! ```

use dynamlir_dialect::{
    ir::{Block, Builder, Op},
    ops,
};
use dynamlir_shapes::{Dim, Dimension, ShapeError};

use super::{Plan, domain::Phase};
use crate::values::Sizes;

/// Innermost tiles are multiples of this if possible: whole vectors of every element type.
const GRAIN: i64 = 64;

/// The size of a tile in one dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tile {
    /// The whole dimension.
    Whole,
    /// This number of elements.
    Number(i64),
    /// An expression.
    Computed(Dim),
}

impl Tile {
    /// Returns true if the dimension is cut.
    pub(super) fn cuts(&self) -> bool {
        *self != Self::Whole
    }
    /// The number of elements, if it is static.
    pub(super) fn number(&self) -> Option<i64> {
        match self {
            Self::Number(elements) => Some(*elements),
            _ => None,
        }
    }
}

impl From<i64> for Tile {
    fn from(elements: i64) -> Self {
        if elements > 0 { Self::Number(elements) } else { Self::Whole }
    }
}

/// Cuts the `eligible` dimensions of a phase into tiles of about `budget` elements; see [`tiles`]. A dynamic dimension is always cut, since
/// it may be larger than expected.
pub(super) fn cut(phase: &Phase, eligible: &[bool], budget: &Dim) -> Result<Vec<Tile>, ShapeError> {
    if let Some(budget) = budget.known().filter(|_| !phase.is_open()) {
        return Ok(numbers(phase, eligible, budget).into_iter().map(Tile::from).collect());
    }
    let mut cut = vec![Tile::Whole; eligible.len()];
    let mut left = budget.clone();
    for d in (0..eligible.len()).rev().filter(|&d| eligible[d]) {
        cut[d] = match left.known() {
            Some(number) if !phase.open[d] => {
                let alone: Vec<_> = (0..eligible.len()).map(|other| other == d).collect();
                numbers(phase, &alone, number)[d].into()
            }
            Some(number) => Tile::Number(number),
            None => Tile::Computed(left.min(&phase.dims[d])?),
        };
        left = left.floordiv(&phase.dims[d])?.max(&Dim::from(1))?;
    }
    Ok(cut)
}

/// Tiles of about `budget` elements with similar sizes along `along` and along the innermost loop, for memory that lies across them; see
/// [`crate::transpose_tiles`].
pub(super) fn square(phase: &Phase, along: usize, budget: i64) -> Vec<Tile> {
    let innermost = phase.ranges.len() - 1;
    let lines = |elements: i64| (elements / GRAIN).max(1) * GRAIN;
    let mut tiles = vec![Tile::Number(1); phase.ranges.len()];
    let mut left = budget;
    for (d, wanted) in [(innermost, lines(budget.isqrt())), (along, i64::MAX)] {
        let tile = lines(left.min(wanted));
        let fits = !phase.open[d] && phase.ranges[d] <= tile;
        tiles[d] = if fits { Tile::Whole } else { Tile::Number(tile) };
        left /= if fits { phase.ranges[d].max(1) } else { tile };
    }
    tiles
}

/// Tiles of a phase whose sizes are static.
pub(super) fn numbers(phase: &Phase, eligible: &[bool], budget: i64) -> Vec<i64> {
    tiles(&phase.ranges, eligible, budget)
}

/// Computes the expressions of a plan at the beginning of a kernel.
pub(super) fn compute(function: Op, plan: &Plan) -> Result<(), String> {
    let Plan::Nest { blocks, rows, .. } = plan else { return Ok(()) };
    let computed = |tiles: &&Vec<Tile>| tiles.iter().any(|tile| matches!(tile, Tile::Computed(_)));
    let Some(tiles) = [blocks, rows].into_iter().flatten().find(computed) else { return Ok(()) };
    let first = function.body().and_then(|body| Block::ops(body).first().copied()).ok_or("a kernel without a body")?;
    let sizes = Sizes::of(function, Builder::before(first).with_loc(function.loc())).map_err(|error| error.to_string())?;
    for (d, tile) in tiles.iter().enumerate() {
        if let Tile::Computed(size) = tile {
            let value = sizes.value(size);
            let at_least_one = sizes.start.maxsi(value, sizes.start.index(1));
            if let Some(op) = at_least_one.def() {
                ops::TILE.set(op, d as i64);
            }
        }
    }
    Ok(())
}

/// Tiles of about `budget` elements: inner dimensions whole as long as they fit, then one dimension in part, outer ones element by element.
/// The tile of a dimension that is not cut is 0.
fn tiles(ranges: &[i64], eligible: &[bool], budget: i64) -> Vec<i64> {
    let mut tiles = vec![0; ranges.len()];
    let mut left = budget.max(1);
    for d in (0..ranges.len()).rev().filter(|&d| eligible[d]) {
        if ranges[d] <= left {
            left /= ranges[d].max(1);
        } else {
            tiles[d] = if d + 1 == ranges.len() { whole_lines(ranges[d], left) } else { even(ranges[d], left) };
            left = 1;
        }
        left = left.max(1);
    }
    tiles
}

/// The same for the innermost dimension: avoiding a partial vector at the end of each tile takes precedence over avoiding a partial last
/// tile.
fn whole_lines(range: i64, limit: i64) -> i64 {
    let tile = even(range, limit);
    if tile % GRAIN == 0 || limit < 2 * GRAIN { tile } else { limit - limit % GRAIN }
}

/// A tile of at most `limit` that divides `range`, if one exists that is not much smaller: then there is no partial last block.
pub(super) fn even(range: i64, limit: i64) -> i64 {
    (limit / 2 + 1..=limit).rev().find(|tile| range % tile == 0).unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cutting_keeps_inner_dimensions_whole() {
        assert_eq!(tiles(&[4096, 1024], &[true, true], 16384), [16, 0]);
        assert_eq!(tiles(&[8, 4096], &[true, true], 1024), [1, 1024]);
        assert_eq!(tiles(&[4, 8, 64, 128], &[true, true, true, false], 16), [1, 1, 16, 0]);
        assert_eq!(tiles(&[10, 10], &[true, true], 1000), [0, 0]);
    }

    #[test]
    fn tiles_divide_where_they_can() {
        assert_eq!(even(4096, 1000), 512);
        assert_eq!(even(768, 500), 384);
        assert_eq!(even(1021, 500), 500);
        assert_eq!(whole_lines(4096, 1000), 512);
        assert_eq!(whole_lines(1000, 500), 448);
        assert_eq!(whole_lines(100, 50), 50);
    }
}
