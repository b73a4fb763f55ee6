//! The launches that write an argument's new value in place of the old one.
//!
//! Usually results are computed in the workspace and copied to arguments after the commit, since until then a call may still fall back to
//! eager. A step of an optimizer would thus move all its memory twice. A launch that computes point by point, and only computes new values
//! of arguments, can just as well run after the commit and write them directly:
//!
//! ```mlir
//! dynamo.commit
//! dynamo.launch @kernels::@add(%grad, %param) : (memref<8xf32>, memref<8xf32>) -> ()   // reads and writes %param
//! ```
//!
//! Memory that is both read and written is a single argument of the kernel, among those that it writes. Such a launch
//! - reads the arguments it writes only at the indices it writes, and no argument that is written by another such launch: these are not
//!   ordered (copies come after all of them, so it may read arguments that copies write);
//! - writes arguments whose memory is not shared with another argument, and whose elements do not overlap;
//! - is for the CPU: GPU kernels assume that the memory they read is constant.
//!
//! If two launches cannot both be of this kind, the one that writes more is preferred.

use std::collections::{HashMap, HashSet};

use dynamlir_dialect::{
    ir::{Block, Op, Target, Value},
    ops::{self, AtenOp, FullOp, IotaOp, LaunchOp, ReshapeOp},
    upstream::func,
};

use dynamlir_shapes::Scope;

use super::{
    Window,
    careful::{all_expected, is_empty, may_repeat},
    kernels::Template,
};
use crate::anchors;

/// A launch that runs after the commit.
#[derive(Debug)]
pub struct InPlace {
    /// For each result, the argument of the entry that it is the new value of, and that argument's window.
    pub targets: Vec<(usize, Window)>,
    /// Operands of the launch that are the old value of a result, as pairs of operand and result.
    pub old: Vec<(usize, usize)>,
    /// The other mutated arguments that it reads.
    reads: HashSet<usize>,
}

/// Returns true if an op runs after the commit, or is a view of the result of one that does.
pub fn is_later(op: Op, chosen: &HashMap<Op, InPlace>) -> bool {
    chosen.contains_key(&op) || (op.is(ReshapeOp::NAME) && op.operand(0).def().is_some_and(|maker| is_later(maker, chosen)))
}

/// Chooses the launches of an entry that run after the commit. `template` finds kernels; `windows` are those of the arguments.
pub fn choose<'t>(
    main: Op,
    block: Block,
    (windows, scope): (&[Window], &Scope),
    mutates: &[Option<usize>],
    template: impl Fn(&str) -> Option<&'t Template>,
) -> HashMap<Op, InPlace> {
    let arguments = block.args();
    let is_tangent = |i: usize| ops::TANGENT.of_arg(main, i).is_some();
    if mutates.iter().all(Option::is_none) || Target::of(main).is_gpu() || (0..arguments.len()).any(is_tangent) {
        return HashMap::new();
    }
    let storages: Vec<Option<i64>> = (0..arguments.len()).map(|i| ops::STORAGE.of_arg(main, i)).collect();
    let is_alone = |i: usize| storages[i].is_none_or(|own| storages.iter().filter(|other| **other == Some(own)).count() == 1);
    let entry = Entry { arguments: &arguments, windows, scope, mutates, is_alone: &is_alone };
    let mut found: Vec<(Op, InPlace)> = Vec::new();
    for launch in block.ops().into_iter().filter_map(LaunchOp::cast) {
        if template(&launch.kernel().name).is_some_and(is_pointwise)
            && let Some(one) = entry.in_place(launch.op())
        {
            found.push((launch.op(), one));
        }
    }
    let elements = |value: &Value| all_expected(&value.ty().dims(), scope).into_iter().fold(1, i64::saturating_mul);
    let bytes = |op: Op| op.results().iter().map(|value| elements(value).saturating_mul(value.ty().element().width().into())).sum::<i64>();
    found.sort_by_key(|(op, _)| -bytes(*op));
    let (mut read, mut written) = (HashSet::new(), HashSet::new());
    let mut chosen = HashMap::new();
    for (op, one) in found {
        let targets = || one.targets.iter().map(|(argument, _)| *argument);
        if one.reads.is_disjoint(&written) && !targets().any(|argument| read.contains(&argument)) {
            written.extend(targets());
            read.extend(one.reads.iter().copied());
            chosen.insert(op, one);
        }
    }
    chosen
}

/// Returns true if each element of the results is computed only from the same element of the operands.
fn is_pointwise(template: &Template) -> bool {
    let Some(body) = template.func.body() else { return false };
    let fits = |op: Op| op.is_elementwise() || op.is(FullOp::NAME) || op.is(IotaOp::NAME) || op.is(func::RETURN);
    template.reduced.is_empty() && !is_empty(&template.domain) && anchors::find(body).is_none() && body.ops().into_iter().all(fits)
}

/// An entry's arguments and their properties.
struct Entry<'a> {
    arguments: &'a [Value],
    windows: &'a [Window],
    scope: &'a Scope,
    mutates: &'a [Option<usize>],
    is_alone: &'a dyn Fn(usize) -> bool,
}

impl Entry<'_> {
    fn in_place(&self, launch: Op) -> Option<InPlace> {
        let results = launch.results();
        let targets = results.iter().map(|&value| self.target(value)).collect::<Option<Vec<_>>>()?;
        let mut reads = HashSet::new();
        let mut old = Vec::new();
        for (i, operand) in launch.operands().into_iter().enumerate() {
            let (argument, same_order) = self.root(operand);
            let Some(argument) = argument.filter(|argument| self.mutates.contains(&Some(*argument))) else { continue };
            let Some(result) = targets.iter().position(|(target, _)| *target == argument) else {
                reads.insert(argument);
                continue;
            };
            if !same_order || operand.ty() != results[result].ty() {
                return None;
            }
            old.push((i, result));
        }
        Some(InPlace { targets, old, reads })
    }

    /// The argument that a result is the new value of, if it has no other use, with the argument's window in the result's shape.
    fn target(&self, result: Value) -> Option<(usize, Window)> {
        let mut value = result;
        loop {
            let uses = value.uses();
            let [only] = uses.as_slice() else { return None };
            if only.op.is(ReshapeOp::NAME) {
                value = only.op.result(0);
                continue;
            }
            let argument = only.op.is(func::RETURN).then(|| self.mutates.get(only.index).copied().flatten())??;
            let window = &self.windows[argument];
            let fits = value.ty() == self.arguments[argument].ty() && !may_repeat(window, self.scope) && (self.is_alone)(argument);
            let shown = || Some((argument, window.reshape_in(&result.ty().dims(), self.scope).ok().flatten()?));
            return fits.then(shown)?;
        }
    }

    /// The argument that a value is a view of, and true if it shows all of it in its order.
    fn root(&self, mut value: Value) -> (Option<usize>, bool) {
        let mut same_order = true;
        loop {
            if let Some(argument) = self.arguments.iter().position(|argument| *argument == value) {
                return (Some(argument), same_order);
            }
            match value.def() {
                Some(op) if is_view(op) => {
                    same_order &= op.is(ReshapeOp::NAME);
                    value = op.operand(0);
                }
                _ => return (None, false),
            }
        }
    }
}

/// Returns true if an op of the graph allocates no memory. It may also return true for some that do: that errs on the safe side.
fn is_view(op: Op) -> bool {
    op.num_operands() > 0 && !op.is(LaunchOp::NAME) && !op.is(AtenOp::NAME)
}
