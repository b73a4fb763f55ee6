//! The memory of one run: the workspace, the address table, and the tensor objects that extern calls see.
//!
//! Workspaces are kept between runs, so pages are faulted in once and tensor objects over workspace memory are made once.

use std::alloc;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicPtr, Ordering},
};

use dynamlir_torch_abi::{OwnedTensor, TensorRef, TorchAbi, TorchError};

use crate::lower::{Bind, Place, Program, Root, Source};
use crate::verify::Inputs;

const ALIGNMENT: usize = 64;

/// Memory aligned for vector code.
pub(crate) struct Block {
    data: NonNull<u8>,
    layout: alloc::Layout,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Block {}

impl Block {
    pub(crate) fn new(bytes: usize) -> Result<Self, String> {
        let layout = alloc::Layout::from_size_align(bytes.max(ALIGNMENT), ALIGNMENT).map_err(|e| e.to_string())?;
        // SAFETY: the size is not zero.
        let data = NonNull::new(unsafe { alloc::alloc(layout) });
        data.map(|data| Self { data, layout }).ok_or_else(|| format!("there is no memory for a workspace of {bytes} bytes"))
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.data.as_ptr()
    }

    fn contains(&self, p: *const u8) -> bool {
        (p as usize).wrapping_sub(self.data.as_ptr() as usize) < self.layout.size()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { alloc::dealloc(self.data.as_ptr(), self.layout) }
    }
}

/// A tensor object over memory it does not own, valid while its element 0 stays where it was.
struct Cached {
    first: *mut u8,
    tensor: OwnedTensor,
}

/// Everything one run needs; used by one thread at a time.
pub(crate) struct Workspace {
    /// Tensor objects before the memory they look at.
    handles: Vec<Option<Cached>>,
    pub slots: Vec<Option<OwnedTensor>>,
    slot_pointers: Vec<*mut u8>,
    pub inputs: Inputs,
    addresses: Vec<*mut c_void>,
    block: Block,
}

// SAFETY: the pointers are addresses used during a run, by the one thread that holds the workspace.
unsafe impl Send for Workspace {}

fn bind(addresses: &mut [*mut c_void], binds: &[Bind], root: *mut u8) {
    for &(index, bytes) in binds {
        addresses[index] = root.wrapping_offset(bytes as isize).cast();
    }
}

impl Workspace {
    pub(crate) fn new(program: &Program, bytes: usize) -> Result<Self, String> {
        let mut addresses = vec![std::ptr::null_mut(); program.addresses];
        let block = Block::new(bytes)?;
        bind(&mut addresses, &program.workspace_binds, block.start());
        Ok(Self {
            handles: program.handles.iter().map(|_| None).collect(),
            slots: program.slots.iter().map(|_| None).collect(),
            slot_pointers: vec![std::ptr::null_mut(); program.slots.len()],
            inputs: Inputs::default(),
            addresses,
            block,
        })
    }

    /// Makes the verified inputs' addresses known to the launches.
    pub(crate) fn bind_inputs(&mut self, program: &Program) {
        for (binds, &pointer) in program.input_binds.iter().zip(&self.inputs.pointers) {
            bind(&mut self.addresses, binds, pointer);
        }
    }

    /// Puts a tensor into its slot and its address into the launches.
    pub(crate) fn fill(&mut self, program: &Program, slot: usize, tensor: OwnedTensor) -> Result<(), TorchError> {
        let pointer = tensor.as_ref().data_ptr()?;
        self.slot_pointers[slot] = pointer;
        bind(&mut self.addresses, &program.slot_binds[slot], pointer);
        self.slots[slot] = Some(tensor);
        Ok(())
    }

    /// The row of addresses that starts at `row`.
    #[inline]
    pub(crate) fn row(&self, row: usize) -> *const *mut c_void {
        self.addresses.as_ptr().wrapping_add(row)
    }

