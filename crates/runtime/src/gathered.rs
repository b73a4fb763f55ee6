//! Views returned together by one operation, such as `unbind` and `split`, if more than one of them is visible and gradients are recorded.
//!
//! For autograd they are results of one node: a gradient for one causes the hooks of the others to be called, with None. So they are also
//! created by one call, from a view that contains them as slices or parts, whichever the operation was.

use dynamlir_torch_abi::{OwnedTensor, TensorRef, TorchError};
use smallvec::SmallVec;

use crate::{
    lower::Program,
    outputs::Making,
    plan::{Output, Plan},
};

/// A view that contains others as slices along its first dimension, or as parts along another one.
#[derive(Debug, PartialEq, Eq)]
struct Gathered {
    sizes: Vec<i64>,
    strides: Vec<i64>,
    offset: i64,
    /// The sizes of the parts, and their dimension; None for slices.
    parts: Option<(Vec<i64>, usize)>,
    /// The index of the slice or part for each of the others.
    places: Vec<usize>,
}

/// Returns the outputs returned by the same call as this one, in order; none if it is the only one, or was created in another way.
pub(crate) fn members(plan: &Plan, program: &Program, at: usize) -> SmallVec<[usize; 4]> {
    let first = |at: usize| plan.made_beside.get(at).copied().flatten();
    let own = first(at).unwrap_or(at);
    let is_one = |other: &usize| *other == own || first(*other) == Some(own);
    let members: SmallVec<[usize; 4]> = (0..plan.made_beside.len()).filter(is_one).collect();
    let is_like = |other: &usize| {
        let made_from = |at: usize| plan.made_from.get(at).copied().flatten();
        let is_rebased = program.rebased.iter().any(|(rebased, _)| rebased == other);
        !is_rebased && program.making[*other] == Making::Ambient && made_from(*other) == made_from(at) && {
            match (&plan.outputs[*other], &plan.outputs[at]) {
                (Output::ArgView { arg, .. }, Output::ArgView { arg: own, .. }) => arg == own,
                (Output::ResultView { result, .. }, Output::ResultView { result: own, .. }) => result == own,
                _ => false,
            }
        }
    };
    if members.len() > 1 && members.iter().all(is_like) { members } else { SmallVec::new() }
}

/// Creates these outputs from the tensor whose memory they show; offsets are shifted by `moved`. Returns None if no single view contains
/// them.
pub(crate) fn make(plan: &Plan, members: &[usize], from: TensorRef<'_>, moved: i64) -> Result<Option<Vec<OwnedTensor>>, TorchError> {
    let windows: Option<Vec<Window<'_>>> = members.iter().map(|at| window(&plan.outputs[*at])).collect();
    let Some(whole) = windows.and_then(|windows| Gathered::of(&windows)) else { return Ok(None) };
    let view = from.as_strided(&whole.sizes, &whole.strides, whole.offset.saturating_add(moved))?;
    let made = match &whole.parts {
        None => view.as_ref().unbind()?,
        Some((sizes, dim)) => view.as_ref().split(sizes, *dim)?,
    };
    let mut made: Vec<Option<OwnedTensor>> = made.into_iter().map(Some).collect();
    let each = whole.places.iter().map(|place| made.get_mut(*place).and_then(Option::take));
    each.collect::<Option<_>>().map(Some).ok_or_else(|| TorchError::new("a view has fewer parts than expected"))
}

/// Sizes, strides and offset of a view.
type Window<'a> = (&'a [i64], &'a [i64], i64);

fn window(output: &Output) -> Option<Window<'_>> {
    match output {
        Output::ArgView { sizes, strides, offset, .. } | Output::ResultView { sizes, strides, offset, .. } => {
            Some((sizes, strides, *offset))
        }
        _ => None,
    }
}

/// The maximum number of slices per wanted one: creating more is not worthwhile.
const MOST: usize = 64;

