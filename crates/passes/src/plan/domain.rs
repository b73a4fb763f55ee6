//! The order of a kernel's loops, and the merging of adjacent ones.
//!
//! A kernel's operands are windows, so its iteration domain may be permuted freely. Loops run in the order of memory. Two adjacent
//! dimensions are merged if every operand steps through them as through one.

use std::cmp::Reverse;

use dynamlir_shapes::{Dim, Dimension, Scope};

use super::{
    Window,
    careful::{all_expected, count},
};

/// The number of elements that fills vectors.
const VECTOR: i64 = 16;

/// A kernel's loops in terms of the original dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loops {
    /// The original dimensions that each loop comprises, outermost first.
    pub groups: Vec<Vec<usize>>,
    /// Size of each loop.
    pub sizes: Vec<Dim>,
    /// The loops that are reductions.
    pub reduced: Vec<usize>,
}

/// An operand: its window, and the original dimension of each of the window's dimensions.
pub struct Operand<'a> {
    /// The location of its elements.
    pub window: &'a Window,
    /// Original dimension of each window dimension.
    pub dims: Vec<usize>,
    /// True if the kernel writes it.
    pub written: bool,
}

impl Operand<'_> {
    /// Stride along an original dimension; `None` if the operand does not have that dimension.
    fn stride(&self, dim: usize) -> Option<&Dim> {
        self.dims.iter().position(|&d| d == dim).map(|at| &self.window.strides[at])
    }
}

impl Loops {
    /// Chooses order and grouping. `fixed` dimensions are not merged with others, because the kernel uses their index. A scan's dimension
    /// is also one of the reduced ones.
    pub fn choose(domain: &[Dim], (reduced, scans): (&[usize], bool), operands: &[Operand<'_>], fixed: &[usize], scope: &Scope) -> Self {
        Self::merged(&order(domain, (reduced, scans), operands, scope), domain, reduced, operands, fixed)
    }

    /// Merges neighbours in a given order where every operand allows it, for all values of the symbols. A static size that alone fills
    /// vectors is not merged with a dynamic size: a vectorized loop should have a static trip count. The exception is a reduction of
    /// everything to one number: one long loop keeps several vectors of partial results, which loops over rows would have to add up for
    /// each row.
    pub fn merged(order: &[usize], domain: &[Dim], reduced: &[usize], operands: &[Operand<'_>], fixed: &[usize]) -> Self {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let fills = |dims: &[usize]| {
            let elements = dims.iter().try_fold(1_i64, |product, &dim| Some(product.saturating_mul(domain[dim].known()?)));
            elements.is_some_and(|elements| elements >= VECTOR)
        };
        let reduces_all = reduced.len() == domain.len();
        for (at, &dim) in order.iter().enumerate() {
            let joins = groups.last().is_some_and(|group: &Vec<usize>| {
                let outer = *group.last().unwrap_or(&dim);
                reduced.contains(&outer) == reduced.contains(&dim)
                    && !fixed.contains(&outer)
                    && !fixed.contains(&dim)
                    && (reduces_all || domain[outer].known().is_some() || domain[dim].known().is_none() || !fills(&order[at..]))
                    && operands.iter().all(|operand| match (operand.stride(outer), operand.stride(dim)) {
                        (Some(outer), Some(inner)) => inner.mul(&domain[dim]).is_ok_and(|whole| *outer == whole),
                        (None, None) => true,
                        _ => false,
                    })
            });
            match groups.last_mut() {
                Some(group) if joins => group.push(dim),
                _ => groups.push(vec![dim]),
            }
        }
        let sizes = groups.iter().map(|group| count(&group.iter().map(|&dim| domain[dim].clone()).collect::<Vec<_>>())).collect();
        let reduced = (0..groups.len()).filter(|&g| reduced.contains(&groups[g][0])).collect();
        Self { groups, sizes, reduced }
    }

    /// The loop that contains an original dimension.
    pub fn loop_of(&self, dim: usize) -> Option<usize> {
        self.groups.iter().position(|group| group.contains(&dim))
    }
    /// The loops that are not reduced.
    pub fn kept(&self) -> Vec<usize> {
        (0..self.sizes.len()).filter(|g| !self.reduced.contains(g)).collect()
    }
    /// Sizes of the loops that are not reduced: the row shape.
    pub fn row(&self) -> Vec<Dim> {
        self.kept().into_iter().map(|g| self.sizes[g].clone()).collect()
    }
    /// An operand's window in terms of the loops. Each group has the stride of its innermost dimension.
    pub fn window(&self, operand: &Operand<'_>) -> Window {
        let mut window = Window { sizes: Vec::new(), strides: Vec::new(), offset: operand.window.offset.clone() };
        for (group, size) in self.groups.iter().zip(&self.sizes) {
            if let Some(stride) = group.last().and_then(|&dim| operand.stride(dim)) {
                window.sizes.push(size.clone());
                window.strides.push(stride.clone());
            }
        }
        window
    }
}

/// Orders the original dimensions, outermost loop first.
///
/// Without reductions, the order is the memory order of the first result; likewise for a scan, which writes as much as it reads. With
/// reductions, kept dimensions come first, so that a row's reductions and the operations after them share one loop. But if memory runs
/// along a kept dimension, that one is innermost (a column sum adds whole rows).
fn order(domain: &[Dim], (reduced, scans): (&[usize], bool), operands: &[Operand<'_>], scope: &Scope) -> Vec<usize> {
    let mut dims: Vec<usize> = (0..domain.len()).collect();
    let written = operands.iter().find(|operand| operand.written);
    // The operand with the most elements read: repeated elements say little about memory.
    let amount = |operand: &Operand<'_>| {
        let sizes = all_expected(&operand.window.sizes, scope).into_iter().zip(&operand.window.strides);
        let read = sizes.filter(|(_, stride)| !stride.is(0)).map(|(size, _)| size).fold(1, i64::saturating_mul);
        (read, operand.window.strides.iter().any(|stride| stride.is(1)))
    };
    let read = operands.iter().filter(|operand| operand.dims.len() == domain.len()).rev().max_by_key(|operand| amount(operand));
    let Some(guide) = (if reduced.is_empty() { written } else { read }) else {
        dims.sort_by_key(|d| reduced.contains(d));
        return dims;
    };
    if let Some(repeated) = repeated(domain, reduced, operands) {
        dims.sort_by_key(|&dim| if dim == repeated { 2 } else { i32::from(reduced.contains(&dim)) });
        return dims;
    }
    // Rows are processed in the order in which they are read.
    let far = Distances::of(guide, scope);
    dims.sort_by_key(|&dim| Reverse(far.of_dim(dim)));
    if reduced.is_empty() {
        return dims;
    }
    let far = if scans { written.map_or(far, |written| Distances::of(written, scope)) } else { far };
    let nearest = (0..domain.len()).filter(|&dim| far.of_dim(dim) > 0).min_by_key(|&dim| (far.of_dim(dim), Reverse(dim)));
    if nearest.is_none_or(|dim| reduced.contains(&dim)) {
        dims.sort_by_key(|d| reduced.contains(d));
        return dims;
    }
    dims.sort_by_key(|&dim| (Reverse(far.of_dim(dim)), dim));
    let closest_reduced = reduced.iter().map(|&d| far.of_dim(d)).min().unwrap_or(0);
    dims.sort_by_key(|d| match reduced.contains(d) {
        false if far.of_dim(*d) > closest_reduced => 0,
        true => 1,
        false => 2,
    });
    dims
}

/// The distance in an operand's memory between neighbours along each dimension.
struct Distances<'a> {
    dims: &'a [usize],
    strides: Vec<i64>,
}

