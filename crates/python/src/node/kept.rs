//! What a node has kept of its call: what autograd gives up after a walk, and sizes, which stay.

use dynamlir_runtime::Derived;
use pyo3::{intern, prelude::*, types::PyTuple};
use smallvec::SmallVec;

/// A tensor without elements that has the sizes of the call, where no other value has them. An attribute of the node: eager keeps sizes as
/// numbers, so that a node which keeps nothing else may be walked back any number of times.
const SIZES: &str = "_sizes";

/// Leaves it with the node.
pub(super) fn keep_sizes(ctx: &Bound<'_, PyAny>, sizes: Bound<'_, PyAny>) -> PyResult<()> {
    ctx.setattr(intern!(ctx.py(), SIZES), sizes)
}

/// All that the graph of the gradients takes beside tangents, in its order; torch's error where autograd has given some of it up.
pub(super) fn kept<'py>(ctx: &Bound<'py, PyAny>, node: &Derived) -> PyResult<SmallVec<[Bound<'py, PyAny>; 16]>> {
    let py = ctx.py();
    let mut kept: SmallVec<[Bound<'py, PyAny>; 16]> = SmallVec::new();
    // A node of which autograd keeps nothing is never used up.
    if node.given_up() > 0 || node.once() {
        let saved = ctx.getattr(intern!(py, "saved_tensors"))?.cast_into::<PyTuple>()?;
        kept.extend(saved.iter().take(node.given_up()));
    }
    if node.saved().len() > node.given_up() {
        kept.push(ctx.getattr(intern!(py, SIZES))?);
    }
    Ok(kept)
}
