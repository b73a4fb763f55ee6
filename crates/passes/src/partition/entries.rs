//! The two entries that a cut joint function becomes.

use std::collections::HashSet;

use dynamlir_dialect::{
    ir::{Attr, AttrValue, Builder, Op, Output, Symbol, Type, Value, sizes},
    ops::{self, AtenOp, CheckRangeOp, FullOp},
    pass::{PassError, PassResult},
    upstream::func,
};
use dynamlir_shapes::Dim;

use super::{
    copies::{Copies, argument_attrs, result_attrs},
    cut::Cut,
    joint::{Joint, Side},
    symbols,
};
use crate::{
    autodiff::aten::{is_dense, strides_of},
    emit::Scalar,
};

/// What the name of the backward ends in.
const SUFFIX: &str = "_vjp";

/// Puts both in the place of the joint function.
pub fn write(joint: &Joint, cut: &Cut) -> PassResult {
    let function = joint.function;
    let name = function.symbol().ok_or_else(|| PassError::at(function, "a joint function has a name"))?;
    let vjp = format!("{name}{SUFFIX}");
    let saved: Vec<Saved> = cut.saved.iter().map(|&value| Saved::of(joint, value)).collect();
    let symbols = sizes::declared(function);
    let (_, missing) = symbols::found(&symbols, shown(joint, &saved));
    let no_elements = (!missing.is_empty()).then(|| symbols::without_elements(function.ctx(), &missing));
    let (main, kept_sizes) = forward(joint, &saved, no_elements, (&name, &vjp))?;
    let recomputed = cut.recomputed(joint).len();
    if recomputed > 0 {
        ops::RECOMPUTED.set(main, recomputed as i64);
    }
    backward(joint, cut, &saved, kept_sizes, &vjp);
    function.erase();
    Ok(())
}

/// A value that is kept.
struct Saved {
    value: usize,
    strides: Vec<Dim>,
    /// Where it begins in its storage, if it is an argument.
    offset: Dim,
}

impl Saved {
    fn of(joint: &Joint, value: usize) -> Self {
        let dense = || strides_of(joint.values[value].ty(), &joint.scope);
        if let Some(at) = joint.argument(value).filter(|_| joint.is_lent(value)) {
            let strides = ops::STRIDES.dims().of_arg(joint.function, at);
            let offset = ops::OFFSET.dim().of_arg(joint.function, at).unwrap_or(Dim::from(0));
            return Self { value, strides: strides.unwrap_or_else(dense), offset };
        }
        let returned = joint.returned(value).and_then(|at| ops::STRIDES.dims().of_result(joint.function, at));
        let strides = returned.or_else(|| of_library(joint, value)).unwrap_or_else(dense);
        Self { value, strides, offset: Dim::from(0) }
    }
}

/// The strides in which an operator of the library gives a value, or takes it: so it need not be copied.
fn of_library(joint: &Joint, value: usize) -> Option<Vec<Dim>> {
    let value = joint.values[value];
    let layout = |op: Op, strides: Option<Vec<Attr>>, at: usize| <Vec<Dim>>::read(*AtenOp::cast(op).and(strides)?.get(at)?);
    let call = |op: Op| AtenOp::cast(op).filter(|_| op.num_regions() == 0 || op.region(0).blocks().is_empty());
    let made = value.def().and_then(|op| layout(op, call(op)?.result_strides(), value.result_index()?));
    let taken = || value.uses().into_iter().find_map(|using| layout(using.op, call(using.op)?.operand_strides(), using.index));
    made.or_else(taken).filter(|strides| is_dense(&value.ty().dims(), strides, &joint.scope))
}

/// The arguments of backward that are there in every call, in which the values of symbols are found. Where there are several
/// tangents, or gradients that depend on none, a tangent may be missing.
fn shown(joint: &Joint, saved: &[Saved]) -> impl Iterator<Item = (usize, Type)> {
    let tangents = if let [tangent] = joint.tangents[..] { Some(tangent).filter(|_| joint.all_depend_on_tangents()) } else { None };
    let types: Vec<Type> = saved.iter().map(|saved| saved.value).chain(tangents).map(|value| joint.values[value].ty()).collect();
    types.into_iter().enumerate()
}

