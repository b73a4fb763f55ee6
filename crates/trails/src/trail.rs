//! A trail: words of memory that were read on a walk through live objects, with what was found in them.
//!
//! Walking a trail again tells whether the walk would end at the same objects. That is much cheaper than the walk itself: a
//! dict's version stands for all of its content, and comparing words needs neither look-ups nor reference counts.
//!
//! *Why reading the addresses is sound.* The first words lie in the root, which the caller has a reference to, or in pinned
//! objects, whose group is alive. Each later word lies in an object that an earlier word proves to be alive and of the type it
//! had: its address is stored in an object that is alive, or in a dict whose version, which no other state of any dict ever
//! has, is unchanged; or it lies in the `TensorImpl` that a tensor owns as long as the word of its handle is the same, or in
//! the table of names of a class that is alive. Only [`super::Recorder`] makes trails, and it records a word only for objects
//! proven in this way.

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

/// What a walk read. See the module's documentation.
pub struct Trail {
    root: *mut ffi::PyObject,
    words: Vec<Word>,
    /// Objects that the words prove to be alive, for the caller to go on from.
    exposed: Vec<*mut ffi::PyObject>,
    /// Text that a word points into, and keys whose addresses are words: as long as they are there, nothing else has their address.
    kept: Vec<Py<PyAny>>,
    /// The group of pinned objects that the walk started from, too.
    pins: Option<Arc<AtomicBool>>,
}

// SAFETY: the addresses are only read in `holds`, which needs the interpreter's lock; otherwise they are numbers.
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

    /// Keeps a string or an int that a word points to, or into.
    pub(super) fn keep(&mut self, object: &Bound<'_, PyAny>) {
        self.kept.push(object.clone().unbind());
    }

    /// Records that `address` holds `expected`; false if it does not.
    ///
    /// # Safety
    /// `address` lies in an object that the words so far prove to be alive and of its present type, at a place that every
    /// object of the type has. It is aligned for a word.
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

    /// Whether a walk from this root would find all as it was. If so, hands out a reference to each exposed object, in the order in
    /// which they were exposed. What takes them must not run Python code.
    #[inline]
    pub fn holds<'py>(&self, root: &Bound<'py, PyAny>, mut take: impl FnMut(usize, Option<Bound<'py, PyAny>>)) -> bool {
        if self.root != root.as_ptr() || self.pins.as_ref().is_some_and(|pins| !pins.load(Ordering::Relaxed)) {
            return false;
        }
        // In order, since each word may prove that the next one can be read; eight at a time, which is half the instructions.
        // SAFETY: see the module's documentation; the lock is held, so nothing changes while words are compared.
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

    /// Whether it begins at this root.
    pub fn starts_at(&self, root: &Bound<'_, PyAny>) -> bool {
        self.root == root.as_ptr()
    }

    /// How many words it compares.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether it compares nothing but its root.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}
