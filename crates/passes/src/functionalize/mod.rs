//! `dynamo-functionalize`: converts tensors that alias and mutate memory to values (stage 00 to stage 01).
//!
//! Before:
//! ```mlir
//! func.func @main(%x: !dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<2xf32, [1]> attributes {dynamo.entry, …} {
//!   %0 = dynamo.aten "aten.slice.Tensor"(%x) args […] {aliases = array<i64: 0>} : …
//!   %1 = dynamo.aten "aten.relu_.default"(%0) args […] {aliases = array<i64: 0>, mutates = array<i64: 0>, …} : …
//!   return %1
//! }
//! ```
//! After:
//! ```mlir
//! func.func @main(%x: tensor<4xf32> {dynamo.strides = …}) -> (tensor<4xf32> {dynamo.mutates = 0 : i64})
//!     attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<arg_view 0, [2], [1], 0>]} {
//!   %0 = dynamo.slice %x …
//!   %1 = dynamo.aten "aten.relu.default"(%0) …
//!   %2 = dynamo.as_strided_scatter %x, %1 …
//!   return %2
//! }
//! ```
//!
//! A storage that is never written needs no care: each of its tensors is a value, and views stay `dynamo.aten` ops. A storage that is
//! written has a *base value* (see [`base`]), its current contents. Views of it are read from the base when used; a write creates a new
//! base. The window that a view shows is known from its type alone, so chains of views cost nothing.
//!
//! If the entry is differentiated, tensors that eager detaches become `dynamo.detach`, and writes with grad mode off become
//! `dynamo.history` (see [`gradients`]).
//!
//! Each function is built anew next to the old one, which keeps the old aliasing readable during translation.
//!
//! The following is refused, so that the caller falls back to eager: writing through a view that shows an element twice (eager refuses, or
//! the outcome is undefined); written storages with views of several element types, unless these are complex numbers and their parts (see
//! [`pairs`]); overlapping arguments that themselves repeat elements; mutation without a functional variant. If sizes are expressions,
//! whatever may be one of these for some values of the symbols is refused, too, as are several arguments over memory that is written.

mod access;
mod base;
mod bases;
mod call;
mod coordinates;
mod dead;
mod gradients;
mod outputs;
mod pairs;
mod storage;
pub mod verify;
mod views;

use std::collections::HashMap;

use dynamlir_dialect::{
    ir::{Attr, AttrValue, Block, Builder, Ctx, Op, Type, Value, sizes},
    ops::{self, AtenOp, DetachOp},
    pass::{Pass, PassError, PassResult, Run, Statistic, Takes},
    upstream::func,
};
use dynamlir_reasons::{ALIASING, AUTOGRAD};
use dynamlir_shapes::{Dim, Scope};

use self::{
    base::Base,
    call::FunctionalCall,
    coordinates::shown,
    gradients::{Gradients, Write, is_detach, is_function},
    storage::Aliasing,
    views::Shown,
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-functionalize",
    description: "Turn ATen ops on mutable, aliasing tensors into value semantics",
    takes: Takes::Symbols,
    options: &[],
    statistics: &[TRANSLATED],
    run,
};

const TRANSLATED: Statistic = Statistic { name: "operations", description: "ATen operations made functional" };

fn run(module: Op, pass: &Run) -> PassResult {
    for function in module.body().map(Block::ops).unwrap_or_default() {
        if function.is(func::FUNC) && is_mutable(function) {
            pass.count(&TRANSLATED, translate(function)?);
        }
    }
    Ok(())
}

/// Returns true if the function contains anything of stage aten.
fn is_mutable(func: Op) -> bool {
    let mut found = false;
    func.walk(&mut |op| {
        found |= op.results().iter().any(|result| result.ty().is_mutable());
        found |= op.body().is_some_and(|body| body.args().iter().any(|arg| arg.ty().is_mutable()));
    });
    found
}