impl<'a> Distances<'a> {
    fn of(operand: &'a Operand<'_>, scope: &Scope) -> Self {
        Self { dims: &operand.dims, strides: all_expected(&operand.window.strides, scope) }
    }
    /// The distance along a dimension; 0 if the operand is repeated.
    fn of_dim(&self, dim: usize) -> i64 {
        self.dims.iter().position(|&own| own == dim).map_or(0, |at| self.strides[at].saturating_abs())
    }
}

/// A kept dimension along which all inputs are repeated and the results are contiguous: each vector is one number that is read only once.
fn repeated(domain: &[Dim], reduced: &[usize], operands: &[Operand<'_>]) -> Option<usize> {
    if reduced.is_empty() {
        return None;
    }
    let fills_vectors = |dim: usize| domain[dim].known().is_some_and(|size| size >= VECTOR);
    let lies_along =
        |operand: &Operand<'_>, dim: usize| operand.dims.len() < domain.len() && operand.stride(dim).is_some_and(|stride| stride.is(1));
    let repeats = |operand: &Operand<'_>, dim: usize| operand.stride(dim).is_none_or(|stride| stride.is(0));
    let fits = |dim: usize| operands.iter().all(|operand| if operand.written { lies_along(operand, dim) } else { repeats(operand, dim) });
    (0..domain.len()).find(|dim| !reduced.contains(dim) && fills_vectors(*dim) && fits(*dim))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{
        careful::{row_major, strided},
        views::numbers,
    };

    fn contiguous(sizes: &[i64]) -> Window {
        let sizes = numbers(sizes);
        strided(&sizes, &row_major(&sizes, &Scope::new()))
    }

    fn spread(sizes: &[i64], to: &[i64], dims: &[usize]) -> Window {
        contiguous(sizes).broadcast_in(&numbers(to), dims, &Scope::new()).expect("fits")
    }

    fn choose(domain: &[i64], reduced: &[usize], operands: &[Operand<'_>]) -> Loops {
        Loops::choose(&numbers(domain), (reduced, false), operands, &[], &Scope::new())
    }

    fn operand(window: &Window, dims: &[usize], written: bool) -> Operand<'static> {
        Operand { window: Box::leak(Box::new(window.clone())), dims: dims.to_vec(), written }
    }

    #[test]
    fn contiguous_pointwise_is_one_loop() {
        let window = contiguous(&[4, 8, 16]);
        let loops = choose(&[4, 8, 16], &[], &[operand(&window, &[0, 1, 2], false), operand(&window, &[0, 1, 2], true)]);
        assert_eq!(loops.sizes, numbers(&[512]));
    }

    #[test]
    fn a_bias_keeps_its_dimension_apart() {
        let all = contiguous(&[4, 8, 16]);
        let bias = spread(&[16], &[4, 8, 16], &[2]);
        let loops = choose(&[4, 8, 16], &[], &[operand(&bias, &[0, 1, 2], false), operand(&all, &[0, 1, 2], true)]);
        assert_eq!(loops.sizes, numbers(&[32, 16]));
    }

    #[test]
    fn channels_last_runs_as_memory_does() {
        let window = contiguous(&[2, 5, 7, 3]).permute(&[0, 3, 1, 2]).expect("four dimensions");
        let loops = choose(&[2, 3, 5, 7], &[], &[operand(&window, &[0, 1, 2, 3], true)]);
        assert_eq!(loops.groups, [[0, 2, 3, 1]]);
    }

    #[test]
    fn row_reduction_puts_kept_dimensions_first() {
        let window = contiguous(&[2, 3, 4]);
        let row = contiguous(&[3]);
        let loops = choose(&[2, 3, 4], &[0, 2], &[operand(&window, &[0, 1, 2], false), operand(&row, &[1], true)]);
        assert_eq!(loops.groups, [vec![1], vec![0], vec![2]]);
        assert_eq!(loops.reduced, [1, 2]);
    }

    #[test]
    fn a_repeated_operand_does_not_decide_the_order() {
        let scale = spread(&[3], &[2, 3, 4], &[1]);
        let all = contiguous(&[2, 3, 4]);
        let row = contiguous(&[2, 3]);
        let operands = [operand(&scale, &[0, 1, 2], false), operand(&all, &[0, 1, 2], false), operand(&row, &[0, 1], true)];
        let loops = choose(&[2, 3, 4], &[2], &operands);
        assert_eq!(loops.groups, [[0], [1], [2]]);
    }

    #[test]
    fn what_all_repeat_is_innermost_in_a_reduction() {
        let repeated = strided(&numbers(&[64, 32]), &numbers(&[1, 0]));
        let row = contiguous(&[32]);
        let loops = choose(&[64, 32], &[0], &[operand(&repeated, &[0, 1], false), operand(&row, &[1], true)]);
        assert_eq!(loops.groups, [[0], [1]]);
        let few = strided(&numbers(&[64, 3]), &numbers(&[1, 0]));
        let loops = choose(&[64, 3], &[0], &[operand(&few, &[0, 1], false), operand(&contiguous(&[3]), &[1], true)]);
        assert_eq!(loops.groups, [[1], [0]]);
    }

    #[test]
    fn a_scan_goes_as_its_result_lies() {
        let across = strided(&numbers(&[64, 32]), &numbers(&[1, 64]));
        let along = contiguous(&[64, 32]);
        let order = |made: &Window| {
            let operands = [operand(&along, &[0, 1], false), operand(made, &[0, 1], true)];
            Loops::choose(&numbers(&[64, 32]), (&[0], true), &operands, &[0], &Scope::new()).groups
        };
        assert_eq!(order(&across), [[1], [0]]);
        assert_eq!(order(&along), [[0], [1]]);
    }

    #[test]
    fn column_reduction_keeps_memory_innermost() {
        let window = contiguous(&[64, 8]);
        let row = contiguous(&[8]);
        let loops = choose(&[64, 8], &[0], &[operand(&window, &[0, 1], false), operand(&row, &[1], true)]);
        assert_eq!(loops.groups, [[0], [1]]);
        assert_eq!(loops.reduced, [0]);
    }

    #[test]
    fn what_fills_vectors_is_not_merged_with_what_varies() {
        let sizes = |inner: i64| [Dim::from(dynamlir_shapes::Symbol(0)), Dim::from(4), Dim::from(inner)];
        let groups = |inner: i64| {
            let window = strided(&sizes(inner), &row_major(&sizes(inner), &Scope::new()));
            Loops::choose(&sizes(inner), (&[], false), &[operand(&window, &[0, 1, 2], true)], &[], &Scope::new()).groups
        };
        assert_eq!(groups(16), [vec![0], vec![1, 2]]);
        assert_eq!(groups(3), [[0, 1, 2]]);
        let window = strided(&sizes(16), &row_major(&sizes(16), &Scope::new()));
        let all = Loops::choose(&sizes(16), (&[0, 1, 2], false), &[operand(&window, &[0, 1, 2], false)], &[], &Scope::new());
        assert_eq!(all.groups, [[0, 1, 2]]);
    }
}
