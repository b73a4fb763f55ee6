//! Places where gradients do not follow values, in an entry that is differentiated.
//!
//! A detached tensor, and a view created with grad mode off, share memory with tensors that may have a history. If the graph writes such
//! memory, all its tensors are read from one base value, and the values read for detached tensors go through `dynamo.detach`:
//!
//! ```mlir
//! // y = x * 2; d = y.detach(); y.add_(1); return d * x
//! %2 = dynamo.aten "aten.add.Tensor"(%y) …
//! %d = dynamo.detach %2 : tensor<4xf32>
//! ```
//!
//! A write with grad mode off does not change the history, regardless of the part it writes: the new base has the new value and the
//! gradient of the old base.
//!
//! ```mlir
//! // y = x * 2; with torch.no_grad(): y[0] = 3
//! %new = dynamo.as_strided_scatter %y, …
//! %now = dynamo.history %new of %y : tensor<4xf32>
//! ```
//!
//! A write with grad mode on that replaces the whole old base records that, since eager has gradients for the old base, which are zeros:
//!
//! ```mlir
//! // y = x * 2; y.copy_(z)
//! %now = dynamo.overwrite %z of %y : tensor<4xf32>
//! ```
//!
//! The base has one gradient: that of the first tensor to have a history, and of its views. Tensors detached from these, or that these are
//! detached from, have none. Cases that would need two gradients are refused: a detached tensor that is written with a gradient of its own
//! while the others have one, and a view that was created with grad mode off and is read after its memory was written, for which autograd
//! creates a history at that point.

use std::collections::HashMap;

use dynamlir_dialect::{
    ir::{Op, Value},
    ops::{self, AtenOp},
    pass::PassError,
};
use dynamlir_reasons::AUTOGRAD;

use super::{call::operand_list, storage::Aliasing};
use crate::autodiff::is_constant;

/// The effect of a write on the gradient of the base.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// The gradient flows to the written values and to the remaining part of the base.
    Recorded,
    /// The gradient remains that of the old value.
    Unrecorded,
    /// There was no gradient, and none is added.
    Detached,
}

/// Tensors of one storage that share a history: a tensor, its views, and their views. `detach()` starts another family.
type Family = usize;

/// The facts about gradients collected so far.
#[derive(Default)]
pub struct Gradients {
    /// The storages in which some tensor may have a history, with the family that it belongs to.
    carrying: HashMap<usize, Family>,
    /// The families of tensors; 0, the first family of each storage, is omitted.
    family: HashMap<Value, Family>,
    /// Views that were created with grad mode off, with the number of writes to their storage at that time.
    unrecorded: HashMap<Value, usize>,
    /// The number of writes so far, by storage.
    writes: HashMap<usize, usize>,
}

impl Gradients {
    /// Returns `None` for a function that is not differentiated.
    pub fn of(function: Op, args: &[Value], aliasing: &Aliasing) -> Result<Option<Self>, PassError> {
        if !ops::ENTRY.is_on(function) || !ops::DIFFERENTIABLE.is_on(function) {
            return Ok(None);
        }
        let mut found = Self::default();
        for (index, &arg) in args.iter().enumerate().filter(|&(index, _)| ops::REQUIRES_GRAD.of_arg(function, index).is_some()) {
            let number = aliasing.storage(arg);
            let storage = &aliasing.storages[number];
            if storage.is_tracked() && storage.roots.len() > 1 {
                let message = format!("argument {index} wants a gradient, and shares memory that is written with others");
                return Err(PassError::refusal(function, AUTOGRAD, message));
            }
            found.carrying.insert(number, 0);
        }
        Ok(Some(found))
    }

    /// Returns true if the value that `op` reads from a tracked tensor is detached.
    pub fn is_detached(&self, op: Op, tensor: Value, aliasing: &Aliasing) -> Result<bool, PassError> {
        let storage = aliasing.storage(tensor);
        // With grad mode off no result has a gradient, and returned views are created as in eager.
        if !AtenOp::cast(op).is_some_and(AtenOp::grad_enabled) || !self.carrying.contains_key(&storage) {
            return Ok(false);
        }
        if self.unrecorded.get(&tensor).is_some_and(|writes| *writes != self.writes(storage)) {
            return Err(PassError::refusal(op, AUTOGRAD, "a view that was made with grad mode off is read after its memory was written"));
        }
        Ok(!self.has_history(tensor, aliasing))
    }

