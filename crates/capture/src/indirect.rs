//! Values that are reached indirectly, through a weak reference.

use dynamlir_guards::Source;
use pyo3::prelude::*;

use crate::state::{Capture, Outcome, Tracked};

impl<'py> Capture<'py> {
    /// `reference()` of a `weakref.ref`.
    pub(crate) fn referent(&self, reference: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        let value = reference.object.call0()?;
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
