//! Tensor metadata that guards compare: read at once, compared field by field without allocating.

use std::fmt;

use crate::impl_layout::{self, ImplView};
use crate::{TensorRef, TorchAbi, TorchError};

/// What a tensor must look like. None among sizes and strides stands for a number that may vary.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Meta {
    /// The sizes; their number is the number of dimensions.
    pub sizes: Vec<Option<i64>>,
    /// The strides, in elements.
    pub strides: Vec<Option<i64>>,
    /// Torch's number for the element type.
    pub dtype: u16,
    /// Device type and index, as torch numbers them.
    pub device: (i8, i8),
    /// The tensor's dispatch keys: layout, conjugate and negative bits, inference tensors, Python subclasses.
    pub keys: u64,
    /// Whether a gradient is wanted, of it or of what it was computed from.
    pub requires_grad: bool,
}

/// A field in which a tensor differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Field {
    Dims,
    DType,
    Device,
    Keys,
    RequiresGrad,
    Size(usize),
    Stride(usize),
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dims => f.write_str("ndim"),
            Self::DType => f.write_str("dtype"),
            Self::Device => f.write_str("device"),
            Self::Keys => f.write_str("dispatch keys"),
            Self::RequiresGrad => f.write_str("requires_grad"),
            Self::Size(d) => write!(f, "size({d})"),
            Self::Stride(d) => write!(f, "stride({d})"),
        }
    }
}

/// A storage and where a tensor begins in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Identity of the storage.
    pub storage: usize,
    /// In elements.
    pub offset: i64,
}

fn view(tensor: TensorRef<'_>) -> Option<ImplView> {
    let layout = impl_layout::layout()?;
    // SAFETY: a TensorRef is a live handle; undefined tensors point to a singleton that is a TensorImpl too.
    Some(unsafe { ImplView::new(tensor.raw(), layout) })
}

fn unknown() -> TorchError {
    TorchError::new("the layout of this torch's tensors was not learnt")
}

fn packed(dtype: u16, device: (i8, i8)) -> u32 {
    let [low, high] = dtype.to_le_bytes();
    u32::from_le_bytes([low, high, device.0 as u8, device.1 as u8])
}

fn requires_grad(view: ImplView) -> bool {
    // SAFETY: the address is a live TensorImpl's; the function is a const member that takes nothing else.
    view.has_autograd()
        && TorchAbi::get().is_ok_and(|abi| abi.guards.as_ref().is_some_and(|f| unsafe { (f.requires_grad)(view.address()) }))
}

impl Meta {
    /// The metadata of a tensor, nothing varying.
    ///
    /// # Errors
    /// When the layout of tensors was not learnt.
    pub fn of(tensor: TensorRef<'_>) -> Result<Self, TorchError> {
        let view = view(tensor).ok_or_else(unknown)?;
        let dims = view.dims();
        let (sizes, strides) = view.shape(dims);
        // SAFETY: `shape` gives two arrays of `dims` numbers, alive while nothing resizes the tensor.
        let (sizes, strides) = unsafe { (std::slice::from_raw_parts(sizes, dims), std::slice::from_raw_parts(strides, dims)) };
        let [low, high, kind, index] = view.dtype_device().to_le_bytes();
        Ok(Self {
            sizes: sizes.iter().copied().map(Some).collect(),
            strides: strides.iter().copied().map(Some).collect(),
            dtype: u16::from_le_bytes([low, high]),
            device: (kind as i8, index as i8),
            keys: view.keys(),
            requires_grad: requires_grad(view),
        })
    }

    /// Whether a tensor looks like this.
    #[inline]
    #[must_use]
    pub fn matches(&self, tensor: TensorRef<'_>) -> bool {
        let Some(view) = view(tensor) else { return false };
        let dims = view.dims();
        if dims != self.sizes.len() || view.keys() != self.keys || view.dtype_device() != packed(self.dtype, self.device) {
            return false;
        }
        let (sizes, strides) = view.shape(dims);
        for d in 0..dims {
            // SAFETY: both arrays have `dims` numbers.
            let (size, stride) = unsafe { (sizes.add(d).read(), strides.add(d).read()) };
            if self.sizes[d].is_some_and(|n| n != size) || self.strides[d].is_some_and(|n| n != stride) {
                return false;
            }
        }
        requires_grad(view) == self.requires_grad
    }

    /// The first field in which a tensor with metadata `seen` differs, in the order in which people ask.
    #[must_use]
    pub fn difference(&self, seen: &Self) -> Option<Field> {
        let pairs = [
            (self.dtype == seen.dtype, Field::DType),
            (self.device == seen.device, Field::Device),
            (self.requires_grad == seen.requires_grad, Field::RequiresGrad),
            (self.sizes.len() == seen.sizes.len(), Field::Dims),
        ];
        if let Some((_, field)) = pairs.into_iter().find(|(same, _)| !same) {
            return Some(field);
        }
        let differ = |mine: &[Option<i64>], theirs: &[Option<i64>]| mine.iter().zip(theirs).position(|(m, t)| m.is_some() && m != t);
        differ(&self.sizes, &seen.sizes)
            .map(Field::Size)
            .or_else(|| differ(&self.strides, &seen.strides).map(Field::Stride))
            .or_else(|| (self.keys != seen.keys).then_some(Field::Keys))
    }
}

impl TensorRef<'_> {
    /// Its storage and where it begins in it.
    ///
    /// # Errors
    /// When the layout of tensors was not learnt.
    pub fn place(self) -> Result<Place, TorchError> {
        let view = view(self).ok_or_else(unknown)?;
        Ok(Place { storage: view.storage(), offset: view.storage_offset() })
    }
}
