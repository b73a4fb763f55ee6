//! Convolutions, pooling and interpolation, for which torch has backward operators.

use super::{Keeps, Row, first};
use crate::autodiff::{
    at::At,
    aten::{Arg, args},
};

/// The rules of this file.
pub const TABLE: &[Row] = &[
    first("aten.convolution.default", convolution),
    first("aten.max_pool2d_with_indices.default", max_pool),
    first("aten.avg_pool2d.default", avg_pool),
    first("aten._adaptive_avg_pool2d.default", adaptive_pool),
    first("aten.upsample_linear1d.default", |r| upsample(r, "aten.upsample_linear1d_backward.default"))
        .better_recorded()
        .keeping(Keeps::Nothing),
    first("aten.upsample_bilinear2d.default", |r| upsample(r, "aten.upsample_bilinear2d_backward.default"))
        .better_recorded()
        .keeping(Keeps::Nothing),
    first("aten.upsample_bicubic2d.default", |r| upsample(r, "aten.upsample_bicubic2d_backward.default"))
        .better_recorded()
        .keeping(Keeps::Nothing),
    first("aten.upsample_trilinear3d.default", |r| upsample(r, "aten.upsample_trilinear3d_backward.default"))
        .better_recorded()
        .keeping(Keeps::Nothing),
];

fn convolution(r: &mut At) -> Option<()> {
    let (g, x, w, bias) = (r.g()?, r.tensor(0)?, r.tensor(1)?, r.tensor(2));
    let sizes = bias.map_or(Arg::None, |bias| Arg::Sizes(bias.ty().dims()));
    let how = passed(r, 3..9)?;
    // One call for each gradient, where eager makes one for both: so generated code or the library can be chosen for each separately.
    for wanted in (0..2).filter(|&i| r.needs(i)).collect::<Vec<_>>() {
        let operand = r.tensor(wanted)?;
        let mut made = [r.a.nothing(), r.a.nothing(), r.a.nothing()];
        made[wanted] = (operand.ty(), Some(r.a.layout_like(operand)));
        let mask = (0..3).map(|i| i == wanted).collect();
        let all = [&[g.into(), x.into(), w.into(), sizes.clone()][..], &how, &[Arg::Bools(mask)]].concat();
        let found = r.a.call("aten.convolution_backward.default", &all, &made);
        r.give(wanted, found[wanted])?;
    }
    if r.needs(2) {
        let positions: Vec<i64> = (0..g.ty().rank() as i64).filter(|&dim| dim != 1).collect();
        r.give(2, r.a.sum(g, &positions, false))?;
    }
    Some(())
}

/// Returns arguments that are passed unchanged to the backward operator.
fn passed(r: &At, which: std::ops::Range<usize>) -> Option<Vec<Arg>> {
    which.map(|i| r.c()?.arg(i).map(Arg::Attr)).collect()
}

fn max_pool(r: &mut At) -> Option<()> {
    let (g, x, indices) = (r.g()?, r.tensor(0)?, r.out(1));
    let all = [args![g, x], &passed(r, 1..6)?[..], args![indices]].concat();
    r.give(0, r.a.like("aten.max_pool2d_with_indices_backward.default", &all, x))
}

fn avg_pool(r: &mut At) -> Option<()> {
    let (g, x) = (r.g()?, r.tensor(0)?);
    let all = [args![g, x], &passed(r, 1..7)?[..]].concat();
    r.give(0, r.a.like("aten.avg_pool2d_backward.default", &all, x))
}

fn adaptive_pool(r: &mut At) -> Option<()> {
    let (g, x) = (r.g()?, r.tensor(0)?);
    r.give(0, r.a.like("aten._adaptive_avg_pool2d_backward.default", args![g, x], x))
}

/// `backward(g, sizes of the result, sizes of self, align_corners, a scale for each dimension)`. The result has the layout of `g`, so only
/// a row-major `g` is accepted.
fn upsample(r: &mut At, backward: &str) -> Option<()> {
    let (g, x) = (r.g()?, r.tensor(0)?);
    if r.a.layout(g) != r.a.row_major(g.ty()) {
        return None;
    }
    let (made, own) = (g.ty().dims().split_off(2), x.ty().dims());
    let scales = own.len() - 2;
    let all = [args![g, made, own], &passed(r, 2..3 + scales)?[..]].concat();
    r.give(0, r.a.one(backward, &all, x.ty()))
}
