//! Steps from object to object, each of which may be recorded in a [`Trail`].
//!
//! A step first reads with CPython's own functions, then records the word that stores its result, if that word holds the expected value: an
//! unexpected layout makes a step unproven, never wrong.

mod containers;
mod dicts;
mod functions;
mod spot;
mod values;

use dynamlir_cpython_abi::{Abi, SharedValues, offsets, types};
use dynamlir_torch_abi::Pattern;
use pyo3::{
    prelude::*,
    types::{PyString, PyType},
};
use rustc_hash::{FxHashMap, FxHashSet};

pub use self::spot::{Proof, Reached, Spot};
use crate::{Pin, TensorClass, Trail};

/// Takes steps, and records them if requested.
pub struct Recorder<'py> {
    py: Python<'py>,
    abi: &'static Abi,
    trail: Option<Trail>,
    /// Types whose version tag is recorded: for their other instances it suffices to compare the type's address.
    tagged: FxHashSet<usize>,
    dicts: FxHashMap<usize, u64>,
    /// Dicts of instances, by address, that are recorded to share the instance's values.
    shared: FxHashMap<usize, SharedValues>,
    /// Addresses of the recorded words.
    words: FxHashSet<usize>,
}

impl<'py> Recorder<'py> {
    /// Creates a recorder that takes steps without recording.
    pub fn off(py: Python<'py>, abi: &'static Abi) -> Self {
        Self {
            py,
            abi,
            trail: None,
            tagged: FxHashSet::default(),
            dicts: FxHashMap::default(),
            shared: FxHashMap::default(),
            words: FxHashSet::default(),
        }
    }

    /// Creates a recorder that records, starting at a root.
    pub fn on(abi: &'static Abi, root: &Bound<'py, PyAny>) -> (Self, Spot<'py>) {
        let recorder = Self { trail: Some(Trail::new(root)), ..Self::off(root.py(), abi) };
        (recorder, Spot { object: root.clone(), proof: Proof::Address })
    }

    /// Returns true if it records.
    pub fn records(&self) -> bool {
        self.trail.is_some()
    }

    /// Ends the recording. Returns None if the recorded words no longer hold, because Python code ran meanwhile.
    pub fn finish(self, root: &Bound<'py, PyAny>) -> Option<Trail> {
        self.trail.filter(|trail| trail.holds(root, |_, _| ()))
    }

    /// Exposes an object to users of the trail; returns its number among the exposed objects. Returns None if it is unproven.
    pub fn expose(&mut self, spot: &Spot<'py>) -> Option<usize> {
        if spot.proof == Proof::None { None } else { self.trail.as_mut().map(|trail| trail.expose(&spot.object)) }
    }

