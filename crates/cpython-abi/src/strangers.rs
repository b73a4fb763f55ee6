//! Which objects other threads make meanwhile.
//!
//! The collector's lists are the process's: they do not tell who has made an object. CPython's allocator of objects runs in the thread that
//! makes one. So while somebody asks, a function of ours stands in front of it, as `tracemalloc`'s does, and notes where the memory of
//! other threads lies until that is free again.
//!
//! What CPython keeps for the next object of a type – lists, tuples, dicts, floats – changes hands without its allocator. So this tells of
//! instances of classes, of generators and of all else that may have a finalizer, and not of those.

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

/// `PYMEM_DOMAIN_OBJ`: whoever calls its functions holds the lock.
const OBJECTS: c_int = 2;

// Exported by every CPython that we support.
unsafe extern "C" {
    /// Writes the allocator of a domain.
    fn PyMem_GetAllocator(domain: c_int, allocator: *mut Allocator);
    /// Copies what it is given.
    fn PyMem_SetAllocator(domain: c_int, allocator: *mut Allocator);
}

/// Memory that a thread has asked for.
struct Block {
    size: usize,
    thread: usize,
}

/// Whose threads ask, once for each [`Strangers`].
static ASKING: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// The one thread that asks; 0 where none does, or more than one.
static ONLY: AtomicUsize = AtomicUsize::new(0);
/// What is noted while somebody asks, by address.
static BLOCKS: Mutex<BTreeMap<usize, Block>> = Mutex::new(BTreeMap::new());
/// Whether there is something in [`BLOCKS`].
static ANY: AtomicBool = AtomicBool::new(false);

/// The thread that runs, which has the lock: the address of what CPython keeps of it. A thread-local variable of ours would be looked up
/// by a call at each allocation.
#[inline]
fn this_thread() -> usize {
    // SAFETY: all that is here runs with the lock held.
    unsafe { ffi::PyThreadState_Get().addr() }
}

fn blocks() -> MutexGuard<'static, BTreeMap<usize, Block>> {
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes who asks. Returns true if somebody still does.
fn asking(change: impl FnOnce(&mut Vec<usize>)) -> bool {
    let mut asking = ASKING.lock().unwrap_or_else(PoisonError::into_inner);
    change(&mut asking);
    let first = asking.first().copied();
    ONLY.store(first.filter(|first| asking.iter().all(|thread| thread == first)).unwrap_or(0), Relaxed);
    first.is_some()
}

/// Somebody of this thread who asks for the objects of other threads, until it is dropped.
pub(crate) struct Strangers {
    thread: usize,
    _bound: PhantomData<*const ()>,
}

impl Strangers {
    /// From now on.
    pub fn watch(_: Python<'_>) -> Self {
        let thread = this_thread();
        asking(|asking| asking.push(thread));
        stand_in_front();
        Self { thread, _bound: PhantomData }
    }

    /// Returns true if another thread has made the object at an address; None where somebody has put another allocator in the place
    /// of ours.
    pub fn made(&self, address: usize) -> Option<bool> {
        if !is_ours(&current()) {
            return None;
        }
        if !ANY.load(Relaxed) {
            return Some(false);
        }
        // In front of an object there may be what CPython keeps for it.
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

/// Nobody of another thread asks any more, in a process that was forked: it has none of those threads.
pub(crate) fn forked(py: Python<'_>) {
    let thread = this_thread();
    if !asking(|asking| asking.retain(|&other| other == thread)) {
        step_aside(py);
    }
}

/// The allocator of objects.
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

/// Puts our functions in front of those that are there. Somebody else's in front of ours stay there, and may have ours for ever.
fn stand_in_front() {
    /// What ours have been put in front of: never freed, and hardly ever another one.
    static BEHIND: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let now = current();
    if is_ours(&now) {
        return;
    }
    let mut known = BEHIND.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |address: &&usize| {
        // SAFETY: all that are known live for ever.
        let other = unsafe { &*ptr::with_exposed_provenance::<Allocator>(**address) };
        other.context == now.context && ptr::fn_addr_eq(other.malloc, now.malloc) && ptr::fn_addr_eq(other.free, now.free)
    };
    let behind = known.iter().find(same).copied().unwrap_or_else(|| {
        let address = ptr::from_ref(Box::leak(Box::new(now))).expose_provenance();
        known.push(address);
        address
    });
    let mut ours = Allocator { context: ptr::with_exposed_provenance_mut(behind), malloc, calloc, realloc, free };
    // SAFETY: the lock is held; ours hand everything on to those that have been there, so memory goes back to where it is from.
    unsafe { PyMem_SetAllocator(OBJECTS, &raw mut ours) };
}

/// Takes our functions away, if they stand in front.
fn step_aside(_: Python<'_>) {
    let now = current();
    if is_ours(&now) {
        // SAFETY: the context of ours is an allocator that lives for ever, and the lock is held.
        unsafe { PyMem_SetAllocator(OBJECTS, now.context.cast()) };
    }
    blocks().clear();
    ANY.store(false, Relaxed);
}

/// Notes memory that nobody who asks has asked for.
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

/// What ours stand in front of.
///
/// # Safety
/// The context is that of ours.
#[inline]
unsafe fn behind(context: *mut c_void) -> &'static Allocator {
    // SAFETY: by the condition above, it is an allocator that lives for ever.
    unsafe { &*context.cast::<Allocator>() }
}

unsafe extern "C" fn malloc(context: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: CPython calls this with our context, and the lock held.
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
