//! The values that a node keeps of its call: those that autograd releases after a backward pass, and those that stay.

use dynamlir_runtime::{Derived, NodeInput};
use pyo3::{
    intern,
    prelude::*,
    types::{PyDict, PyTuple},
};
use smallvec::SmallVec;

use crate::{errors::NativeError, retained};

/// The attribute of the node for lasting values: a tensor without elements that has the sizes of the call, if no other value has them; and
/// the keys of random numbers, if autograd saves nothing. Eager keeps sizes as numbers, and does not keep random numbers on which no
/// gradient depends. So a node that keeps nothing else must allow any number of backward passes.
const LASTING: &str = "_lasting";

/// Stores these in the node.
pub(crate) fn keep_lasting<'py>(ctx: &Bound<'py, PyAny>, kept: impl ExactSizeIterator<Item = Bound<'py, PyAny>>) -> PyResult<()> {
    ctx.setattr(intern!(ctx.py(), LASTING), PyTuple::new(ctx.py(), kept)?)
}

/// The values of a call, by consumer.
pub(crate) struct Kept<'py> {
    /// All inputs of the gradient graph besides tangents, in its order.
    pub taken: SmallVec<[Bound<'py, PyAny>; 16]>,
    /// The outputs that eager saves but this graph does not take, in order.
    beside: Vec<Bound<'py, PyAny>>,
}

impl<'py> Kept<'py> {
    /// Reads all of it at once: saved-tensor hooks unpack each of them once per backward pass, as in eager, and checkpoints refuse a second
    /// time.
    ///
    /// # Errors
    /// Torch's error if autograd has released some of it.
    pub fn of(ctx: &Bound<'py, PyAny>, node: &Derived) -> PyResult<Self> {
        let py = ctx.py();
        let (mut taken, mut beside) = (SmallVec::new(), Vec::new());
        // A node for which autograd saves nothing is never used up.
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

    /// Returns the outputs of a node that eager saves, by index, with their history.
    ///
    /// # Errors
    /// If one of them is missing, which is a bug.
    pub fn own(&self, py: Python<'py>, node: &Derived) -> PyResult<Bound<'py, PyDict>> {
        let own = PyDict::new(py);
        let mut beside = self.beside.iter();
        for place in node.kept_by_eager() {
            let found = match retained::saved(node, NodeInput::Result(node.outputs()[*place])) {
                Some(at) => self.taken.get(at),
                None => beside.next(),
            };
            own.set_item(place, found.ok_or_else(|| NativeError::new_err("what should be kept is missing"))?)?;
        }
        Ok(own)
    }
}
