//! The properties of a tensor that guards check.

use std::{fmt, sync::Arc};

use dynamlir_cpython_abi::shown;
use dynamlir_torch_abi::{Meta, TensorRef};
use dynamlir_trails::TensorClass;
use pyo3::prelude::*;

use crate::GuardError;

/// The attributes that torch stores on tensors whose sizes must not be specialized: `mark_dynamic`, then `mark_unbacked`, also the strict
/// one.
pub const DYNAMIC_MARKS: [&str; 3] = ["_dynamo_dynamic_indices", "_dynamo_unbacked_indices", "_dynamo_strict_unbacked_indices"];

/// Metadata of a tensor. Taken from a tensor, then relaxed where the capture does not depend on it.
#[derive(Clone)]
pub struct TensorMatch {
    /// Dtype, device, sizes, strides, dispatch keys, `requires_grad`.
    pub meta: Meta,
    /// True if the [`DYNAMIC_MARKS`] must be absent.
    pub no_dynamic_indices: bool,
    pub(crate) class: Arc<TensorClass>,
    class_name: Arc<str>,
    /// Dtype and device in Python's spelling: `torch.float32`, `cpu`.
    dtype: Arc<str>,
    device: Arc<str>,
}

impl TensorMatch {
    /// Returns the metadata of a tensor.
    ///
    /// # Errors
    /// If the object is not a tensor, or if this torch's tensors cannot be read.
    pub fn of(tensor: &Bound<'_, PyAny>) -> Result<Self, GuardError> {
        let class_name = tensor.get_type().fully_qualified_name()?.to_string();
        let no_tensor = |why: &str| GuardError::NotATensor(format!("an object of type {class_name}{why}"));
        let class = TensorClass::of(tensor)?.ok_or_else(|| no_tensor(""))?;
        let meta = class.tensor(tensor).map(Meta::of).ok_or_else(|| no_tensor(""))?;
        Ok(Self {
            meta: meta.map_err(|error| no_tensor(&format!(": {error}")))?,
            no_dynamic_indices: true,
            class: Arc::new(class),
            dtype: shown::str(&tensor.getattr("dtype")?)?.to_string().into(),
            device: shown::str(&tensor.getattr("device")?)?.to_string().into(),
            class_name: class_name.into(),
        })
    }

    /// Returns the class's qualified name.
    pub(crate) fn class_name(&self) -> &str {
        &self.class_name
    }

    pub(crate) fn dtype_name(&self) -> &str {
        &self.dtype
    }

    pub(crate) fn device_name(&self) -> &str {
        &self.device
    }

    /// Returns a canonical text: equal for equivalent matches.
    pub(crate) fn canon(&self) -> String {
        format!("{} {:?} {}", self.class.address(), self.meta, self.no_dynamic_indices)
    }

    /// Returns the sizes as a Python tuple; `_` for a dynamic size.
    pub(crate) fn shape(&self) -> String {
        tuple(&self.meta.sizes)
    }

    /// Returns the strides as a Python tuple.
    pub(crate) fn strides(&self) -> String {
        tuple(&self.meta.strides)
    }
}

/// The contents of a tensor on the CPU that has one element, an integer or bool.
#[derive(Clone)]
pub struct Contents {
    class: Arc<TensorClass>,
    number: i64,
    /// The address of the tensor that was read.
    asked: usize,
}

impl Contents {
    /// Returns the present contents of a tensor; None if it is not such a tensor.
    ///
    /// # Errors
    /// If this torch's tensors cannot be read.
    pub fn of(tensor: &Bound<'_, PyAny>) -> Result<Option<Self>, GuardError> {
        let Some(class) = TensorClass::of(tensor)? else { return Ok(None) };
        let number = class.tensor(tensor).map(TensorRef::whole_number).transpose();
        let number = number.map_err(|error| GuardError::NotATensor(error.message().to_owned()))?;
        Ok(number.flatten().map(|number| Self { class: Arc::new(class), number, asked: tensor.as_ptr() as usize }))
    }

    /// Returns the number.
    #[must_use]
    pub fn number(&self) -> i64 {
        self.number
    }

    /// Returns the place of this tensor: the expression that reaches it, and its address. In another module the same expression reaches
    /// another tensor, and a different number there does not mean that a number has changed.
    #[must_use]
    pub fn place(&self, expression: &str) -> String {
        format!("{expression} at {:#x}", self.asked)
    }

    /// Returns true if a tensor of the same class holds the same number.
    pub(crate) fn holds(&self, tensor: &Bound<'_, PyAny>) -> bool {
        self.class.tensor(tensor).is_some_and(|tensor| matches!(tensor.whole_number(), Ok(Some(found)) if found == self.number))
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number)
    }
}

impl fmt::Debug for TensorMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}, {}, {}, {})", self.class_name, self.dtype, self.device, self.shape(), self.strides())
    }
}

/// Returns numbers as a Python tuple.
fn tuple(numbers: &[Option<i64>]) -> String {
    let texts: Vec<_> = numbers.iter().map(|n| n.map_or("_".to_owned(), |n| n.to_string())).collect();
    match texts.as_slice() {
        [one] => format!("({one},)"),
        many => format!("({})", many.join(", ")),
    }
}
