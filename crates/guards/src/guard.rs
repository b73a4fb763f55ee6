//! Guard kinds: the assumptions about the value that a source reaches.

use std::{fmt, sync::Arc};

use pyo3::prelude::*;

use crate::{Constant, Contents, Predicate, SizeRelation, SourceId, TensorMatch};

/// An assumption about one value. A source that reaches nothing (a missing key) fails every guard except `Absent`.
#[derive(Debug)]
pub enum Guard {
    /// `type(value)` is exactly this class. Prints as `___check_type(value, Class)`.
    Type(Py<PyAny>),
    /// It is this very object, which is held weakly. For an object that cannot be held weakly, guard its type and content.
    Identity(Py<PyAny>),
    /// It has the exact type and value of a constant.
    Equals(Constant),
    /// A tensor with this metadata.
    Tensor(TensorMatch),
    /// The source reaches an object.
    Present,
    /// The source reaches nothing: no such attribute stored, no such key, not found along the MRO.
    Absent,
    /// The `len` of a list, tuple, dict, set, str or bytes (or the length that a subclass inherits from these).
    Length(usize),
    /// The keys of a dict, in order; for keys that are not constants, [`DictKey::Any`] and a guard on [`crate::Source::DictKey`].
    DictKeys(Arc<[DictKey]>),
    /// The elements of a set, in any order.
    SetElements(Arc<[Constant]>),
    /// The elements of a set, in iteration order, which may differ between equal sets.
    SetOrder(Arc<[Constant]>),
    /// A function whose code object is this one.
    Code(Py<PyAny>),
    /// A float with this comparison result.
    Compares(Comparison),
    /// A tensor of one integer or bool, with this value.
    Contents(Contents),
    /// The object's death is unobserved, or the object is missing; see [`crate::is_watched`].
    Unwatched,
}

/// A comparison of a float with a constant, and its result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Python's operator: `<`, `<=`, `==`, `!=`, `>=` or `>`.
    pub operator: &'static str,
    /// The constant, on the right.
    pub with: f64,
    /// The result.
    pub outcome: bool,
}

impl Comparison {
    /// Returns true if the comparison has this result for a float.
    #[must_use]
    #[expect(clippy::float_cmp, reason = "it is what the program does")]
    pub fn holds(&self, value: f64) -> bool {
        let found = match self.operator {
            "<" => value < self.with,
            "<=" => value <= self.with,
            "==" => value == self.with,
            "!=" => value != self.with,
            ">=" => value >= self.with,
            _ => value > self.with,
        };
        found == self.outcome
    }

    /// Returns the comparison as a Python predicate of an expression.
    pub(crate) fn text(&self, value: &str) -> String {
        let compared = format!("{value} {} float('{}')", self.operator, self.with);
        if self.outcome { compared } else { format!("not {compared}") }
    }
}

impl Guard {
    /// Returns true if the guard holds where there is no value, so that it does not imply that its source can be reached.
    pub(crate) fn holds_of_nothing(&self) -> bool {
        matches!(self, Self::Absent | Self::Unwatched)
    }

    /// Returns a copy of the guard.
    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Type(class) => Self::Type(class.clone_ref(py)),
            Self::Identity(object) => Self::Identity(object.clone_ref(py)),
            Self::Equals(constant) => Self::Equals(constant.clone()),
            Self::Tensor(expected) => Self::Tensor(expected.clone()),
            Self::Present => Self::Present,
            Self::Absent => Self::Absent,
            Self::Length(length) => Self::Length(*length),
            Self::DictKeys(keys) => Self::DictKeys(keys.clone()),
            Self::SetElements(elements) => Self::SetElements(elements.clone()),
            Self::SetOrder(elements) => Self::SetOrder(elements.clone()),
            Self::Code(code) => Self::Code(code.clone_ref(py)),
            Self::Compares(comparison) => Self::Compares(*comparison),
            Self::Contents(contents) => Self::Contents(contents.clone()),
            Self::Unwatched => Self::Unwatched,
        }
    }

    /// Returns a canonical text: equal for equivalent guards.
    pub(crate) fn canon(&self) -> String {
        match self {
            Self::Type(class) => format!("type {}", class.as_ptr() as usize),
            Self::Identity(object) => format!("is {}", object.as_ptr() as usize),
            Self::Equals(constant) => format!("equals {}", constant.canon()),
            Self::Tensor(expected) => format!("tensor {}", expected.canon()),
            Self::Present => "present".to_owned(),
            Self::Absent => "absent".to_owned(),
            Self::Length(length) => format!("len {length}"),
            Self::DictKeys(_) => "keys".to_owned(),
            Self::SetElements(_) => "elements".to_owned(),
            Self::SetOrder(_) => "order".to_owned(),
            Self::Code(code) => format!("code {}", code.as_ptr() as usize),
            Self::Compares(comparison) => format!("compares {comparison:?}"),
            Self::Contents(contents) => format!("contents {}", contents.number()),
            Self::Unwatched => "unwatched".to_owned(),
        }
    }
}

/// One key of a guarded dict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DictKey {
    /// This constant.
    Constant(Constant),
    /// Any key: only its position counts.
    Any,
}

/// An assumption about several values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Relation {
    /// Both are one object.
    Same(SourceId, SourceId),
    /// No two are one object.
    Distinct(Vec<SourceId>),
    /// Tensors share memory exactly as their group numbers say: those of one group share a storage, at these offsets (in elements) from
    /// each other; those of different groups do not have a byte in common.
    Storage(Vec<StorageMember>),
    /// The result of a comparison of numbers. The types of the operands are guarded.
    Compares(Predicate),
    /// Dynamic sizes and strides match their expressions over symbols.
    Sizes(SizeRelation),
}

/// A tensor among those whose storages are related.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StorageMember {
    /// The tensor.
    pub source: SourceId,
    /// Equal numbers mean the same storage.
    pub group: u32,
    /// Its storage offset at the capture.
    pub offset: i64,
}

/// The reason that an object cannot be guarded.
#[derive(Debug)]
pub enum GuardError {
    /// The object does not support weak references, and may own objects of the user's.
    NotWeak(String),
    /// Not a tensor that guards understand.
    NotATensor(String),
    /// A number computed by the program: its operands are guarded instead.
    Computed,
    /// Python raised.
    Python(PyErr),
}

impl fmt::Display for GuardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWeak(what) => write!(f, "{what} cannot be guarded by identity: it takes no weak references"),
            Self::NotATensor(what) => write!(f, "{what} is not a tensor that can be guarded"),
            Self::Computed => f.write_str("a number that the program computes has no place"),
            Self::Python(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for GuardError {}

impl From<PyErr> for GuardError {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<GuardError> for PyErr {
    fn from(error: GuardError) -> Self {
        match error {
            GuardError::Python(error) => error,
            other => pyo3::exceptions::PyRuntimeError::new_err(other.to_string()),
        }
    }
}
