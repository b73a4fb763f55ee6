//! Detects objects created by other threads.
//!
//! The collector's lists belong to the process: they do not record which thread created an object. CPython's object allocator runs in the
//! thread that creates one. So while a watch is active, a function of ours is placed in front of the allocator, as `tracemalloc`'s is, and
//! records the memory of other threads until it is freed.
//!
//! CPython's free lists – of lists, tuples, dicts, floats – bypass the allocator. So this detects instances of classes, generators and all
//! other objects that may have a finalizer, but not those.

use std::{
    collections::BTreeMap,
    ffi::{c_int, c_void},
    marker::PhantomData,
    mem::MaybeUninit,
    ptr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use pyo3::{ffi, prelude::*};

/// `PyMemAllocatorEx`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Allocator {
    context: *mut c_void,
    malloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    calloc: unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void,
    realloc: unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void, *mut c_void),
}

/// `PYMEM_DOMAIN_OBJ`: callers of its functions hold the GIL.
const OBJECTS: c_int = 2;

// Exported by every supported CPython.
unsafe extern "C" {
    /// Writes the allocator of a domain.
    fn PyMem_GetAllocator(domain: c_int, allocator: *mut Allocator);
    /// Copies the allocator.
    fn PyMem_SetAllocator(domain: c_int, allocator: *mut Allocator);
}

/// Memory allocated by a thread.
struct Block {
    size: usize,
    thread: usize,
}

/// The watching threads, once for each [`Strangers`].
static ASKING: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// The only watching thread; 0 if there is none, or more than one.
static ONLY: AtomicUsize = AtomicUsize::new(0);
/// The blocks recorded while a watch is active, by address.
static BLOCKS: Mutex<BTreeMap<usize, Block>> = Mutex::new(BTreeMap::new());
/// True if [`BLOCKS`] is not empty.
static ANY: AtomicBool = AtomicBool::new(false);

/// Returns the running thread, which holds the GIL: the address of its thread state. A thread-local variable of ours would need a call at
/// each allocation.
#[inline]
fn this_thread() -> usize {
    // SAFETY: everything here runs with the GIL held.
    unsafe { ffi::PyThreadState_Get().addr() }
}

fn blocks() -> MutexGuard<'static, BTreeMap<usize, Block>> {
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes the watching threads. Returns true if any remain.
fn asking(change: impl FnOnce(&mut Vec<usize>)) -> bool {
    let mut asking = ASKING.lock().unwrap_or_else(PoisonError::into_inner);
    change(&mut asking);
    let first = asking.first().copied();
    ONLY.store(first.filter(|first| asking.iter().all(|thread| thread == first)).unwrap_or(0), Relaxed);
    first.is_some()
}

/// Watches for objects created by threads other than this one, until it is dropped.
pub(crate) struct Strangers {
    thread: usize,
    _bound: PhantomData<*const ()>,
}

impl Strangers {
    /// Starts watching.
    pub fn watch(_: Python<'_>) -> Self {
        let thread = this_thread();
        asking(|asking| asking.push(thread));
        stand_in_front();
        Self { thread, _bound: PhantomData }
    }

    /// Returns true if another thread created the object at an address; `None` if our allocator has been replaced by another.
    pub fn made(&self, address: usize) -> Option<bool> {
        if !is_ours(&current()) {
            return None;
        }
        if !ANY.load(Relaxed) {
            return Some(false);
        }
        // The object may be preceded by CPython's own data in the same block.
        let blocks = blocks();
        let nearest = blocks.range(..=address).next_back();
        Some(nearest.is_some_and(|(start, block)| address < start + block.size && block.thread != self.thread))
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        Python::attach(|py| {
            let leave = |asking: &mut Vec<usize>| {
                if let Some(at) = asking.iter().rposition(|&thread| thread == self.thread) {
                    asking.remove(at);
                }
            };
            if !asking(leave) {
                step_aside(py);
            }
        });
    }
}

/// Ends the watches of other threads in a forked process: those threads do not exist there.
pub(crate) fn forked(py: Python<'_>) {
    let thread = this_thread();
    if !asking(|asking| asking.retain(|&other| other == thread)) {
        step_aside(py);
    }
}

