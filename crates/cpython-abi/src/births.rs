//! Which objects came about since a moment: what a function may change that must not touch anything else.
//!
//! CPython keeps the objects that its cycle collector looks after in lists, and appends new ones to the youngest. While no collection
//! runs, what stands behind a mark in that list is younger than the mark. Dicts of plain values are not in the list until they
//! [are told to](Births::note); other objects without a place in it are none that can be known to be new, but by being noted.
//!
//! The list is the process's. What other threads make meanwhile stands in it as well, and is [none of ours](Strangers) to finalize.

use std::{
    cell::{Cell, RefCell},
    ffi::c_int,
};

use pyo3::{
    ffi,
    prelude::*,
    types::{PyDict, PyList},
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{Abi, mapping::dict_version, strangers::Strangers, types};

// Exported by every CPython that we support.
unsafe extern "C" {
    /// Borrows the object.
    fn PyObject_GC_IsTracked(object: *mut ffi::PyObject) -> c_int;
    /// Takes over nothing. The object must be of a type that the collector knows, and must not be tracked.
    fn PyObject_GC_Track(object: *mut std::ffi::c_void);
}

/// `PyGC_Head` lies in front of an object: the next one's address, then the one before, whose lowest bits are flags.
const HEAD: usize = 2 * size_of::<usize>();
/// The bits of a link that are flags while a collection runs.
const FLAGS: usize = 3;

/// The objects made since [`Births::begin`].
pub struct Births {
    abi: &'static Abi,
    first: Py<PyAny>,
    /// The object behind which nobody has looked yet.
    mark: RefCell<Py<PyAny>>,
    /// The address of the list's own node.
    end: usize,
    /// Addresses of new objects. An address that is used again belongs to a newer one.
    seen: RefCell<FxHashSet<usize>>,
    /// New objects that are in no list, kept alive.
    noted: RefCell<FxHashMap<usize, Py<PyAny>>>,
    /// The version of a dict that was made first.
    version: Option<u64>,
    /// Whether the list is as it was left: no collection has run.
    intact: Cell<bool>,
    /// Those of the objects that other threads have made.
    strangers: Strangers,
}

/// The node of an object that the collector looks after.
fn node(object: &Bound<'_, PyAny>) -> usize {
    object.as_ptr() as usize - HEAD
}

/// The node after a node.
///
/// # Safety
/// It is a node of one of the collector's lists, and the lock is held.
unsafe fn next(node: usize) -> usize {
    // SAFETY: the first word of a node is the address of the next one.
    unsafe { std::ptr::with_exposed_provenance::<usize>(node).read() & !FLAGS }
}

fn is_tracked(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is alive.
    unsafe { PyObject_GC_IsTracked(object.as_ptr()) == 1 }
}

impl Births {
    /// All objects made from now on are new.
    pub fn begin(py: Python<'_>, abi: &'static Abi) -> Self {
        let strangers = Strangers::watch(py);
        let (first, second) = (PyList::empty(py).into_any(), PyList::empty(py).into_any());
        let tracked = is_tracked(&first) && is_tracked(&second);
        // SAFETY: lists are made with a node, which tracking puts into the collector's list.
        let (between, end) = if tracked { unsafe { (next(node(&first)), next(node(&second))) } } else { (0, 0) };
        let version = dict_version(abi, &PyDict::new(py));
        Self {
            abi,
            first: first.unbind(),
            mark: RefCell::new(second.clone().unbind()),
            end,
            seen: RefCell::default(),
            noted: RefCell::default(),
            version,
            intact: Cell::new(tracked && between == node(&second)),
            strangers,
        }
    }

    /// Whether an object is known to be new.
    pub fn is_new(&self, object: &Bound<'_, PyAny>) -> bool {
        let address = object.as_ptr() as usize;
        if self.seen.borrow().contains(&address) || self.noted.borrow().contains_key(&address) {
            return true;
        }
        if is_tracked(object) {
            self.look(object.py(), true);
            return self.seen.borrow().contains(&address);
        }
        match object.cast_exact::<PyDict>() {
            // Nobody changes an older one meanwhile.
            Ok(dict) => dict_version(self.abi, dict).zip(self.version).is_some_and(|(version, first)| version > first),
            Err(_) => false,
        }
    }

    /// Says that an object is new, of which the collector does not tell.
    pub fn note(&self, object: &Bound<'_, PyAny>) {
        if is_tracked(object) {
            return;
        }
        if object.is_exact_instance_of::<PyDict>() {
            // SAFETY: dicts have a node, and this one is in no list. It gets there anyway with the first container that it holds.
            unsafe { PyObject_GC_Track(object.as_ptr().cast()) };
        } else {
            self.noted.borrow_mut().insert(object.as_ptr() as usize, object.clone().unbind());
        }
    }

    /// What the closure makes does not count as new.
    pub fn except<R>(&self, py: Python<'_>, closure: impl FnOnce() -> R) -> R {
        self.look(py, true);
        let result = closure();
        self.look(py, false);
        result
    }

    /// Looks at what was made since this was done last.
    fn look(&self, py: Python<'_>, counts: bool) {
        if !self.intact.get() {
            return;
        }
        let fresh = PyList::empty(py).into_any();
        let mut mark = self.mark.borrow_mut();
        let (from, to) = (node(mark.bind(py)), node(&fresh));
        let mut seen = self.seen.borrow_mut();
        // SAFETY: both marks are lists, whose nodes are in the collector's list; nothing runs that changes it.
        let mut at = unsafe { next(from) };
        while at != to {
            if at == self.end || at == from {
                // The mark has moved to an older generation.
                self.intact.set(false);
                seen.clear();
                return;
            }
            if counts {
                seen.insert(at + HEAD);
            } else {
                seen.remove(&(at + HEAD));
            }
            // SAFETY: as above.
            at = unsafe { next(at) };
        }
        let former = std::mem::replace(&mut *mark, fresh.unbind());
        drop((mark, seen));
        drop(former);
    }

    /// Has a new object die without its `__del__`, or without what a suspended generator would still do.
    pub fn defuse(&self, object: &Bound<'_, PyAny>) {
        /// What the collector sets once it has called a finalizer.
        const FINALIZED: usize = 1;
        let is_own = self.strangers.made(object.as_ptr() as usize) == Some(false);
        if is_own && self.is_new(object) && is_tracked(object) {
            let links = std::ptr::with_exposed_provenance_mut::<usize>(node(object) + size_of::<usize>());
            // SAFETY: the second word of a node has the flag in its lowest bit, and the lock is held.
            unsafe { links.write(links.read() | FINALIZED) };
        }
    }

    /// New objects of this thread that are still alive and run code when they die: those with a `__del__`, and unfinished generators
    /// among others. None where it cannot be told.
    pub fn with_finalizers<'py>(&self, py: Python<'py>) -> Option<Vec<Bound<'py, PyAny>>> {
        self.look(py, true);
        if !self.intact.get() {
            return None;
        }
        let mut found = Vec::new();
        let mut kinds: FxHashMap<usize, bool> = FxHashMap::default();
        let (seen, to) = (self.seen.borrow(), node(self.mark.borrow().bind(py)));
        // SAFETY: both marks are in the collector's list, in this order; nothing runs that changes it.
        let mut at = unsafe { next(node(self.first.bind(py))) };
        while at != to && at != self.end {
            if seen.contains(&(at + HEAD)) {
                let raw = std::ptr::with_exposed_provenance_mut::<ffi::PyObject>(at + HEAD);
                // SAFETY: behind a node of the list there is an object that is alive.
                let object = unsafe { Bound::from_borrowed_ptr(py, raw) };
                let class = object.get_type();
                let finalizes = *kinds.entry(class.as_ptr() as usize).or_insert_with(|| types::has_slot(&class, ffi::Py_tp_finalize));
                if finalizes && !self.strangers.made(at + HEAD)? {
                    found.push(object);
                }
            }
            // SAFETY: as above.
            at = unsafe { next(at) };
        }
        Some(found)
    }
}
