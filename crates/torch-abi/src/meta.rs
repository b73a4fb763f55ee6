//! Tensor metadata that guards compare: read all at once, compared field by field without allocating.

use std::ffi::c_void;
use std::fmt;

use crate::impl_layout::{self, ImplLayout, ImplView};
use crate::{Device, TensorRef, TorchAbi, TorchError};

/// The required metadata of a tensor. `None` among sizes and strides means a dynamic number.
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
    /// True if the tensor, or a tensor that it was computed from, requires a gradient.
    pub requires_grad: bool,
}

/// A field in which a tensor differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it all")]
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

/// A storage, and the offset of a tensor in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoragePosition {
    /// The identity of the storage.
    pub storage: usize,
    /// The offset in elements.
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

impl TensorRef<'_> {
    /// Calls a closure with the sizes and strides. The closure must not resize the tensor. `None` if the layout of tensors was not learnt.
    #[inline]
    pub fn with_shape<R>(self, work: impl FnOnce(&[i64], &[i64]) -> R) -> Option<R> {
        let view = view(self)?;
        let dims = view.dims();
        let (sizes, strides) = view.shape(dims);
        // SAFETY: `shape` returns two arrays of `dims` numbers, valid until the tensor is resized.
        let (sizes, strides) = unsafe { (std::slice::from_raw_parts(sizes, dims), std::slice::from_raw_parts(strides, dims)) };
        Some(work(sizes, strides))
    }

    /// Returns the size of a dimension; `None` if the dimension does not exist, or if the layout of tensors was not learnt.
    #[inline]
    #[must_use]
    pub fn size_at(self, dimension: usize) -> Option<i64> {
        self.with_shape(|sizes, _| sizes.get(dimension).copied())?
    }

    /// Returns true if it is an ordinary tensor on the CPU or CUDA, whose elements are in its memory according to its sizes and strides:
    /// neither sparse nor quantized, without a conjugate or negative bit, and not a subclass with its own dispatch. `None` if this cannot
    /// be determined.
    #[must_use]
    pub fn is_plain(self) -> Option<bool> {
        let (view, layout) = (view(self)?, impl_layout::layout()?);
        Some(view.keys() & !layout.plain_keys == 0)
    }

    /// Returns true if the tensor, or a tensor that it was computed from, requires a gradient.
    ///
    /// # Errors
    /// If the layout of tensors was not learnt, or this torch cannot report it.
    pub fn requires_grad(self) -> Result<bool, TorchError> {
        Ok(view(self).ok_or_else(unknown)?.requires_grad(ask()?))
    }
}

impl TorchAbi {
    /// Like [`TensorRef::is_plain`], for metadata and a given device.
    #[must_use]
    pub fn is_plain_on(&self, device: Device, meta: &Meta) -> Option<bool> {
        let layout = impl_layout::layout()?;
        let (kind, number) = self.numbers(device);
        // A tensor on the CPU has no device number, or 0.
        let there = i32::from(meta.device.0) == kind && (device == Device::Cpu || i32::from(meta.device.1) == number);
        Some(there && meta.keys & !layout.plain_keys == 0)
    }
}

/// Returns torch's own function that says if a gradient is required.
fn ask() -> Result<unsafe extern "C" fn(*const c_void) -> bool, TorchError> {
    let functions = TorchAbi::get()?.guards.as_ref();
    functions.map(|f| f.requires_grad).ok_or_else(|| TorchError::new("this torch does not tell whether a tensor wants a gradient"))
}

impl Meta {
    /// Returns the metadata of a tensor, with only static numbers.
    ///
    /// # Errors
    /// If the layout of tensors was not learnt.
    pub fn of(tensor: TensorRef<'_>) -> Result<Self, TorchError> {
        let view = view(tensor).ok_or_else(unknown)?;
        let dims = view.dims();
        let (sizes, strides) = view.shape(dims);
        // SAFETY: `shape` returns two arrays of `dims` numbers, valid until the tensor is resized.
        let (sizes, strides) = unsafe { (std::slice::from_raw_parts(sizes, dims), std::slice::from_raw_parts(strides, dims)) };
        let [low, high, kind, index] = view.dtype_device().to_le_bytes();
        Ok(Self {
            sizes: sizes.iter().copied().map(Some).collect(),
            strides: strides.iter().copied().map(Some).collect(),
            dtype: u16::from_le_bytes([low, high]),
            device: (kind as i8, index as i8),
            keys: view.keys(),
            requires_grad: view.requires_grad(ask()?),
        })
    }

