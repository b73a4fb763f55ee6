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

/// Values of a call by who reads them.
pub(super) struct Kept<'py> {
    /// All that the graph of the gradients takes beside tangents, in its order.
    pub taken: SmallVec<[Bound<'py, PyAny>; 16]>,
    /// The outputs that eager keeps and this graph does not take, in order.
    beside: Vec<Bound<'py, PyAny>>,
}

impl<'py> Kept<'py> {
    /// Reads all of it at once: hooks of saved tensors unpack each of them once in a walk, as in eager, and checkpoints refuse a second time.
    ///
    /// # Errors
    /// Torch's, where autograd has given some of it up.
    pub fn of(ctx: &Bound<'py, PyAny>, node: &Derived) -> PyResult<Self> {
        let py = ctx.py();
        let (mut taken, mut beside) = (SmallVec::new(), Vec::new());
        // A node of which autograd keeps nothing is never used up.
        if node.is_used_up() {
            let saved = ctx.getattr(intern!(py, "saved_tensors"))?.cast_into::<PyTuple>()?;
            taken.extend(saved.iter().take(node.given_up()));
            beside.extend(saved.iter().skip(node.given_up()));
        }
        if node.saved().len() > node.given_up() {
            taken.extend(ctx.getattr(intern!(py, LASTING))?.cast_into::<PyTuple>()?.iter());
        }
        Ok(Self { taken, beside })
    }

    /// The outputs of a node that eager keeps, by their places, with the history that they have.
    ///
    /// # Errors
    /// If one of them is missing, which is a bug.
    pub fn own(&self, py: Python<'py>, node: &Derived) -> PyResult<Bound<'py, PyDict>> {
        let own = PyDict::new(py);
        let mut beside = self.beside.iter();
        for place in node.kept_by_eager() {
            let found = match lent::saved(node, NodeInput::Result(node.outputs()[*place])) {
                Some(at) => self.taken.get(at),
                None => beside.next(),
            };
            own.set_item(place, found.ok_or_else(|| NativeError::new_err("what should be kept is missing"))?)?;
        }
        Ok(own)
    }
}
