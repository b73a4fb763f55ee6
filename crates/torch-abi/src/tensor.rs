//! Tensors: owned and borrowed handles, their metadata, and the few operations that need no schema.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use crate::{BelowAutograd, DType, Device, TorchAbi, TorchError};

/// The address of an `at::Tensor`.
pub type RawHandle = *mut c_void;

/// A borrowed tensor, alive for `'a`.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct TensorRef<'a> {
    handle: NonNull<c_void>,
    _owner: PhantomData<&'a ()>,
}

/// A tensor to which we hold a reference; dropping it releases the reference.
#[derive(Debug)]
#[repr(transparent)]
pub struct OwnedTensor {
    handle: NonNull<c_void>,
}

// SAFETY: a handle is a counted reference with an atomic count; torch lets any thread use and release it.
unsafe impl Send for OwnedTensor {}
// SAFETY: as for Send; we hand out metadata reads only.
unsafe impl Sync for OwnedTensor {}

impl Drop for OwnedTensor {
    fn drop(&mut self) {
        if let Ok(abi) = TorchAbi::get() {
            // SAFETY: we own this handle and no other code will delete it; a failure could not be reported to any caller.
            unsafe { (abi.f.delete)(self.handle.as_ptr()) };
        }
    }
}

impl OwnedTensor {
    /// Takes ownership of a *new* handle; `None` for null.
    ///
    /// # Safety
    /// The caller must own the handle and give it up.
    #[must_use]
    pub unsafe fn from_raw(handle: RawHandle) -> Option<Self> {
        NonNull::new(handle).map(|handle| Self { handle })
    }

    /// Gives the handle away: the receiver must delete it.
    #[must_use]
    pub fn into_raw(self) -> RawHandle {
        ManuallyDrop::new(self).handle.as_ptr()
    }

    /// Borrows the tensor.
    #[must_use]
    pub fn as_ref(&self) -> TensorRef<'_> {
        TensorRef { handle: self.handle, _owner: PhantomData }
    }
}

/// Reads one value through a getter of the C table.
macro_rules! get {
    ($self:ident, $getter:ident, $init:expr) => {{
        let abi = TorchAbi::get()?;
        let mut out = $init;
        // SAFETY: the handle is alive for 'a; the getter borrows it and writes one value.
        abi.check(unsafe { (abi.f.$getter)($self.handle.as_ptr(), &raw mut out) })?;
        out
    }};
}

impl<'a> TensorRef<'a> {
    /// Borrows a raw handle; `None` for null.
    ///
    /// # Safety
    /// The handle must be the address of an `at::Tensor` that lives for `'a`.
    #[must_use]
    pub unsafe fn from_raw(handle: RawHandle) -> Option<Self> {
        NonNull::new(handle).map(|handle| Self { handle, _owner: PhantomData })
    }

    /// Returns the address, still borrowed.
    #[must_use]
    pub fn raw(self) -> RawHandle {
        self.handle.as_ptr()
    }

    /// Returns true if it is a defined tensor; ops return undefined ones for outputs that were not requested.
    pub fn is_defined(self) -> Result<bool, TorchError> {
        Ok(get!(self, is_defined, false))
    }

    /// Returns the number of dimensions.
    pub fn dim(self) -> Result<usize, TorchError> {
        Ok(get!(self, dim, 0_i64) as usize)
    }

    /// Returns the number of elements.
    pub fn numel(self) -> Result<i64, TorchError> {
        Ok(get!(self, numel, 0_i64))
    }

