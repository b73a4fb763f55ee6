//! Reads of a container that the frame has changed: of one item, of the copy that represents it, or by C code that would miss the change.

use pyo3::{
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};
use rustc_hash::FxHashSet;

use crate::{
    floors::{Heap, Writes},
    graph_break::{Outcome, reason},
    heap::container_writes::{Item, has_index},
    objects::{
        Tracked,
        contents::found_in,
        lookup::{instance_dict, lookup},
        type_name,
    },
};

impl<'py> Writes<'py> {
    /// Returns true if the frame has changed an existing container.
    pub(crate) fn is_changed(&self, container: &Bound<'py, PyAny>) -> bool {
        self.writes.look(container.as_ptr() as usize, None);
        !self.writes.is_empty() && self.writes.has_changed(container.as_ptr() as usize)
    }

    /// Notes that C code may look at everything inside these values, if that may happen later, when the frame has ended.
    pub(crate) fn note_looks_within<'a>(&self, values: impl IntoIterator<Item = &'a Bound<'py, PyAny>>)
    where
        'py: 'a,
    {
        if !self.writes.is_recording() {
            return;
        }
        let (mut seen, mut waiting) = (FxHashSet::default(), values.into_iter().cloned().collect::<Vec<_>>());
        while let Some(value) = waiting.pop() {
            if self.torch.is_primitive(&value) || self.torch.is_tensor(&value) || !seen.insert(value.as_ptr() as usize) {
                continue;
            }
            self.writes.look(value.as_ptr() as usize, None);
            if let Ok(dict) = value.cast::<PyDict>() {
                waiting.extend(dict.iter().flat_map(|(key, value)| [key, value]));
            } else if let Ok(items) = value.cast::<PyList>() {
                waiting.extend(items.iter());
            } else if let Ok(items) = value.cast::<PyTuple>() {
                waiting.extend(items.iter());
            }
        }
    }

    /// Ends the capture where a container that the frame has changed is read without its copy.
    pub(crate) fn refuse_changed(&self, container: &Bound<'py, PyAny>) -> Outcome<()> {
        if self.writes.has_changed(container.as_ptr() as usize) {
            return self.break_graph(reason::SIDE_EFFECT, format!("looks into a {} that was changed", type_name(container)));
        }
        Ok(())
    }

    /// Like [`Self::refuse_changed`], for the dict of an object's attributes.
    pub(crate) fn refuse_changed_attributes(&self, owner: &Bound<'py, PyAny>) -> Outcome<()> {
        if !self.writes.has_changes() {
            return Ok(());
        }
        instance_dict(owner).map_or(Ok(()), |dict| self.refuse_changed(&dict))
    }

    /// Ends the capture where an iterator advances whose C code looks into a container that the frame has changed.
    pub(crate) fn refuse_changed_beneath(&self, iterator: &Bound<'py, PyAny>) -> Outcome<()> {
        const LOOKING: &[&str] = &["accumulate", "chain", "compress", "filter", "filterfalse", "groupby", "starmap"];
        if !self.writes.has_changes() {
            return Ok(());
        }
        let (mut seen, mut waiting) = (FxHashSet::default(), vec![iterator.clone()]);
        while let Some(value) = waiting.pop() {
            let class = value.get_type();
            if lookup(&class, "__next__")?.is_none() || !seen.insert(value.as_ptr() as usize) {
                continue;
            }
            if LOOKING.contains(&class.name()?.to_str()?) {
                self.refuse_changed_within([&value])?;
            }
            waiting.extend(found_in(&value)?);
        }
        Ok(())
    }

    /// Ends the capture where C code would look into a container that the frame has changed, inside another object that it is given.
    pub(crate) fn refuse_changed_within<'a>(&self, values: impl IntoIterator<Item = &'a Bound<'py, PyAny>>) -> Outcome<()>
    where
        'py: 'a,
    {
        let values: Vec<_> = values.into_iter().collect();
        self.note_looks_within(values.iter().copied());
        if !self.writes.has_changes() {
            return Ok(());
        }
        let mut seen = FxHashSet::default();
        let mut waiting = Vec::new();
        for value in values {
            if let Some(copy) = self.existing.changed.borrow().get(&(value.as_ptr() as usize)) {
                waiting.extend(found_in(copy.bind(self.py))?);
            } else if self.is_changed(value) {
                // Only the values that were put into it: its former contents are not read before a copy exists.
                let put = self.writes.changes(value.as_ptr() as usize);
                waiting.extend(put.iter().filter_map(|written| Some(written.tracked(self.py)?.object)));
            } else if self.source_of(value).is_none() && !self.torch.is_primitive(value) && !self.torch.is_fake(value) {
                waiting.extend(found_in(value)?);
            }
        }
        while let Some(value) = waiting.pop() {
            if self.torch.is_primitive(&value) || self.torch.is_fake(&value) || !seen.insert(value.as_ptr() as usize) {
                continue;
            }
            if self.is_changed(&value) {
                return self.break_graph(reason::SIDE_EFFECT, format!("C code looks into a {} that was changed", type_name(&value)));
            }
            if self.source_of(&value).is_none() {
                waiting.extend(found_in(&value)?);
            }
        }
        Ok(())
    }
}

impl<'py> Heap<'py> {
    /// Returns the copy that represents an existing container, if the frame has changed the container.
    pub(crate) fn changed(&self, container: &Bound<'py, PyAny>) -> Outcome<Option<Bound<'py, PyAny>>> {
        if !self.is_changed(container) {
            return Ok(None);
        }
        // It may be one of the frame's own objects, which can change.
        self.layers.note_unrepeatable();
        match self.source_of(container) {
            Some(source) => self.copy_to_change(container, source).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the frame's effect on an item of an existing container; None if there is none.
    pub(crate) fn changed_item(&self, container: &Bound<'py, PyAny>, key: &Tracked<'py>) -> Outcome<Option<Item<'py>>> {
        if !self.is_changed(container) {
            return Ok(None);
        }
        self.layers.note_unrepeatable();
        let address = container.as_ptr() as usize;
        let by_key = container.is_instance_of::<PyDict>() && self.torch.is_primitive(&key.object);
        let by_index = container.is_exact_instance_of::<PyList>() && has_index(container, &key.object)?;
        if (by_key || by_index) && !self.existing.changed.borrow().contains(&address) {
            for written in self.writes.changes(address).iter().rev() {
                match (written.name.as_str(), &written.key) {
                    ("append", None) => {}
                    // Dicts compare tensors by identity.
                    ("__setitem__", Some(at)) if self.torch.is_fake(at.bind(self.py)) => {}
                    ("__setitem__" | "__delitem__", Some(at)) => {
                        if at.bind(self.py).is(&key.object) || at.bind(self.py).eq(&key.object)? {
                            return Ok(Some(written.tracked(self.py).map_or(Item::Gone, Item::Set)));
                        }
                    }
                    _ => return self.changed(container).map(|copy| copy.map(Item::In)),
                }
            }
            return Ok(None);
        }
        self.changed(container).map(|copy| copy.map(Item::In))
    }
}
