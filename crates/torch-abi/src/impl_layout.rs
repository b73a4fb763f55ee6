//! The layout of a tensor's metadata in `TensorImpl`, learnt from samples.
//!
//! The C ABI has a getter for most of it, at about two nanoseconds each, but none for the dispatch keys. The offsets differ between
//! versions of torch. So nothing is read before a unique pattern has been found in tensors whose metadata is known from Python, and every
//! field of every sample agrees.

use std::ffi::c_void;
use std::sync::OnceLock;

use crate::{RawHandle, TensorRef, TorchError};

/// The autograd state of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Autograd {
    /// It never took part in autograd.
    Absent,
    /// A leaf that no longer requires a gradient.
    Leaf,
    /// A leaf that requires a gradient.
    RequiresGrad,
    /// Computed from a tensor that requires a gradient.
    Computed,
}

/// A live tensor and its properties as reported by Python.
#[derive(Debug, Clone)]
pub struct TensorSample {
    /// `tensor._cdata`: the address of its `TensorImpl`.
    pub cdata: usize,
    /// `tensor.shape`
    pub sizes: Vec<i64>,
    /// `tensor.stride()`
    pub strides: Vec<i64>,
    /// `tensor.storage_offset()`
    pub storage_offset: i64,
    /// `tensor.device.type` as torch numbers it, and `tensor.device.index` or -1.
    pub device: (i8, i8),
    /// `torch._C._dispatch_keys(tensor).raw_repr()`
    pub keys: u64,
    /// Its autograd state.
    pub autograd: Autograd,
    /// `tensor.untyped_storage()._cdata`
    pub storage: usize,
    /// `tensor.data_ptr()`
    pub data: usize,
    /// `tensor.element_size()`
    pub element_bytes: usize,
    /// `tensor.untyped_storage().nbytes()`
    pub storage_bytes: usize,
}

/// The number of sizes and strides stored inside `TensorImpl`; more are in a separate array, sizes first.
pub(crate) const INLINE: usize = 5;

/// The number of words of a `TensorImpl` to search, if it has that many.
const SEARCHED: usize = 24;

/// Offsets in `TensorImpl`, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImplLayout {
    /// The number of dimensions; inline sizes and strides follow it.
    pub dims: usize,
    pub storage_offset: usize,
    /// `uint16_t` dtype, then device type and index, each an `int8_t`.
    pub dtype_device: usize,
    pub keys: usize,
    pub storage: usize,
    pub autograd_meta: usize,
    pub grad: Option<GradLayout>,
    /// In `StorageImpl`: the address of its memory, and its size in bytes.
    pub memory: Option<MemoryLayout>,
    /// Every dispatch key that ordinary tensors on the CPU or on CUDA have.
    pub plain_keys: u64,
}

/// Offsets in `AutogradMeta`: a gradient is required if the byte is set or the word is nonzero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GradLayout {
    /// The offset in bytes.
    pub requires_grad: usize,
    /// The offset in words.
    pub grad_fn: usize,
}

/// Offsets in `StorageImpl`, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryLayout {
    pub data: usize,
    pub bytes: usize,
}

/// The number of words of a `StorageImpl` to search: it is longer in every supported version.
const STORAGE_SEARCHED: usize = 8;

/// The number of words of an `AutogradMeta` to search: it is longer in every supported version.
const AUTOGRAD_SEARCHED: usize = 19;

static LAYOUT: OnceLock<ImplLayout> = OnceLock::new();

/// The bit of `ADInplaceOrView` among a tensor's dispatch keys, which inference tensors lack.
static VIEW_BIT: OnceLock<u64> = OnceLock::new();

/// Returns the layout, once [`learn`] has succeeded.
#[inline]
pub(crate) fn layout() -> Option<&'static ImplLayout> {
    LAYOUT.get()
}