/// The forward; with `no_elements`, it saves one more value, of this type, which is given back.
fn forward(joint: &Joint, saved: &[Saved], no_elements: Option<Type>, (name, vjp): (&str, &str)) -> Result<(Op, Option<Value>), PassError> {
    let (old, ctx) = (joint.function, joint.function.ctx());
    let inputs: Vec<usize> =
        (0..joint.values.len()).filter_map(|value| joint.argument(value)).filter(|at| !joint.tangents.contains(at)).collect();
    let kept: Vec<usize> = (0..joint.exit.num_operands()).filter(|at| !joint.gradients.contains(at)).collect();
    let mutates = |at: &usize| ops::MUTATES.of_result(old, *at).is_some();
    let position = kept.iter().position(mutates).unwrap_or(kept.len());
    if kept[position..].iter().any(|at| !mutates(at)) {
        return Err(PassError::at(old, "results that are written to arguments come after those that are returned"));
    }

    // The results: those of before, and before the ones that are written to arguments, what is saved.
    let mut outputs = outputs(old, position)?;
    let mut extra: Vec<&Saved> = Vec::new();
    let entries: Vec<Output> = saved
        .iter()
        .map(|saved| match (joint.argument(saved.value), joint.returned(saved.value)) {
            (Some(at), _) if joint.is_lent(saved.value) => Output::Arg(at),
            (None, Some(at)) if at < position => match outputs.iter().position(|output| *output == Output::Result(at)) {
                Some(first) => Output::Same(first),
                None => Output::Result(at),
            },
            _ => {
                extra.push(saved);
                Output::Result(position + extra.len() - 1)
            }
        })
        .collect();
    outputs.extend(entries);
    let count = extra.len() + usize::from(no_elements.is_some());
    outputs.extend(no_elements.map(|_| Output::Result(position + extra.len())));

    let mut results: Vec<(Value, Attr)> = kept.iter().map(|&at| (joint.exit.operand(at), result_attrs(old, at))).collect();
    let laid_out = |strides: &[Dim]| Attr::dict(ctx, &[ops::STRIDES.dims().with(ctx, strides)]);
    results.splice(position..position, extra.iter().map(|saved| (joint.values[saved.value], laid_out(&saved.strides))));
    let types: Vec<Type> = inputs.iter().map(|&at| joint.values[at].ty()).collect();
    let (new, block) = Builder::before(old).func(name, &types, &[], &[]);
    let mut copies = Copies::new(block, inputs.iter().map(|&at| joint.values[at]));
    let needed = needed(joint, results.iter().map(|(value, _)| joint.number(*value)), |at| joint.sides[at] == Side::Forward);
    for at in (0..joint.ops.len()).filter(|at| needed.contains(at)) {
        copies.copy(joint.ops[at]);
    }
    let kept_sizes = no_elements.map(|ty| {
        let zero = Scalar::Int(0).attr(ty.element());
        FullOp::build(&Builder::at_end(block, joint.exit.loc()), zero, ty).result()
    });
    let place = position + extra.len();
    results.splice(place..place, kept_sizes.map(|value| (value, laid_out(&strides_of(value.ty(), &joint.scope)))));
    for (name, attr) in old.attrs() {
        if ![func::FUNCTION_TYPE, func::RES_ATTRS, func::ARG_ATTRS, "sym_name"].contains(&name.as_str()) {
            new.set_attr(&name, attr);
        }
    }
    if let Some(mut versions) = ops::VERSIONS.of(old) {
        versions.resize(position, 0);
        versions.resize(position + count, 0);
        ops::VERSIONS.set(new, &versions);
    }
    if let Some(mut bases) = ops::BASES.of(old) {
        bases.resize(outputs.len(), Attr::unit(ctx));
        ops::BASES.set(new, &bases);
    }
    copies.finish(new, joint.exit.loc(), &results);
    new.set_attr(func::ARG_ATTRS, Attr::array(ctx, &inputs.iter().map(|&at| argument_attrs(old, at)).collect::<Vec<_>>()));
    let written: Vec<Attr> = outputs.iter().map(|output| Output::write(ctx, output)).collect();
    ops::OUTPUTS.set(new, &written);
    ops::SAVED.set(new, (saved.len() + usize::from(kept_sizes.is_some())) as i64);
    if let Some(keys) = joint.keys().and_then(|keys| saved.iter().position(|saved| saved.value == keys)) {
        ops::KEPT_KEYS.set(new, keys as i64);
    }
    let primals = primals(joint);
    if !primals.is_empty() {
        ops::PRIMALS.set(new, &primals);
    }
    ops::VJP.set(new, &Symbol::flat(vjp));
    Ok((new, kept_sizes))
}

