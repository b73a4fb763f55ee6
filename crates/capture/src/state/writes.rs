//! Attributes of existing objects that the frame has set or deleted. The objects themselves are not touched.

use std::cell::{Cell, RefCell};

use dynamlir_graph::Line;
use dynamlir_guards::SourceId;
use pyo3::prelude::*;

use super::Tracked;

/// A write to an attribute of an existing object.
pub(crate) struct Written {
    pub owner: Py<PyAny>,
    /// The address of what stores it: the owner's dict, which objects may share, or the owner, of a slot.
    pub storage: usize,
    pub source: SourceId,
    pub name: String,
    /// What was set, and where it came from; None where the attribute was deleted.
    pub value: Option<(Py<PyAny>, Option<SourceId>)>,
    /// The Python lines of the write.
    pub location: Vec<Line>,
}

/// What was written, in the order of the program. An attribute that is set again keeps its place, as in a dict.
#[derive(Default)]
pub struct Writes {
    list: RefCell<Vec<Written>>,
    /// Whether a `backward` was recorded, which runs later and may read what is written from now on.
    closed: Cell<bool>,
}

/// Writes as they are now, to be compared with what they are later: owner, name, value.
pub(crate) type WritesNow = Vec<(usize, String, usize)>;

impl Writes {
    /// Looks at the latest write to an attribute that is stored at this address, if there was one.
    pub(crate) fn find<R>(&self, storage: usize, name: &str, look: impl FnOnce(&Written) -> R) -> Option<R> {
        self.list.borrow().iter().rev().find(|entry| entry.storage == storage && entry.name == name).map(look)
    }

    /// Whether nothing was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.borrow().is_empty()
    }

    /// Says that a `backward` was recorded.
    pub(crate) fn close(&self) {
        self.closed.set(true);
    }

    /// Whether a `backward` was recorded.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Looks at the first that this is true of.
    pub(crate) fn find_map<R>(&self, look: impl FnMut(&Written) -> Option<R>) -> Option<R> {
        self.list.borrow().iter().find_map(look)
    }

    /// Notes a write.
    pub(crate) fn push(&self, written: Written) {
        let mut list = self.list.borrow_mut();
        let same = |entry: &&mut Written| entry.storage == written.storage && entry.name == written.name;
        let known = list.iter_mut().rev().find(same).filter(|entry| entry.value.is_some() && written.value.is_some());
        let Some(known) = known else {
            list.push(written);
            return;
        };
        let former = std::mem::replace(known, written);
        // What is dropped may run Python code, which may come back here.
        drop(list);
        drop(former);
    }

    /// What they are now.
    pub(crate) fn now(&self) -> WritesNow {
        let address = |object: &Py<PyAny>| object.as_ptr() as usize;
        let value = |entry: &Written| entry.value.as_ref().map_or(0, |(value, _)| address(value));
        self.list.borrow().iter().map(|entry| (address(&entry.owner), entry.name.clone(), value(entry))).collect()
    }

    /// All of them, in order.
    pub(crate) fn all(&self, py: Python<'_>) -> Vec<Written> {
        self.list.borrow().iter().map(|entry| entry.clone_ref(py)).collect()
    }

    pub(super) fn roll_back(&self, (list, closed): (Vec<Written>, bool)) {
        self.closed.set(closed);
        let former = self.list.replace(list);
        drop(former);
    }
}

impl Written {
    /// What was set.
    pub(crate) fn tracked<'py>(&self, py: Python<'py>) -> Option<Tracked<'py>> {
        self.value.as_ref().map(|(value, source)| Tracked { object: value.bind(py).clone(), source: *source })
    }

    fn clone_ref(&self, py: Python<'_>) -> Self {
        Self {
            owner: self.owner.clone_ref(py),
            storage: self.storage,
            source: self.source,
            name: self.name.clone(),
            value: self.value.as_ref().map(|(value, source)| (value.clone_ref(py), *source)),
            location: self.location.clone(),
        }
    }
}
