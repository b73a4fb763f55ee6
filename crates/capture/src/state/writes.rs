//! Attributes of existing objects that the frame has set or deleted. The objects themselves are not touched.

use std::cell::RefCell;

use dynamlir_graph::Line;
use dynamlir_guards::SourceId;
use pyo3::prelude::*;

/// An attribute of an existing object as the frame has left it.
pub(crate) struct Written {
    pub owner: Py<PyAny>,
    pub source: SourceId,
    pub name: String,
    /// None for a deleted one.
    pub value: Option<Py<PyAny>>,
    /// What the object itself stores under the name.
    pub before: Option<Py<PyAny>>,
    /// The Python lines of the latest write.
    pub location: Vec<Line>,
    /// Whether it was deleted in between: set again it is the last of all.
    pub deleted: bool,
}

/// What was written, each attribute once, in the order of the first writes.
#[derive(Default)]
pub struct Writes(RefCell<Vec<Written>>);

/// Writes as they are now, to be compared with what they are later: owner, name, value.
pub(crate) type WritesNow = Vec<(usize, String, usize)>;

impl Writes {
    /// Looks at one attribute that was written, if it was.
    pub(crate) fn find<R>(&self, owner: &Bound<'_, PyAny>, name: &str, look: impl FnOnce(&Written) -> R) -> Option<R> {
        self.0.borrow().iter().find(|entry| entry.owner.is(owner) && entry.name == name).map(look)
    }

    /// Looks at the first that this is true of.
    pub(crate) fn find_map<R>(&self, look: impl FnMut(&Written) -> Option<R>) -> Option<R> {
        self.0.borrow().iter().find_map(look)
    }

    /// Notes that an attribute that was written before is written again; false if it was not.
    pub(crate) fn rewrite(&self, owner: &Bound<'_, PyAny>, name: &str, value: Option<&Py<PyAny>>, location: Vec<Line>) -> bool {
        let mut list = self.0.borrow_mut();
        let Some(entry) = list.iter_mut().find(|entry| entry.owner.is(owner) && entry.name == name) else { return false };
        entry.deleted |= value.is_none();
        let former = std::mem::replace(&mut entry.value, value.map(|value| value.clone_ref(owner.py())));
        entry.location = location;
        drop(list);
        drop(former);
        true
    }

    /// Notes the first write of an attribute.
    pub(crate) fn push(&self, written: Written) {
        self.0.borrow_mut().push(written);
    }

    /// What they are now.
    pub(crate) fn now(&self) -> WritesNow {
        let address = |object: &Py<PyAny>| object.as_ptr() as usize;
        let list = self.0.borrow();
        list.iter().map(|entry| (address(&entry.owner), entry.name.clone(), entry.value.as_ref().map_or(0, address))).collect()
    }

    pub(super) fn mark(&self, py: Python<'_>) -> Vec<Written> {
        self.0.borrow().iter().map(|entry| entry.clone_ref(py)).collect()
    }

    pub(super) fn roll_back(&self, to: Vec<Written>) {
        let former = self.0.replace(to);
        drop(former);
    }
}

impl Written {
    fn clone_ref(&self, py: Python<'_>) -> Self {
        let copy = |object: &Option<Py<PyAny>>| object.as_ref().map(|object| object.clone_ref(py));
        Self {
            owner: self.owner.clone_ref(py),
            source: self.source,
            name: self.name.clone(),
            value: copy(&self.value),
            before: copy(&self.before),
            location: self.location.clone(),
            deleted: self.deleted,
        }
    }
}
