//! The entries built from a cut joint function: a forward, and a backward for each of its nodes.

use std::collections::HashSet;

use dynamlir_dialect::{
    ir::{Attr, AttrValue, Block, Builder, Op, Output, Symbol, Type, Value, sizes},
    ops::{self, AtenOp, CheckRangeOp, FullOp},
    pass::{PassError, PassResult},
    upstream::func,
};
use dynamlir_shapes::Dim;

use super::{
    copies::{Copies, argument_attrs, result_attrs},
    cut::Cut,
    joint::{Joint, Node, Side},
    symbols,
};
use crate::{
    emit::Scalar,
    layouts::{is_dense, strides_of},
};

/// The suffix of the backward's name.
const SUFFIX: &str = "_vjp";

/// Replaces the joint function by these entries.
pub fn write(joint: &Joint, cut: &Cut) -> PassResult {
    let function = joint.function;
    let name = function.symbol().ok_or_else(|| PassError::at(function, "a joint function has a name"))?;
    let saved: Vec<Saved> = cut.saved.iter().map(|&value| Saved::of(joint, value)).collect();
    let symbols = sizes::declared(function);
    let is_alone = joint.nodes.len() == 1;
    let mut parts: Vec<Part<'_>> = joint.nodes.iter().enumerate().map(|(at, node)| Part::new(joint, node, at, &saved)).collect();
    if is_alone {
        parts[0].kept = (0..saved.len()).collect();
    }
    let missing: Vec<_> = parts.iter().map(|part| symbols::found(&symbols, part.shown(joint, &saved)).1).collect();
    let all_missing: Vec<_> =
        symbols.iter().filter(|symbol| missing.iter().flatten().any(|other| other.symbol == symbol.symbol)).copied().collect();
    let no_elements = (!all_missing.is_empty()).then(|| symbols::without_elements(function.ctx(), &all_missing));
    for (part, missing) in parts.iter_mut().zip(&missing) {
        part.name = if is_alone { format!("{name}{SUFFIX}") } else { format!("{name}{SUFFIX}_{}", part.at) };
        part.takes_sizes = !missing.is_empty();
    }
    let (main, kept_sizes) = forward(joint, &saved, no_elements, &name)?;
    if let ([part], true) = (&parts[..], is_alone) {
        ops::VJP.set(main, &Symbol::flat(&part.name));
    } else {
        let symbols: Vec<Attr> = parts.iter().map(|part| Symbol::write(main.ctx(), &Symbol::flat(&part.name))).collect();
        ops::VJPS.set(main, &symbols);
    }
    let recomputed = cut.recomputed(joint).len();
    if recomputed > 0 {
        ops::RECOMPUTED.set(main, recomputed as i64);
    }
    let results = main.body().and_then(Block::terminator).map_or(0, Op::num_operands);
    for part in &parts {
        part.write(joint, cut, &saved, (kept_sizes, results));
    }
    function.erase();
    Ok(())
}

