//! The objects created since a given moment: a function that must not touch anything else may change these.
//!
//! CPython keeps the objects tracked by its cycle collector in lists, and appends new ones to the youngest. While no collection runs,
//! everything behind a mark in that list is younger than the mark. Dicts of plain values are not in the list until they are [added
//! explicitly](Births::note). Other untracked objects can be known to be new only if they are noted.
//!
//! The list belongs to the process. It also contains objects that other threads create meanwhile; [those](Strangers) are not ours to
//! finalize.

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

// Exported by every supported CPython.
unsafe extern "C" {
    /// Borrows the object.
    fn PyObject_GC_IsTracked(object: *mut ffi::PyObject) -> c_int;
    /// Takes no ownership. The object must be of a type known to the collector, and must not be tracked.
    fn PyObject_GC_Track(object: *mut std::ffi::c_void);
}

/// `PyGC_Head` precedes an object: the address of the next head, then that of the previous one, whose lowest bits are flags.
const HEAD: usize = 2 * size_of::<usize>();
/// The bits of a link that are used as flags while a collection runs.
const FLAGS: usize = 3;

/// The objects created since [`Births::begin`].
pub struct Births {
    abi: &'static Abi,
    first: Py<PyAny>,
    /// The last object in the list that has been examined.
    mark: RefCell<Py<PyAny>>,
    /// The address of the list's own node.
    end: usize,
    /// The addresses of new objects. A reused address belongs to a newer object.
    seen: RefCell<FxHashSet<usize>>,
    /// Noted new objects that are not in any list, kept alive.
    noted: RefCell<FxHashMap<usize, Py<PyAny>>>,
    /// The version of a dict created at the start.
    version: Option<u64>,
    /// True if the list is still in the expected state: no collection has run.
    intact: Cell<bool>,
    /// Tells which of the objects were created by other threads.
    strangers: Strangers,
}

/// Returns the list node of an object tracked by the collector.
fn node(object: &Bound<'_, PyAny>) -> usize {
    object.as_ptr() as usize - HEAD
}

/// Returns the node after a node.
///
/// # Safety
/// `node` must be a node of one of the collector's lists, and the GIL must be held.
unsafe fn next(node: usize) -> usize {
    // SAFETY: the first word of a node is the address of the next one.
    unsafe { std::ptr::with_exposed_provenance::<usize>(node).read() & !FLAGS }
}

fn is_tracked(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is alive.
    unsafe { PyObject_GC_IsTracked(object.as_ptr()) == 1 }
}

impl Births {
    /// Starts watching: all objects created from now on are new.
    pub fn begin(py: Python<'_>, abi: &'static Abi) -> Self {
        let strangers = Strangers::watch(py);
        let (first, second) = (PyList::empty(py).into_any(), PyList::empty(py).into_any());
        let tracked = is_tracked(&first) && is_tracked(&second);
        // SAFETY: lists are allocated with a node, which tracking puts into the collector's list.
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

    /// Returns true if an object is known to be new.
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
            // Older dicts are not changed meanwhile, so a greater version means a newer dict.
            Ok(dict) => dict_version(self.abi, dict).zip(self.version).is_some_and(|(version, first)| version > first),
            Err(_) => false,
        }
    }

    /// Records an object as new that the collector does not track.
    pub fn note(&self, object: &Bound<'_, PyAny>) {
        if is_tracked(object) {
            return;
        }
        if object.is_exact_instance_of::<PyDict>() {
            // SAFETY: dicts have a node, and this one is not in any list. It would get there anyway with the first container that it holds.
            unsafe { PyObject_GC_Track(object.as_ptr().cast()) };
        } else {
            self.noted.borrow_mut().insert(object.as_ptr() as usize, object.clone().unbind());
        }
    }

    /// Runs a closure. The objects that it creates do not count as new.
    pub fn except<R>(&self, py: Python<'_>, closure: impl FnOnce() -> R) -> R {
        self.look(py, true);
        let result = closure();
        self.look(py, false);
        result
    }

    /// Examines the objects created since the last call.
    fn look(&self, py: Python<'_>, counts: bool) {
        if !self.intact.get() {
            return;
        }
        let fresh = PyList::empty(py).into_any();
        let mut mark = self.mark.borrow_mut();
        let (from, to) = (node(mark.bind(py)), node(&fresh));
        let mut seen = self.seen.borrow_mut();
        // SAFETY: both marks are lists, whose nodes are in the collector's list; nothing that changes it runs here.
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

    /// Makes a new object die without running its `__del__`, or the rest of a suspended generator.
    pub fn defuse(&self, object: &Bound<'_, PyAny>) {
        /// The flag that the collector sets once it has called a finalizer.
        const FINALIZED: usize = 1;
        let is_own = self.strangers.made(object.as_ptr() as usize) == Some(false);
        if is_own && self.is_new(object) && is_tracked(object) {
            let links = std::ptr::with_exposed_provenance_mut::<usize>(node(object) + size_of::<usize>());
            // SAFETY: the second word of a node has the flag in its lowest bit, and the GIL is held.
            unsafe { links.write(links.read() | FINALIZED) };
        }
    }

    /// Returns this thread's new objects that are still alive and run code when they die: those with a `__del__`, and unfinished generators
    /// among others. `None` if this cannot be determined.
    pub fn with_finalizers<'py>(&self, py: Python<'py>) -> Option<Vec<Bound<'py, PyAny>>> {
        self.look(py, true);
        if !self.intact.get() {
            return None;
        }
        let mut found = Vec::new();
        let mut kinds: FxHashMap<usize, bool> = FxHashMap::default();
        let (seen, to) = (self.seen.borrow(), node(self.mark.borrow().bind(py)));
        // SAFETY: both marks are in the collector's list, in this order; nothing that changes it runs here.
        let mut at = unsafe { next(node(self.first.bind(py))) };
        while at != to && at != self.end {
            if seen.contains(&(at + HEAD)) {
                let raw = std::ptr::with_exposed_provenance_mut::<ffi::PyObject>(at + HEAD);
                // SAFETY: a live object follows each node of the list.
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
