//! Guard kinds: what can be assumed of the value that a source reaches.

use std::{fmt, sync::Arc};

use pyo3::prelude::*;

use crate::{Constant, SourceId};

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
    /// The keys of a dict, in order; for keys that are no constants, [`DictKey::Any`] and a guard on [`crate::Source::DictKey`].
    DictKeys(Arc<[DictKey]>),
    /// The elements of a set, in any order.
    SetElements(Arc<[Constant]>),
    /// A function whose code object is this one.
    Code(Py<PyAny>),
}

impl Guard {
    /// Equal for guards that say the same.
    pub(crate) fn canon(&self) -> String {
        match self {
            Self::Type(class) => format!("type {}", class.as_ptr() as usize),
            Self::Identity(object) => format!("is {}", object.as_ptr() as usize),
            Self::Equals(constant) => format!("equals {}", constant.canon()),
            Self::Tensor(expected) => format!("tensor {expected:?}"),
            Self::Present => "present".to_owned(),
            Self::Absent => "absent".to_owned(),
            Self::Length(length) => format!("len {length}"),
            Self::DictKeys(_) => "keys".to_owned(),
            Self::SetElements(_) => "elements".to_owned(),
            Self::Code(code) => format!("code {}", code.as_ptr() as usize),
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

/// Metadata of a tensor. Made by [`TensorMatch::of`] from a tensor, then loosened where the capture does not depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TensorMatch {
    /// Address of the exact Python class; the class is held weakly by the guard set.
    pub class: Class,
    /// As Python spells it, such as `torch.float32`.
    pub dtype: String,
    /// Torch's number for the dtype.
    pub scalar_type: u16,
    /// Device type and index, as `torch.device` numbers them.
    pub device: (i8, i8),
    /// As Python spells it, such as `cpu` or `cuda:0`.
    pub device_name: String,
    /// `tensor.requires_grad`
    pub requires_grad: bool,
    /// The keys of dispatch: layout, conjugate and negative bits, inference tensors, subclasses.
    pub dispatch_keys: u64,
    /// Sizes, None for one that may vary; the number of dimensions is theirs.
    pub sizes: Vec<Option<i64>>,
    /// Strides, None for one that may vary.
    pub strides: Vec<Option<i64>>,
    /// Whether `_dynamo_dynamic_indices` (set by `mark_dynamic`) must be absent.
    pub no_dynamic_indices: bool,
}

/// A class by identity, with its name for printing.
#[derive(Debug, Clone)]
pub struct Class {
    pub(crate) object: Arc<Py<PyAny>>,
    pub(crate) name: Arc<str>,
}

impl Class {
    /// The class of an object.
    ///
    /// # Errors
    /// When its name cannot be read.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let class = object.get_type();
        let name = class.fully_qualified_name()?.to_string();
        Ok(Self { object: Arc::new(class.into_any().unbind()), name: name.into() })
    }

    /// Its identity.
    #[must_use]
    pub fn address(&self) -> usize {
        self.object.as_ptr() as usize
    }
}

impl PartialEq for Class {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl Eq for Class {}

impl std::hash::Hash for Class {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
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
    /// Python raised.
    Python(PyErr),
}

impl fmt::Display for GuardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWeak(what) => write!(f, "{what} cannot be guarded by identity: it takes no weak references"),
            Self::NotATensor(what) => write!(f, "{what} is no tensor that can be guarded"),
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
