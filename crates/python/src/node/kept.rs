//! The values that a node keeps of its call: those that autograd gives up after a walk, and those that stay.

use dynamlir_runtime::{Derived, NodeInput};
use pyo3::{
    intern,
    prelude::*,
    types::{PyDict, PyTuple},
};
use smallvec::SmallVec;

use super::lent;
use crate::errors::NativeError;

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
    if node.is_used_up() {
        let saved = ctx.getattr(intern!(py, "saved_tensors"))?.cast_into::<PyTuple>()?;
        kept.extend(saved.iter().take(node.given_up()));
    }
    if node.saved().len() > node.given_up() {
        kept.extend(ctx.getattr(intern!(py, LASTING))?.cast_into::<PyTuple>()?.iter());
    }
    Ok(kept)
}

/// The outputs of a node that eager keeps, by their places, with the history that they have; `kept` is what the graph of the gradients
/// takes.
pub(super) fn own<'py>(ctx: &Bound<'py, PyAny>, node: &Derived, kept: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyDict>> {
    let own = PyDict::new(ctx.py());
    if node.kept_by_eager().is_empty() {
        return Ok(own);
    }
    let saved = ctx.getattr(intern!(ctx.py(), "saved_tensors"))?.cast_into::<PyTuple>()?;
    let mut beside = saved.iter().skip(node.given_up());
    for place in node.kept_by_eager() {
        let found = match lent::saved(node, NodeInput::Result(node.outputs()[*place])) {
            Some(at) => kept.get(at).cloned(),
            None => beside.next(),
        };
        own.set_item(place, found.ok_or_else(|| NativeError::new_err("what should be kept is missing"))?)?;
    }
    Ok(own)
}
