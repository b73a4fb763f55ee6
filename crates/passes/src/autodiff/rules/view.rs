//! Views, and copies that change only the layout: elements move back.

use dynamlir_dialect::ir::Value;
use dynamlir_shapes::{Dim, Dimension, Window, is_empty_in};

use super::{Row, all, first, keeping_nothing, none};
use crate::{
    autodiff::{at::At, primitives::put_back},
    decompose::{call::wrap, view::from_front},
};

/// The rules of this file.
pub const TABLE: &[Row] = &keeping_nothing([
    first("aten.view.default", reshape),
    first("aten.reshape.default", reshape),
    first("aten._unsafe_view.default", reshape),
    first("aten._reshape_alias.default", reshape),
    first("aten.unsqueeze.default", reshape),
    first("aten.squeeze.default", reshape),
    first("aten.squeeze.dim", reshape),
    first("aten.squeeze.dims", reshape),
    first("aten.alias.default", reshape),
    first("aten.clone.default", reshape),
    first("aten.lift_fresh.default", reshape),
    first("aten.lift_fresh_copy.default", reshape),
    first("aten._to_copy.default", to_copy),
    none("aten.detach.default"),
    first("aten.t.default", t),
    first("aten.transpose.int", transpose),
    first("aten.permute.default", permute),
    first("aten.expand.default", expand),
    first("aten.slice.Tensor", slice),
    first("aten.select.int", select),
    first("aten.diagonal.default", diagonal),
    first("aten.flip.default", flip),
    all("aten.split.Tensor", |r| split(r, 2)),
    all("aten.split_with_sizes.default", |r| split(r, 2)),
    all("aten.unsafe_split.Tensor", |r| split(r, 2)),
    all("aten.unsafe_split_with_sizes.default", |r| split(r, 2)),
    all("aten.unbind.int", unbind),
]);

fn reshape(r: &mut At) -> Option<()> {
    let (g, x) = (r.g()?, r.tensor(0)?);
    r.give(0, r.a.e.reshape(g, &x.ty().dims()))
}

fn to_copy(r: &mut At) -> Option<()> {
    let g = r.g()?;
    r.give(0, r.a.cast(g, r.element(0)?))
}

fn t(r: &mut At) -> Option<()> {
    let g = r.g()?;
    r.give(0, if g.ty().rank() == 2 { r.a.transpose(g, 0, 1) } else { g })
}

fn transpose(r: &mut At) -> Option<()> {
    let g = r.g()?;
    let rank = g.ty().rank();
    let (a, b) = (r.c()?.dim(1, rank)?, r.c()?.dim(2, rank)?);
    r.give(0, if rank == 0 { g } else { r.a.e.transpose(g, a, b) })
}

fn permute(r: &mut At) -> Option<()> {
    let g = r.g()?;
    let rank = g.ty().rank();
    let mut inverse = vec![0; rank];
    for (to, &from) in r.c()?.ints(1)?.iter().enumerate() {
        inverse[usize::try_from(wrap(from, rank)?).ok()?] = to as i64;
    }
    r.give(0, r.a.e.permute(g, &inverse))
}

fn expand(r: &mut At) -> Option<()> {
    let (g, x) = (r.g()?, r.tensor(0)?);
    r.give(0, r.a.sum_to(g, &x.ty().dims())?)
}

fn slice(r: &mut At) -> Option<()> {
    let (g, x, c) = (r.g()?, r.tensor(0)?, r.c()?);
    let sizes = x.ty().dims();
    let dim = usize::try_from(c.dim(1, sizes.len())?).ok()?;
    let whole = Window { sizes: vec![sizes[dim].clone()], strides: vec![Dim::from(1)], offset: Dim::from(0) };
    let step = c.int(4).unwrap_or(1);
    let start = whole.slice_in(0, c.size(2).as_ref(), None, 1, r.a.scope).ok()?.offset;
    r.give(0, put_slice(r, g, x, (dim, start, step))?)
}