/// Learns the layout from samples; the first success is final. `view_bit` is the raw representation of a set with the single key
/// `ADInplaceOrView`. `cuda_keys` is that of the keys of ordinary CUDA tensors, for which there may be no samples.
///
/// # Errors
/// If no layout explains all samples.
///
/// # Safety
/// Each `cdata` must be the address of a live `TensorImpl`.
pub unsafe fn learn(samples: &[TensorSample], view_bit: u64, cuda_keys: u64) -> Result<(), TorchError> {
    // The length of a `TensorImpl` differs between versions; each is a heap block.
    //
    // SAFETY: the caller passes live tensors, which were allocated by `operator new`.
    let length = |sample: &TensorSample| unsafe { libc::malloc_usable_size(sample.cdata as *mut libc::c_void) } / size_of::<u64>();
    let searched = samples.iter().map(length).min().unwrap_or(0).min(SEARCHED);
    // SAFETY: as the caller promises; none is shorter than that.
    let mut found = unsafe { find(samples, searched) }?;
    found.plain_keys |= cuda_keys;
    VIEW_BIT.get_or_init(|| view_bit);
    LAYOUT.get_or_init(|| found);
    Ok(())
}

/// # Safety
/// As for [`learn`]; each sample must have at least `searched` words.
unsafe fn find(samples: &[TensorSample], searched: usize) -> Result<ImplLayout, TorchError> {
    let none = |what: &str| TorchError::new(format!("the layout of this torch's tensors is unknown: {what}"));
    let inline: Vec<_> = samples.iter().filter(|s| s.sizes.len() <= INLINE).collect();
    if !inline.iter().any(|s| s.sizes.len() >= 2 && s.storage_offset > 0) || inline.len() == samples.len() {
        return Err(none("the samples do not tell fields apart"));
    }
    // SAFETY: no sample is shorter than the searched part.
    let word = |sample: &TensorSample, at: usize| unsafe { (sample.cdata as *const u64).add(at).read() };
    let one = |what: &str, fits: &dyn Fn(&TensorSample, usize) -> bool| {
        let mut places = (1..searched).filter(|&at| samples.iter().all(|s| fits(s, at)));
        let place = places.next().ok_or_else(|| none(what))?;
        if places.next().is_some() { Err(none(what)) } else { Ok(place) }
    };
    let shape = 1 + 2 * INLINE;
    let dims = one("sizes", &|s, at| {
        at + shape <= searched
            && word(s, at) == s.sizes.len() as u64
            && (s.sizes.len() > INLINE
                || (0..s.sizes.len())
                    .all(|d| word(s, at + 1 + d) == s.sizes[d] as u64 && word(s, at + 1 + INLINE + d) == s.strides[d] as u64))
    })?;
    let storage_offset = one("storage offset", &|s, at| at == dims + shape && word(s, at) == s.storage_offset as u64)?;
    let keys = one("dispatch keys", &|s, at| at > storage_offset && word(s, at) == s.keys)?;
    let dtype_device = one("device", &|s, at| {
        at > storage_offset && at < keys && {
            let [_, _, kind, index, engaged, ..] = word(s, at).to_le_bytes();
            (kind as i8, index as i8, engaged) == (s.device.0, s.device.1, 1)
        }
    })?;
    let storage = one("storage", &|s, at| at < dims && word(s, at) == s.storage as u64)?;
    // `std::unique_ptr<AutogradMetaInterface>`: null in tensors that never took part in autograd.
    let autograd_meta = one("autograd", &|s, at| at > storage && at < dims && (word(s, at) != 0) == (s.autograd != Autograd::Absent))?;
    for sample in samples.iter().filter(|s| s.sizes.len() > INLINE) {
        let array = word(sample, dims + 1) as *const i64;
        let numbers = sample.sizes.iter().chain(&sample.strides);
        // SAFETY: more dimensions than fit inside are in an array that the first inline word points to.
        if array.is_null() || !numbers.enumerate().all(|(i, &n)| unsafe { array.add(i).read() } == n) {
            return Err(none("sizes of many dimensions"));
        }
    }
    // SAFETY: as the caller promises; the offset of the autograd metadata is now known.
    let grad = unsafe { find_grad(samples, autograd_meta) };
    // SAFETY: as the caller promises.
    let memory = unsafe { find_memory(samples) };
    let plain_keys = samples.iter().filter(|s| s.device.0 == 0).fold(0, |keys, s| keys | s.keys);
    Ok(ImplLayout { dims, storage_offset, dtype_device, keys, storage, autograd_meta, grad, memory, plain_keys })
}

