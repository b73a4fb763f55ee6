//! Points to which a capture goes back: all that it has learnt since is forgotten, as if it had never gone on.
//!
//! A checkpoint is a length of what only grows, and a place in the journal of what also changes. What is not the capture's own is not
//! undone: objects that the frame made and has changed since, and the thread's state, which must be as it was. The frames that were
//! interpreted since must have returned, or raised what was handled.

use std::rc::Rc;

use dynamlir_guards::Checkpoint as GuardsMark;
use dynamlir_torch_abi::State as TorchState;
use pyo3::prelude::*;

use super::{
    Capture, Outcome, calling::CallingMark, existing::ExistingMark, layers::LayersMark, own::OwnMark, tensors::TensorsMark, writes::Written,
};
use crate::{graph_break::reason, patched::FactsMark, places::PlacesMark};

/// How far a capture was. See [`Capture::roll_back`].
pub(crate) struct Checkpoint {
    graph: dynamlir_graph::Checkpoint,
    guards: GuardsMark,
    tensors: TensorsMark,
    existing: ExistingMark,
    places: PlacesMark,
    own: OwnMark,
    writes: (Vec<Rc<Written>>, Option<usize>),
    calling: CallingMark,
    layers: LayersMark,
    facts: FactsMark,
    returned: Option<dynamlir_guards::SourceId>,
    /// The recording, as the session has it.
    recording: Py<PyAny>,
    /// None where torch's state cannot be read: then there is no way back.
    torch: Option<TorchState>,
}

impl Capture<'_> {
    /// How far the capture is.
    pub(crate) fn checkpoint(&self) -> PyResult<Checkpoint> {
        Ok(Checkpoint {
            graph: self.graph.borrow().checkpoint(),
            guards: self.guards.checkpoint(),
            tensors: self.tensors.mark(),
            existing: self.existing.mark(),
            places: self.places.mark(),
            own: self.own.mark(),
            writes: (self.writes.all(), self.writes.closed()),
            calling: self.calling.mark(),
            layers: self.layers.mark(),
            facts: self.facts.mark(),
            returned: *self.returned.borrow(),
            recording: self.ask("checkpoint", ())?.unbind(),
            torch: TorchState::now().ok(),
        })
    }

    /// Forgets all that was learnt since: nodes, operations, inputs, guards, what was read and written, a graph break. An interruption
    /// stays, which is the caller's. Ends the capture where the way back is not known.
    pub(crate) fn roll_back(&self, to: Checkpoint) -> Outcome<()> {
        let state_is_kept = to.torch.is_some_and(|state| state.holds());
        let is_back = state_is_kept && self.ask("roll_back", (to.recording,))?.is_truthy()?;
        self.graph.borrow_mut().roll_back(to.graph);
        self.guards.roll_back(to.guards);
        self.tensors.roll_back(to.tensors);
        self.existing.roll_back(to.existing);
        self.places.roll_back(to.places);
        self.own.roll_back(to.own);
        self.writes.roll_back(to.writes);
        self.calling.roll_back(to.calling);
        self.layers.roll_back(to.layers);
        self.facts.roll_back(to.facts);
        self.returned.replace(to.returned);
        self.graph_break.take();
        if is_back { Ok(()) } else { self.break_graph(reason::INTERNAL_ERROR, "an attempt changed what cannot be put back") }
    }
}
