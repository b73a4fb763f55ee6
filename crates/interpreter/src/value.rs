//! What stands on the value stack.

use pyo3::prelude::*;

/// Where a value came from, as far as the policy keeps track; 0 is nowhere in particular.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourceId(pub u32);

impl SourceId {
    /// No source.
    pub const NONE: Self = Self(0);

    /// Whether there is a source.
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }
}

/// An object, or CPython's NULL, and where it came from.
///
/// The source goes with the value on the stack and in the locals of a frame. Where it goes anywhere else (into a container,
/// an attribute, a call), [`Policy::escape`](crate::Policy::escape) is told.
#[derive(Clone, Debug)]
pub struct Value<'py> {
    /// The object; `None` is NULL.
    pub object: Option<Bound<'py, PyAny>>,
    /// Where it came from.
    pub source: SourceId,
}

impl<'py> Value<'py> {
    /// CPython's NULL.
    pub const NULL: Self = Self { object: None, source: SourceId::NONE };

    /// An object that comes from nowhere in particular.
    pub fn new(object: Bound<'py, PyAny>) -> Self {
        Self { object: Some(object), source: SourceId::NONE }
    }

    /// An object with its source.
    pub fn with_source(object: Bound<'py, PyAny>, source: SourceId) -> Self {
        Self { object: Some(object), source }
    }

    /// Whether it is CPython's NULL.
    pub fn is_null(&self) -> bool {
        self.object.is_none()
    }

    /// The object.
    ///
    /// Bytecode never operates on NULL; a panic here means broken bytecode, and reaches Python as a `SystemError`.
    pub fn get(&self) -> &Bound<'py, PyAny> {
        self.object.as_ref().expect("bytecode operates on NULL")
    }

    /// The object.
    pub fn into_object(self) -> Bound<'py, PyAny> {
        self.object.expect("bytecode operates on NULL")
    }
}

impl<'py> From<Bound<'py, PyAny>> for Value<'py> {
    fn from(object: Bound<'py, PyAny>) -> Self {
        Self::new(object)
    }
}
