//! What is said of a graph's results once they are in memory: layouts are in their types from here on.

use dynamlir_dialect::{
    ir::{Attr, Op},
    ops,
    upstream::func,
};

/// Says of the results of `new`, which are these of `old`, whose gradients they are and what gives them a history.
pub(super) fn describe(old: Op, new: Op, kept: &[usize]) {
    let ctx = old.ctx();
    let said = |&i: &usize| {
        let gradient = ops::GRADIENT.of_result(old, i).map(|argument| ops::GRADIENT.with(ctx, argument));
        let sources = ops::SOURCES.of_result(old, i).map(|places| ops::SOURCES.with(ctx, &places));
        gradient.into_iter().chain(sources).collect::<Vec<_>>()
    };
    let each: Vec<_> = kept.iter().map(said).collect();
    if each.iter().any(|said| !said.is_empty()) {
        new.set_attr(func::RES_ATTRS, Attr::array(ctx, &each.iter().map(|said| Attr::dict(ctx, said)).collect::<Vec<_>>()));
    }
}
