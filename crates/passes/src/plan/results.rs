//! Attributes of a graph's results once they are in memory; from here on, layouts are part of their types.

use dynamlir_dialect::{
    ir::{Attr, Op},
    ops,
    upstream::func,
};
use dynamlir_shapes::Dim;

/// Records the sizes of arguments in memory whose types do not contain them.
pub(super) fn say_sizes(new: Op, arguments: usize, sizes: &[(usize, Vec<Dim>)]) {
    if sizes.is_empty() {
        return;
    }
    let ctx = new.ctx();
    let before: Vec<Attr> = new.optional(func::ARG_ATTRS).unwrap_or_default();
    let said = |argument: usize| {
        let old = before.get(argument).map(|attrs| attrs.entries()).unwrap_or_default();
        let own = sizes.iter().filter(|(at, _)| *at == argument).map(|(_, sizes)| ops::SIZES.dims().with(ctx, sizes));
        let entries: Vec<_> = old.iter().map(|(name, attr)| (name.as_str(), *attr)).chain(own).collect();
        Attr::dict(ctx, &entries)
    };
    new.set_attr(func::ARG_ATTRS, Attr::array(ctx, &(0..arguments).map(said).collect::<Vec<_>>()));
}

/// Records on the results of `new`, which are the `kept` results of `old`, whose gradients they are and what gives them a history.
pub(super) fn describe(old: Op, new: Op, kept: &[usize]) {
    let ctx = old.ctx();
    let said = |&i: &usize| {
        let numbers = [ops::GRADIENT, ops::GRADIENT_OF, ops::GRADIENT_OF_OUTPUT];
        let gradient = numbers.into_iter().filter_map(|said| said.of_result(old, i).map(|of| said.with(ctx, of)));
        let lists =
            [ops::SOURCES, ops::REACHED].into_iter().filter_map(|said| said.of_result(old, i).map(|places| said.with(ctx, &places)));
        gradient.chain(lists).collect::<Vec<_>>()
    };
    let each: Vec<_> = kept.iter().map(said).collect();
    if each.iter().any(|said| !said.is_empty()) {
        new.set_attr(func::RES_ATTRS, Attr::array(ctx, &each.iter().map(|said| Attr::dict(ctx, said)).collect::<Vec<_>>()));
    }
}