/// Returns the object allocator.
fn current() -> Allocator {
    let mut found = MaybeUninit::uninit();
    // SAFETY: it is written whole.
    unsafe {
        PyMem_GetAllocator(OBJECTS, found.as_mut_ptr());
        found.assume_init()
    }
}

fn is_ours(allocator: &Allocator) -> bool {
    ptr::fn_addr_eq(allocator.malloc, malloc as unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void)
}

/// Places our functions in front of the current ones. Foreign functions in front of ours stay there, and may keep ours forever.
fn stand_in_front() {
    /// The allocators that ours have been placed in front of: never freed, and rarely more than one.
    static BEHIND: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let now = current();
    if is_ours(&now) {
        return;
    }
    let mut known = BEHIND.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |address: &&usize| {
        // SAFETY: all known allocators live forever.
        let other = unsafe { &*ptr::with_exposed_provenance::<Allocator>(**address) };
        other.context == now.context && ptr::fn_addr_eq(other.malloc, now.malloc) && ptr::fn_addr_eq(other.free, now.free)
    };
    let behind = known.iter().find(same).copied().unwrap_or_else(|| {
        let address = ptr::from_ref(Box::leak(Box::new(now))).expose_provenance();
        known.push(address);
        address
    });
    let mut ours = Allocator { context: ptr::with_exposed_provenance_mut(behind), malloc, calloc, realloc, free };
    // SAFETY: the GIL is held; our functions forward everything to the previous ones, so memory is returned to its origin.
    unsafe { PyMem_SetAllocator(OBJECTS, &raw mut ours) };
}

/// Removes our functions, if they are in front.
fn step_aside(_: Python<'_>) {
    let now = current();
    if is_ours(&now) {
        // SAFETY: the context of our functions is an allocator that lives forever, and the GIL is held.
        unsafe { PyMem_SetAllocator(OBJECTS, now.context.cast()) };
    }
    blocks().clear();
    ANY.store(false, Relaxed);
}

/// Records memory unless the only watching thread allocated it.
#[inline]
fn note(memory: *mut c_void, size: usize) {
    let thread = this_thread();
    if thread != ONLY.load(Relaxed) {
        note_stranger(memory, Block { size, thread });
    }
}

#[cold]
fn note_stranger(memory: *mut c_void, block: Block) {
    if !memory.is_null() {
        blocks().insert(memory.addr(), block);
        ANY.store(true, Relaxed);
    }
}

#[inline]
fn forget(memory: *mut c_void) {
    if ANY.load(Relaxed) {
        blocks().remove(&memory.addr());
    }
}

/// Returns the allocator behind ours.
///
/// # Safety
/// The context must be that of our functions.
#[inline]
unsafe fn behind(context: *mut c_void) -> &'static Allocator {
    // SAFETY: by the condition above, it is an allocator that lives forever.
    unsafe { &*context.cast::<Allocator>() }
}

unsafe extern "C" fn malloc(context: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: CPython calls this with our context, and the GIL held.
    let memory = unsafe {
        let Allocator { context, malloc, .. } = *behind(context);
        malloc(context, size)
    };
    note(memory, size);
    memory
}

unsafe extern "C" fn calloc(context: *mut c_void, count: usize, each: usize) -> *mut c_void {
    // SAFETY: as for `malloc`.
    let memory = unsafe {
        let Allocator { context, calloc, .. } = *behind(context);
        calloc(context, count, each)
    };
    note(memory, count.saturating_mul(each));
    memory
}

unsafe extern "C" fn realloc(context: *mut c_void, former: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: as for `malloc`.
    let memory = unsafe {
        let Allocator { context, realloc, .. } = *behind(context);
        realloc(context, former, size)
    };
    if !memory.is_null() {
        forget(former);
        note(memory, size);
    }
    memory
}

unsafe extern "C" fn free(context: *mut c_void, memory: *mut c_void) {
    forget(memory);
    // SAFETY: as for `malloc`.
    unsafe {
        let Allocator { context, free, .. } = *behind(context);
        free(context, memory);
    }
}