/// Finds the offsets of the memory's address and size in `StorageImpl`; `None` if the samples do not determine them.
///
/// # Safety
/// As for [`learn`].
unsafe fn find_memory(samples: &[TensorSample]) -> Option<MemoryLayout> {
    // SAFETY: the samples' storages are alive, and a `StorageImpl` is longer than the searched part.
    let stored = |s: &TensorSample, at: usize| unsafe { (s.storage as *const usize).add(at).read() };
    let start = |s: &TensorSample| s.data - s.storage_offset as usize * s.element_bytes;
    let with_memory: Vec<_> = samples.iter().filter(|s| s.data != 0).collect();
    let place = |fits: &dyn Fn(&TensorSample, usize) -> bool| (1..STORAGE_SEARCHED).find(|&at| with_memory.iter().all(|s| fits(s, at)));
    // The address may occur twice (also as the pointer to free): the first one is used.
    let data = place(&|s, at| stored(s, at) == start(s)).filter(|_| with_memory.len() > 2)?;
    let bytes = place(&|s, at| stored(s, at) == s.storage_bytes)?;
    Some(MemoryLayout { data, bytes })
}

/// Finds the offsets in `AutogradMeta` that say if a gradient is required; `None` if the samples do not determine them.
///
/// # Safety
/// As for [`learn`].
unsafe fn find_grad(samples: &[TensorSample], autograd_meta: usize) -> Option<GradLayout> {
    let with: Vec<_> = samples.iter().filter(|s| s.autograd != Autograd::Absent).collect();
    let has = |kind: Autograd| with.iter().filter(|s| s.autograd == kind).count() > 1;
    if !has(Autograd::Leaf) || !has(Autograd::RequiresGrad) || !has(Autograd::Computed) {
        return None;
    }
    // SAFETY: the word points to the sample's AutogradMeta, which is longer than the searched part.
    let meta = |s: &TensorSample| unsafe { (s.cdata as *const *const u64).add(autograd_meta).read() };
    // SAFETY: as above.
    let byte = |s: &TensorSample, at: usize| unsafe { meta(s).cast::<u8>().add(at).read() };
    // SAFETY: as above.
    let word = |s: &TensorSample, at: usize| unsafe { meta(s).add(at).read() };
    let mut bytes =
        (8..8 * AUTOGRAD_SEARCHED).filter(|&at| with.iter().all(|s| byte(s, at) == u8::from(s.autograd == Autograd::RequiresGrad)));
    let requires_grad = bytes.next()?;
    let mut words = (1..AUTOGRAD_SEARCHED).filter(|&at| with.iter().all(|s| (word(s, at) != 0) == (s.autograd == Autograd::Computed)));
    // A `shared_ptr` is two words, the first of which is the pointer.
    let grad_fn = words.next()?;
    (bytes.next().is_none()).then_some(GradLayout { requires_grad, grad_fn })
}

/// A read-only view of a tensor's metadata through the layout.
#[derive(Clone, Copy)]
pub(crate) struct ImplView {
    at: *const u64,
    layout: &'static ImplLayout,
}

impl ImplView {
    /// # Safety
    /// The handle must be the address of a live, defined `at::Tensor`, which outlives the view.
    #[inline]
    pub unsafe fn new(handle: RawHandle, layout: &'static ImplLayout) -> Self {
        // SAFETY: `at::Tensor` is one pointer to its `TensorImpl`.
        Self { at: unsafe { handle.cast::<*const u64>().read() }, layout }
    }

    #[inline]
    fn word(self, place: usize) -> u64 {
        // SAFETY: the offset was learnt, so it is inside the `TensorImpl`, which is alive (see `new`).
        unsafe { self.at.add(place).read() }
    }

    #[inline]
    pub fn dims(self) -> usize {
        self.word(self.layout.dims) as usize
    }