    /// Returns the first field in which a tensor with metadata `seen` differs, in the order of interest to users.
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

/// A [`Meta`] prepared for comparison.
pub struct Pattern {
    layout: &'static ImplLayout,
    ask: unsafe extern "C" fn(*const c_void) -> bool,
    dtype_device: u32,
    keys: u64,
    requires_grad: bool,
    dims: usize,
    /// Sizes, then strides, if all of them are static.
    fixed: Option<Box<[i64]>>,
    meta: Meta,
}

impl Pattern {
    /// Prepares metadata for comparison.
    ///
    /// # Errors
    /// If the layout of tensors was not learnt.
    pub fn new(meta: Meta) -> Result<Self, TorchError> {
        Ok(Self {
            layout: impl_layout::layout().ok_or_else(unknown)?,
            ask: ask()?,
            dtype_device: packed(meta.dtype, meta.device),
            keys: meta.keys,
            requires_grad: meta.requires_grad,
            dims: meta.sizes.len(),
            fixed: meta.sizes.iter().chain(&meta.strides).copied().collect(),
            meta,
        })
    }

    /// Returns the metadata that it was prepared from.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Returns true if a tensor matches.
    #[inline]
    #[must_use]
    pub fn matches(&self, tensor: TensorRef<'_>) -> bool {
        // SAFETY: as in `view`.
        let view = unsafe { ImplView::new(tensor.raw(), self.layout) };
        if view.dims() != self.dims || view.keys() != self.keys || view.dtype_device() != self.dtype_device {
            return false;
        }
        let (sizes, strides) = view.shape(self.dims);
        // SAFETY: both arrays have `dims` numbers.
        let same = unsafe {
            match &self.fixed {
                Some(fixed) => (0..self.dims).all(|d| sizes.add(d).read() == fixed[d] && strides.add(d).read() == fixed[self.dims + d]),
                None => (0..self.dims).all(|d| {
                    self.meta.sizes[d].is_none_or(|size| size == sizes.add(d).read())
                        && self.meta.strides[d].is_none_or(|stride| stride == strides.add(d).read())
                }),
            }
        };
        same && view.requires_grad(self.ask) == self.requires_grad
    }
}

impl Pattern {
    /// Passes to `name` the words of memory that decide if a tensor matches, given that it matches now: while all of them are unchanged, so
    /// is the result. Each is in memory owned by the tensor's `TensorImpl`, or is reached from there through a word named earlier. Returns
    /// false if the words are not known.
    pub fn evidence(&self, tensor: TensorRef<'_>, name: &mut dyn FnMut(*const u64)) -> bool {
        // SAFETY: as in `view`.
        let view = unsafe { ImplView::new(tensor.raw(), self.layout) };
        view.evidence(self.dims, |d| (self.meta.sizes[d].is_some(), self.meta.strides[d].is_some()), name)
    }
}

/// Returns the bytes per element for torch's number of a dtype; the numbers never change their meaning. If it is unknown, the largest size
/// is assumed.
fn element_bytes(dtype: u16) -> i64 {
    match dtype {
        0 | 1 | 11 | 12 | 13 | 23..=26 => 1,
        2 | 5 | 15 | 27 => 2,
        3 | 6 | 8 | 14 | 28 => 4,
        4 | 7 | 9 | 29 => 8,
        _ => 16,
    }
}

impl TensorRef<'_> {
    /// Returns the address range from its first byte to after its last one, half-open (low, high); empty for a tensor without elements.
    ///
    /// # Errors
    /// If the layout of tensors was not learnt, or the tensor does not have memory.
    pub fn extent(self) -> Result<(usize, usize), TorchError> {
        let meta = Meta::of(self)?;
        let (mut low, mut high) = (0_i64, 0_i64);
        for (size, stride) in meta.sizes.iter().zip(&meta.strides) {
            let (size, stride) = (size.unwrap_or(1), stride.unwrap_or(0));
            if size == 0 {
                return Ok((0, 0));
            }
            let reach = stride.saturating_mul(size - 1);
            if reach < 0 {
                low = low.saturating_add(reach);
            } else {
                high = high.saturating_add(reach);
            }
        }
        let (start, bytes) = (self.data_ptr()? as usize, element_bytes(meta.dtype));
        let at = |elements: i64| start.wrapping_add(elements.saturating_mul(bytes) as usize);
        Ok((at(low), at(high.saturating_add(1))))
    }

    /// Returns its storage and its offset in it.
    ///
    /// # Errors
    /// If the layout of tensors was not learnt.
    pub fn place(self) -> Result<StoragePosition, TorchError> {
        let view = view(self).ok_or_else(unknown)?;
        Ok(StoragePosition { storage: view.storage(), offset: view.storage_offset() })
    }
}
