//! Objects that existed before the frame: where they were reached, and what was looked into.

use std::cell::{OnceCell, RefCell};

use dynamlir_guards::SourceId;
use pyo3::{prelude::*, types::PyType};
use rustc_hash::FxHashMap;

use super::{
    Capture, Tracked,
    journal::{Journal, Mark},
};

/// A set that goes back as a map does.
type Set<K> = Journal<K, ()>;

/// What a capture knows of existing objects.
#[derive(Default)]
pub struct Existing {
    /// Where each was first reached, by address, kept alive.
    known: RefCell<Journal<usize, (Py<PyAny>, SourceId)>>,
    /// Copies of containers with fakes for tensors, by address of the original.
    pub(crate) snapshots: RefCell<Journal<usize, Py<PyAny>>>,
    /// The other way round: the container that a copy stands for, by the address of the copy, and where it was reached.
    pub(crate) originals: RefCell<Journal<usize, (Py<PyAny>, SourceId)>>,
    /// Copies that stand for containers which the frame has changed, by address of the original.
    pub(crate) changed: RefCell<Journal<usize, Py<PyAny>>>,
    /// Those whose contents are guarded, by address; whether they hold tensors.
    pub(crate) looked_into: RefCell<Journal<usize, bool>>,
    /// Where the class of existing objects is reached, by its address: through the first of them, whose
    /// guard keeps it alive.
    pub(crate) classes: RefCell<Journal<usize, SourceId>>,
    /// Classes and functions of theirs that C code has called, which are guarded, by their addresses.
    pub(crate) specials: RefCell<Set<(usize, usize)>>,
    /// Those that C code has compared with others by identity.
    compared: RefCell<Set<SourceId>>,
    /// The addresses of cells of existing functions, which keep them alive, by where their contents are reached.
    pub(crate) cells: RefCell<Journal<SourceId, usize>>,
    /// Where each `nan` that existed was reached, by address, kept alive.
    pub(crate) nans: RefCell<Journal<usize, (Py<PyAny>, SourceId)>>,
    /// Frozen dicts, kept alive, and copies of them as dicts, by the address of the first.
    pub(crate) thawed: RefCell<FxHashMap<usize, [Py<PyAny>; 2]>>,
    /// Copies of frozen dicts with fakes for tensors, kept alive: see `originals`.
    pub(crate) frozen_copies: RefCell<Vec<Py<PyAny>>>,
    /// Classes whose special methods are all seen, by address, kept alive.
    pub(crate) seen_classes: RefCell<FxHashMap<usize, Py<PyType>>>,
    /// The globals of the captured function, once one of them was looked up.
    pub(crate) globals: OnceCell<Py<PyAny>>,
}

/// How far [`Existing`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExistingMark {
    known: Mark,
    snapshots: Mark,
    originals: Mark,
    changed: Mark,
    looked_into: Mark,
    classes: Mark,
    specials: Mark,
    compared: Mark,
    cells: Mark,
    nans: Mark,
}

impl Existing {
    pub(super) fn mark(&self) -> ExistingMark {
        ExistingMark {
            known: self.known.borrow().mark(),
            snapshots: self.snapshots.borrow().mark(),
            originals: self.originals.borrow().mark(),
            changed: self.changed.borrow().mark(),
            looked_into: self.looked_into.borrow().mark(),
            classes: self.classes.borrow().mark(),
            specials: self.specials.borrow().mark(),
            compared: self.compared.borrow().mark(),
            cells: self.cells.borrow().mark(),
            nans: self.nans.borrow().mark(),
        }
    }

    pub(super) fn roll_back(&self, to: ExistingMark) {
        let known = self.known.borrow_mut().roll_back(to.known);
        let snapshots = self.snapshots.borrow_mut().roll_back(to.snapshots);
        let originals = self.originals.borrow_mut().roll_back(to.originals);
        let changed = self.changed.borrow_mut().roll_back(to.changed);
        let _ = self.looked_into.borrow_mut().roll_back(to.looked_into);
        let _ = self.classes.borrow_mut().roll_back(to.classes);
        let _ = self.specials.borrow_mut().roll_back(to.specials);
        let _ = self.compared.borrow_mut().roll_back(to.compared);
        let _ = self.cells.borrow_mut().roll_back(to.cells);
        let nans = self.nans.borrow_mut().roll_back(to.nans);
        drop((known, snapshots, originals, changed, nans));
    }

    /// Says that C code has compared an object with others by identity.
    pub(crate) fn note_compared(&self, source: SourceId) {
        let mut compared = self.compared.borrow_mut();
        if !compared.contains(&source) {
            compared.insert(source, ());
        }
    }

    /// Those that C code has compared with others by identity, in order.
    pub(crate) fn compared(&self) -> Vec<SourceId> {
        let mut sources: Vec<_> = self.compared.borrow().iter().map(|(source, ())| *source).collect();
        sources.sort_unstable();
        sources
    }

    /// How many of them were compared.
    pub(crate) fn compared_count(&self) -> usize {
        self.compared.borrow().len()
    }

    /// How many classes of them were met.
    pub(crate) fn class_count(&self) -> usize {
        self.classes.borrow().len()
    }
}

impl<'py> Capture<'py> {
    /// Where an object was reached, if it existed before the frame.
    pub fn source_of(&self, object: &Bound<'py, PyAny>) -> Option<SourceId> {
        self.existing.known.borrow().get(&(object.as_ptr() as usize)).map(|(_, source)| *source)
    }

    /// Where a value was reached: noted on the value itself, or for its object.
    /// A number that is computed has no place: it is guarded to be what it is.
    pub fn source(&self, value: &Tracked<'py>) -> Option<SourceId> {
        if let Some(computed) = value.source.filter(|source| self.is_computed(*source)) {
            self.guards.settle(computed);
            return None;
        }
        value.source.or_else(|| self.source_of(&value.object))
    }

    /// Where the existing objects were first reached.
    pub(crate) fn existing_sources(&self) -> Vec<SourceId> {
        self.existing.known.borrow().iter().map(|(_, (_, source))| *source).collect()
    }

    /// The existing objects, and where they were first reached, in that order: guards are made of them, which are the same in each capture.
    pub(crate) fn existing_objects(&self) -> Vec<(Bound<'py, PyAny>, SourceId)> {
        let known = self.existing.known.borrow();
        let mut found: Vec<_> = known.iter().map(|(_, (object, source))| (object.bind(self.py).clone(), *source)).collect();
        found.sort_unstable_by_key(|(_, source)| *source);
        found
    }

    /// Where those existing objects were first reached of which this is true.
    pub(crate) fn existing_where(&self, wanted: impl Fn(&Bound<'py, PyAny>, SourceId) -> bool) -> Vec<SourceId> {
        self.existing_objects().into_iter().filter(|(object, source)| wanted(object, *source)).map(|(_, source)| source).collect()
    }

    /// The existing object that was first reached at a source.
    pub(crate) fn existing_at(&self, source: SourceId) -> Option<Bound<'py, PyAny>> {
        let known = self.existing.known.borrow();
        known.iter().find(|(_, (_, first))| *first == source).map(|(_, (object, _))| object.bind(self.py).clone())
    }

    /// Says where an existing object was reached; where it was reached first.
    pub(crate) fn note_existing(&self, object: &Bound<'py, PyAny>, source: SourceId) -> SourceId {
        let key = object.as_ptr() as usize;
        let mut known = self.existing.known.borrow_mut();
        if let Some((_, first)) = known.get(&key) {
            return *first;
        }
        known.insert(key, (object.clone().unbind(), source));
        source
    }
}
