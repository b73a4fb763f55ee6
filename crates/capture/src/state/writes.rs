//! What the frame has done to what existed: attributes of objects, global names and variables of enclosing functions that it has set or
//! deleted, and containers that it has changed. Nothing of it is touched.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use dynamlir_graph::Line;
use dynamlir_guards::SourceId;
use pyo3::prelude::*;
use rustc_hash::FxHashSet;

use super::Tracked;

/// How something is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As an attribute of an object, or as what a cell contains.
    Attribute,
    /// Under a name in the globals of functions.
    Global,
    /// By a method of a container, which is called with what was given.
    Call,
    /// All that a container holds, which its copy has.
    Contents,
    /// As the value of a context variable.
    Context,
}

impl Kind {
    /// Whether something is stored under a name.
    pub(crate) fn is_named(self) -> bool {
        matches!(self, Self::Attribute | Self::Global | Self::Context)
    }
}

/// A write to what existed.
pub(crate) struct Written {
    pub kind: Kind,
    /// The object, the cell, the dict of globals, or the container.
    pub owner: Py<PyAny>,
    /// The address of what stores it: the owner's dict, which objects may share, or else the owner.
    pub storage: usize,
    /// Where the owner is reached.
    pub source: SourceId,
    /// Where what is stored is reached.
    pub stored: SourceId,
    /// The name; of a container the method.
    pub name: String,
    /// What was set, and where it came from; None where it was deleted. The last argument of a method.
    pub value: Option<(Py<PyAny>, Option<SourceId>)>,
    /// What the method of a container is given before that.
    pub key: Option<Py<PyAny>>,
    /// The Python lines of the write.
    pub location: Vec<Line>,
}

/// What was written, in the order of the program. What is set again keeps its place, as in a dict.
#[derive(Default)]
pub struct Writes {
    list: RefCell<Vec<Rc<Written>>>,
    /// How many of them are changes to containers.
    changes: Cell<usize>,
    /// How often anything was noted.
    noted: Cell<usize>,
    /// The captured frame's instruction that has recorded a `backward`, which runs later and may read what is written from now on.
    closed: Cell<Option<usize>>,
    /// Whether what runs later is being recorded.
    recording: Cell<bool>,
    /// What that has looked at: what is stored at an address under a name, or without one all that is stored there.
    looked_at: RefCell<FxHashSet<(usize, Option<String>)>>,
}

/// Writes as they are now, to be compared with what they are later: how often anything was noted, and owners, names and values.
pub(crate) type WritesNow = (usize, Vec<(usize, String, usize)>);

impl Writes {
    /// Looks at the latest write to what is stored at this address under a name, if there was one.
    pub(crate) fn find<R>(&self, storage: usize, name: &str, look: impl FnOnce(&Written) -> R) -> Option<R> {
        self.look(storage, Some(name));
        if !self.has_named() {
            return None;
        }
        let list = self.list.borrow();
        list.iter().rev().find(|entry| entry.kind.is_named() && entry.storage == storage && entry.name == name).map(|entry| look(entry))
    }

