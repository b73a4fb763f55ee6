//! The memory of one run: the workspace, the address table, and the tensor objects passed to extern calls.
//!
//! Workspaces are kept between runs, so pages are faulted in once and tensor objects over workspace memory are created once. The memory of
//! large ones is shared by all graphs in turn, and the amount kept has a limit: a program with a hundred graphs needs as much as the
//! largest, as it does in eager. On a device, memory is torch's, and is returned after each run: another run may be on another stream, and
//! nothing waits.

use std::alloc;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicPtr, Ordering},
};

use dynamlir_torch_abi::{DType, Device, OwnedTensor, TensorRef, TorchAbi, TorchError};

use crate::lower::{Bind, Program, Root, Source, TensorPlace};
use crate::verify::Inputs;

const ALIGNMENT: usize = 64;

/// The size from which a workspace is large: finding memory takes a tenth of a microsecond, writing that much takes fifty.
const LARGE: usize = 1 << 20;

/// The number of bytes of large workspaces that are kept while no run uses them. Memory beyond that is faulted in anew by each run, as is
/// the memory of eager's results.
const KEPT: usize = 512 << 20;

/// The memory of the large workspaces of all graphs.
static LARGE_BLOCKS: Blocks = Blocks(Mutex::new(Vec::new()));

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

    fn bytes(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { alloc::dealloc(self.data.as_ptr(), self.layout) }
    }
}

/// A tensor object over memory it does not own, valid while the address of its element 0 is unchanged.
struct Cached {
    first: *mut u8,
    tensor: OwnedTensor,
}

/// Everything that one run needs; used by one thread at a time.
pub(crate) struct Workspace {
    /// Tensor objects, declared (and so dropped) before their memory.
    handles: Vec<Option<Cached>>,
    pub slots: Vec<Option<OwnedTensor>>,
    slot_pointers: Vec<*mut u8>,
    pub inputs: Inputs,
    addresses: Vec<*mut c_void>,
    memory: Memory,
}

/// The memory of a workspace.
enum Memory {
    Host(Block),
    /// Shared by several graphs in turn, held during a run: the required size, and its source unless it is large.
    Shared {
        blocks: Arc<Blocks>,
        bytes: usize,
        held: Option<Block>,
    },
    /// Torch's, held during a run: its address and size.
    Device {
        device: Device,
        bytes: usize,
        held: Option<(OwnedTensor, *mut u8)>,
    },
}

impl Memory {
    fn start(&self) -> *mut u8 {
        match self {
            Self::Host(block) => block.start(),
            Self::Shared { held, .. } => held.as_ref().map_or(std::ptr::null_mut(), Block::start),
            Self::Device { held, .. } => held.as_ref().map_or(std::ptr::null_mut(), |(_, start)| *start),
        }
    }

    fn contains(&self, p: *const u8) -> bool {
        let (start, bytes) = match self {
            Self::Host(block) | Self::Shared { held: Some(block), .. } => (block.start(), block.bytes()),
            Self::Shared { held: None, .. } => return false,
            Self::Device { bytes, held, .. } => match held {
                Some((_, start)) => (*start, *bytes),
                None => return false,
            },
        };
        (p as usize).wrapping_sub(start as usize) < bytes
    }
}

// SAFETY: the pointers are addresses used during a run, by the one thread that holds the workspace.
unsafe impl Send for Workspace {}

fn bind(addresses: &mut [*mut c_void], binds: &[Bind], root: *mut u8) {
    for &(index, bytes) in binds {
        addresses[index] = root.wrapping_offset(bytes as isize).cast();
    }
}

impl Workspace {
    pub(crate) fn new(program: &Program, bytes: usize, blocks: Option<&Arc<Blocks>>) -> Result<Self, String> {
        let memory = match (program.device, blocks) {
            (Device::Cpu, Some(blocks)) => Memory::Shared { blocks: Arc::clone(blocks), bytes, held: None },
            (Device::Cpu, None) if bytes >= LARGE => Memory::Shared { blocks: Arc::default(), bytes, held: None },
            (Device::Cpu, None) => Memory::Host(Block::new(bytes)?),
            (device @ Device::Cuda(_), _) => Memory::Device { device, bytes, held: None },
        };
        let (handles, slots, slot_pointers, addresses) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut made = Self { handles, slots, slot_pointers, inputs: Inputs::default(), addresses, memory };
        made.fit(program);
        if let Memory::Host(block) = &made.memory {
            bind(&mut made.addresses, &program.workspace_binds, block.start());
        }
        Ok(made)
    }