    /// Returns the sizes, borrowed from the tensor: read them before it is resized.
    pub fn sizes(self) -> Result<&'a [i64], TorchError> {
        let data = get!(self, sizes, std::ptr::null_mut::<i64>());
        self.shape_slice(data)
    }

    /// Returns the strides in elements, borrowed like the sizes.
    pub fn strides(self) -> Result<&'a [i64], TorchError> {
        let data = get!(self, strides, std::ptr::null_mut::<i64>());
        self.shape_slice(data)
    }

    fn shape_slice(self, data: *const i64) -> Result<&'a [i64], TorchError> {
        let len = self.dim()?;
        if len == 0 || data.is_null() {
            return Ok(&[]);
        }
        // SAFETY: torch keeps `dim` values at this address for as long as the tensor lives and is not resized.
        Ok(unsafe { std::slice::from_raw_parts(data, len) })
    }

    /// Returns the element type; `None` for one that compiled code does not support.
    pub fn dtype(self) -> Result<Option<DType>, TorchError> {
        let code = get!(self, dtype, 0_i32);
        Ok(TorchAbi::get()?.codes.dtype(code))
    }

    /// Returns the storage offset in elements.
    pub fn storage_offset(self) -> Result<i64, TorchError> {
        Ok(get!(self, storage_offset, 0_i64))
    }

    /// Returns the size of the whole storage in bytes.
    pub fn storage_bytes(self) -> Result<i64, TorchError> {
        Ok(get!(self, storage_size, 0_i64))
    }

    /// Returns the address of element 0, including the storage offset.
    pub fn data_ptr(self) -> Result<*mut u8, TorchError> {
        Ok(get!(self, data_ptr, std::ptr::null_mut::<c_void>()).cast())
    }

    /// Returns the number that it holds, if it has one element of an integral type, or a bool, in CPU memory.
    pub fn whole_number(self) -> Result<Option<i64>, TorchError> {
        if self.numel()? != 1 || self.device()? != Some(Device::Cpu) {
            return Ok(None);
        }
        let (dtype, data) = (self.dtype()?, self.data_ptr()?);
        if data.is_null() {
            return Ok(None);
        }
        // SAFETY: torch keeps one element of this type at the address for as long as the tensor lives; every bit pattern is a number.
        Ok(unsafe {
            match dtype {
                Some(DType::I64) => Some(data.cast::<i64>().read_unaligned()),
                Some(DType::I32) => Some(data.cast::<i32>().read_unaligned().into()),
                Some(DType::I16) => Some(data.cast::<i16>().read_unaligned().into()),
                Some(DType::I8) => Some(data.cast::<i8>().read().into()),
                Some(DType::U8 | DType::Bool) => Some(data.read().into()),
                _ => None,
            }
        })
    }

    /// Returns another handle of the same tensor object.
    pub fn to_owned(self) -> Result<OwnedTensor, TorchError> {
        let abi = TorchAbi::get()?;
        abi.new_tensor(|out| {
            // SAFETY: borrows our live handle; the handle written is new.
            unsafe { (abi.f.new_handle)(self.raw(), out) }
        })
    }

    /// Returns a tensor over the same storage that is not a view of this one and has its own version counter. `offset` is absolute.
    pub fn reinterpret(self, sizes: &[i64], strides: &[i64], offset: i64) -> Result<OwnedTensor, TorchError> {
        let abi = TorchAbi::get()?;
        let dim = same_rank(sizes, strides)?;
        abi.new_tensor(|out| {
            // SAFETY: both arrays have `dim` values and are only read; the handle written is new.
            unsafe { (abi.f.reinterpret)(self.raw(), dim, sizes.as_ptr(), strides.as_ptr(), offset, out) }
        })
    }

    /// Returns a view like eager's: base, storage and version counter are shared. `offset` is absolute.
    ///
    /// Call it with the thread's own dispatch keys, not under [`BelowAutograd`].
    pub fn as_strided(self, sizes: &[i64], strides: &[i64], offset: i64) -> Result<OwnedTensor, TorchError> {
        let (abi, dim) = (TorchAbi::get()?, same_rank(sizes, strides)?);
        // A boxed call through the dispatcher takes a microsecond more.
        if let Some(direct) = abi.f.as_strided
            && self.dim()? as i64 == dim
            && self.storage_offset()? == offset
        {
            // SAFETY: both arrays have as many values as the tensor has dimensions and are only read; the handle written is new.
            return abi.new_tensor(|out| unsafe { direct(self.raw(), sizes.as_ptr(), strides.as_ptr(), out) });
        }
        crate::dispatcher::as_strided(abi, self, sizes, strides, offset)
    }

    /// Returns the slices of a tensor along its first dimension, as views with a single autograd node.
    pub fn unbind(self) -> Result<Vec<OwnedTensor>, TorchError> {
        crate::dispatcher::unbind(TorchAbi::get()?, self)
    }

    /// Splits a tensor along a dimension into parts of these sizes, as views with a single autograd node.
    pub fn split(self, sizes: &[i64], dim: usize) -> Result<Vec<OwnedTensor>, TorchError> {
        crate::dispatcher::split(TorchAbi::get()?, self, sizes, dim)
    }

    /// Copies `source` into this tensor, with torch's conversions and broadcasting.
    pub fn copy_from(self, source: TensorRef<'_>) -> Result<(), TorchError> {
        let abi = TorchAbi::get()?;
        // SAFETY: both handles are borrowed and alive; torch checks shapes.
        abi.check(unsafe { (abi.f.copy)(self.raw(), source.raw(), 0) })
    }

    /// Records that `times` in-place writes happened, so that autograd notices stale saved values. Moves no data.
    pub fn bump_version(self, times: i64) -> Result<(), TorchError> {
        if times == 0 {
            return Ok(());
        }
        let _below = BelowAutograd::counting_versions(TorchAbi::get()?);
        // A copy of a tensor to itself returns before it copies, but is counted. Unlike torch's own counter function, it reports an error
        // for an inference tensor as a status instead of a C++ exception.
        (0..times).try_for_each(|_| self.copy_from(self))
    }
}