/// A value that is saved.
struct Saved {
    value: usize,
    strides: Vec<Dim>,
    /// Its offset in its storage, if it is an argument.
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

/// The strides with which a library operator returns or receives the value; with these, it need not be copied.
fn of_library(joint: &Joint, value: usize) -> Option<Vec<Dim>> {
    let value = joint.values[value];
    let layout = |op: Op, strides: Option<Vec<Attr>>, at: usize| <Vec<Dim>>::read(*AtenOp::cast(op).and(strides)?.get(at)?);
    let call = |op: Op| AtenOp::cast(op).filter(|_| op.num_regions() == 0 || op.region(0).blocks().is_empty());
    let made = value.def().and_then(|op| layout(op, call(op)?.result_strides(), value.result_index()?));
    let taken = || value.uses().into_iter().find_map(|using| layout(using.op, call(using.op)?.operand_strides(), using.index));
    made.or_else(taken).filter(|strides| is_dense(&value.ty().dims(), strides, &joint.scope))
}

/// Builds the forward. If `no_elements` is given, it saves one more value of this type, which is returned.
fn forward(joint: &Joint, saved: &[Saved], no_elements: Option<Type>, name: &str) -> Result<(Op, Option<Value>), PassError> {
    let (old, ctx) = (joint.function, joint.function.ctx());
    let inputs: Vec<usize> =
        (0..joint.values.len()).filter_map(|value| joint.argument(value)).filter(|at| !joint.tangents.contains(at)).collect();
    let kept: Vec<usize> = joint.returned_positions();
    let mutates = |at: &usize| ops::MUTATES.of_result(old, *at).is_some();
    let position = kept.iter().position(mutates).unwrap_or(kept.len());
    if kept[position..].iter().any(|at| !mutates(at)) {
        return Err(PassError::at(old, "results that are written to arguments come after those that are returned"));
    }

    // The results: the original ones, with the saved values inserted before those that are written to arguments.
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
    if kept_sizes.is_some() {
        ops::KEPT_SIZES.set(new, ());
    }
    if let Some(keys) = joint.keys().and_then(|keys| saved.iter().position(|saved| saved.value == keys)) {
        ops::KEPT_KEYS.set(new, keys as i64);
    }
    let primals = primals(joint);
    if !primals.is_empty() {
        ops::PRIMALS.set(new, &primals);
    }
    if !joint.hidden.is_empty() {
        let types: Vec<Attr> = joint.hidden.iter().map(|&at| joint.exit.operand(at).ty().as_attr()).collect();
        ops::CROSSING.set(new, &types);
    }
    Ok((new, kept_sizes))
}

/// The backward of a node.
struct Part<'a> {
    node: &'a Node,
    at: usize,
    name: String,
    /// The saved values that it receives, as indices.
    kept: Vec<usize>,
    /// True if it also receives the tensor without elements, after the saved values.
    takes_sizes: bool,
}

impl<'a> Part<'a> {
    fn new(joint: &Joint, node: &'a Node, at: usize, saved: &[Saved]) -> Self {
        let is_saved = |value: usize| saved.iter().any(|saved| saved.value == value);
        let gradients: Vec<usize> = node.gradients.iter().map(|&at| joint.number(joint.exit.operand(at))).collect();
        let needed = needed_beside(joint, gradients.iter().copied(), is_saved);
        let used: HashSet<usize> =
            needed.iter().flat_map(|&at| joint.uses[at].iter().copied()).chain(gradients).chain(joint.keys()).collect();
        let kept = (0..saved.len()).filter(|&at| used.contains(&saved[at].value)).collect();
        Self { node, at, name: String::new(), kept, takes_sizes: false }
    }

    /// The arguments that are present in every call, from which the values of symbols are read. If there are several tangents, any of them
    /// may be missing.
    fn shown(&self, joint: &Joint, saved: &[Saved]) -> impl Iterator<Item = (usize, Type)> {
        let tangent = if let [tangent] = self.node.tangents[..] { Some(tangent) } else { None };
        let values = self.kept.iter().map(|&at| saved[at].value).chain(tangent);
        values.map(|value| joint.values[value].ty()).collect::<Vec<Type>>().into_iter().enumerate()
    }

