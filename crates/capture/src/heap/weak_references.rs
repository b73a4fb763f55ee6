//! Values that are reached indirectly, through a weak reference.

use dynamlir_guards::Source;
use pyo3::prelude::*;

use crate::{
    floors::Heap,
    graph_break::{Outcome, reason},
    objects::Tracked,
};

impl<'py> Heap<'py> {
    /// Calls a `weakref.ref`. An object that a variable of a resumed frame has released is still alive in Python's frame.
    pub(crate) fn referent(&self, reference: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        let value = reference.object.call0()?;
        if self.progress.let_go.get() && !value.is_none() {
            return self
                .break_graph(reason::SIDE_EFFECT, "asks whether something lives, after a variable has let go of what may have held it");
        }
        let Some(source) = self.source(reference) else { return self.wrap_untracked(value) };
        self.pin_type(&reference.object, source)?;
        let at = self.guards.source(Source::Referent(source));
        if value.is_none() {
            self.guards.absent(at);
            return Ok(Tracked::new(value));
        }
        self.wrap(value, at)
    }
}