/// Places a part along one dimension, from `start` on at intervals of `step`, among zeros.
fn put_slice(r: &At, part: Value, whole: Value, (dim, start, step): (usize, Dim, i64)) -> Option<Value> {
    let (sizes, count) = (whole.ty().dims(), part.ty().dims().swap_remove(dim));
    if step == 1 || count.known().is_some_and(|count| count <= 1) {
        let (mut low, mut high) = (vec![Dim::from(0); sizes.len()], vec![Dim::from(0); sizes.len()]);
        // An empty part may start past the end.
        let rest = sizes[dim].sub(&count).ok()?;
        low[dim] = start.min_in(&rest, r.a.scope).ok()?;
        high[dim] = rest.sub(&low[dim]).ok()?;
        return Some(r.a.e.pad(part, &low, &high, 0.0));
    }
    if is_empty_in(&part.ty().dims(), r.a.scope).ok()? {
        return Some(r.a.zeros(whole));
    }
    let mut strides = r.a.row_major(whole.ty());
    let offset = strides[dim].mul(&start).ok()?;
    strides[dim] = strides[dim].mul(&Dim::from(step)).ok()?;
    // Each element was read once.
    Some(r.a.e.as_strided_scatter(r.a.zeros(whole), part, &strides, offset))
}

fn select(r: &mut At) -> Option<()> {
    let (g, x) = (r.g()?, r.tensor(0)?);
    let sizes = x.ty().dims();
    let dim = r.c()?.dim(1, sizes.len())?;
    let at = usize::try_from(dim).ok()?;
    let index = from_front(r.c()?, r.c()?.size(2)?, &sizes[at])?;
    let row = r.a.e.unsqueeze(g, &[dim]);
    r.give(0, put_slice(r, row, x, (at, index, 1))?)
}

fn diagonal(r: &mut At) -> Option<()> {
    let (g, x) = (r.g()?, r.tensor(0)?);
    let rank = x.ty().rank();
    let (offset, a, b) = (r.c()?.int(1)?, r.c()?.dim(2, rank)?, r.c()?.dim(3, rank)?);
    let unit = r.a.row_major(x.ty());
    let (a, b) = (usize::try_from(a).ok()?, usize::try_from(b).ok()?);
    let mut strides: Vec<Dim> = (0..rank).filter(|&d| d != a && d != b).map(|d| unit[d].clone()).collect();
    strides.push(unit[a].add(&unit[b]).ok()?);
    let along = if offset >= 0 { &unit[b] } else { &unit[a] };
    let start = along.mul(&Dim::from(offset.checked_abs()?)).ok()?;
    r.give(0, put_back(&r.a, g, x.ty(), &Window { sizes: g.ty().dims(), strides, offset: start })?)
}

fn flip(r: &mut At) -> Option<()> {
    let g = r.g()?;
    let rank = g.ty().rank();
    let dims = r.c()?.ints(1)?.into_iter().map(|dim| wrap(dim, rank)).collect::<Option<Vec<_>>>()?;
    r.give(0, if rank == 0 { g } else { r.a.e.reverse(g, &dims) })
}

/// Concatenates the gradients of the parts. Those that no gradient has reached are zeros.
fn split(r: &mut At, dim: usize) -> Option<()> {
    let dim = r.c()?.dim(dim, r.tensor(0)?.ty().rank())?;
    let parts: Vec<Value> = parts(r);
    r.give(0, r.a.e.concat(&parts, dim))
}

fn unbind(r: &mut At) -> Option<()> {
    let dim = r.c()?.dim(1, r.tensor(0)?.ty().rank())?;
    let rows: Vec<Value> = parts(r).into_iter().map(|part| r.a.e.unsqueeze(part, &[dim])).collect();
    r.give(0, r.a.e.concat(&rows, dim))
}

fn parts(r: &At) -> Vec<Value> {
    (0..r.op.num_results()).map(|i| r.gradient(i).unwrap_or_else(|| r.a.zeros(r.out(i)))).collect()
}
