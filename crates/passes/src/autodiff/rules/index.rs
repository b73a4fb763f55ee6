//! Reading by index: elements that were read several times get the sum of the gradients.

use dynamlir_shapes::{Dim, Relation};

use super::{Keeps, Row, first};
use crate::autodiff::{
    at::At,
    aten::{Arg, args},
};

/// The rules of this file.
pub const TABLE: &[Row] = &[
    first("aten.embedding.default", embedding),
    first("aten.index_select.default", index_select),
    first("aten.index.Tensor", index),
    first("aten.gather.default", gather),
    first("aten.scatter_add.default", scatter_add).keeping(Keeps::For(&[3])),
    first("aten.index_add.default", index_add).keeping(Keeps::For(&[3])),
    first("aten.masked_scatter.default", masked_scatter),
];

fn embedding(r: &mut At) -> Option<()> {
    let (g, w, indices) = (r.g()?, r.tensor(0)?, r.tensor(1)?);
    // Sparse gradients are left to eager.
    if r.c()?.bool(4)? {
        return None;
    }
    let (padding, scaled) = (r.c()?.arg(2)?, r.c()?.arg(3)?);
    let rows = w.ty().dims().swap_remove(0);
    r.give(0, r.a.one("aten.embedding_dense_backward.default", args![g, indices, rows, padding, scaled], w.ty()))
}

fn index_select(r: &mut At) -> Option<()> {
    let (g, x, dim, index) = (r.g()?, r.tensor(0)?, r.c()?.arg(1)?, r.tensor(2)?);
    r.give(0, r.a.one("aten.index_add.default", args![r.a.zeros(x), dim, index, g, 1_i64], x.ty()))
}

fn index(r: &mut At) -> Option<()> {
    let (g, x, indices) = (r.g()?, r.tensor(0)?, r.c()?.opt_tensors(1)?);
    r.give(0, r.a.one("aten.index_put.default", args![r.a.zeros(x), Arg::Optionals(indices), g, true], x.ty()))
}

fn gather(r: &mut At) -> Option<()> {
    let (g, x, dim, index) = (r.g()?, r.tensor(0)?, r.c()?.arg(1)?, r.tensor(2)?);
    // Sparse gradients are left to eager.
    if r.c()?.bool(3)? {
        return None;
    }
    r.give(0, r.a.one("aten.scatter_add.default", args![r.a.zeros(x), dim, index, g], x.ty()))
}

fn scatter_add(r: &mut At) -> Option<()> {
    let (g, dim, index, source) = (r.g()?, r.c()?.arg(1)?, r.tensor(2)?, r.tensor(3)?);
    if r.needs(0) {
        r.give(0, g)?;
    }
    if r.needs(3) {
        // The source may have more elements than are written.
        if index.ty().dims() != source.ty().dims() {
            return None;
        }
        r.give(3, r.a.one("aten.gather.default", args![g, dim, index, false], source.ty()))?;
    }
    Some(())
}

fn index_add(r: &mut At) -> Option<()> {
    let (g, dim, index, source, alpha) = (r.g()?, r.c()?.arg(1)?, r.tensor(2)?, r.tensor(3)?, r.c()?.scalar(4)?);
    if r.needs(0) {
        r.give(0, g)?;
    }
    if r.needs(3) {
        if source.ty().rank() == 0 || g.ty().rank() != source.ty().rank() {
            return None;
        }
        // The source may have more or fewer elements than are written.
        let place = usize::try_from(r.c()?.dim(1, g.ty().rank())?).ok()?;
        let mut read = g.ty().dims();
        read[place] = index.ty().count()?;
        let is_read = |(size, read): (&Dim, &Dim)| r.a.surely(size, Relation::Eq, read.clone());
        if !source.ty().dims().iter().zip(&read).all(is_read) {
            return None;
        }
        let read = r.a.one("aten.index_select.default", args![g, dim, index], source.ty());
        r.give(3, r.a.scale(read, alpha))?;
    }
    Some(())
}

/// Declined if the source needs a gradient: the elements taken from it depend on the mask's values.
fn masked_scatter(r: &mut At) -> Option<()> {
    let (g, mask) = (r.g()?, r.tensor(1)?);
    if r.needs(2) {
        return None;
    }
    r.give_broadcast(0, r.a.zero_where(g, mask))
}