/// Translates a function and returns the number of translated operations.
fn translate(old: Op) -> Result<usize, PassError> {
    let (Some(body), Some(name)) = (old.body(), old.symbol()) else {
        return Err(PassError::at(old, "a function without a body cannot be functionalized"));
    };
    let mut body_ops = body.ops();
    let Some(exit) = body_ops.pop().filter(|op| op.is(func::RETURN) && old.region(0).blocks().len() == 1) else {
        return Err(PassError::at(old, "expected one block that ends in func.return"));
    };
    let is_call = |op: Op| AtenOp::cast(op).ok_or_else(|| PassError::at(op, format!("expected only dynamo.aten here, got {}", op.name())));
    let calls = body_ops.into_iter().map(is_call).collect::<Result<Vec<_>, _>>()?;
    let count = calls.len();
    let args = body.args();
    let aliasing = Aliasing::scan(old, &args, &calls)?;
    let gradients = Gradients::of(old, &args, &aliasing)?;
    let inputs: Vec<_> = args.iter().map(|arg| as_value(arg.ty())).collect();
    let (new, block) = Builder::before(old).func(&name, &inputs, &[], &[]);
    let shown = Shown::of(exit, &aliasing);
    let mut rewriter = Rewriter {
        gradients,
        bases: aliasing.storages.iter().map(|_| None).collect(),
        aliasing,
        values: args.iter().copied().zip(block.args()).collect(),
        b: Builder::at_end(block, old.loc()),
        entry: ops::ENTRY.is_on(old),
        shown,
        scope: sizes::scope(old),
        views: Vec::new(),
    };
    let outcome = calls.into_iter().try_for_each(|call| rewriter.op(call)).and_then(|()| {
        rewriter.b.loc = exit.loc();
        rewriter.finish(old, new, exit)
    });
    // On success or failure, exactly one function of this name remains.
    let leftover = if outcome.is_ok() { old } else { new };
    leftover.erase();
    if outcome.is_ok() {
        dead::remove(block, &rewriter.views);
    }
    outcome.map(|()| count)
}

/// The state of a function's translation.
struct Rewriter {
    aliasing: Aliasing,
    bases: Vec<Option<Base>>,
    /// The values of tensors whose storage needs no base, and the initial contents of all others.
    values: HashMap<Value, Value>,
    b: Builder,
    /// The flow of gradients, for a function that is differentiated.
    gradients: Option<Gradients>,
    /// True if the arguments are the caller's tensors. A decomposition must not write to its arguments.
    entry: bool,
    /// The outputs that are views and that gradients flow through.
    shown: Shown,
    /// The known facts about symbols.
    scope: Scope,
    /// The ops that compute nothing: all their results are views.
    views: Vec<Op>,
}

impl Rewriter {
    fn op(&mut self, call: AtenOp) -> PassResult {
        self.b.loc = call.op().loc();
        let before = ops::RECOMPUTE.is_on(call.op()).then(|| self.b.block().ops().last().copied()).flatten();
        if call::operand_list(call.mutates()).is_empty() { self.pure_op(call) } else { self.mutating_op(call) }?;
        if let Some(checkpoint) = ops::RECOMPUTE.of(call.op()) {
            let block = self.b.block();
            let first = before.map_or_else(|| block.ops().first().copied(), Op::next);
            std::iter::successors(first, |op| op.next()).for_each(|op| ops::RECOMPUTE.set(op, checkpoint));
        }
        self.gradients.as_mut().map_or(Ok(()), |gradients| gradients.note(call, &self.aliasing))
    }

    fn pure_op(&mut self, call: AtenOp) -> PassResult {
        let op = call.op();
        let aliases = call.aliases().unwrap_or_else(|| vec![-1; op.num_results()]);
        let is_tracked = |result| self.aliasing.storages[self.aliasing.storage(result)].is_tracked();
        // Views of a tracked storage are read from its base when they are used.
        let tracked_view: Vec<_> = op.results().iter().zip(&aliases).map(|(&result, &alias)| alias >= 0 && is_tracked(result)).collect();
        if is_function(call) && tracked_view.contains(&true) {
            return Err(PassError::refusal(
                op,
                AUTOGRAD,
                "what a function with a derivative of its own returns shows memory that is written",
            ));
        }
        self.note_made(op);
        if op.num_results() > 0 && tracked_view.iter().all(|&view| view) {
            return Ok(());
        }
        if let ([result], [alias]) = (op.results().as_slice(), aliases.as_slice())
            && let Ok(alias) = usize::try_from(*alias)
            && result.ty() == op.operand(alias).ty()
            && !is_function(call)
            && !self.is_shown_view(call, *result)
        {
            // detach, alias, or a view with the same shape: the same value. With a custom derivative it is a different value for gradients.
            let mut same = self.read(op, op.operand(alias))?;
            if self.gradients.is_some() && (is_detach(call) || !call.grad_enabled()) {
                same = DetachOp::build(&self.b, same).result();
            }
            self.values.insert(*result, same);
            return Ok(());
        }
        let operands = op.operands().into_iter().map(|v| self.read(op, v)).collect::<Result<Vec<_>, _>>()?;
        let types: Vec<_> = op.results().iter().map(|result| as_value(result.ty())).collect();
        let layouts = [op.operands(), op.results()].map(|values| values.into_iter().map(Value::ty).collect::<Vec<_>>());
        let new = self.functional(call, &call.schema(), &operands, &call.args(), &types, &layouts);
        if !aliases.is_empty() && aliases.iter().all(|&alias| alias >= 0) {
            self.views.push(new);
        }
        for (i, result) in op.results().into_iter().enumerate() {
            if !tracked_view[i] {
                self.values.insert(result, new.result(i));
            }
        }
        Ok(())
    }