    /// Returns sizes and strides, `dims` numbers each.
    #[inline]
    pub fn shape(self, dims: usize) -> (*const i64, *const i64) {
        // SAFETY: as in `word`; the arrays follow the number of dimensions, or are where the first word points.
        unsafe {
            let inline = self.at.add(self.layout.dims + 1).cast::<i64>();
            if dims <= INLINE {
                (inline, inline.add(INLINE))
            } else {
                let array = inline.cast::<*const i64>().read();
                (array, array.add(dims))
            }
        }
    }

    /// Returns dtype, device type and device index in one number.
    #[inline]
    pub fn dtype_device(self) -> u32 {
        self.word(self.layout.dtype_device) as u32
    }

    #[inline]
    pub fn keys(self) -> u64 {
        self.word(self.layout.keys)
    }

    #[inline]
    pub fn storage(self) -> usize {
        self.word(self.layout.storage) as usize
    }

    #[inline]
    pub fn storage_offset(self) -> i64 {
        self.word(self.layout.storage_offset) as i64
    }

    /// Returns the address of the storage's memory, and its size in bytes, if these can be read. Copy-on-write memory is not copied.
    #[inline]
    pub fn memory(self) -> Option<(*mut u8, i64)> {
        let place = self.layout.memory?;
        let storage = self.storage() as *const u64;
        if storage.is_null() {
            return None;
        }
        // SAFETY: the tensor keeps its storage alive, and the offsets were learnt.
        let (data, bytes) = unsafe { (storage.add(place.data).cast::<*mut u8>().read(), storage.add(place.bytes).cast::<i64>().read()) };
        // A size that is not a plain number has its high bits set.
        (bytes >= 0).then_some((data, bytes))
    }

    /// Passes to `name` the words that hold a tensor's metadata: see [`crate::Pattern::evidence`]. `matters` says for a dimension if its
    /// size and its stride matter.
    pub fn evidence(self, dims: usize, matters: impl Fn(usize) -> (bool, bool), name: &mut dyn FnMut(*const u64)) -> bool {
        let Some(grad) = self.layout.grad else { return false };
        let at = |place: usize| self.at.wrapping_add(place);
        name(at(self.layout.dims));
        if dims > INLINE {
            // The address of the array.
            name(at(self.layout.dims + 1));
        }
        let (sizes, strides) = self.shape(dims);
        for d in 0..dims {
            let (size, stride) = matters(d);
            if size {
                name(sizes.wrapping_add(d).cast());
            }
            if stride {
                name(strides.wrapping_add(d).cast());
            }
        }
        name(at(self.layout.dtype_device));
        name(at(self.layout.keys));
        name(at(self.layout.autograd_meta));
        let meta = self.word(self.layout.autograd_meta) as *const u64;
        if !meta.is_null() {
            // The word that contains the byte: its other bytes are flags that rarely change.
            name(meta.wrapping_add(grad.requires_grad / 8));
            name(meta.wrapping_add(grad.grad_fn));
        }
        true
    }

    /// Returns true if a gradient is required. `ask` is torch's own function, used if the offsets could not be learnt.
    #[inline]
    pub fn requires_grad(self, ask: unsafe extern "C" fn(*const c_void) -> bool) -> bool {
        let meta = self.word(self.layout.autograd_meta) as *const u64;
        if meta.is_null() {
            return false;
        }
        match self.layout.grad {
            // SAFETY: these offsets were learnt, so they are inside the tensor's AutogradMeta.
            Some(at) => unsafe { meta.cast::<u8>().add(at.requires_grad).read() != 0 || meta.add(at.grad_fn).read() != 0 },
            // SAFETY: a const member function of a live TensorImpl.
            None => unsafe { ask(self.at.cast()) },
        }
    }
}

