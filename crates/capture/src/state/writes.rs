//! The frame's writes to existing objects: attributes of objects, global names and variables of enclosing functions that it has set or
//! deleted, and containers that it has changed. The objects themselves stay untouched.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use dynamlir_graph::Line;
use dynamlir_guards::SourceId;
use pyo3::prelude::*;
use rustc_hash::FxHashSet;

use crate::objects::Tracked;

/// The way in which a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteKind {
    /// As an attribute of an object, or as the content of a cell.
    Attribute,
    /// Under a name in the globals of functions.
    Global,
    /// By a method of a container, which is called with the arguments.
    Call,
    /// As the whole contents of a container, which its copy holds.
    Contents,
    /// As the value of a context variable.
    Context,
}

impl WriteKind {
    /// Returns true if the value is stored under a name.
    pub(crate) fn is_named(self) -> bool {
        matches!(self, Self::Attribute | Self::Global | Self::Context)
    }
}

/// A write to an existing object.
pub(crate) struct Written {
    pub kind: WriteKind,
    /// The object, the cell, the dict of globals, or the container.
    pub owner: Py<PyAny>,
    /// The address of the storage: the owner's dict, which objects may share, or else the owner.
    pub storage: usize,
    /// The source of the owner.
    pub source: SourceId,
    /// The source of the stored value.
    pub stored: SourceId,
    /// The name; for a container, the method.
    pub name: String,
    /// The value that was set, and its source; `None` if it was deleted. For a method, its last argument.
    pub value: Option<(Py<PyAny>, Option<SourceId>)>,
    /// The argument of a container's method before that.
    pub key: Option<Py<PyAny>>,
    /// The Python lines of the write.
    pub location: Vec<Line>,
}

/// The writes, in program order. A repeated write keeps its position, as in a dict.
#[derive(Default)]
pub struct Writes {
    list: RefCell<Vec<Rc<Written>>>,
    /// The number of changes to containers among them.
    changes: Cell<usize>,
    /// The number of recorded writes, including repeated ones.
    noted: Cell<usize>,
    /// The captured frame's instruction that has recorded a `backward`, which runs later and may read values written after that.
    closed: Cell<Option<usize>>,
    /// True while code that runs later is being recorded.
    recording: Cell<bool>,
    /// The storage read by that code: an address and a name, or only an address if everything stored there was read.
    looked_at: RefCell<FxHashSet<(usize, Option<String>)>>,
}

/// A snapshot of the writes, to compare with a later one: the number of recorded writes, and owners, names and values.
pub(crate) type WritesNow = (usize, Vec<(usize, String, usize)>);

impl Writes {
    /// Calls `look` with the latest write to the value stored at this address under a name, if any.
    pub(crate) fn find<R>(&self, storage: usize, name: &str, look: impl FnOnce(&Written) -> R) -> Option<R> {
        self.look(storage, Some(name));
        if !self.has_named() {
            return None;
        }
        let list = self.list.borrow();
        list.iter().rev().find(|entry| entry.kind.is_named() && entry.storage == storage && entry.name == name).map(|entry| look(entry))
    }

    /// Returns true if nothing was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.borrow().is_empty()
    }

    /// Records that a `backward` was recorded, at this instruction of the captured frame.
    pub(crate) fn close(&self, step: usize) {
        self.closed.set(self.closed.get().or(Some(step)));
    }

    /// Records code that runs later, such as a `backward`: it may run after subsequent writes.
    pub(crate) fn later<R>(&self, record: impl FnOnce() -> R) -> R {
        let outer = self.recording.replace(true);
        let result = record();
        self.recording.set(outer);
        result
    }

    /// Returns true while code that runs later is being recorded.
    pub(crate) fn is_recording(&self) -> bool {
        self.recording.get()
    }

    /// Records a read of the value stored at an address under a name, or without a name of everything stored there.
    pub(crate) fn look(&self, storage: usize, name: Option<&str>) {
        if self.recording.get() {
            self.looked_at.borrow_mut().insert((storage, name.map(str::to_owned)));
        }
    }

    /// Returns true if code that runs later has read the value stored at an address, under a name if there is one.
    pub(crate) fn is_looked_at(&self, storage: usize, name: Option<&str>) -> bool {
        let looked_at = self.looked_at.borrow();
        !looked_at.is_empty()
            && (looked_at.contains(&(storage, None)) || name.is_some_and(|name| looked_at.contains(&(storage, Some(name.to_owned())))))
    }

    /// Returns true if nothing was written, and reads do not have to be recorded.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_empty() && !self.recording.get()
    }

    /// Returns the instruction at which the first `backward` was recorded.
    pub(crate) fn closed(&self) -> Option<usize> {
        self.closed.get()
    }

    /// Returns the first result of `look` among the writes under a name.
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

    /// Returns true if any container was changed.
    pub(crate) fn has_changes(&self) -> bool {
        self.changes.get() > 0
    }

    /// Returns the changes to the container at this address, in order.
    pub(crate) fn changes(&self, container: usize) -> Vec<Rc<Written>> {
        self.look(container, None);
        if !self.has_changes() {
            return Vec::new();
        }
        self.list.borrow().iter().filter(|entry| entry.changes(container)).cloned().collect()
    }

    /// Returns true if the container at this address was changed.
    pub(crate) fn has_changed(&self, container: usize) -> bool {
        self.has_changes() && self.list.borrow().iter().any(|entry| entry.changes(container))
    }

    /// Replaces the changes to a container with its final contents.
    pub(crate) fn settle_contents(&self, contents: Written) {
        let mut list = self.list.borrow_mut();
        let container = contents.storage;
        let at = list.iter().position(|entry| entry.changes(container)).unwrap_or(list.len());
        let (dropped, mut kept): (Vec<_>, Vec<_>) = std::mem::take(&mut *list).into_iter().partition(|entry| entry.changes(container));
        kept.insert(at, Rc::new(contents));
        *list = kept;
        self.changes.set(self.changes.get() + 1 - dropped.len());
        self.noted.set(self.noted.get() + 1);
        // Dropping values may run Python code, which may access these writes.
        drop(list);
        drop(dropped);
    }

    /// Records a write.
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
        // Dropping values may run Python code, which may access these writes.
        drop(list);
        drop(former);
    }

    /// Returns the number of recorded writes, including repeated ones.
    pub(crate) fn noted(&self) -> usize {
        self.noted.get()
    }

    /// Returns a snapshot of the writes.
    pub(crate) fn now(&self) -> WritesNow {
        let address = |object: &Py<PyAny>| object.as_ptr() as usize;
        let value = |entry: &Written| entry.value.as_ref().map_or(0, |(value, _)| address(value));
        let writes = self.list.borrow().iter().map(|entry| (address(&entry.owner), entry.name.clone(), value(entry))).collect();
        (self.noted.get(), writes)
    }

    /// Returns all writes, in order.
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
    /// Returns the value that was set.
    pub(crate) fn tracked<'py>(&self, py: Python<'py>) -> Option<Tracked<'py>> {
        self.value.as_ref().map(|(value, source)| Tracked { object: value.bind(py).clone(), source: *source })
    }

    /// Returns true if this is a change to the container at this address.
    fn changes(&self, container: usize) -> bool {
        !self.kind.is_named() && self.storage == container
    }
}