fn backward(joint: &Joint, cut: &Cut, saved: &[Saved], kept_sizes: Option<Value>, name: &str) {
    let (old, ctx) = (joint.function, joint.function.ctx());
    let tangents = joint.tangents.iter().map(|&at| joint.values[at]);
    let inputs: Vec<Value> = saved.iter().map(|saved| joint.values[saved.value]).chain(kept_sizes).chain(tangents).collect();
    let types: Vec<Type> = inputs.iter().map(|value| value.ty()).collect();
    let (new, block) = Builder::before(old).func(name, &types, &[], &[]);
    let mut copies = Copies::new(block, inputs.iter().copied());
    let saved_values: HashSet<usize> = cut.saved.iter().copied().collect();
    let results: Vec<(Value, Attr)> = joint.gradients.iter().map(|&at| (joint.exit.operand(at), result_attrs(old, at))).collect();
    let mut needed: HashSet<usize> = HashSet::new();
    let mut open: Vec<usize> = results.iter().map(|(value, _)| joint.number(*value)).collect();
    while let Some(value) = open.pop() {
        if let Some(at) = joint.def[value].filter(|at| !saved_values.contains(&value) && !needed.contains(at)) {
            needed.insert(at);
            open.extend(&joint.uses[at]);
        }
    }
    for at in in_order(joint, &needed) {
        let op = joint.ops[at];
        match CheckRangeOp::cast(op) {
            // The forward has checked it.
            Some(_) if joint.sides[at] == Side::Forward => copies.stand_for(op.result(0), op.operand(0)),
            _ => copies.copy(op),
        }
    }
    ops::ENTRY.set(new, ());
    let given = inputs.iter().map(|value| value.ty()).enumerate().take(shown(joint, saved).count() + usize::from(kept_sizes.is_some()));
    sizes::declare(new, &symbols::found(&sizes::declared(old), given).0);
    symbols::hand_on_assumed(old, new);
    let outputs: Vec<Attr> = (0..results.len()).map(|at| Output::write(ctx, &Output::Result(at))).collect();
    copies.finish(new, joint.exit.loc(), &results);
    ops::OUTPUTS.set(new, &outputs);
    let laid_out =
        |strides: &[Dim], offset: &Dim| Attr::dict(ctx, &[ops::STRIDES.dims().with(ctx, strides), ops::OFFSET.dim().with(ctx, offset)]);
    let of_sizes = kept_sizes.map(|value| laid_out(&strides_of(value.ty(), &joint.scope), &Dim::from(0)));
    let of_saved = saved.iter().map(|saved| laid_out(&saved.strides, &saved.offset));
    let arguments: Vec<Attr> = of_saved.chain(of_sizes).chain(joint.tangents.iter().map(|&at| argument_attrs(old, at))).collect();
    new.set_attr(func::ARG_ATTRS, Attr::array(ctx, &arguments));
}

/// The operations in the order in which backward runs them. What belongs to a checkpoint comes right before what needs it first, so that
/// the memory of one checkpoint is free before the next one is computed.
fn in_order(joint: &Joint, needed: &HashSet<usize>) -> Vec<usize> {
    let mut place: Vec<usize> = (0..joint.ops.len()).collect();
    let mut first: Vec<usize> = vec![usize::MAX; joint.values.len()];
    for at in (0..joint.ops.len()).rev().filter(|at| needed.contains(at)) {
        if ops::RECOMPUTE.is_on(joint.ops[at]) && joint.sides[at] == Side::Forward {
            place[at] = joint.ops[at].results().into_iter().map(|result| first[joint.number(result)]).min().unwrap_or(at);
        }
        joint.uses[at].iter().for_each(|&value| first[value] = first[value].min(place[at]));
    }
    let mut order: Vec<usize> = needed.iter().copied().collect();
    order.sort_unstable_by_key(|&at| (place[at], place[at] == at, at));
    order
}

/// `dynamo.outputs`, or what its absence says.
fn outputs(function: Op, results: usize) -> Result<Vec<Output>, PassError> {
    let Some(entries) = ops::OUTPUTS.of(function) else { return Ok((0..results).map(Output::Result).collect()) };
    let read: Option<Vec<Output>> = entries.into_iter().map(Output::read).collect();
    read.ok_or_else(|| PassError::at(function, "dynamo.outputs lists something else"))
}

/// The arguments but tangents that gradients are made of, in whatever way. Before decomposition there are more: formulas name some
/// that they do not use.
fn primals(joint: &Joint) -> Vec<i64> {
    let gradients: Vec<usize> = joint.gradients.iter().map(|&at| joint.number(joint.exit.operand(at))).collect();
    let needed = needed(joint, gradients.iter().copied(), |_| false);
    let used = needed.iter().flat_map(|&at| joint.uses[at].iter().copied()).chain(gradients);
    let mut found: Vec<usize> = used.filter_map(|value| joint.argument(value)).filter(|at| !joint.tangents.contains(at)).collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().filter_map(|at| i64::try_from(at).ok()).collect()
}

/// The operations that these values need, and those that are always there.
pub fn needed(joint: &Joint, values: impl Iterator<Item = usize>, always: impl Fn(usize) -> bool) -> HashSet<usize> {
    let mut open: Vec<usize> = values.collect();
    let mut needed: HashSet<usize> = (0..joint.ops.len()).filter(|&at| always(at)).collect();
    open.extend(needed.iter().flat_map(|&at| joint.uses[at].iter().copied()));
    while let Some(value) = open.pop() {
        if let Some(at) = joint.def[value]
            && needed.insert(at)
        {
            open.extend(&joint.uses[at]);
        }
    }
    needed
}
