//! Guard kinds: what can be assumed of the value that a source reaches.

use std::{fmt, sync::Arc};

use pyo3::prelude::*;

use crate::{Constant, Contents, Predicate, SizeRelation, SourceId, TensorMatch};

/// An assumption about one value. A source that reaches nothing (a key that is not there) fails every guard but `Absent`.
#[derive(Debug)]
pub enum Guard {
    /// `type(value)` is exactly this class. Prints as `___check_type(value, Class)`.
    Type(Py<PyAny>),
    /// It is this very object, which is held weakly. For what cannot be, guard its type and content.
    Identity(Py<PyAny>),
    /// It has the exact type and value of a constant.
    Equals(Constant),
    /// A tensor with this metadata.
    Tensor(TensorMatch),
    /// The source reaches something.
    Present,
    /// The source reaches nothing: no such attribute stored, no such key, not found along the MRO.
    Absent,
    /// `len` of a list, tuple, dict, set, str, bytes (or of what a subclass inherits from these).
    Length(usize),
    /// The keys of a dict, in order; for keys that are not constants, [`DictKey::Any`] and a guard on [`crate::Source::DictKey`].
    DictKeys(Arc<[DictKey]>),
    /// The elements of a set, in any order.
    SetElements(Arc<[Constant]>),
    /// The elements of a set, in the order in which it gives them: equal sets have several.
    SetOrder(Arc<[Constant]>),
    /// A function whose code object is this one.
    Code(Py<PyAny>),
    /// A float that compares so.
    Compares(Comparison),
    /// A tensor of one integer, or bool, that holds this number.
    Contents(Contents),
    /// Nobody notices when it is gone, or there is nothing; see [`crate::is_watched`].
    Unwatched,
}

/// What comparing a float with a constant gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Python's operator: `<`, `<=`, `==`, `!=`, `>=` or `>`.
    pub operator: &'static str,
    /// The constant, on the right.
    pub with: f64,
    /// What it gives.
    pub outcome: bool,
}

impl Comparison {
    /// Whether a float compares so.
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

    /// As a Python predicate of an expression.
    pub(crate) fn text(&self, value: &str) -> String {
        let compared = format!("{value} {} float('{}')", self.operator, self.with);
        if self.outcome { compared } else { format!("not {compared}") }
    }
}

impl Guard {
    /// The same guard once more.
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

    /// Equal for guards that say the same.
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
    /// Anything: only its position counts.
    Any,
}

/// An assumption about several values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Relation {
    /// Both are one object.
    Same(SourceId, SourceId),
    /// No two are one object.
    Distinct(Vec<SourceId>),
    /// Tensors share memory exactly as their group numbers say: those of one group have one storage, at these offsets (in
    /// elements) from each other; those of different groups have no byte in common.
    Storage(Vec<StorageMember>),
    /// What comparing numbers gives. The types of what they are computed from are guarded.
    Compares(Predicate),
    /// Sizes and strides that vary are as expressions over symbols say.
    Sizes(SizeRelation),
}

/// A tensor among those whose storages are related.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StorageMember {
    /// The tensor.
    pub source: SourceId,
    /// Equal numbers mean one storage.
    pub group: u32,
    /// Its storage offset when captured.
    pub offset: i64,
}

/// Why something cannot be guarded.
#[derive(Debug)]
pub enum GuardError {
    /// The object cannot be referred to weakly, and may own things of the user's.
    NotWeak(String),
    /// Not a tensor that guards understand.
    NotATensor(String),
    /// A number that the program computes: what is guarded is what it computes that from.
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
