//! The values on the value stack.

use pyo3::prelude::*;

/// The origin of a value, as far as the policy tracks it; 0 means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourceId(pub u32);

impl SourceId {
    /// No source.
    pub const NONE: Self = Self(0);

    /// Returns true if there is a source.
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }
}

/// An object, or CPython's NULL, with its source.
///
/// The source travels with the value on the stack and in the locals of a frame. When the value moves anywhere else (into a container, an
/// attribute, a call), [`Policy::escape`](crate::Policy::escape) is called.
#[derive(Clone, Debug)]
pub struct Value<'py> {
    /// The object; `None` is NULL.
    pub object: Option<Bound<'py, PyAny>>,
    /// Its source.
    pub source: SourceId,
}

impl<'py> Value<'py> {
    /// CPython's NULL.
    pub const NULL: Self = Self { object: None, source: SourceId::NONE };

    /// Creates a value without a source.
    pub fn new(object: Bound<'py, PyAny>) -> Self {
        Self { object: Some(object), source: SourceId::NONE }
    }

    /// Creates a value with a source.
    pub fn with_source(object: Bound<'py, PyAny>, source: SourceId) -> Self {
        Self { object: Some(object), source }
    }

    /// Returns true if it is CPython's NULL.
    pub fn is_null(&self) -> bool {
        self.object.is_none()
    }

    /// Returns the object.
    ///
    /// Bytecode never operates on NULL: a panic here means broken bytecode, and reaches Python as a `SystemError`.
    pub fn get(&self) -> &Bound<'py, PyAny> {
        self.object.as_ref().expect("bytecode operates on NULL")
    }

    /// Returns the object.
    pub fn into_object(self) -> Bound<'py, PyAny> {
        self.object.expect("bytecode operates on NULL")
    }
}

impl<'py> From<Bound<'py, PyAny>> for Value<'py> {
    fn from(object: Bound<'py, PyAny>) -> Self {
        Self::new(object)
    }
}
