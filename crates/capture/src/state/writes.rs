//! Attributes of existing objects that the frame has set or deleted. The objects themselves are not touched.

use std::cell::RefCell;

use dynamlir_graph::Line;
use dynamlir_guards::SourceId;
use pyo3::prelude::*;

use super::Tracked;

/// A write to an attribute of an existing object.
pub(crate) struct Written {
    pub owner: Py<PyAny>,
    pub source: SourceId,
    pub name: String,
    /// What was set, and where it came from; None where the attribute was deleted.
    pub value: Option<(Py<PyAny>, Option<SourceId>)>,
    /// The Python lines of the write.
    pub location: Vec<Line>,
}

/// What was written, in the order of the program. An attribute that is set again keeps its place, as in a dict.
#[derive(Default)]
pub struct Writes(RefCell<Vec<Written>>);

/// Writes as they are now, to be compared with what they are later: owner, name, value.
pub(crate) type WritesNow = Vec<(usize, String, usize)>;

impl Writes {
    /// Looks at the latest write to an attribute, if there was one.
    pub(crate) fn find<R>(&self, owner: &Bound<'_, PyAny>, name: &str, look: impl FnOnce(&Written) -> R) -> Option<R> {
        self.0.borrow().iter().rev().find(|entry| entry.owner.is(owner) && entry.name == name).map(look)
    }

    /// Looks at the first that this is true of.
    pub(crate) fn find_map<R>(&self, look: impl FnMut(&Written) -> Option<R>) -> Option<R> {
        self.0.borrow().iter().find_map(look)
    }

    /// Notes a write.
    pub(crate) fn push(&self, written: Written) {
        let mut list = self.0.borrow_mut();
        let same = |entry: &&mut Written| entry.owner.as_ptr() == written.owner.as_ptr() && entry.name == written.name;
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
        self.0.borrow().iter().map(|entry| (address(&entry.owner), entry.name.clone(), value(entry))).collect()
    }

    /// All of them, in order.
    pub(crate) fn all(&self, py: Python<'_>) -> Vec<Written> {
        self.0.borrow().iter().map(|entry| entry.clone_ref(py)).collect()
    }

    pub(super) fn roll_back(&self, to: Vec<Written>) {
        let former = self.0.replace(to);
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
            source: self.source,
            name: self.name.clone(),
            value: self.value.as_ref().map(|(value, source)| (value.clone_ref(py), *source)),
            location: self.location.clone(),
        }
    }
}
