//! Normalizations, whose backward operators return the gradients of input, weight and bias at once.

use super::{Row, first};
use crate::autodiff::{
    at::At,
    aten::{Arg, args},
};

/// The rules of this file.
pub const TABLE: &[Row] = &[
    first("aten.native_layer_norm.default", layer).better_recorded(),
    first("aten.native_group_norm.default", group).better_recorded(),
    first("aten.native_batch_norm.default", |r| batch(r, [3, 4], Some(5), 7)).better_recorded(),
    first("aten._native_batch_norm_legit.default", |r| batch(r, [3, 4], Some(5), 7)).better_recorded(),
    first("aten._native_batch_norm_legit_functional.default", |r| batch(r, [3, 4], Some(5), 7)).better_recorded(),
    first("aten._native_batch_norm_legit_no_training.default", |r| batch(r, [3, 4], None, 6)).better_recorded(),
    first("aten._native_batch_norm_legit.no_stats", |r| batch(r, [usize::MAX; 2], Some(3), 5)).better_recorded(),
];

fn layer(r: &mut At) -> Option<()> {
    let (g, x, w, b) = (r.g()?, r.tensor(0)?, r.tensor(2), r.tensor(3));
    let (normalized, mean, rstd) = (r.c()?.arg(1)?, r.out(1), r.out(2));
    r.give_all([0, 2, 3], |a, mask, made| {
        a.call("aten.native_layer_norm_backward.default", args![g, x, normalized, mean, rstd, w, b, Arg::Bools(mask)], made)
    })
}

fn group(r: &mut At) -> Option<()> {
    let (g, x, w) = (r.g()?, r.tensor(0)?, r.tensor(1));
    let (mean, rstd) = (r.out(1), r.out(2));
    let sizes = (3..7).map(|i| r.c()?.arg(i).map(Arg::Attr)).collect::<Option<Vec<_>>>()?;
    r.give_all([0, 1, 2], |a, mask, made| {
        let all = [args![g, x, mean, rstd, w], &sizes[..], &[Arg::Bools(mask)]].concat();
        a.call("aten.native_group_norm_backward.default", &all, made)
    })
}

/// Takes the positions of the arguments: running statistics, the training flag (None: inference), epsilon.
fn batch(r: &mut At, running: [usize; 2], training: Option<usize>, epsilon: usize) -> Option<()> {
    let (g, x, w) = (r.g()?, r.tensor(0)?, r.tensor(1));
    let [mean, variance] = running.map(|i| r.tensor(i));
    let (saved_mean, saved_inverse) = (r.out(1), r.out(2));
    let training = training.map_or(Some(false), |i| r.c()?.bool(i))?;
    let epsilon = r.c()?.arg(epsilon)?;
    r.give_all([0, 1, 2], |a, mask, made| {
        let all = args![g, x, w, mean, variance, saved_mean, saved_inverse, training, epsilon, Arg::Bools(mask)];
        a.call("aten.native_batch_norm_backward.default", all, made)
    })
}