    /// Whether an address lies in the workspace, where nothing may outlive the run.
    pub(crate) fn contains(&self, p: *const u8) -> bool {
        self.block.contains(p)
    }

    /// Makes sure that the tensor object of a source exists.
    pub(crate) fn prepare(&mut self, abi: &TorchAbi, program: &Program, source: Source) -> Result<(), TorchError> {
        let Source::Handle(handle) = source else {
            return Ok(());
        };
        let place = &program.handles[handle];
        let first = self.first(place);
        if self.handles[handle].as_ref().is_none_or(|c| c.first != first) {
            let layout = &place.layout;
            // SAFETY: the plan's bounds were checked when it was lowered, those of inputs when they were verified; the object
            // is used while its root is alive, and replaced when the address is another one.
            let tensor = unsafe { abi.from_blob(first, &layout.sizes, &layout.strides, layout.dtype) }?;
            self.handles[handle] = Some(Cached { first, tensor });
        }
        Ok(())
    }

    fn first(&self, place: &Place) -> *mut u8 {
        let root = match place.root {
            Root::Workspace => self.block.start(),
            Root::Input(i) => self.inputs.pointers[i],
            Root::Slot(s) => self.slot_pointers[s],
        };
        root.wrapping_offset(place.first() as isize)
    }

    /// The tensor object of a prepared source.
    pub(crate) fn tensor<'a>(&'a self, source: Source, inputs: &[TensorRef<'a>]) -> Result<TensorRef<'a>, TorchError> {
        let tensor = match source {
            Source::Input(i) => return Ok(inputs[i]),
            Source::Slot(s) => self.slots[s].as_ref(),
            Source::Handle(h) => self.handles[h].as_ref().map(|c| &c.tensor),
        };
        tensor.map(OwnedTensor::as_ref).ok_or_else(|| TorchError::new("a tensor is used before it is made"))
    }

    /// Drops the tensor objects of these sources: somebody has changed them.
    pub(crate) fn forget(&mut self, sources: &[Source]) {
        for source in sources {
            match *source {
                Source::Handle(h) => self.handles[h] = None,
                Source::Slot(s) => self.slots[s] = None,
                Source::Input(_) => {}
            }
        }
    }

    /// Drops what belongs to a finished run.
    pub(crate) fn clear(&mut self) {
        self.slots.iter_mut().for_each(|s| *s = None);
    }
}

/// Workspaces between runs.
#[derive(Default)]
pub(crate) struct Pool {
    /// The one that was used last, where a single thread runs at a time; null when it is in use.
    last: AtomicPtr<Workspace>,
    #[expect(clippy::vec_box, reason = "a workspace is many words, and they are handed over boxed")]
    others: Mutex<Vec<Box<Workspace>>>,
}

impl Pool {
    pub(crate) fn take(&self) -> Option<Box<Workspace>> {
        let last = self.last.swap(std::ptr::null_mut(), Ordering::Acquire);
        if last.is_null() {
            return self.others.lock().unwrap_or_else(PoisonError::into_inner).pop();
        }
        // SAFETY: `put` gave this address away, and the swap took it out: nobody else has it.
        Some(unsafe { Box::from_raw(last) })
    }

    pub(crate) fn put(&self, workspace: Box<Workspace>) {
        let before = self.last.swap(Box::into_raw(workspace), Ordering::AcqRel);
        if !before.is_null() {
            // SAFETY: as in `take`.
            let before = unsafe { Box::from_raw(before) };
            self.others.lock().unwrap_or_else(PoisonError::into_inner).push(before);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_know_their_bounds() {
        let block = Block::new(1000).expect("memory");
        assert_eq!(block.start() as usize % ALIGNMENT, 0);
        assert!(block.contains(block.start().wrapping_add(999)));
        assert!(!block.contains(block.start().wrapping_add(1000)) && !block.contains(block.start().wrapping_sub(1)));
        assert!(Block::new(usize::MAX).is_err());
    }
}
