//! Queries on lists of sizes and strides that do not need an offset, for numbers and for expressions alike.

use smallvec::SmallVec;

use crate::{Dimension, Relation, error::Result};

/// Row-major strides. A size of 0 counts as 1, as in torch.
pub fn row_major_in<D: Dimension>(sizes: &[D], scope: &D::Scope) -> Result<Vec<D>> {
    let mut strides = vec![D::from(1); sizes.len()];
    for i in (1..sizes.len()).rev() {
        strides[i - 1] = strides[i].mul(&sizes[i].max_in(&D::from(1), scope)?)?;
    }
    Ok(strides)
}

/// The product of the sizes.
pub fn product<D: Dimension>(sizes: &[D]) -> Result<D> {
    // Zeros first: an empty shape has 0 elements even if its other sizes overflow.
    if sizes.iter().any(|size| size.is(0)) {
        return Ok(D::from(0));
    }
    sizes.iter().try_fold(D::from(1), |product, size| product.mul(size))
}

/// Returns true if some size is 0.
pub fn is_empty_in<D: Dimension>(sizes: &[D], scope: &D::Scope) -> Result<bool> {
    any(sizes.iter().map(|size| size.compare(Relation::Eq, &D::from(0), scope)))
}

/// Returns true if two stride lists are equivalent for a shape: strides of unit dimensions, and of empty tensors, do not matter.
pub fn same_strides_in<D: Dimension>(sizes: &[D], a: &[D], b: &[D], scope: &D::Scope) -> Result<bool> {
    if a.len() != sizes.len() || b.len() != sizes.len() {
        return Ok(false);
    }
    let same = sizes.iter().zip(a.iter().zip(b)).map(|(size, (a, b))| {
        // Equality first: it is known more often.
        Ok(a == b || a.compare(Relation::Eq, b, scope)? || size.compare(Relation::Eq, &D::from(1), scope)?)
    });
    let differs = any(same.map(|same| same.map(|same| !same)));
    match differs {
        Ok(false) => Ok(true),
        _ if is_empty_in(sizes, scope)? => Ok(true),
        differs => differs.map(|differs| !differs),
    }
}

/// Returns true if one answer is true; an error only if none is true and one is undecided.
fn any(answers: impl Iterator<Item = Result<bool>>) -> Result<bool> {
    let mut unknown = Ok(false);
    for answer in answers {
        match answer {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) => unknown = unknown.and(Err(error)),
        }
    }
    unknown
}

/// Returns true if the strides place every element of the shape exactly once, without gaps, in any order.
pub fn is_dense_in<D: Dimension>(sizes: &[D], strides: &[D], scope: &D::Scope) -> Result<bool> {
    let mut rest = Vec::new();
    for dim in sizes.iter().zip(strides) {
        if !dim.0.compare(Relation::Eq, &D::from(1), scope)? {
            rest.push(dim);
        }
    }
    // The next dimension must have a stride equal to the extent filled so far.
    let mut reached = D::from(1);
    while !rest.is_empty() {
        let mut next = None;
        for (i, (_, stride)) in rest.iter().enumerate() {
            if **stride == reached || stride.compare(Relation::Eq, &reached, scope)? {
                next = Some(i);
                break;
            }
        }
        let Some(next) = next else { return Ok(false) };
        let size = rest.swap_remove(next).0;
        if size.is(0) {
            // An empty dimension fills nothing, so no other dimension can follow it.
            return Ok(rest.is_empty());
        }
        reached = reached.mul(size)?;
    }
    Ok(true)
}

/// Returns true if an element may be shown twice. Also true for some shapes with interleaved dimensions that show each element once.
pub fn may_repeat_in<D: Dimension>(sizes: &[D], strides: &[D], scope: &D::Scope) -> Result<bool> {
    if is_empty_in(sizes, scope)? {
        return Ok(false);
    }
    let mut dims: SmallVec<[(&D, D); 6]> = SmallVec::new();
    for (size, stride) in sizes.iter().zip(strides) {
        if !size.compare(Relation::Eq, &D::from(1), scope)? {
            let backwards = stride.compare(Relation::Lt, &D::from(0), scope)?;
            let length = if backwards { D::from(0).sub(stride)? } else { stride.clone() };
            // Insertion sort, as the order of two strides may be unknown.
            let mut at = dims.len();
            while at > 0 && length.compare(Relation::Lt, &dims[at - 1].1, scope)? {
                at -= 1;
            }
            dims.insert(at, (size, length));
        }
    }
    let mut reached = D::from(0);
    for (size, length) in dims {
        if length.compare(Relation::Le, &reached, scope)? {
            return Ok(true);
        }
        reached = reached.add(&length.mul(&size.sub(&D::from(1))?)?)?;
    }
    Ok(false)
}

/// The distances from element 0 to the first and the last element in memory; `None` if there are no elements.
pub fn extent_in<D: Dimension>(sizes: &[D], strides: &[D], scope: &D::Scope) -> Result<Option<(D, D)>> {
    if is_empty_in(sizes, scope)? {
        return Ok(None);
    }
    let (mut first, mut last) = (D::from(0), D::from(0));
    for (size, stride) in sizes.iter().zip(strides) {
        let reach = stride.mul(&size.sub(&D::from(1))?)?;
        if stride.compare(Relation::Lt, &D::from(0), scope)? {
            first = first.add(&reach)?;
        } else {
            last = last.add(&reach)?;
        }
    }
    Ok(Some((first, last)))
}