    /// Builds the backward; `results_of_forward` is the number of results of the forward.
    fn write(&self, joint: &Joint, cut: &Cut, saved: &[Saved], (kept_sizes, results_of_forward): (Option<Value>, usize)) {
        let (old, ctx) = (joint.function, joint.function.ctx());
        let kept_sizes = kept_sizes.filter(|_| self.takes_sizes);
        let tangents = self.node.tangents.iter().map(|&at| joint.values[at]);
        let kept: Vec<&Saved> = self.kept.iter().map(|&at| &saved[at]).collect();
        let inputs: Vec<Value> = kept.iter().map(|saved| joint.values[saved.value]).chain(kept_sizes).chain(tangents).collect();
        let types: Vec<Type> = inputs.iter().map(|value| value.ty()).collect();
        let (new, block) = Builder::before(old).func(&self.name, &types, &[], &[]);
        let mut copies = Copies::new(block, inputs.iter().copied());
        let saved_values: HashSet<usize> = cut.saved.iter().copied().collect();
        let renumbered = |attrs: Attr| renumbered(joint, attrs, results_of_forward);
        let results: Vec<(Value, Attr)> =
            self.node.gradients.iter().map(|&at| (joint.exit.operand(at), renumbered(result_attrs(old, at)))).collect();
        let needed = needed_beside(joint, results.iter().map(|(value, _)| joint.number(*value)), |value| saved_values.contains(&value));
        for at in in_order(joint, &needed) {
            let op = joint.ops[at];
            match CheckRangeOp::cast(op) {
                // The forward has already checked it.
                Some(_) if joint.sides[at] == Side::Forward => copies.stand_for(op.result(0), op.operand(0)),
                _ => copies.copy(op),
            }
        }
        ops::ENTRY.set(new, ());
        let shown = self.shown(joint, saved).count() + usize::from(kept_sizes.is_some());
        let given = inputs.iter().map(|value| value.ty()).enumerate().take(shown);
        sizes::declare(new, &symbols::found(&sizes::declared(old), given).0);
        symbols::hand_on_assumed(old, new);
        let outputs: Vec<Attr> = (0..results.len()).map(|at| Output::write(ctx, &Output::Result(at))).collect();
        copies.finish(new, joint.exit.loc(), &results);
        ops::OUTPUTS.set(new, &outputs);
        if joint.nodes.len() > 1 {
            let of_sizes = kept_sizes.map(|_| saved.len());
            let kept: Vec<i64> = self.kept.iter().copied().chain(of_sizes).map(|at| at as i64).collect();
            ops::KEPT.set(new, &kept);
        }
        let by_views: Vec<i64> = (0..kept.len()).filter(|&at| joint.is_read_by_views(kept[at].value)).map(|at| at as i64).collect();
        if !by_views.is_empty() {
            ops::BY_VIEWS.set(new, &by_views);
        }
        let laid_out =
            |strides: &[Dim], offset: &Dim| Attr::dict(ctx, &[ops::STRIDES.dims().with(ctx, strides), ops::OFFSET.dim().with(ctx, offset)]);
        let of_sizes = kept_sizes.map(|value| laid_out(&strides_of(value.ty(), &joint.scope), &Dim::from(0)));
        let of_saved = kept.iter().map(|saved| laid_out(&saved.strides, &saved.offset));
        // torch frees saved values after one backward and raises for a second one, so the mark is not needed. It is kept if only keys are
        // saved, since keys are never freed.
        let keys = joint.keys();
        let is_lasting = kept.iter().all(|saved| keys == Some(saved.value));
        let used_up = |attrs: Attr| if is_lasting { attrs } else { without(attrs, ops::ONCE.name()) };
        let of_tangents = self.node.tangents.iter().map(|&at| used_up(renumbered(argument_attrs(old, at))));
        let arguments: Vec<Attr> = of_saved.chain(of_sizes).chain(of_tangents).collect();
        new.set_attr(func::ARG_ATTRS, Attr::array(ctx, &arguments));
    }
}

/// Renumbers the attributes of a tangent or gradient: values passed only between nodes are numbered after the results of the forward, of
/// which they are not part. The node is dropped, since the function itself identifies it.
fn renumbered(joint: &Joint, attrs: Attr, results: usize) -> Attr {
    let attrs = without(attrs, ops::NODE.name());
    let (Some(&first), ctx) = (joint.hidden.first(), joint.function.ctx()) else { return attrs };
    let number = |result: i64| match usize::try_from(result).ok().and_then(|result| result.checked_sub(first)) {
        Some(hidden) if hidden < joint.hidden.len() => (results + hidden) as i64,
        _ => result,
    };
    let said = attrs.entries();
    let led = |attr: &Attr| match Output::read(*attr) {
        Some(Output::Result(result)) => Output::write(ctx, &Output::Result(number(result as i64) as usize)),
        _ => *attr,
    };
    let one = |(name, attr): &(String, Attr)| match (name, attr.as_i64(), attr.as_i64s()) {
        (name, ..) if name == ops::LEADS_TO.name() => {
            Attr::array(ctx, &attr.as_array().unwrap_or_default().iter().map(led).collect::<Vec<_>>())
        }
        (name, Some(result), _) if [ops::TANGENT.name(), ops::GRADIENT_OF.name()].contains(&&name[..]) => Attr::i64(ctx, number(result)),
        (name, _, Some(all)) if name == ops::REACHED.name() => Attr::i64s(ctx, &all.into_iter().map(number).collect::<Vec<_>>()),
        _ => *attr,
    };
    let said: Vec<(&str, Attr)> = said.iter().map(|entry| (&entry.0[..], one(entry))).collect();
    Attr::dict(ctx, &said)
}