fn same_rank(sizes: &[i64], strides: &[i64]) -> Result<i64, TorchError> {
    if sizes.len() == strides.len() {
        Ok(sizes.len() as i64)
    } else {
        Err(TorchError::new(format!("{} sizes but {} strides", sizes.len(), strides.len())))
    }
}

impl TorchAbi {
    pub(crate) fn new_tensor(&self, make: impl FnOnce(*mut RawHandle) -> i32) -> Result<OwnedTensor, TorchError> {
        let mut handle = std::ptr::null_mut();
        self.check(make(&raw mut handle))?;
        // SAFETY: `make` calls a function whose out value is a new handle.
        unsafe { OwnedTensor::from_raw(handle) }.ok_or_else(|| TorchError::new("torch returned no tensor"))
    }

    /// Creates a tensor with uninitialised memory on the CPU.
    pub fn empty_strided(&self, sizes: &[i64], strides: &[i64], dtype: DType) -> Result<OwnedTensor, TorchError> {
        self.empty_strided_on(Device::Cpu, sizes, strides, dtype)
    }

    /// Creates a 0-d `f64` tensor on the CPU with this value.
    pub fn scalar(&self, value: f64) -> Result<OwnedTensor, TorchError> {
        let made = self.empty_strided(&[], &[], DType::F64)?;
        let (bytes, memory) = (value.to_ne_bytes(), made.as_ref().data_ptr()?);
        // SAFETY: the memory of a new tensor of one `f64`, to which no other references exist.
        unsafe { memory.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(made)
    }

    /// Creates a CPU tensor of this length, all elements of which share one memory location. Its content must not be used.
    pub fn of_length(&self, length: i64) -> Result<OwnedTensor, TorchError> {
        // Separate locations for the inputs of a graph (up to this many), so that they do not overlap.
        static ELEMENTS: [AtomicI64; 256] = [const { AtomicI64::new(0) }; 256];
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let element = &ELEMENTS[NEXT.fetch_add(1, Ordering::Relaxed) % ELEMENTS.len()];
        // SAFETY: the layout spans one element, which lives forever.
        unsafe { self.from_blob(Device::Cpu, element.as_ptr().cast(), &[length], &[0], DType::I64) }
    }

    /// Creates a tensor with uninitialised memory from torch's own allocator.
    pub fn empty_strided_on(&self, device: Device, sizes: &[i64], strides: &[i64], dtype: DType) -> Result<OwnedTensor, TorchError> {
        let dim = same_rank(sizes, strides)?;
        let (kind, number) = self.numbers(device);
        self.new_tensor(|out| {
            // SAFETY: both arrays have `dim` values and are only read; the handle written is new.
            unsafe { (self.f.empty_strided)(dim, sizes.as_ptr(), strides.as_ptr(), self.codes.code(dtype), kind, number, out) }
        })
    }

    /// Creates a tensor over foreign memory on a device, whose element 0 is at `data`. It owns nothing.
    ///
    /// # Safety
    /// The memory must span the layout, and outlive every use of the tensor and of anything that shares its storage.
    pub unsafe fn from_blob(
        &self,
        device: Device,
        data: *mut u8,
        sizes: &[i64],
        strides: &[i64],
        dtype: DType,
    ) -> Result<OwnedTensor, TorchError> {
        let dim = same_rank(sizes, strides)?;
        let (dtype, (kind, number)) = (self.codes.code(dtype), self.numbers(device));
        self.new_tensor(|out| {
            // SAFETY: arrays as above; the caller vouches for the memory; no metadata is passed.
            unsafe {
                (self.f.from_blob)(
                    data.cast(),
                    dim,
                    sizes.as_ptr(),
                    strides.as_ptr(),
                    0,
                    dtype,
                    kind,
                    number,
                    out,
                    self.strided,
                    std::ptr::null(),
                    0,
                )
            }
        })
    }

    /// Bumps the version counter of a tensor that was just created on this thread, in the same inference mode.
    pub fn bump_fresh_version(&self, tensor: &OwnedTensor, times: i64) -> Result<(), TorchError> {
        let Some(bump) = self.f.bump_version else {
            return tensor.as_ref().bump_version(times);
        };
        for _ in 0..times {
            // SAFETY: borrows a live handle. It throws only for an inference tensor outside inference mode, which a tensor created here and
            // now is not.
            unsafe { bump(tensor.as_ref().raw()) };
        }
        Ok(())
    }
}