    /// Makes room for this program, and clears everything of another one.
    fn fit(&mut self, program: &Program) {
        self.handles.clear();
        self.handles.resize_with(program.handles.len(), || None);
        self.slots.clear();
        self.slots.resize_with(program.slots.len(), || None);
        self.slot_pointers.clear();
        self.slot_pointers.resize(program.slots.len(), std::ptr::null_mut());
        self.addresses.clear();
        self.addresses.resize(program.addresses, std::ptr::null_mut());
        for &(index, size) in &program.sizes {
            self.addresses[index] = std::ptr::without_provenance_mut(size as usize);
        }
    }

    /// Returns the workspace for another program with this size; None if it has memory of its own.
    pub(crate) fn renewed(mut self: Box<Self>, program: &Program, bytes: usize) -> Option<Box<Self>> {
        let Memory::Shared { bytes: needed, .. } = &mut self.memory else { return None };
        *needed = bytes;
        self.fit(program);
        Some(self)
    }

    /// Acquires the memory, if it is a device's or shared.
    pub(crate) fn hold(&mut self, abi: &TorchAbi, program: &Program) -> Result<(), TorchError> {
        match &mut self.memory {
            Memory::Shared { blocks, bytes, held } => {
                let block = Blocks::of(blocks, *bytes).take(*bytes).map_err(TorchError::new)?;
                bind(&mut self.addresses, &program.workspace_binds, block.start());
                *held = Some(block);
            }
            Memory::Device { device, bytes, held } if *bytes > 0 => {
                let tensor = abi.empty_strided_on(*device, &[*bytes as i64], &[1], DType::U8)?;
                let start = tensor.as_ref().data_ptr()?;
                *held = Some((tensor, start));
                bind(&mut self.addresses, &program.workspace_binds, start);
            }
            Memory::Host(_) | Memory::Device { .. } => {}
        }
        Ok(())
    }

    /// Writes the addresses of the verified inputs into the address table.
    pub(crate) fn bind_inputs(&mut self, program: &Program) {
        for &(input, (index, bytes)) in &program.input_binds {
            self.addresses[index] = self.inputs.pointers[input].wrapping_offset(bytes as isize).cast();
        }
    }

    /// Puts a tensor into its slot, and its address into the address table.
    pub(crate) fn fill(&mut self, program: &Program, slot: usize, tensor: OwnedTensor) -> Result<(), TorchError> {
        let pointer = tensor.as_ref().data_ptr()?;
        self.slot_pointers[slot] = pointer;
        bind(&mut self.addresses, &program.slot_binds[slot], pointer);
        self.slots[slot] = Some(tensor);
        Ok(())
    }

    /// Returns an entry of the address table.
    pub(crate) fn address(&self, entry: usize) -> *mut c_void {
        self.addresses[entry]
    }

    /// Returns the row of addresses that starts at `row`.
    #[inline]
    pub(crate) fn row(&self, row: usize) -> *const *mut c_void {
        self.addresses.as_ptr().wrapping_add(row)
    }

    /// Returns true if an address is in the workspace, whose contents must not outlive the run.
    pub(crate) fn contains(&self, p: *const u8) -> bool {
        self.memory.contains(p)
    }

    /// Ensures that the tensor object of a source exists.
    pub(crate) fn prepare(&mut self, abi: &TorchAbi, program: &Program, source: Source) -> Result<(), TorchError> {
        let Source::Handle(handle) = source else {
            return Ok(());
        };
        let place = &program.handles[handle];
        let first = self.first(place);
        if self.handles[handle].as_ref().is_none_or(|c| c.first != first) {
            let layout = &place.layout;
            // SAFETY: the plan's bounds were checked when it was lowered, those of inputs when they were verified; the object is used while
            // its root is alive, and replaced when the address changes.
            let tensor = unsafe { abi.from_blob(program.device, first, &layout.window.sizes, &layout.window.strides, layout.dtype) }?;
            self.handles[handle] = Some(Cached { first, tensor });
        }
        Ok(())
    }

    fn first(&self, place: &TensorPlace) -> *mut u8 {
        let root = match place.root {
            Root::Workspace => self.memory.start(),
            Root::Input(i) => self.inputs.pointers[i],
            Root::Slot(s) => self.slot_pointers[s],
        };
        root.wrapping_offset(place.first() as isize)
    }