    /// Builds a call in value semantics: everything that a `dynamo.aten` specifies except its effects, and the layouts seen by eager.
    fn functional(&self, old: AtenOp, schema: &str, operands: &[Value], args: &[Attr], types: &[Type], layouts: &[Vec<Type>; 2]) -> Op {
        let (decomposition, vjp) = (old.decomposition(), old.vjp());
        let [operand_strides, result_strides] = layouts.each_ref().map(|types| strides(self.b.ctx(), types));
        let strides = (Some(&operand_strides[..]), Some(&result_strides[..]));
        let (decomposition, vjp, grad) = (decomposition.as_ref(), vjp.as_ref(), old.grad_enabled());
        let new =
            AtenOp::build(&self.b, schema, operands, args, None, None, None, decomposition, vjp, strides.0, strides.1, grad, types).op();
        for said in [ops::MATERIALIZED, ops::NOT_LINEAR].into_iter().filter(|said| said.is_on(old.op())) {
            said.set(new, ());
        }
        new
    }

    fn mutating_op(&mut self, old: AtenOp) -> PassResult {
        let op = old.op();
        let objects: Vec<_> = op.operands().into_iter().map(|v| self.aliasing.object(v)).collect();
        let call = FunctionalCall::of(old, &objects)?;
        for &operand in &call.written {
            let written = shown(op.operand(operand).ty());
            // A contiguous tensor shows no element twice, regardless of its size.
            let is_contiguous = written.is_contiguous_in(&self.scope).unwrap_or(false);
            if !is_contiguous && written.may_repeat_in(&self.scope).unwrap_or(true) {
                return Err(PassError::refusal(op, ALIASING, "a tensor that shows an element twice is written"));
            }
            if !self.entry && self.is_argument_storage(op.operand(operand)) {
                return Err(PassError::at(op, "a decomposition writes to its argument"));
            }
        }
        // A functional variant returns no views, so a view of memory that is not written would be lost.
        let is_lost = |&v: &Value| !self.aliasing.storages[self.aliasing.storage(v)].is_tracked() && !self.fresh_results(op).contains(&v);
        if op.results().iter().any(is_lost) {
            return Err(PassError::refusal(op, ALIASING, "an op writes to one operand and returns a view of another"));
        }
        let all = op.operands().into_iter().map(|v| self.read(op, v)).collect::<Result<Vec<_>, _>>()?;
        let mut made = None;
        let mut is_overwritten = false;
        let new_values = if let Some(value) = call::overwritten(&self.b, old, &all) {
            is_overwritten = true;
            vec![value]
        } else {
            let fresh = self.fresh_results(op);
            let results: Vec<_> = fresh.iter().copied().chain(call.written.iter().map(|&i| op.operand(i))).map(Value::ty).collect();
            let types: Vec<_> = results.iter().map(|&ty| as_value(ty)).collect();
            let operands: Vec<_> = call.operands.iter().map(|&i| all[i]).collect();
            let layouts = [call.operands.iter().map(|&i| op.operand(i).ty()).collect(), results];
            let new = self.functional(old, &call.schema, &operands, &call.args, &types, &layouts);
            self.values.extend(fresh.iter().copied().zip(new.results()));
            made = Some(new);
            new.results().split_off(fresh.len())
        };
        for (&operand, value) in call.written.iter().zip(new_values) {
            let target = op.operand(operand);
            let number = self.aliasing.storage(target);
            let written = self.base(op, number)?;
            let b = self.b;
            let gradients = self.gradients.as_ref().map(|gradients| gradients.write(old, target, &self.aliasing)).transpose()?;
            let is_view = !self.is_root(target);
            let is_noted = |gradients: &Gradients| is_overwritten && gradients.is_noted(old, target, is_view, &self.aliasing);
            let is_noted = self.gradients.as_ref().is_some_and(is_noted);
            if let Some(base) = &mut self.bases[written] {
                match gradients {
                    Some(Write::Recorded) if is_noted => base.overwrite(&b, target.ty(), value, &self.scope),
                    None | Some(Write::Recorded) => base.write(&b, target.ty(), value, &self.scope),
                    Some(Write::Detached) => base.write(&b, target.ty(), DetachOp::build(&b, value).result(), &self.scope),
                    Some(Write::Unrecorded) => base.write_unrecorded(&b, target.ty(), value, &self.scope),
                }
                .ok_or_else(|| outside(op))?;
                if is_view && matches!(gradients, Some(Write::Recorded)) {
                    // Eager's node for such a write can be used for only one backward pass, regardless of saved tensors.
                    let last = base.overwritten().filter(|_| is_noted).or_else(|| base.scattered());
                    made.into_iter().chain(last).for_each(|op| ops::ONCE.set(op, ()));
                }
            }
        }
        Ok(())
    }

