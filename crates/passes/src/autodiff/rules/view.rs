//! Views, and copies that change nothing but the layout: elements move back.

use dynamlir_dialect::ir::Value;
use dynamlir_shapes::{Window, row_major};

use super::{Row, all, first, none};
use crate::{
    autodiff::{at::At, primitives::put_back},
    decompose::call::wrap,
};

/// The rules of this file.
pub const TABLE: &[Row] = &[
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
];

fn reshape(r: &mut At) -> Option<()> {
    let (g, x) = (r.g()?, r.tensor(0)?);
    r.give(0, r.a.e.reshape(g, &x.ty().shape()))
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
    r.give(0, r.a.sum_to(g, &x.ty().shape()))
}

fn slice(r: &mut At) -> Option<()> {
    let (g, x) = (r.g()?, r.tensor(0)?);
    let sizes = x.ty().shape();
    let dim = usize::try_from(r.c()?.dim(1, sizes.len())?).ok()?;
    let start = r.c()?.int(2).unwrap_or(0);
    let start = if start < 0 { (start + sizes[dim]).max(0) } else { start.min(sizes[dim]) };
    let step = r.c()?.int(4).unwrap_or(1);
    r.give(0, put_slice(r, g, x, (dim, start, step)))
}

/// A part along one dimension, `step` apart from `start` on, among zeros.
fn put_slice(r: &At, part: Value, whole: Value, (dim, start, step): (usize, i64, i64)) -> Value {
    let (sizes, count) = (whole.ty().shape(), part.ty().shape()[dim]);
    if step == 1 || count <= 1 {
        let (mut low, mut high) = (vec![0; sizes.len()], vec![0; sizes.len()]);
        // A part of nothing may begin after the end.
        low[dim] = start.min(sizes[dim] - count);
        high[dim] = sizes[dim] - low[dim] - count;
        return r.a.e.pad(part, &low, &high, 0.0);
    }
    let mut strides = row_major(&sizes);
    let offset = strides[dim] * start;
    strides[dim] *= step;
    put_back(&r.a, part, whole.ty(), &Window { sizes: part.ty().shape(), strides, offset })
}

fn select(r: &mut At) -> Option<()> {
    let (g, x) = (r.g()?, r.tensor(0)?);
    let sizes = x.ty().shape();
    let dim = r.c()?.dim(1, sizes.len())?;
    let at = usize::try_from(dim).ok()?;
    let index = r.c()?.int(2)?;
    let index = if index < 0 { index + sizes[at] } else { index };
    let row = r.a.e.unsqueeze(g, &[dim]);
    r.give(0, put_slice(r, row, x, (at, index, 1)))
}

fn diagonal(r: &mut At) -> Option<()> {
    let (g, x) = (r.g()?, r.tensor(0)?);
    let sizes = x.ty().shape();
    let (offset, a, b) = (r.c()?.int(1)?, r.c()?.dim(2, sizes.len())?, r.c()?.dim(3, sizes.len())?);
    let unit = row_major(&sizes);
    let (a, b) = (usize::try_from(a).ok()?, usize::try_from(b).ok()?);
    let mut strides: Vec<i64> = (0..sizes.len()).filter(|&d| d != a && d != b).map(|d| unit[d]).collect();
    strides.push(unit[a] + unit[b]);
    let start = if offset >= 0 { offset * unit[b] } else { -offset * unit[a] };
    r.give(0, put_back(&r.a, g, x.ty(), &Window { sizes: g.ty().shape(), strides, offset: start }))
}

fn flip(r: &mut At) -> Option<()> {
    let g = r.g()?;
    let rank = g.ty().rank();
    let dims = r.c()?.ints(1)?.into_iter().map(|dim| wrap(dim, rank)).collect::<Option<Vec<_>>>()?;
    r.give(0, if rank == 0 { g } else { r.a.e.reverse(g, &dims) })
}

/// The parts one after another again. Those that no gradient has reached are zeros.
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