impl TensorRef<'_> {
    fn view(self) -> Result<ImplView, TorchError> {
        let layout = layout().ok_or_else(|| TorchError::new("the layout of this torch's tensors was not learnt"))?;
        // SAFETY: a TensorRef is a live handle; undefined tensors point to a singleton that is a TensorImpl too.
        Ok(unsafe { ImplView::new(self.raw(), layout) })
    }

    /// Returns true if it was created in inference mode, and so does not track versions and bases.
    ///
    /// # Errors
    /// If the layout of tensors was not learnt.
    pub fn is_inference(self) -> Result<bool, TorchError> {
        Ok(self.view()?.keys() & VIEW_BIT.get().copied().unwrap_or_default() == 0)
    }

    /// Returns the address of element 0, for reading, and the number of bytes of its storage before it and from it on. Copy-on-write memory
    /// stays shared. `None` if these cannot be read without torch's help.
    #[inline]
    #[must_use]
    pub fn readable(self, element_bytes: i64) -> Option<Readable> {
        let view = self.view().ok()?;
        let (start, bytes) = view.memory()?;
        let before = view.storage_offset().checked_mul(element_bytes)?;
        Some(Readable { first: start.wrapping_offset(before as isize), before, after: bytes - before })
    }
}

/// The memory of a tensor: see [`TensorRef::readable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readable {
    /// The address of element 0.
    pub first: *const u8,
    /// The bytes of the storage before element 0.
    pub before: i64,
    /// The bytes of the storage from element 0 on.
    pub after: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fake `TensorImpl`: 24 words.
    type Fake = [u64; 24];

    fn sample(memory: &mut Fake, sizes: &[i64], strides: &[i64], outer: &[i64], autograd: Autograd) -> TensorSample {
        memory[2] = memory.as_ptr() as u64;
        memory[3] = u64::from(autograd != Autograd::Absent) * 0x6000;
        memory[7] = sizes.len() as u64;
        if sizes.len() <= INLINE {
            for d in 0..sizes.len() {
                (memory[8 + d], memory[13 + d]) = (sizes[d] as u64, strides[d] as u64);
            }
        } else {
            memory[8] = outer.as_ptr() as u64;
        }
        (memory[18], memory[19], memory[20], memory[21]) = (13, 99, 0x0001_ff00_0006, 0xabcd);
        TensorSample {
            cdata: memory.as_ptr() as usize,
            sizes: sizes.to_vec(),
            strides: strides.to_vec(),
            storage_offset: 13,
            device: (0, -1),
            keys: 0xabcd,
            autograd,
            storage: memory.as_ptr() as usize,
            data: 0,
            element_bytes: 4,
            storage_bytes: 0,
        }
    }

    #[test]
    fn a_layout_that_explains_all_samples_is_found() {
        let (mut a, mut b, mut c) = ([0; 24], [0; 24], [0; 24]);
        let six = [1, 2, 3, 4, 5, 6, 60, 50, 40, 30, 20, 10];
        let samples = [
            sample(&mut a, &[3, 5], &[7, 40], &[], Autograd::Absent),
            sample(&mut b, &six[..6], &six[6..], &six, Autograd::Absent),
            sample(&mut c, &[2, 2], &[2, 1], &[], Autograd::RequiresGrad),
        ];
        // SAFETY: the fakes are as long as the searched part.
        let layout = unsafe { find(&samples, SEARCHED) }.expect("a layout");
        let (grad, memory, plain_keys) = (None, None, 0xabcd);
        assert_eq!(
            layout,
            ImplLayout { dims: 7, storage_offset: 18, dtype_device: 20, keys: 21, storage: 2, autograd_meta: 3, grad, memory, plain_keys }
        );
    }

    #[test]
    fn a_sample_that_disagrees_is_refused() {
        let (mut a, mut b) = ([0; 24], [0; 24]);
        let six = [1, 2, 3, 4, 5, 6, 60, 50, 40, 30, 20, 10];
        let mut samples =
            [sample(&mut a, &[3, 5], &[7, 40], &[], Autograd::Absent), sample(&mut b, &six[..6], &six[6..], &six, Autograd::RequiresGrad)];
        samples[1].keys = 0xabce;
        // SAFETY: as above.
        assert!(unsafe { find(&samples, SEARCHED) }.is_err());
    }
}