    /// The results that do not share an operand's storage.
    fn fresh_results(&self, op: Op) -> Vec<Value> {
        op.results().into_iter().filter(|&v| self.aliasing.storages[self.aliasing.storage(v)].roots.contains(&v)).collect()
    }

    /// Returns true for a tensor that is not a view of another one.
    fn is_root(&self, tensor: Value) -> bool {
        self.aliasing.storages[self.aliasing.storage(tensor)].roots.contains(&self.aliasing.object(tensor))
    }

    fn is_argument_storage(&self, value: Value) -> bool {
        self.aliasing.storages[self.aliasing.storage(value)].roots.iter().any(|root| root.arg_index().is_some())
    }

    /// Ensures that a storage has a base and returns its number.
    fn base(&mut self, op: Op, number: usize) -> Result<usize, PassError> {
        if self.bases[number].is_none() {
            let storage = &self.aliasing.storages[number];
            let roots: Vec<_> = storage.roots.iter().map(|root| self.values[root]).collect();
            let base = Base::new(&self.b, storage, &roots, &self.scope).map_err(|message| PassError::refusal(op, ALIASING, message))?;
            self.bases[number] = Some(base);
        }
        Ok(number)
    }

    /// The current contents of a tensor. `op` is the operation that reads it.
    fn read(&mut self, op: Op, value: Value) -> Result<Value, PassError> {
        let number = self.aliasing.storage(value);
        if !self.aliasing.storages[number].is_tracked() {
            return Ok(self.values[&value]);
        }
        let read = if let Some(read) = self.read_shown(op, value)? {
            read
        } else {
            let number = self.base(op, number)?;
            let b = self.b;
            let read = self.bases[number].as_mut().and_then(|base| base.read(&b, value.ty(), &self.scope));
            read.ok_or_else(|| outside(op))?
        };
        let detached = self.gradients.as_ref().map(|gradients| gradients.is_detached(op, value, &self.aliasing)).transpose()?;
        Ok(if detached == Some(true) { DetachOp::build(&self.b, read).result() } else { read })
    }
}

fn outside(op: Op) -> PassError {
    PassError::refusal(op, ALIASING, "a view shows memory that none of the graph's tensors shows")
}

/// The builtin tensor type of a `!dynamo.tensor`.
fn as_value(ty: Type) -> Type {
    Type::tensor_of(&ty.dims(), ty.element())
}

/// One list of strides per tensor.
fn strides(ctx: Ctx, types: &[Type]) -> Vec<Attr> {
    types.iter().map(|ty| Vec::<Dim>::write(ctx, &shown(*ty).strides)).collect()
}

fn by_ref(attrs: &[(String, Attr)]) -> Vec<(&str, Attr)> {
    attrs.iter().map(|(name, attr)| (name.as_str(), *attr)).collect()
}