    /// Classifies a write to `target` by `call`.
    pub fn write(&self, call: AtenOp, target: Value, aliasing: &Aliasing) -> Result<Write, PassError> {
        let owner = self.carrying.get(&aliasing.storage(target)).copied();
        let is_recorded = call.grad_enabled() && !self.unrecorded.contains_key(&target);
        if is_recorded && owner.is_none_or(|owner| owner == self.family(target)) {
            return Ok(Write::Recorded);
        }
        let object = aliasing.object(target);
        let brings = |value: &Value| aliasing.object(*value) != object && self.has_history(*value, aliasing);
        if call.grad_enabled() && call.inputs().iter().any(brings) {
            return Err(PassError::refusal(call.op(), AUTOGRAD, "a detached tensor is written with a gradient of its own"));
        }
        Ok(if owner.is_some() { Write::Unrecorded } else { Write::Detached })
    }

    /// Returns true if a write to `target` by `call` is recorded in its history even if it replaces the whole value: the target had a
    /// history, or gets one as a view.
    pub fn is_noted(&self, call: AtenOp, target: Value, is_view: bool, aliasing: &Aliasing) -> bool {
        call.grad_enabled() && (self.has_history(target, aliasing) || is_view && self.brings(call, aliasing))
    }

    /// Returns true if an operand of a call has a history.
    fn brings(&self, call: AtenOp, aliasing: &Aliasing) -> bool {
        call.grad_enabled() && call.op().operands().iter().any(|&value| self.has_history(value, aliasing))
    }

    /// Records an operation that has been translated.
    pub fn note(&mut self, call: AtenOp, aliasing: &Aliasing) -> Result<(), PassError> {
        let op = call.op();
        let written = operand_list(call.mutates());
        let brings = self.brings(call, aliasing);
        for &operand in &written {
            let target = op.operand(operand);
            let storage = aliasing.storage(target);
            if brings && self.write(call, target, aliasing)? == Write::Recorded {
                self.carrying.insert(storage, self.family(target));
            }
            *self.writes.entry(storage).or_default() += 1;
        }
        let aliases = call.aliases().unwrap_or_else(|| vec![-1; op.num_results()]);
        for (result, alias) in op.results().into_iter().zip(aliases) {
            let storage = aliasing.storage(result);
            let Ok(operand) = usize::try_from(alias) else {
                if brings && result.ty().element().is_differentiable() && !is_constant(&call.schema()) {
                    self.carrying.insert(storage, 0);
                }
                continue;
            };
            let source = op.operand(operand);
            if is_detach(call) {
                // A number that is not used by another family.
                self.family.insert(result, self.family.len() + 1);
                continue;
            }
            self.family.insert(result, self.family(source));
            if is_function(call) {
                // The result has a history, regardless of its operand.
                continue;
            }
            let since = self.unrecorded.get(&source).copied();
            let begins = !call.grad_enabled() && !written.contains(&operand);
            if let Some(writes) = since.or_else(|| begins.then(|| self.writes(storage))) {
                self.unrecorded.insert(result, writes);
            }
        }
        Ok(())
    }

    fn has_history(&self, value: Value, aliasing: &Aliasing) -> bool {
        let owner = self.carrying.get(&aliasing.storage(value));
        owner == Some(&self.family(value)) && !self.unrecorded.contains_key(&value)
    }

    fn family(&self, value: Value) -> Family {
        self.family.get(&value).copied().unwrap_or(0)
    }

    pub fn writes(&self, storage: usize) -> usize {
        self.writes.get(&storage).copied().unwrap_or(0)
    }
}

/// Returns true if the result is the operand without a gradient, regardless of grad mode.
pub fn is_detach(call: AtenOp) -> bool {
    call.schema() == "aten.detach.default"
}

/// Returns true if the results are operands passed through: the results of a custom autograd function, whose derivative the user defines.
pub fn is_function(call: AtenOp) -> bool {
    call.schema() == "dynamlir.function.default"
}
