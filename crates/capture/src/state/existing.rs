//! Objects that existed before the frame: their sources, and the ones that were inspected.

use std::cell::{OnceCell, RefCell};

use dynamlir_guards::SourceId;
use pyo3::{prelude::*, types::PyType};
use rustc_hash::FxHashMap;

use crate::{
    floors::{Record, Sources},
    objects::Tracked,
    state::undo_map::{Mark, UndoMap},
};

/// A set that rolls back as a map does.
type Set<K> = UndoMap<K, ()>;

/// The existing objects that a capture has seen.
#[derive(Default)]
pub struct Existing {
    /// The first source of each object, by address, kept alive.
    known: RefCell<UndoMap<usize, (Py<PyAny>, SourceId)>>,
    /// Copies of containers with fakes for tensors, by address of the original.
    pub(crate) snapshots: RefCell<UndoMap<usize, Py<PyAny>>>,
    /// The inverse: the container that a copy represents, and its source, by the address of the copy.
    pub(crate) originals: RefCell<UndoMap<usize, (Py<PyAny>, SourceId)>>,
    /// Copies that represent containers changed by the frame, by address of the original.
    pub(crate) changed: RefCell<UndoMap<usize, Py<PyAny>>>,
    /// Objects whose contents are guarded, by address; true if they hold tensors.
    pub(crate) looked_into: RefCell<UndoMap<usize, bool>>,
    /// The source of each class of existing objects, by its address: through the first of these objects, whose guard keeps it alive.
    pub(crate) classes: RefCell<UndoMap<usize, SourceId>>,
    /// Classes and their functions that C code has called, which are guarded, by their addresses.
    pub(crate) specials: RefCell<Set<(usize, usize)>>,
    /// Objects that C code has compared with others by identity.
    compared: RefCell<Set<SourceId>>,
    /// The addresses of cells of existing functions, which keep them alive, by the sources of their contents.
    pub(crate) cells: RefCell<UndoMap<SourceId, usize>>,
    /// The source of each existing `nan`, by address, kept alive.
    pub(crate) nans: RefCell<UndoMap<usize, (Py<PyAny>, SourceId)>>,
    /// Frozen dicts, kept alive, and copies of them as dicts, by the address of the frozen dict.
    pub(crate) thawed: RefCell<FxHashMap<usize, [Py<PyAny>; 2]>>,
    /// Copies of frozen dicts with fakes for tensors, kept alive: see `originals`.
    pub(crate) frozen_copies: RefCell<Vec<Py<PyAny>>>,
    /// Classes whose special methods are all visible to the capture, by address, kept alive.
    pub(crate) seen_classes: RefCell<FxHashMap<usize, Py<PyType>>>,
    /// The globals of the captured function, once one of them was looked up.
    pub(crate) globals: OnceCell<Py<PyAny>>,
}

/// A savepoint of [`Existing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExistingMark {
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
    pub(crate) fn mark(&self) -> ExistingMark {
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

    pub(crate) fn roll_back(&self, to: ExistingMark) {
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

    /// Records that C code has compared an object with others by identity.
    pub(crate) fn note_compared(&self, source: SourceId) {
        let mut compared = self.compared.borrow_mut();
        if !compared.contains(&source) {
            compared.insert(source, ());
        }
    }

    /// Returns the objects that C code has compared with others by identity, in order.
    pub(crate) fn compared(&self) -> Vec<SourceId> {
        let mut sources: Vec<_> = self.compared.borrow().iter().map(|(source, ())| *source).collect();
        sources.sort_unstable();
        sources
    }

    /// Returns the number of compared objects.
    pub(crate) fn compared_count(&self) -> usize {
        self.compared.borrow().len()
    }

    /// Returns the number of their classes seen so far.
    pub(crate) fn class_count(&self) -> usize {
        self.classes.borrow().len()
    }
}

impl<'py> Sources<'py> {
    /// Returns the source of a value: the one recorded on the value itself, or that of its object. A computed number does not have a
    /// source: its value is guarded.
    pub fn source(&self, value: &Tracked<'py>) -> Option<SourceId> {
        if let Some(computed) = value.source.filter(|source| self.is_computed(*source)) {
            self.guards.settle(computed);
            return None;
        }
        value.source.or_else(|| self.source_of(&value.object))
    }

    /// Returns the first sources of the existing objects.
    pub(crate) fn existing_sources(&self) -> Vec<SourceId> {
        self.existing.known.borrow().iter().map(|(_, (_, source))| *source).collect()
    }

    /// Returns the existing objects with their first sources, ordered by these: guards are built from them and must be the same in each
    /// capture.
    pub(crate) fn existing_objects(&self) -> Vec<(Bound<'py, PyAny>, SourceId)> {
        let known = self.existing.known.borrow();
        let mut found: Vec<_> = known.iter().map(|(_, (object, source))| (object.bind(self.py).clone(), *source)).collect();
        found.sort_unstable_by_key(|(_, source)| *source);
        found
    }

    /// Returns the first sources of the existing objects for which this is true.
    pub(crate) fn existing_where(&self, wanted: impl Fn(&Bound<'py, PyAny>, SourceId) -> bool) -> Vec<SourceId> {
        self.existing_objects().into_iter().filter(|(object, source)| wanted(object, *source)).map(|(_, source)| source).collect()
    }

    /// Returns the existing object whose first source is this one.
    pub(crate) fn existing_at(&self, source: SourceId) -> Option<Bound<'py, PyAny>> {
        let known = self.existing.known.borrow();
        known.iter().find(|(_, (_, first))| *first == source).map(|(_, (object, _))| object.bind(self.py).clone())
    }

    /// Records the source of an existing object. Returns its first source.
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

impl<'py> Record<'py> {
    /// Returns the source of an object, if it existed before the frame.
    pub fn source_of(&self, object: &Bound<'py, PyAny>) -> Option<SourceId> {
        self.existing.known.borrow().get(&(object.as_ptr() as usize)).map(|(_, source)| *source)
    }
}
