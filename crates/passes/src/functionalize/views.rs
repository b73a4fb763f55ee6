//! Outputs that are views and that gradients flow through.
//!
//! In eager, the history of a value computed from a view leads to that view, and the history of a view of a view to the first view. So
//! users see gradients between them. Functionalization turns them all into values. It therefore marks the operations that create views with
//! the output that each one is, for the passes that build gradients (`dynamo.shown`). It also records for outputs the other output that
//! they are views of (`dynamo.made_from`), for the runtime:
//!
//! ```mlir
//! // v = x[1:]; w = v[1:]; return v, w, w.sin()
//! %v = dynamo.aten "aten.slice.Tensor"(%x) … {dynamo.shown = array<i64: 0>}
//! %w = dynamo.aten "aten.slice.Tensor"(%v) … {dynamo.shown = array<i64: 1>}
//! ```
//!
//! A write makes all views of a tensor direct views of that tensor, in eager and here. From then on, a view that is an output is read from
//! the new contents by a separate operation, and later views of it are read from that.

use std::collections::HashMap;

use dynamlir_dialect::{
    ir::{Op, Value},
    ops::{self, AtenOp},
    pass::PassError,
};

use super::{
    Rewriter, as_value,
    gradients::{is_detach, is_function},
    outside,
    storage::Aliasing,
};

/// The facts about outputs that are views.
pub struct Shown {
    /// The tensors that are returned.
    returned: Vec<Value>,
    /// The number of writes to a view's memory at the time it was created.
    made: HashMap<Value, usize>,
    /// The values read for outputs whose memory is written.
    reads: Vec<Read>,
}

/// A value that was read.
struct Read {
    object: Value,
    value: Value,
    /// The number of writes to the memory at that time.
    writes: usize,
}

impl Shown {
    /// The outputs of a function that ends in `exit`.
    pub fn of(exit: Op, aliasing: &Aliasing) -> Self {
        let returned = exit.operands().into_iter().map(|tensor| aliasing.object(tensor)).collect();
        Self { returned, made: HashMap::new(), reads: Vec::new() }
    }
}

impl Rewriter {
    /// Returns true for an output that gradients flow through although it has the same values as another tensor.
    pub fn is_shown_view(&self, call: AtenOp, result: Value) -> bool {
        self.gradients.is_some() && call.grad_enabled() && !is_detach(call) && self.shown.returned.contains(&result)
    }

    /// Records the time at which the views created by `op` are created.
    pub fn note_made(&mut self, op: Op) {
        if let Some(gradients) = &self.gradients {
            let made = op.results().into_iter().map(|result| (result, gradients.writes(self.aliasing.storage(result))));
            self.shown.made.extend(made);
        }
    }

    /// Returns true for a view that is returned.
    fn is_output(&self, tensor: Value) -> bool {
        !self.is_root(tensor) && self.shown.returned.contains(&self.aliasing.object(tensor))
    }

    /// The number of writes so far to a tensor's memory.
    fn writes(&self, tensor: Value) -> usize {
        self.gradients.as_ref().map_or(0, |gradients| gradients.writes(self.aliasing.storage(tensor)))
    }

    /// The tensor that a view's history currently leads to: the one it was created from, unless their memory has been written since.
    fn source(&self, view: Value) -> Option<Value> {
        let is_up_to_date = self.shown.made.get(&view).is_some_and(|writes| *writes == self.writes(view));
        source_of_view(view).filter(|_| is_up_to_date)
    }

    /// Reads from written memory the contents of an output, or of a view whose history leads to an output. Returns `None` if gradients do
    /// not flow through an output.
    pub fn read_shown(&mut self, op: Op, tensor: Value) -> Result<Option<Value>, PassError> {
        if self.gradients.is_none() {
            return Ok(None);
        }
        let (object, writes) = (self.aliasing.object(tensor), self.writes(tensor));
        if self.is_output(tensor) {
            if let Some(known) = self.shown.reads.iter().find(|read| read.object == object && read.writes == writes) {
                return Ok(Some(known.value));
            }
            let number = self.base(op, self.aliasing.storage(tensor))?;
            let read = self.bases[number].as_ref().and_then(|base| base.read_anew(&self.b, tensor.ty(), &self.scope));
            let value = read.ok_or_else(|| outside(op))?;
            self.shown.reads.push(Read { object, value, writes });
            return Ok(Some(value));
        }
        let leads_to_output = std::iter::successors(self.source(tensor), |view| self.source(*view)).any(|view| self.is_output(view));
        let (Some(source), Some(call)) = (self.source(tensor).filter(|_| leads_to_output), tensor.def().and_then(AtenOp::cast)) else {
            return Ok(None);
        };
        let operand = self.read(op, source)?;
        let types: Vec<_> = call.op().results().iter().map(|result| as_value(result.ty())).collect();
        let layouts = [call.op().operands(), call.op().results()].map(|values| values.into_iter().map(Value::ty).collect());
        let made = self.functional(call, &call.schema(), &[operand], &call.args(), &types, &layouts);
        self.views.push(made);
        Ok(tensor.result_index().map(|index| made.result(index)))
    }

    /// For each output, the output that it is a view of, among these `views`; otherwise -1.
    pub fn made_from(&self, views: &[(Value, usize)], outputs: usize) -> Vec<i64> {
        let mut made_from = vec![-1; outputs];
        for (tensor, at) in views {
            let mut sources = std::iter::successors(self.source(*tensor), |source| self.source(*source));
            let other = sources.find_map(|source| views.iter().find(|(other, _)| *other == source));
            if let Some((_, other)) = other {
                made_from[*at] = *other as i64;
            }
        }
        made_from
    }

    /// Marks the operation that creates a view with the output that it is.
    pub fn note_shown(&self, tensor: Value, position: i64, results: &[Value]) {
        let note = |value: Value| {
            if let (Some(op), Some(index)) = (value.def(), value.result_index().filter(|_| !results.contains(&value))) {
                let mut shown = ops::SHOWN.of(op).unwrap_or_else(|| vec![-1; op.results().len()]);
                shown[index] = position;
                ops::SHOWN.set(op, &shown);
            }
        };
        if !self.aliasing.storages[self.aliasing.storage(tensor)].is_tracked() {
            self.values.get(&tensor).copied().into_iter().for_each(note);
            return;
        }
        // Values read before a write are not the view's final contents.
        let (object, writes) = (self.aliasing.object(tensor), self.writes(tensor));
        self.shown.reads.iter().filter(|read| read.object == object && read.writes == writes).for_each(|read| note(read.value));
    }
}

/// The tensor that a view was created from, if the view's history leads to it.
fn source_of_view(view: Value) -> Option<Value> {
    let (call, result) = (AtenOp::cast(view.def()?)?, view.result_index()?);
    let alias = usize::try_from(*call.aliases()?.get(result)?).ok()?;
    let leads = call.mutates().is_none() && call.grad_enabled() && !is_detach(call) && !is_function(call);
    // `as_strided` counts from the start of the storage.
    (leads && !call.schema().starts_with("aten.as_strided.")).then(|| call.op().operand(alias))
}
