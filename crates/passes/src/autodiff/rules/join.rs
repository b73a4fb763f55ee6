//! Joined tensors: each gets its part of the gradient.

use dynamlir_shapes::{Dim, Dimension, Relation};

use super::{Keeps, Row, first, none};
use crate::autodiff::at::At;

/// The rules of this file, including operators that create tensors and use only the type of their operand.
pub const TABLE: &[Row] = &[
    first("aten.cat.default", cat).keeping(Keeps::Nothing),
    first("aten.stack.default", stack).keeping(Keeps::Nothing),
    first("aten.constant_pad_nd.default", pad).keeping(Keeps::Nothing),
    none("aten.zeros_like.default"),
    none("aten.ones_like.default"),
    none("aten.full_like.default"),
    none("aten.empty_like.default"),
    none("aten.rand_like.default"),
    none("aten.randn_like.default"),
    none("aten.new_zeros.default"),
    none("aten.new_ones.default"),
    none("aten.new_full.default"),
    none("aten.new_empty.default"),
    none("aten.new_empty_strided.default"),
];

fn cat(r: &mut At) -> Option<()> {
    let g = r.g()?;
    let (rank, e) = (g.ty().rank(), r.a.e);
    let dim = r.c()?.dim(1, rank)?;
    let mut start = Dim::from(0);
    for x in r.c()?.tensors(0)? {
        // An empty vector can be concatenated with anything.
        if x.ty().rank() != rank {
            if r.wants(x) {
                r.give_to(x, r.a.zeros(x));
            }
            continue;
        }
        let size = x.ty().dims().swap_remove(usize::try_from(dim).ok()?);
        if r.wants(x) {
            let part = e.slice_dim(g, dim, start.clone(), 1, size.clone());
            r.give_to(x, r.a.cast(part, x.ty().element()));
        }
        start = start.add(&size).ok()?;
    }
    Some(())
}

fn stack(r: &mut At) -> Option<()> {
    let (g, e) = (r.g()?, r.a.e);
    let dim = r.c()?.dim(1, g.ty().rank())?;
    for (i, x) in r.c()?.tensors(0)?.into_iter().enumerate() {
        if r.wants(x) {
            let row = e.slice_dim(g, dim, i as i64, 1, 1);
            r.give_to(x, r.a.cast(e.reshape(row, &x.ty().dims()), x.ty().element()));
        }
    }
    Some(())
}

/// `pad` lists the padding before and after each dimension, the last dimension first.
fn pad(r: &mut At) -> Option<()> {
    let (g, x) = (r.g()?, r.tensor(0)?);
    let (sizes, pad) = (x.ty().dims(), r.c()?.sizes(1)?);
    if !pad.iter().all(|n| r.a.surely(n, Relation::Ge, 0)) {
        return None;
    }
    let mut starts = vec![Dim::from(0); sizes.len()];
    for (i, pair) in pad.chunks(2).enumerate() {
        starts[sizes.len() - 1 - i] = pair[0].clone();
    }
    r.give(0, r.a.e.slice(g, &starts, &vec![1; sizes.len()], &sizes))
}
