//! The values that a node keeps of its call: those that autograd gives up after a walk, and those that stay.

use dynamlir_runtime::Derived;
use pyo3::{intern, prelude::*, types::PyTuple};
use smallvec::SmallVec;

/// A tensor without elements that has the sizes of the call, where no other value has them, and the keys of random numbers, where autograd
/// keeps nothing. An attribute of the node: eager keeps sizes as numbers, and no numbers that no gradient is made of, so that a node which
/// keeps nothing else may be walked back any number of times.
const LASTING: &str = "_lasting";

/// Leaves these with the node.
pub(super) fn keep_lasting<'py>(ctx: &Bound<'py, PyAny>, kept: impl ExactSizeIterator<Item = Bound<'py, PyAny>>) -> PyResult<()> {
    ctx.setattr(intern!(ctx.py(), LASTING), PyTuple::new(ctx.py(), kept)?)
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
        kept.extend(ctx.getattr(intern!(py, LASTING))?.cast_into::<PyTuple>()?.iter());
    }
    Ok(kept)
}
