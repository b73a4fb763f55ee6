//! Sizes and strides as lists: what can be asked of them without an offset, for numbers and for expressions alike.

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

/// The product.
pub fn product<D: Dimension>(sizes: &[D]) -> Result<D> {
    // Zeros first: an empty shape has 0 elements even where its other sizes overflow.
    if sizes.iter().any(|size| size.is(0)) {
        return Ok(D::from(0));
    }
    sizes.iter().try_fold(D::from(1), |product, size| product.mul(size))
}

/// Whether some size is 0.
pub fn is_empty_in<D: Dimension>(sizes: &[D], scope: &D::Scope) -> Result<bool> {
    any(sizes.iter().map(|size| size.compare(Relation::Eq, &D::from(0), scope)))
}

/// Whether two stride lists say the same of a shape: strides of unit dimensions, and of empty tensors, say nothing.
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

/// Whether one is true; an error only if none is and one is not known.
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

/// Whether the strides place every element of the shape exactly once, without gaps, in any order.
pub fn is_dense_in<D: Dimension>(sizes: &[D], strides: &[D], scope: &D::Scope) -> Result<bool> {
    let mut rest = Vec::new();
    for dim in sizes.iter().zip(strides) {
        if !dim.0.compare(Relation::Eq, &D::from(1), scope)? {
            rest.push(dim);
        }
    }
    // The neighbours of what is filled so far are one stride away, as far as that reaches.
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
            // Nothing is there for others to be neighbours of.
            return Ok(rest.is_empty());
        }
        reached = reached.mul(size)?;
    }
    Ok(true)
}

/// Whether an element may be shown twice. Says so of some shapes, with interleaved dimensions, that show each once.
pub fn may_repeat_in<D: Dimension>(sizes: &[D], strides: &[D], scope: &D::Scope) -> Result<bool> {
    if is_empty_in(sizes, scope)? {
        return Ok(false);
    }
    let mut dims: SmallVec<[(&D, D); 6]> = SmallVec::new();
    for (size, stride) in sizes.iter().zip(strides) {
        if !size.compare(Relation::Eq, &D::from(1), scope)? {
            let backwards = stride.compare(Relation::Lt, &D::from(0), scope)?;
            let length = if backwards { D::from(0).sub(stride)? } else { stride.clone() };
            // Sorted by insertion, as the order may not be known.
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

/// How far before and behind element 0 the others lie; None if there are none.
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
