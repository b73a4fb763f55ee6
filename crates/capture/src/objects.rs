//! Python objects, looked at without a capture: names in classes, contents of containers, kinds of callables.

pub(crate) mod callable_kinds;
pub(crate) mod callables;
pub(crate) mod callback_wrapper;
pub(crate) mod contents;
pub mod effects;
pub(crate) mod interruptions;
pub(crate) mod layout;
pub(crate) mod lookup;
pub(crate) mod special_names;
pub(crate) mod torch_types;
pub(crate) mod unraisable;

#[cfg(test)]
mod tests;

use dynamlir_guards::SourceId;
use pyo3::prelude::*;

/// An object, and its source if it existed before the frame.
#[derive(Clone, Debug)]
pub struct Tracked<'py> {
    /// The object; for a tensor, its fake.
    pub object: Bound<'py, PyAny>,
    /// Its source; `None` for an object that the frame created.
    pub source: Option<SourceId>,
}

impl<'py> Tracked<'py> {
    /// Tracks an object that the frame created.
    pub fn new(object: Bound<'py, PyAny>) -> Self {
        Self { object, source: None }
    }
}

/// Returns the name of a value's type, for messages.
pub fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().fully_qualified_name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}
