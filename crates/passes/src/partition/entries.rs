//! The two entries that a cut joint function becomes.

use std::collections::HashSet;

use dynamlir_dialect::{
    ir::{Attr, AttrValue, Builder, Op, Output, Symbol, Type, Value},
    ops::{self, AtenOp, CheckRangeOp},
    pass::{PassError, PassResult},
    upstream::func,
};
use dynamlir_shapes::row_major;

use super::{
    copies::{Copies, argument_attrs, result_attrs},
    cut::Cut,
    joint::{Joint, Side},
};

/// What the name of the backward ends in.
const SUFFIX: &str = "_vjp";

/// Puts both in the place of the joint function.
pub fn write(joint: &Joint, cut: &Cut) -> PassResult {
    let function = joint.function;
    let name = function.symbol().ok_or_else(|| PassError::at(function, "a joint function has a name"))?;
    let vjp = format!("{name}{SUFFIX}");
    let saved: Vec<Saved> = cut.saved.iter().map(|&value| Saved::of(joint, value)).collect();
    let main = forward(joint, &saved, &name, &vjp)?;
    let recomputed = cut.recomputed(joint).len();
    if recomputed > 0 {
        ops::RECOMPUTED.set(main, recomputed as i64);
    }
    backward(joint, cut, &saved, &vjp);
    function.erase();
    Ok(())
}

/// A value that is kept.
struct Saved {
    value: usize,
    strides: Vec<i64>,
    /// Where it begins in its storage, if it is an argument.
    offset: i64,
}

impl Saved {
    fn of(joint: &Joint, value: usize) -> Self {
        if let Some(at) = joint.argument(value).filter(|_| joint.is_lent(value)) {
            let strides = ops::STRIDES.of_arg(joint.function, at);
            let offset = ops::OFFSET.of_arg(joint.function, at).unwrap_or(0);
            return Self { value, strides: strides.unwrap_or_else(|| row_major(&joint.values[value].ty().shape())), offset };
        }
        let returned = joint.returned(value).and_then(|at| ops::STRIDES.of_result(joint.function, at));
        let strides = returned.or_else(|| of_library(joint, value)).unwrap_or_else(|| row_major(&joint.values[value].ty().shape()));
        Self { value, strides, offset: 0 }
    }
}

/// The strides in which an operator of the library gives a value, or takes it: so it need not be copied.
fn of_library(joint: &Joint, value: usize) -> Option<Vec<i64>> {
    let value = joint.values[value];
    let layout = |op: Op, strides: Option<Vec<Attr>>, at: usize| AtenOp::cast(op).and(strides)?.get(at)?.as_i64s();
    let call = |op: Op| AtenOp::cast(op).filter(|_| op.num_regions() == 0 || op.region(0).blocks().is_empty());
    let made = value.def().and_then(|op| layout(op, call(op)?.result_strides(), value.result_index()?));
    let taken = || value.uses().into_iter().find_map(|using| layout(using.op, call(using.op)?.operand_strides(), using.index));
    let shape = value.ty().shape();
    made.or_else(taken).filter(|strides| is_dense(&shape, strides))
}

/// Whether each element of memory is one of the tensor's.
fn is_dense(shape: &[i64], strides: &[i64]) -> bool {
    let mut dims: Vec<(i64, i64)> = strides.iter().copied().zip(shape.iter().copied()).filter(|&(_, size)| size != 1).collect();
    dims.sort_unstable();
    let mut next = 1;
    dims.into_iter().all(|(stride, size)| {
        let is_next = stride == next;
        next *= size;
        is_next
    })
}

fn forward(joint: &Joint, saved: &[Saved], name: &str, vjp: &str) -> Result<Op, PassError> {
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

    let mut results: Vec<(Value, Attr)> = kept.iter().map(|&at| (joint.exit.operand(at), result_attrs(old, at))).collect();
    let added = extra.iter().map(|saved| (joint.values[saved.value], Attr::dict(ctx, &[ops::STRIDES.with(ctx, &saved.strides)])));
    results.splice(position..position, added);
    let types: Vec<Type> = inputs.iter().map(|&at| joint.values[at].ty()).collect();
    let (new, block) = Builder::before(old).func(name, &types, &[], &[]);
    let mut copies = Copies::new(block, inputs.iter().map(|&at| joint.values[at]));
    let needed = needed(joint, results.iter().map(|(value, _)| joint.number(*value)), |at| joint.sides[at] == Side::Forward);
    for at in (0..joint.ops.len()).filter(|at| needed.contains(at)) {
        copies.copy(joint.ops[at]);
    }
    for (name, attr) in old.attrs() {
        if ![func::FUNCTION_TYPE, func::RES_ATTRS, func::ARG_ATTRS, "sym_name"].contains(&name.as_str()) {
            new.set_attr(&name, attr);
        }
    }
    if let Some(mut versions) = ops::VERSIONS.of(old) {
        versions.resize(position, 0);
        versions.resize(position + extra.len(), 0);
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
    ops::SAVED.set(new, saved.len() as i64);
    if let Some(keys) = joint.keys().and_then(|keys| saved.iter().position(|saved| saved.value == keys)) {
        ops::KEPT_KEYS.set(new, keys as i64);
    }
    let primals = primals(joint);
    if !primals.is_empty() {
        ops::PRIMALS.set(new, &primals);
    }
    ops::VJP.set(new, &Symbol::flat(vjp));
    Ok(new)
}

fn backward(joint: &Joint, cut: &Cut, saved: &[Saved], name: &str) {
    let (old, ctx) = (joint.function, joint.function.ctx());
    let inputs: Vec<Value> =
        saved.iter().map(|saved| joint.values[saved.value]).chain(joint.tangents.iter().map(|&at| joint.values[at])).collect();
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
    if let Some(symbols) = ops::SYMBOLS.of(old) {
        ops::SYMBOLS.set(new, &symbols);
    }
    let outputs: Vec<Attr> = (0..results.len()).map(|at| Output::write(ctx, &Output::Result(at))).collect();
    copies.finish(new, joint.exit.loc(), &results);
    ops::OUTPUTS.set(new, &outputs);
    let laid_out = |saved: &Saved| Attr::dict(ctx, &[ops::STRIDES.with(ctx, &saved.strides), ops::OFFSET.with(ctx, saved.offset)]);
    let arguments: Vec<Attr> = saved.iter().map(laid_out).chain(joint.tangents.iter().map(|&at| argument_attrs(old, at))).collect();
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
