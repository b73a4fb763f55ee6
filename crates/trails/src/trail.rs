//! A trail: words of memory that were read on a walk through live objects, with their values.
//!
//! Comparing a trail determines whether the walk would end at the same objects. That is much cheaper than the walk itself: a dict's version
//! covers its whole content, and comparing words needs neither look-ups nor reference counts.
//!
//! *Why reading the addresses is sound.* The first words are in the root, to which the caller has a reference, or in pinned objects, whose
//! group is alive. Each later word is in an object that an earlier word proves to be alive and of its former type: its address is stored in
//! an object that is alive, or in a dict whose version, which is unique among all states of all dicts, is unchanged; or it is in the
//! `TensorImpl` that a tensor owns as long as the word of its handle is the same, or in the table of names of a class that is alive. Only
//! [`super::Recorder`] creates trails, and it records a word only for objects proven in this way.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use pyo3::{ffi, prelude::*};

/// A word that was read.
#[derive(Clone, Copy)]
struct Word {
    address: *const u64,
    found: u64,
}

/// The words that a walk has read. See the module's documentation.
pub struct Trail {
    root: *mut ffi::PyObject,
    words: Vec<Word>,
    /// Objects that the words prove to be alive, from which the caller can continue.
    exposed: Vec<*mut ffi::PyObject>,
    /// Strings that a word points into, and keys whose addresses are words: while they are alive, no other object has their address.
    kept: Vec<Py<PyAny>>,
    /// The group of the pinned objects from which the walk also started.
    pins: Option<Arc<AtomicBool>>,
}

// SAFETY: the addresses are only read in `holds`, which needs the GIL; otherwise they are numbers.
unsafe impl Send for Trail {}
// SAFETY: as for Send.
unsafe impl Sync for Trail {}

impl Trail {
    pub(super) fn new(root: &Bound<'_, PyAny>) -> Self {
        Self { root: root.as_ptr(), words: Vec::new(), exposed: Vec::new(), kept: Vec::new(), pins: None }
    }

    pub(super) fn rely_on(&mut self, pins: &Arc<AtomicBool>) -> bool {
        if let Some(known) = &self.pins {
            return Arc::ptr_eq(known, pins);
        }
        self.pins = Some(pins.clone());
        true
    }

    /// Keeps a string or an int alive that a word points to, or into.
    pub(super) fn keep(&mut self, object: &Bound<'_, PyAny>) {
        self.kept.push(object.clone().unbind());
    }

    /// Records that `address` holds `expected`; returns false if it does not.
    ///
    /// # Safety
    /// `address` is in an object that the words so far prove to be alive and of its present type, at a place that every object of the type
    /// has. It is aligned for a word.
    pub(super) unsafe fn word(&mut self, address: *const u64, expected: u64) -> bool {
        // SAFETY: as the caller promises, the object is alive.
        let found = unsafe { address.read() };
        if found == expected {
            self.words.push(Word { address, found });
        }
        found == expected
    }

    pub(super) fn expose(&mut self, object: &Bound<'_, PyAny>) -> usize {
        self.exposed.push(object.as_ptr());
        self.exposed.len() - 1
    }

    /// Returns true if a walk from this root would find everything unchanged. If so, passes a reference to each exposed object to `take`,
    /// in the order in which they were exposed. `take` must not run Python code.
    #[inline]
    pub fn holds<'py>(&self, root: &Bound<'py, PyAny>, mut take: impl FnMut(usize, Option<Bound<'py, PyAny>>)) -> bool {
        if self.root != root.as_ptr() || self.pins.as_ref().is_some_and(|pins| !pins.load(Ordering::Relaxed)) {
            return false;
        }
        // In order, since each word may prove that the next one can be read; in groups of eight, which takes half the instructions. SAFETY:
        // see the module's documentation; the GIL is held, so nothing changes while words are compared.
        let same = |word: &Word| unsafe { word.address.read() } == word.found;
        let (eights, rest) = self.words.as_chunks::<8>();
        let all =
            |[a, b, c, d, e, f, g, h]: &[Word; 8]| same(a) && same(b) && same(c) && same(d) && same(e) && same(f) && same(g) && same(h);
        if !eights.iter().all(all) || !rest.iter().all(same) {
            return false;
        }
        for (number, &object) in self.exposed.iter().enumerate() {
            // SAFETY: the words prove that these objects are alive; a reference is taken before anything else can run.
            take(number, unsafe { Bound::from_borrowed_ptr_or_opt(root.py(), object) });
        }
        true
    }

    /// Returns true if it begins at this root.
    pub fn starts_at(&self, root: &Bound<'_, PyAny>) -> bool {
        self.root == root.as_ptr()
    }

    /// Returns the number of compared words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns true if it compares nothing except its root.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}