    /// Returns the tensor object of a prepared source.
    pub(crate) fn tensor<'a>(&'a self, source: Source, inputs: &[TensorRef<'a>]) -> Result<TensorRef<'a>, TorchError> {
        let tensor = match source {
            Source::Input(i) => return Ok(inputs[i]),
            Source::Slot(s) => self.slots[s].as_ref(),
            Source::Handle(h) => self.handles[h].as_ref().map(|c| &c.tensor),
        };
        tensor.map(OwnedTensor::as_ref).ok_or_else(|| TorchError::new("a tensor is used before it is made"))
    }

    /// Drops the tensor objects of these sources, because they were changed by other code.
    pub(crate) fn forget(&mut self, sources: &[Source]) {
        for source in sources {
            match *source {
                Source::Handle(h) => self.handles[h] = None,
                Source::Slot(s) => self.slots[s] = None,
                Source::Input(_) => {}
            }
        }
    }

    /// Drops everything that belongs to a finished run.
    pub(crate) fn clear(&mut self) {
        self.slots.iter_mut().for_each(|s| *s = None);
        match &mut self.memory {
            Memory::Host(_) => {}
            Memory::Shared { blocks, bytes, held } => {
                held.take().into_iter().for_each(|block| Blocks::of(blocks, *bytes).put(block));
            }
            Memory::Device { held, .. } => *held = None,
        }
    }
}

/// Memory shared by several graphs, used by the one that runs. One set belongs to the executables of one graph for several sizes, so that
/// each finds the memory at the same address; another to all graphs with large workspaces. The size of a block is rounded up to a power of
/// two, so that a growing size does not move it at each step.
#[derive(Default)]
pub(crate) struct Blocks(Mutex<Vec<Block>>);

impl Blocks {
    /// Returns the blocks from which a workspace of this size is taken.
    fn of(own: &Self, bytes: usize) -> &Self {
        if bytes >= LARGE { &LARGE_BLOCKS } else { own }
    }

    /// Takes the smallest block that is large enough.
    fn take(&self, bytes: usize) -> Result<Block, String> {
        let mut blocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = blocks.iter().enumerate().filter(|(_, block)| block.bytes() >= bytes);
        if let Some((at, _)) = fitting.min_by_key(|(_, block)| block.bytes()) {
            return Ok(blocks.remove(at));
        }
        if bytes > KEPT {
            return Block::new(bytes);
        }
        // A block that is too small now will remain too small.
        let too_small = blocks.pop();
        drop(blocks);
        drop(too_small);
        Block::new(bytes.next_power_of_two())
    }

    /// Keeps a block for the next run, in place of the least recently used ones.
    fn put(&self, block: Block) {
        if block.bytes() > KEPT {
            return;
        }
        let mut blocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.push(block);
        let mut kept = 0;
        let fits = |block: &&Block| {
            kept += block.bytes();
            kept <= KEPT
        };
        let beyond = blocks.len() - blocks.iter().rev().take_while(fits).count();
        let unused: Vec<Block> = blocks.drain(..beyond).collect();
        // Memory is freed after other threads may continue.
        drop(blocks);
        drop(unused);
    }
}

/// Workspaces between runs.
#[derive(Default)]
pub(crate) struct Pool {
    /// The one used last, for the case that a single thread runs at a time; null while it is in use.
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
        // SAFETY: `put` stored this address, and the swap took it out: no other code has it.
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
        let start = block.start();
        let memory = Memory::Host(block);
        assert!(memory.contains(start.wrapping_add(999)));
        assert!(!memory.contains(start.wrapping_add(1000)) && !memory.contains(start.wrapping_sub(1)));
        assert!(Block::new(usize::MAX).is_err());
    }

    #[test]
    fn the_smallest_block_that_fits_is_taken() {
        let blocks = Blocks::default();
        let (small, large) = (blocks.take(1000).expect("memory"), blocks.take(5000).expect("memory"));
        assert_eq!((small.bytes(), large.bytes()), (1024, 8192));
        let starts = (small.start(), large.start());
        blocks.put(large);
        blocks.put(small);
        let again = (blocks.take(900).expect("memory"), blocks.take(900).expect("memory"));
        assert_eq!((again.0.start(), again.1.start()), starts);
    }

    #[test]
    fn blocks_that_are_too_small_make_room_for_larger_ones() {
        let blocks = Blocks::default();
        blocks.put(blocks.take(1000).expect("memory"));
        blocks.put(blocks.take(5000).expect("memory"));
        assert_eq!(blocks.0.lock().expect("nobody panicked").iter().map(Block::bytes).collect::<Vec<_>>(), [8192]);
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        let blocks = Blocks::default();
        let (half, rest, beyond) = (KEPT / 2, KEPT / 2, KEPT + 1);
        let taken = [half, rest, beyond].map(|bytes| blocks.take(bytes).expect("memory that nobody writes to"));
        assert_eq!(taken[2].bytes().next_multiple_of(ALIGNMENT), beyond.next_multiple_of(ALIGNMENT));
        let quarter = blocks.take(KEPT / 4).expect("memory that nobody writes to");
        let kept = || blocks.0.lock().expect("nobody panicked").iter().map(Block::bytes).sum::<usize>();
        taken.into_iter().rev().for_each(|block| blocks.put(block));
        assert_eq!(kept(), KEPT);
        blocks.put(quarter);
        assert_eq!(kept(), KEPT / 4 + KEPT / 2);
    }
}
