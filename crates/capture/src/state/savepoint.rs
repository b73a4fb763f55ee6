//! Savepoints, to which a capture rolls back: everything learned since is undone, as if the capture had never continued.
//!
//! A savepoint is the length of each list that only grows, and a position in the undo log of everything that also changes. State outside
//! the capture is not restored: objects that the frame created and has changed since, and the thread's state, which must be unchanged. The
//! frames interpreted since must have returned, or raised an exception that was handled.

use std::rc::Rc;

use dynamlir_guards::Savepoint as GuardsMark;
use dynamlir_torch_abi::State as TorchState;
use pyo3::prelude::*;

use crate::{
    floors::Numbers,
    graph_break::{Outcome, reason},
    state::{
        calling::CallingMark, existing::ExistingMark, facts::FactsMark, fresh::OwnMark, layers::LayersMark, number_places::PlacesMark,
        tensors::TensorsMark, writes::Written,
    },
};

/// A state of a capture. See [`crate::floors::Numbers::roll_back`].
pub(crate) struct Savepoint {
    graph: dynamlir_graph::Savepoint,
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
    /// The session's savepoint of the recording.
    recording: Py<PyAny>,
    /// `None` if torch's state cannot be read; then a rollback is impossible.
    torch: Option<TorchState>,
}

impl Numbers<'_> {
    /// Returns a savepoint of the current state.
    pub(crate) fn savepoint(&self) -> PyResult<Savepoint> {
        Ok(Savepoint {
            graph: self.graph.borrow().savepoint(),
            guards: self.guards.savepoint(),
            tensors: self.tensors.mark(),
            existing: self.existing.mark(),
            places: self.places.mark(),
            own: self.own.mark(),
            writes: (self.writes.all(), self.writes.closed()),
            calling: self.calling.mark(),
            layers: self.layers.mark(),
            facts: self.facts.mark(),
            returned: *self.returned.borrow(),
            recording: self.recorder().savepoint()?.unbind(),
            torch: TorchState::now().ok(),
        })
    }

    /// Undoes everything learned since the savepoint: nodes, operations, inputs, guards, reads and writes, a graph break. An interruption
    /// stays, because it belongs to the caller. Ends the capture if the rollback is impossible.
    pub(crate) fn roll_back(&self, to: Savepoint) -> Outcome<()> {
        let state_is_kept = to.torch.is_some_and(|state| state.holds());
        let is_back = state_is_kept && self.recorder().roll_back(to.recording)?;
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