impl Gathered {
    fn of(windows: &[Window<'_>]) -> Option<Self> {
        let &(sizes, strides, _) = windows.first()?;
        if windows.iter().any(|(other, along, _)| other.len() != sizes.len() || *along != strides) {
            return None;
        }
        let first = windows.iter().map(|(_, _, offset)| *offset).min()?;
        let differing: Vec<usize> = (0..sizes.len()).filter(|&dim| windows.iter().any(|(other, ..)| other[dim] != sizes[dim])).collect();
        match differing[..] {
            [] => Self::slices(windows, first),
            [dim] => Self::parts(windows, first, dim),
            _ => None,
        }
    }

    /// Views of equal sizes: slices whose spacing is the greatest common divisor of all distances.
    fn slices(windows: &[Window<'_>], first: i64) -> Option<Self> {
        let &(sizes, strides, _) = windows.first()?;
        let apart = windows.iter().map(|(_, _, offset)| offset - first).fold(0, greatest_divisor);
        let places = windows.iter().map(|(_, _, offset)| usize::try_from((offset - first).checked_div(apart)?).ok());
        let places: Vec<usize> = places.collect::<Option<_>>()?;
        let count = places.iter().max()? + 1;
        let is_worth_it = count <= MOST * windows.len();
        let along = |first: i64, others: &[i64]| [&[first], others].concat();
        is_worth_it.then(|| Self { sizes: along(count as i64, sizes), strides: along(apart, strides), offset: first, parts: None, places })
    }

    /// Views that differ in one size and follow one another along that dimension; there may be gaps between them.
    fn parts(windows: &[Window<'_>], first: i64, dim: usize) -> Option<Self> {
        let &(sizes, strides, _) = windows.first()?;
        let mut order: Vec<usize> = (0..windows.len()).collect();
        order.sort_by_key(|&at| windows[at].2);
        let (mut parts, mut places, mut end) = (Vec::new(), vec![0; windows.len()], 0);
        for at in order {
            let (own, _, offset) = windows[at];
            let start = (offset - first).checked_div(strides[dim])?;
            if start < end || start * strides[dim] != offset - first {
                return None;
            }
            parts.extend((start > end).then_some(start - end));
            places[at] = parts.len();
            parts.push(own[dim]);
            end = start + own[dim];
        }
        let mut sizes = sizes.to_vec();
        sizes[dim] = end;
        Some(Self { sizes, strides: strides.to_vec(), offset: first, parts: Some((parts, dim)), places })
    }
}

fn greatest_divisor(mut one: i64, mut other: i64) -> i64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one.abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_as_far_apart_as_all_of_them_allow() {
        let (sizes, strides) = (&[4_i64][..], &[1_i64][..]);
        let found = Gathered::of(&[(sizes, strides, 2), (sizes, strides, 14), (sizes, strides, 6)]);
        let expected = Gathered { sizes: vec![4, 4], strides: vec![4, 1], offset: 2, parts: None, places: vec![0, 3, 1] };
        assert_eq!(found, Some(expected));
        // The same view twice is not a slice of anything.
        assert_eq!(Gathered::of(&[(sizes, strides, 2), (sizes, strides, 2)]), None);
        assert_eq!(Gathered::of(&[(sizes, strides, 0), (sizes, strides, 1), (sizes, strides, 1000)]), None);
    }

    #[test]
    fn parts_have_what_lies_between_them() {
        let strides = &[6_i64, 1][..];
        let found = Gathered::of(&[(&[2, 1], strides, 5), (&[2, 3], strides, 0)]);
        let parts = Some((vec![3, 2, 1], 1));
        assert_eq!(found, Some(Gathered { sizes: vec![2, 6], strides: vec![6, 1], offset: 0, parts, places: vec![2, 0] }));
        assert_eq!(Gathered::of(&[(&[2, 3], strides, 0), (&[2, 1], strides, 2)]), None);
        assert_eq!(Gathered::of(&[(&[2, 3], strides, 0), (&[1, 1], strides, 3)]), None);
        assert_eq!(Gathered::of(&[(&[2, 3], strides, 0), (&[2, 1], &[1, 1], 3)]), None);
    }
}
