//! The memory that a plan may read and write: windows must be inside their memory, and writes must not overlap with anything else.
//!
//! Kernels are compiled for arguments that do not overlap with what they write (`noalias`), so this check is required for correctness.

use crate::lower::{PlanError, Root, Seen};
use crate::plan::{InputSpec, Plan};
use crate::{DType, Layout};

fn err<T>(message: impl Into<String>) -> Result<T, PlanError> {
    Err(PlanError(message.into()))
}

/// Checks that a register is inside `(start, end)`, the bytes of its root. For an input, returns the range that it reaches beyond them: the
/// extent of its storage is known only at the call.
pub(crate) fn inside(place: &Seen<'_>, (start, end): (i64, i64)) -> Result<Option<(i64, i64)>, PlanError> {
    let is_input = matches!(place.root, Root::Input(_));
    // The alignment of an input's own memory is torch's responsibility.
    if !is_input && place.first() % place.layout.element_bytes() != 0 {
        return err(format!("a window at byte {} is not aligned to its elements", place.first()));
    }
    let Some((low, high)) = place.span.filter(|&(low, high)| low < start || high > end) else { return Ok(None) };
    if is_input {
        return Ok(Some((low, high)));
    }
    err(format!("bytes {low}..{high} are outside of the {start}..{end} there are"))
}

/// Checks that a step may write there.
pub(crate) fn writable(place: &Seen<'_>, plan: &Plan, committed: bool) -> Result<(), PlanError> {
    if place.repeats.unwrap_or_else(|| place.layout.window.may_repeat()) {
        return err(format!("sizes {:?} with strides {:?} would be written twice", place.layout.window.sizes, place.layout.window.strides));
    }
    let Root::Input(i) = place.root else { return Ok(()) };
    if !committed {
        return err(format!("input {i} is written before the commit"));
    }
    let input = &plan.inputs[i];
    if !input.mutated {
        return err(format!("input {i} is written but not listed as mutated"));
    }
    let own = input.layout.span().unwrap_or((0, 0));
    if place.span.is_some_and(|(low, high)| low < own.0 || high > own.1) {
        return err(format!("input {i} is written outside of its own elements"));
    }
    Ok(())
}

/// Returns true if two registers have no byte in common, judged by their outermost bytes. Inputs not known to share a storage are compared
/// at the call.
pub(crate) fn apart(a: &Seen<'_>, b: &Seen<'_>, inputs: &[InputSpec]) -> bool {
    let (Some(left), Some(right)) = (a.span, b.span) else { return true };
    let Some((from, to)) = origins(a.root, b.root, inputs) else { return true };
    left.1 + from <= right.0 + to || right.1 + to <= left.0 + from
}

/// Returns the addresses of two roots, from a common origin; None if the roots have none.
fn origins(a: Root, b: Root, inputs: &[InputSpec]) -> Option<(i64, i64)> {
    match (a, b) {
        (Root::Input(i), Root::Input(j)) if i != j => {
            let shared = inputs[i].storage.is_some() && inputs[i].storage == inputs[j].storage;
            let start = |i: usize| inputs[i].layout.first_byte();
            shared.then(|| (start(i), start(j)))
        }
        _ => (a == b).then_some((0, 0)),
    }
}

/// Returns the layout of a view with its own offset.
pub(crate) fn view(dtype: DType, (sizes, strides, offset): (&[i64], &[i64], i64)) -> Result<Layout, PlanError> {
    let layout = Layout::contiguous(dtype, sizes).with_strides(strides).with_offset(offset);
    layout.check().map_err(PlanError)?;
    if !layout.is_torchlike() || offset < 0 {
        return err(format!("a tensor cannot have strides {strides:?} and offset {offset}"));
    }
    Ok(layout)
}