/// The attributes without the one of this name.
fn without(attrs: Attr, name: &str) -> Attr {
    let said = attrs.entries();
    if said.iter().all(|(other, _)| other != name) {
        return attrs;
    }
    let said: Vec<(&str, Attr)> = said.iter().filter(|(other, _)| other != name).map(|(name, attr)| (&name[..], *attr)).collect();
    Attr::dict(attrs.ctx(), &said)
}

/// The operations in the order in which backward runs them. Operations of a checkpoint come right before their first user, so that the
/// memory of one checkpoint is free before the next one is recomputed.
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

/// `dynamo.outputs`, or its default if absent.
fn outputs(function: Op, results: usize) -> Result<Vec<Output>, PassError> {
    let Some(entries) = ops::OUTPUTS.of(function) else { return Ok((0..results).map(Output::Result).collect()) };
    let read: Option<Vec<Output>> = entries.into_iter().map(Output::read).collect();
    read.ok_or_else(|| PassError::at(function, "dynamo.outputs lists something else"))
}

/// The arguments, except tangents, that gradients depend on in any way. Before decomposition there are more, since formulas list some that
/// they do not use. Arguments that represent a value passed only between nodes are included: the value is computed from others, and the
/// argument is its history. So are the inputs of random numbers that torch's operators draw a second time, since the number of draws may
/// depend on them.
fn primals(joint: &Joint) -> Vec<i64> {
    let gradients: Vec<usize> = joint.gradients.iter().map(|&at| joint.number(joint.exit.operand(at))).collect();
    let draws_again = ops::RANDOM.is_on(joint.function) && joint.keys().is_none();
    let drawing = if draws_again { joint.drawing_by_state() } else { Vec::new() };
    let read: Vec<usize> = drawing.into_iter().flat_map(|at| joint.uses[at].iter().copied()).chain(gradients).collect();
    let needed = needed(joint, read.iter().copied(), |_| false);
    let used = needed.iter().flat_map(|&at| joint.uses[at].iter().copied()).chain(read);
    let arguments = joint.function.body().map(Block::args).unwrap_or_default().len();
    let stand_ins = (0..arguments).filter(|&at| ops::HIDDEN.of_arg(joint.function, at).is_some());
    let used = used.filter_map(|value| joint.argument(value)).filter(|at| !joint.tangents.contains(at));
    // A caller that has to compute the values given here needs the arguments that these depend on.
    let is_given = ops::GIVEN.is_on(joint.function);
    let beside = (0..arguments).filter(|at| is_given && ops::PRIMAL.of_arg(joint.function, *at).is_some() && !joint.tangents.contains(at));
    let mut found: Vec<usize> = used.chain(stand_ins).chain(beside).collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().filter_map(|at| i64::try_from(at).ok()).collect()
}

/// The operations that these values need, and those that are always kept.
fn needed(joint: &Joint, values: impl Iterator<Item = usize>, always: impl Fn(usize) -> bool) -> HashSet<usize> {
    let always: HashSet<usize> = (0..joint.ops.len()).filter(|&at| always(at)).collect();
    let used = always.iter().flat_map(|&at| joint.uses[at].iter().copied());
    let needed = needed_beside(joint, values.chain(used), |_| false);
    needed.into_iter().chain(always).collect()
}

/// The operations that these values need, if some values are given.
pub fn needed_beside(joint: &Joint, values: impl Iterator<Item = usize>, is_given: impl Fn(usize) -> bool) -> HashSet<usize> {
    let mut open: Vec<usize> = values.collect();
    let mut needed: HashSet<usize> = HashSet::new();
    while let Some(value) = open.pop() {
        if let Some(at) = joint.def[value].filter(|_| !is_given(value))
            && needed.insert(at)
        {
            open.extend(&joint.uses[at]);
        }
    }
    needed
}
