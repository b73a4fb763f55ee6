//! Views: the effect of torch's view operators, and of the view primitives, on a window. No data is moved; it is all arithmetic on sizes,
//! strides and offsets. Dimensions are counted from the front.

use crate::{
    Dimension, Relation, Window,
    error::{Result, ShapeError},
    strides::{product, row_major_in},
};

fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(ShapeError::NoSuchView(why.into()))
}

impl<D: Dimension> Window<D> {
    fn check_dim(&self, dim: usize) -> Result<()> {
        if dim < self.rank() { Ok(()) } else { refused(format!("dimension {dim} of {}", self.rank())) }
    }
    fn is_size(&self, dim: usize, size: i64, scope: &D::Scope) -> Result<bool> {
        self.sizes[dim].compare(Relation::Eq, &D::from(size), scope)
    }

    /// Permutes the dimensions: result dimension i is dimension `dims[i]`.
    pub fn permute(&self, dims: &[usize]) -> Result<Self> {
        let mut seen = vec![false; self.rank()];
        for &dim in dims {
            self.check_dim(dim)?;
            if std::mem::replace(&mut seen[dim], true) {
                return refused(format!("dimension {dim} twice in a permutation"));
            }
        }
        if dims.len() != self.rank() {
            return refused(format!("a permutation of {} dimensions for {}", dims.len(), self.rank()));
        }
        let pick = |from: &[D]| dims.iter().map(|&dim| from[dim].clone()).collect();
        Ok(Self { sizes: pick(&self.sizes), strides: pick(&self.strides), offset: self.offset.clone() })
    }
    /// Swaps two dimensions.
    pub fn transpose(&self, a: usize, b: usize) -> Result<Self> {
        self.check_dim(a).and(self.check_dim(b))?;
        let mut swapped = self.clone();
        swapped.sizes.swap(a, b);
        swapped.strides.swap(a, b);
        Ok(swapped)
    }
    /// Python's `start:end:step` along a dimension: negative ends count from the back, and ends are clamped.
    pub fn slice_in(&self, dim: usize, start: Option<&D>, end: Option<&D>, step: i64, scope: &D::Scope) -> Result<Self> {
        self.check_dim(dim)?;
        if step <= 0 {
            return refused(format!("a slice with step {step}"));
        }
        let size = &self.sizes[dim];
        let clamp = |at: &D| -> Result<D> {
            if at.compare(Relation::Lt, &D::from(0), scope)? { at.add(size)?.max_in(&D::from(0), scope) } else { at.min_in(size, scope) }
        };
        let start = start.map_or_else(|| Ok(D::from(0)), clamp)?;
        let end = end.map_or_else(|| Ok(size.clone()), clamp)?.max_in(&start, scope)?;
        // ⌈n / step⌉ = ⌊(n − 1) / step⌋ + 1, which does not overflow for the largest step.
        let count = end.sub(&start)?.sub(&D::from(1))?.floordiv(&D::from(step))?.add(&D::from(1))?;
        let mut part = self.clone();
        part.offset = self.offset.add(&start.mul(&self.strides[dim])?)?;
        part.strides[dim] = match self.strides[dim].mul(&D::from(step)) {
            // No step is taken, so the stride may overflow.
            Err(_) if count.known().is_some_and(|count| count <= 1) => self.strides[dim].clone(),
            stride => stride?,
        };
        part.sizes[dim] = count;
        Ok(part)
    }
    /// A rectangular part: along dimension i, `sizes[i]` elements from `starts[i]` on, `steps[i]` apart.
    pub fn part(&self, starts: &[D], steps: &[D], sizes: &[D]) -> Result<Self> {
        if [starts.len(), steps.len(), sizes.len()] != [self.rank(); 3] {
            return refused("a part needs a start, a step and a size per dimension");
        }
        // An empty part may start past the end; its address is never read.
        let offset = if sizes.iter().any(|size| size.is(0)) { self.offset.clone() } else { self.position(starts)? };
        let strides = self.strides.iter().zip(steps).map(|(stride, step)| stride.mul(step)).collect::<Result<_>>()?;
        Ok(Self { sizes: sizes.to_vec(), strides, offset })
    }
    /// The elements at one index of a dimension, which is removed. A negative index counts from the back.
    pub fn select_in(&self, dim: usize, index: &D, scope: &D::Scope) -> Result<Self> {
        self.check_dim(dim)?;
        let size = &self.sizes[dim];
        let at = if index.compare(Relation::Lt, &D::from(0), scope)? { index.add(size)? } else { index.clone() };
        if at.compare(Relation::Lt, &D::from(0), scope)? || at.compare(Relation::Ge, size, scope)? {
            return refused(format!("index {index} of {size}"));
        }
        let mut rest = self.clone();
        rest.offset = self.offset.add(&at.mul(&self.strides[dim])?)?;
        rest.sizes.remove(dim);
        rest.strides.remove(dim);
        Ok(rest)
    }
    /// The window without a dimension, if its size is 1.
    pub fn squeeze_dim_in(&self, dim: usize, scope: &D::Scope) -> Result<Self> {
        self.check_dim(dim)?;
        let mut rest = self.clone();
        if self.is_size(dim, 1, scope)? {
            rest.sizes.remove(dim);
            rest.strides.remove(dim);
        }
        Ok(rest)
    }
    /// The window without its unit dimensions.
    pub fn squeeze_in(&self, scope: &D::Scope) -> Result<Self> {
        (0..self.rank()).rev().try_fold(self.clone(), |rest, dim| rest.squeeze_dim_in(dim, scope))
    }
    /// The window with a new unit dimension in front of dimension `dim`, or at the end.
    pub fn unsqueeze(&self, dim: usize) -> Result<Self> {
        if dim > self.rank() {
            return refused(format!("a new dimension {dim} among {}", self.rank()));
        }
        let mut more = self.clone();
        // As in torch: the next dimension's size times its stride.
        let stride = if dim < self.rank() { self.sizes[dim].mul(&self.strides[dim])? } else { D::from(1) };
        more.sizes.insert(dim, D::from(1));
        more.strides.insert(dim, stride);
        Ok(more)
    }
    /// Repeats dimensions of size 1, and new ones in front, to these sizes (torch's `expand`). −1 keeps a size.
    pub fn expand_in(&self, sizes: &[D], scope: &D::Scope) -> Result<Self> {
        let Some(new) = sizes.len().checked_sub(self.rank()) else {
            return refused(format!("{} dimensions expanded to {}", self.rank(), sizes.len()));
        };
        let mut expanded = Self { sizes: sizes.to_vec(), strides: vec![D::from(0); sizes.len()], offset: self.offset.clone() };
        for (i, wanted) in sizes.iter().enumerate().rev() {
            let kept = i.checked_sub(new).map(|old| (&self.sizes[old], &self.strides[old]));
            if let Some((size, stride)) = kept
                && (wanted.is(-1) || size.compare(Relation::Eq, wanted, scope)?)
            {
                expanded.sizes[i] = size.clone();
                expanded.strides[i] = stride.clone();
            } else if wanted.known().is_some_and(|size| size < 0) {
                return refused(format!("a new dimension of size {wanted}"));
            } else if let Some((size, _)) = kept
                && !size.compare(Relation::Eq, &D::from(1), scope)?
            {
                return refused(format!("size {size} expanded to {wanted}"));
            } else if kept.is_none() && wanted.compare(Relation::Eq, &D::from(1), scope)? {
                // Torch gives a new unit dimension the stride it would have without repetition.
                expanded.strides[i] = match (expanded.sizes.get(i + 1), expanded.strides.get(i + 1)) {
                    (Some(size), Some(stride)) => size.mul(stride)?,
                    _ => D::from(1),
                };
            }
        }
        Ok(expanded)
    }
    /// Dimension i becomes dimension `dims[i]` of `sizes`; the others repeat, as do dimensions of size 1 that get another size.
    pub fn broadcast_in(&self, sizes: &[D], dims: &[usize], scope: &D::Scope) -> Result<Self> {
        let mut strides = vec![D::from(0); sizes.len()];
        if dims.len() != self.rank() || dims.iter().any(|&dim| dim >= sizes.len()) {
            return refused(format!("dimensions {dims:?} of a broadcast from {} to {}", self.rank(), sizes.len()));
        }
        for (i, &dim) in dims.iter().enumerate() {
            if sizes[dim] == self.sizes[i] || !self.is_size(i, 1, scope)? || sizes[dim].is(1) {
                strides[dim] = self.strides[i].clone();
            }
        }
        Ok(Self { sizes: sizes.to_vec(), strides, offset: self.offset.clone() })
    }
    /// Reverses the order along `dims`.
    pub fn reverse_in(&self, dims: &[usize], scope: &D::Scope) -> Result<Self> {
        let mut reversed = self.clone();
        for &dim in dims {
            self.check_dim(dim)?;
            let steps = self.sizes[dim].sub(&D::from(1))?.max_in(&D::from(0), scope)?;
            reversed.offset = reversed.offset.add(&steps.mul(&reversed.strides[dim])?)?;
            reversed.strides[dim] = D::from(0).sub(&reversed.strides[dim])?;
        }
        Ok(reversed)
    }
    /// The same elements in row-major order in another shape, if strides can express it (`computeStride` of torch's `Tensor.view`); `None`
    /// if they cannot.
    pub fn reshape_in(&self, sizes: &[D], scope: &D::Scope) -> Result<Option<Self>> {
        let (old, new) = (self.element_count()?, product(sizes)?);
        if !old.compare(Relation::Eq, &new, scope)? {
            return refused(format!("{old} elements in a shape of {new}"));
        }
        // In undecided cases, strides that are correct for many elements are also correct for one and for none; only the absence of such
        // strides stays undecided.
        let mut unknown = None;
        let mut holds = |answer: Result<bool>| {
            answer.unwrap_or_else(|error| {
                unknown.get_or_insert(error);
                false
            })
        };
        if old.is(0) || holds(self.is_empty_in(scope)) {
            let strides = row_major_in(sizes, scope)?;
            return Ok(Some(Self { sizes: sizes.to_vec(), strides, offset: self.offset.clone() }));
        }
        // Runs of old dimensions that act as one, outermost first; unit dimensions do not belong to a run.
        let mut runs: Vec<(D, D)> = Vec::new();
        for (dim, (size, stride)) in self.sizes.iter().zip(&self.strides).enumerate() {
            if holds(self.is_size(dim, 1, scope)) {
                continue;
            }
            if let Some((count, inner)) = runs.last_mut()
                && inner.compare(Relation::Eq, &stride.mul(size)?, scope)?
            {
                *count = count.mul(size)?;
                *inner = stride.clone();
            } else {
                runs.push((size.clone(), stride.clone()));
            }
        }
        let mut strides = vec![D::from(1); sizes.len()];
        let mut next = sizes.len();
        for (count, inner) in runs.into_iter().rev() {
            let mut reached = D::from(1);
            while !(reached == count || holds(reached.compare(Relation::Eq, &count, scope))) {
                // Beyond the end of the run: the new dimension spans two runs.
                if next == 0 || (!reached.is(1) && reached.compare(Relation::Gt, &count, scope)?) {
                    return unknown.map_or(Ok(None), Err);
                }
                next -= 1;
                strides[next] = inner.mul(&reached)?;
                reached = reached.mul(&sizes[next])?;
            }
        }
        // Only unit dimensions remain.
        Ok(Some(Self { sizes: sizes.to_vec(), strides, offset: self.offset.clone() }))
    }
    /// Splits one dimension into several, outermost first.
    pub fn split_in(&self, dim: usize, sizes: &[D], scope: &D::Scope) -> Result<Self> {
        self.check_dim(dim)?;
        if !product(sizes)?.compare(Relation::Eq, &self.sizes[dim], scope)? {
            return refused(format!("size {} split into {sizes:?}", self.sizes[dim]));
        }
        let inner = row_major_in(sizes, scope)?.iter().map(|stride| stride.mul(&self.strides[dim])).collect::<Result<Vec<_>>>()?;
        let mut split = self.clone();
        split.sizes.splice(dim..=dim, sizes.iter().cloned());
        split.strides.splice(dim..=dim, inner);
        Ok(split)
    }
    /// Merges `count` dimensions from `first` on into one; `None` if strides cannot express it.
    pub fn merge_in(&self, first: usize, count: usize, scope: &D::Scope) -> Result<Option<Self>> {
        let Some(end) = first.checked_add(count).filter(|&end| end <= self.rank()) else {
            return refused(format!("{count} dimensions from {first} on of {}", self.rank()));
        };
        let inside = first..end;
        let sizes = self.sizes[inside.clone()].to_vec();
        let part = Self { strides: self.strides[inside.clone()].to_vec(), offset: D::from(0), sizes };
        let Some(one) = part.reshape_in(&[part.element_count()?], scope)? else { return Ok(None) };
        let mut merged = self.clone();
        merged.sizes.splice(inside.clone(), one.sizes);
        merged.strides.splice(inside, one.strides);
        Ok(Some(merged))
    }
    /// Any window in the coordinates of this one's elements in row-major order (`dynamo.as_strided`). Strides can express it if that is
    /// also the elements' order in memory; `None` if it is not.
    pub fn as_strided_in(&self, sizes: &[D], strides: &[D], offset: &D, scope: &D::Scope) -> Result<Option<Self>> {
        if !self.is_contiguous_in(scope)? {
            return Ok(None);
        }
        Self::new(sizes.to_vec(), strides.to_vec(), self.offset.add(offset)?).map(Some)
    }
    /// The part at index 0 of each of `dims`, which stay as unit dimensions.
    pub fn first_of(&self, dims: &[usize]) -> Result<Self> {
        let mut part = self.clone();
        for &dim in dims {
            self.check_dim(dim)?;
            part.sizes[dim] = D::from(1);
        }
        Ok(part)
    }
}
