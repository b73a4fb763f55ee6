//! Tensors as keys of dicts, such as those of an optimizer's state: dicts find them by identity.
//!
//! For a tensor that existed before, the frame has a fake. An existing dict has the tensor itself, and so does the copy that represents a
//! dict which the frame has changed. This module finds one by the other.

use dynamlir_guards::{Relation, Source, SourceId};
use pyo3::{prelude::*, types::PyDict};

use crate::{
    floors::{Heap, Operations},
    graph_break::{Outcome, reason},
    objects::Tracked,
    state::WrittenKind,
};

/// The maximum number of keys that a tensor is guarded to differ from.
const MOST: usize = 64;

/// The entry of a dict under a tensor.
pub(crate) enum Kept<'py> {
    Value(Tracked<'py>),
    Nothing,
}

impl<'py> Heap<'py> {
    /// Returns a dict that the frame created, if a tensor is looked up in it.
    pub(crate) fn keyed_by_tensors<'a>(&self, container: &'a Bound<'py, PyAny>, key: &Bound<'py, PyAny>) -> Option<&'a Bound<'py, PyDict>> {
        let stands = self.original(container).is_some();
        container.cast_exact::<PyDict>().ok().filter(|_| self.is_tensor_key(key) && self.is_young(container) && !stands)
    }

    /// Returns true if a key represents a tensor. Numbers are found by equality.
    fn is_tensor_key(&self, key: &Bound<'py, PyAny>) -> bool {
        self.torch.is_fake(key) && !self.torch.is_number(key)
    }

    /// Returns the entry of an existing dict under a tensor, with the frame's changes. Guards that the tensor is the key at this position,
    /// or none of the keys. None for other containers and other keys.
    pub(crate) fn under_tensor(&self, container: &Tracked<'py>, key: &Tracked<'py>) -> Outcome<Option<Kept<'py>>> {
        if !self.is_tensor_key(&key.object) {
            return Ok(None);
        }
        let found = self.original(&container.object).or_else(|| Some((container.object.clone(), self.source(container)?)));
        let Some((dict, source)) = found.filter(|(dict, _)| dict.is_instance_of::<PyDict>() && self.torch.is_container(dict)) else {
            return Ok(None);
        };
        let dict = dict.cast::<PyDict>().map_err(PyErr::from)?;
        self.refuse_written(dict)?;
        self.pin_type(dict, source)?;
        let existing = self.real_of(&key.object);
        if self.is_changed(dict) {
            self.layers.note_unrepeatable();
            if self.has_only_put(dict) {
                if let Some(value) = self.put_under(dict, key)? {
                    return Ok(Some(Kept::Value(value)));
                }
            } else {
                return self.under_tensor_in_copy(dict, key);
            }
        }
        // An object that the frame created is not in anything that existed before.
        let Some((real, place)) = existing else { return Ok(Some(Kept::Nothing)) };
        let key_at = |at: usize| self.guards.source(Source::DictKey(source, at as u32));
        if let Some((at, value)) = dict.iter().enumerate().find_map(|(at, (key, value))| key.is(&real).then_some((at, value))) {
            self.guards.relate(Relation::Same(place, key_at(at)));
            return self.wrap(value, self.guards.source(Source::DictValue(source, at as u32))).map(|value| Some(Kept::Value(value)));
        }
        if dict.len() > MOST {
            let message = format!("looks a tensor up that is none of the many in {}", self.guards.expression(source));
            return self.break_graph(reason::SIDE_EFFECT, message);
        }
        self.guards.length(source, dict.len());
        if !dict.is_empty() {
            self.guards.relate(Relation::Distinct(std::iter::once(place).chain((0..dict.len()).map(key_at)).collect()));
        }
        Ok(Some(Kept::Nothing))
    }

    /// Returns true if the frame has only put entries into a dict, under text, numbers or tensors, and no copy represents the dict.
    fn has_only_put(&self, dict: &Bound<'py, PyAny>) -> bool {
        let address = dict.as_ptr() as usize;
        !self.existing.changed.borrow().contains(&address)
            && self.writes.changes(address).iter().all(|written| {
                let key = written.key.as_ref().map(|key| key.bind(self.py));
                written.kind == WrittenKind::Call
                    && written.name == "__setitem__"
                    && key.is_some_and(|key| self.torch.is_primitive(key) || self.is_tensor_key(key))
            })
    }

    /// Returns the value that the frame has put into an existing dict under a tensor. Guards that this tensor is not one of the other keys
    /// that the frame has used.
    fn put_under(&self, dict: &Bound<'py, PyAny>, key: &Tracked<'py>) -> Outcome<Option<Tracked<'py>>> {
        let mut found = None;
        for written in self.writes.changes(dict.as_ptr() as usize) {
            let Some(known) = written.key.as_ref().map(|known| known.bind(self.py)) else { continue };
            if known.is(&key.object) {
                found = written.tracked(self.py);
            } else {
                self.tell_apart(known, &key.object);
            }
        }
        Ok(found)
    }

    /// Guards that two tensors, if both existed before the frame, are distinct.
    fn tell_apart(&self, left: &Bound<'py, PyAny>, right: &Bound<'py, PyAny>) {
        if let Some(((_, left), (_, right))) = self.real_of(left).zip(self.real_of(right))
            && left != right
        {
            self.guards.relate(Relation::Distinct(vec![left.min(right), left.max(right)]));
        }
    }

    /// Returns the entry under a tensor of the copy that represents a dict. All keys of the copy are guarded.
    fn under_tensor_in_copy(&self, dict: &Bound<'py, PyAny>, key: &Tracked<'py>) -> Outcome<Option<Kept<'py>>> {
        let Some(copy) = self.changed(dict)? else { return Ok(None) };
        let wanted = self.key_in_copy(&key.object)?;
        let copy = copy.cast::<PyDict>().map_err(PyErr::from)?;
        match copy.iter().find(|(known, _)| known.is(&wanted) || known.is(&key.object)) {
            Some((_, value)) => self.wrap_untracked(value).map(|value| Some(Kept::Value(value))),
            None => Ok(Some(Kept::Nothing)),
        }
    }

    /// Returns a key as a copy of an existing dict has it: for the fake of an existing tensor, the tensor itself, guarded by identity.
    pub(super) fn key_in_copy(&self, key: &Bound<'py, PyAny>) -> Outcome<Bound<'py, PyAny>> {
        match self.real_of(key).filter(|_| self.is_tensor_key(key)) {
            None => Ok(key.clone()),
            Some((real, place)) => {
                self.pin(&real, place)?;
                Ok(real)
            }
        }
    }

    /// Returns the arguments of a method of a dict that the frame changes, with the copy's own key in place of a tensor.
    pub(super) fn keyed_as_in_copy(&self, copy: &Bound<'py, PyAny>, method: &str, args: &[Tracked<'py>]) -> Outcome<Vec<Tracked<'py>>> {
        let mut args = args.to_vec();
        if copy.is_instance_of::<PyDict>()
            && matches!(method, "__delitem__" | "__setitem__" | "pop" | "setdefault")
            && let Some(key) = args.first_mut()
            && self.is_tensor_key(&key.object)
        {
            *key = Tracked::new(self.key_in_copy(&key.object)?);
        }
        Ok(args)
    }
}

impl<'py> Operations<'py> {
    /// `dict[key]` for an existing dict and a tensor; None for others.
    pub(crate) fn item_of_tensor(&self, container: &Tracked<'py>, key: &Tracked<'py>) -> Outcome<Option<Tracked<'py>>> {
        match self.under_tensor(container, key)? {
            None => Ok(None),
            Some(Kept::Value(value)) => Ok(Some(value)),
            Some(Kept::Nothing) => {
                let (dict, source): (Bound<'py, PyAny>, SourceId) = match self.original(&container.object) {
                    Some(found) => found,
                    None => match self.source(container) {
                        Some(source) => (container.object.clone(), source),
                        None => return Ok(None),
                    },
                };
                self.missing_item(&Tracked { object: dict, source: Some(source) }, key).map(Some)
            }
        }
    }
}