    /// Whether nothing was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.borrow().is_empty()
    }

    /// Says that a `backward` was recorded, at this instruction of the captured frame.
    pub(crate) fn close(&self, step: usize) {
        self.closed.set(self.closed.get().or(Some(step)));
    }

    /// Records what runs later, such as a `backward`: it may run after what is written from then on.
    pub(crate) fn later<R>(&self, record: impl FnOnce() -> R) -> R {
        let outer = self.recording.replace(true);
        let result = record();
        self.recording.set(outer);
        result
    }

    /// Whether what runs later is being recorded.
    pub(crate) fn is_recording(&self) -> bool {
        self.recording.get()
    }

    /// Notes that something is looked at which is stored at an address: under a name, or else all of it.
    pub(crate) fn look(&self, storage: usize, name: Option<&str>) {
        if self.recording.get() {
            self.looked_at.borrow_mut().insert((storage, name.map(str::to_owned)));
        }
    }

    /// Whether what runs later has looked at what is stored at an address, under a name if there is one.
    pub(crate) fn is_looked_at(&self, storage: usize, name: Option<&str>) -> bool {
        let looked_at = self.looked_at.borrow();
        !looked_at.is_empty()
            && (looked_at.contains(&(storage, None)) || name.is_some_and(|name| looked_at.contains(&(storage, Some(name.to_owned())))))
    }

    /// Whether nothing was written, nor needs to be noted that somebody looks.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_empty() && !self.recording.get()
    }

    /// At which instruction the first `backward` was recorded.
    pub(crate) fn closed(&self) -> Option<usize> {
        self.closed.get()
    }

    /// Looks at the first of what is stored under a name that this is true of.
    pub(crate) fn find_map<R>(&self, mut look: impl FnMut(&Written) -> Option<R>) -> Option<R> {
        if !self.has_named() {
            return None;
        }
        self.list.borrow().iter().filter(|entry| entry.kind.is_named()).find_map(|entry| look(entry))
    }

    /// Returns true if something was written under a name: a container may have been changed a hundred thousand times.
    fn has_named(&self) -> bool {
        self.list.borrow().len() > self.changes.get()
    }

    /// Whether any container was changed.
    pub(crate) fn has_changes(&self) -> bool {
        self.changes.get() > 0
    }

    /// What was done to the container at this address, in order.
    pub(crate) fn changes(&self, container: usize) -> Vec<Rc<Written>> {
        self.look(container, None);
        if !self.has_changes() {
            return Vec::new();
        }
        self.list.borrow().iter().filter(|entry| entry.changes(container)).cloned().collect()
    }

    /// Whether anything was done to the container at this address.
    pub(crate) fn has_changed(&self, container: usize) -> bool {
        self.has_changes() && self.list.borrow().iter().any(|entry| entry.changes(container))
    }

    /// Has what a container holds in the end stand for what was done to it.
    pub(crate) fn settle_contents(&self, contents: Written) {
        let mut list = self.list.borrow_mut();
        let container = contents.storage;
        let at = list.iter().position(|entry| entry.changes(container)).unwrap_or(list.len());
        let (dropped, mut kept): (Vec<_>, Vec<_>) = std::mem::take(&mut *list).into_iter().partition(|entry| entry.changes(container));
        kept.insert(at, Rc::new(contents));
        *list = kept;
        self.changes.set(self.changes.get() + 1 - dropped.len());
        self.noted.set(self.noted.get() + 1);
        // What is dropped may run Python code, which may come back here.
        drop(list);
        drop(dropped);
    }

    /// Notes a write.
    pub(crate) fn push(&self, written: Written) {
        self.noted.set(self.noted.get() + 1);
        let mut list = self.list.borrow_mut();
        if !written.kind.is_named() {
            self.changes.set(self.changes.get() + 1);
            list.push(Rc::new(written));
            return;
        }
        let same = |entry: &&mut Rc<Written>| entry.kind.is_named() && entry.storage == written.storage && entry.name == written.name;
        let known = list.iter_mut().rev().find(same).filter(|entry| entry.value.is_some() && written.value.is_some());
        let Some(known) = known else {
            list.push(Rc::new(written));
            return;
        };
        let former = std::mem::replace(known, Rc::new(written));
        // What is dropped may run Python code, which may come back here.
        drop(list);
        drop(former);
    }

    /// How often anything was noted.
    pub(crate) fn noted(&self) -> usize {
        self.noted.get()
    }

    /// What they are now.
    pub(crate) fn now(&self) -> WritesNow {
        let address = |object: &Py<PyAny>| object.as_ptr() as usize;
        let value = |entry: &Written| entry.value.as_ref().map_or(0, |(value, _)| address(value));
        let writes = self.list.borrow().iter().map(|entry| (address(&entry.owner), entry.name.clone(), value(entry))).collect();
        (self.noted.get(), writes)
    }

    /// All of them, in order.
    pub(crate) fn all(&self) -> Vec<Rc<Written>> {
        self.list.borrow().clone()
    }

    pub(super) fn roll_back(&self, (list, closed): (Vec<Rc<Written>>, Option<usize>)) {
        self.closed.set(closed);
        self.changes.set(list.iter().filter(|entry| !entry.kind.is_named()).count());
        let former = self.list.replace(list);
        drop(former);
    }
}

impl Written {
    /// What was set.
    pub(crate) fn tracked<'py>(&self, py: Python<'py>) -> Option<Tracked<'py>> {
        self.value.as_ref().map(|(value, source)| Tracked { object: value.bind(py).clone(), source: *source })
    }

    /// Whether it is a change to the container at this address.
    fn changes(&self, container: usize) -> bool {
        !self.kind.is_named() && self.storage == container
    }
}