    /// Starts at a pinned object.
    pub fn pinned(&mut self, pin: &Pin) -> Reached<'py> {
        let object = pin.get(self.py);
        let known = self.trail.as_mut().is_some_and(|trail| trail.rely_on(pin.flag()));
        Reached { proof: if known && object.is_some() { Proof::Object } else { Proof::None }, object }
    }

    /// Records a word of an object; returns false if that is not possible.
    ///
    /// # Safety
    /// Every object of its type has a word at this offset.
    unsafe fn word(&mut self, spot: &Spot<'py>, offset: isize, expected: usize) -> bool {
        // SAFETY: the trail proves that the object is alive; the callers have recorded its type where that may differ.
        spot.proof != Proof::None && unsafe { self.record(spot.object.as_ptr().byte_offset(offset).cast(), expected as u64) }
    }

    /// Records a word, once.
    ///
    /// # Safety
    /// See [`Trail::word`].
    unsafe fn record(&mut self, address: *const u64, expected: u64) -> bool {
        let Some(trail) = &mut self.trail else { return false };
        if self.words.contains(&(address as usize)) {
            // SAFETY: as the caller promises, it lies in a live object.
            return unsafe { address.read() } == expected;
        }
        // SAFETY: as the caller promises.
        let recorded = unsafe { trail.word(address, expected) };
        if recorded {
            self.words.insert(address as usize);
        }
        recorded
    }

    /// Like `word`, for a pointer to an object (or NULL).
    unsafe fn pointer(&mut self, spot: &Spot<'py>, offset: usize, found: Option<&Bound<'py, PyAny>>) -> Proof {
        let expected = found.map_or(0, |object| object.as_ptr() as usize);
        // SAFETY: as for `word`.
        if unsafe { self.word(spot, offset as isize, expected) } { Proof::Address } else { Proof::None }
    }

    /// Records the type of an object; returns false if that is not possible.
    pub fn class(&mut self, spot: &Spot<'py>) -> bool {
        if self.trail.is_none() || spot.proof == Proof::None {
            return false;
        }
        let class = spot.object.get_type();
        let heap = types::flags(&class) & types::HEAP_TYPE != 0;
        if spot.proof == Proof::Object && !heap && !spot.object.is_instance_of::<PyModule>() {
            // The class of an object can only be changed to another heap type, or for a module.
            return true;
        }
        self.same_class(spot, &class) && (!heap || self.tag(&class))
    }

    fn same_class(&mut self, spot: &Spot<'py>, class: &Bound<'py, PyType>) -> bool {
        // SAFETY: all objects have their type there.
        unsafe { self.word(spot, offsets::TYPE as isize, class.as_ptr() as usize) }
    }

    /// Records a type's version tag, which is never reused by another type. The type is proven to be alive: by an instance, or directly.
    fn tag(&mut self, class: &Bound<'py, PyType>) -> bool {
        if self.tagged.contains(&(class.as_ptr() as usize)) {
            return true;
        }
        if types::version_tag(self.abi, class) == 0 {
            // Look-ups assign the tags.
            types::lookup(self.abi, class, pyo3::intern!(self.py, "__class__"));
        }
        let tag = types::version_tag(self.abi, class);
        let spot = Spot { object: class.clone().into_any(), proof: Proof::Address };
        let offset = self.abi.type_version_offset() as isize;
        // SAFETY: a type is longer than that; the tag is followed by padding, which is never written.
        let word = unsafe { spot.object.as_ptr().byte_offset(offset).cast::<u64>().read() };
        // SAFETY: as above.
        let recorded = tag != 0 && unsafe { self.word(&spot, offset, word as usize) };
        if recorded {
            self.tagged.insert(class.as_ptr() as usize);
        }
        recorded
    }

    /// Records the words by which a tensor now matches a pattern; returns false if that is not possible.
    pub fn tensor(&mut self, spot: &Spot<'py>, class: &TensorClass, pattern: &Pattern) -> bool {
        let Some(tensor) = class.tensor(&spot.object) else { return false };
        if !self.class(spot) {
            return false;
        }
        // SAFETY: the class is recorded, and its instances have their handle there: the address of a `TensorImpl`.
        let owns = unsafe { self.word(spot, class.handle() as isize, tensor.raw().cast::<usize>().read()) };
        let mut words = Vec::new();
        owns && pattern.evidence(tensor, &mut |word| words.push(word))
            // SAFETY: while the object has this handle, it owns the memory that the handle leads to; the words are listed in the order in
            // which each leads to the next.
            && words.into_iter().all(|word| unsafe { self.record(word, word.read()) })
    }

    /// Records that a tensor stores no attribute with a name; returns false if that is not possible, or if it does store one.
    ///
    /// # Errors
    /// If Python is out of memory.
    pub fn tensor_lacks(&mut self, spot: &Spot<'py>, class: &TensorClass, name: &Bound<'py, PyString>) -> PyResult<bool> {
        if let Some(words) = class.without_attributes(&spot.object) {
            // SAFETY: the class is recorded, and these words belong to its instances.
            return Ok(self.class(spot) && words.iter().all(|&(place, found)| unsafe { self.word(spot, place, found) }));
        }
        let reached = self.instance_attr(spot, name)?;
        Ok(reached.object.is_none() && reached.proof == Proof::Object)
    }
}
