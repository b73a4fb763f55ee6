//! One decision for each source of a number: a stand-in represents it, or it is used as it is.
//!
//! An int or float that has changed since an earlier capture becomes a dynamic size, or a number of the graph, and only its type is
//! guarded. That is correct for code that works with the stand-in. But C code that compares, hashes or prints the tuple that holds the
//! number works with its value at this call. So each reader says what it wants, and a source has one decision per capture: if the number
//! itself is wanted after a stand-in was used, the attempt ends, and the next one treats the number as a constant (`attempts.rs`).

use dynamlir_guards::{Source, SourceId};
use pyo3::{
    prelude::*,
    types::{PyDict, PyFloat, PyInt, PyList, PyTuple},
};

use crate::{
    floors::Numbers,
    graph_break::{Outcome, reason},
    objects::{Tracked, contents::is_deque},
    state::number_places::{Decided, Want},
};

impl<'py> Numbers<'py> {
    /// Takes in an object that existed before the frame, in the form that its reader wants. If that is the real object, the value of a
    /// primitive is guarded.
    pub(crate) fn take(&self, object: Bound<'py, PyAny>, source: SourceId, want: Want) -> Outcome<Tracked<'py>> {
        if want == Want::Exact {
            self.insist(&object, source)?;
        }
        let taken = self.wrap(object, source)?;
        if want == Want::Exact {
            self.guard_value(&taken)?;
        }
        Ok(taken)
    }

    /// Returns the stand-in for the number at a source; `None` for anything else, and for a number that is used as it is.
    pub(crate) fn stand_in(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<Option<Bound<'py, PyAny>>> {
        if !self.may_vary_at(object) || self.decided(source) == Some(Decided::Itself) {
            return Ok(None);
        }
        let found = match self.number_at(object, source)? {
            None => self.int_at(object, source)?,
            number => number,
        };
        self.decide(source, if found.is_some() { Decided::Stands } else { Decided::Itself });
        Ok(found)
    }

    /// Guards the values of all numbers that C code finds in an existing container and in the containers nested in it.
    pub(crate) fn take_contents(&self, container: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        if self.history.is_none() || self.places.exact.borrow().contains(&(container.as_ptr() as usize)) {
            return Ok(());
        }
        let _deeper = self.deeper(container)?;
        self.places.exact.borrow_mut().insert(container.as_ptr() as usize, ());
        let items = self.items_at(container, source)?;
        self.insist_all(&items)?;
        for (item, at) in items {
            if self.torch.is_container(&item) {
                // It may have been reached before, on another path.
                let first = self.source_of(&item).unwrap_or(at);
                self.take_contents(&item, first)?;
            }
        }
        Ok(())
    }

    /// Like [`Self::take`] for each of these items, with [`Want::Exact`]. If several of them have stand-ins, all are reported at once: each
    /// would otherwise cost an attempt.
    pub(crate) fn insist_all(&self, items: &[(Bound<'py, PyAny>, SourceId)]) -> Outcome<()> {
        let mut first = Ok(());
        for (item, at) in items {
            let insisted = self.insist(item, *at);
            first = first.and(insisted);
        }
        first
    }

    /// Uses a number as it is from now on. Ends the attempt if it already has a stand-in.
    fn insist(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        if !self.may_vary_at(object) {
            return Ok(());
        }
        if self.decided(source) != Some(Decided::Stands) {
            self.decide(source, Decided::Itself);
            return Ok(());
        }
        if let Some(number) = self.tensors.number_of(source).filter(|_| object.is_exact_instance_of::<PyFloat>()) {
            return self.needs_value(number.bind(self.py), "C code looks at");
        }
        self.blame_int(source)?;
        self.break_graph(reason::DYNAMIC_SHAPE, format!("C code looks at the size {}", self.guards.expression(source)))
    }

    /// Reports that the value of the number at a source is needed, if the number has a stand-in.
    pub(crate) fn blame_place(&self, source: SourceId) -> PyResult<bool> {
        if self.decided(source) != Some(Decided::Stands) {
            return Ok(false);
        }
        if let Some(number) = self.tensors.number_of(source).filter(|number| self.torch.is_number(number.bind(self.py))) {
            self.recorder().blame(number.bind(self.py))?;
        }
        self.blame_int(source).map(|()| true)
    }

    /// Returns true if an object may have a stand-in.
    fn may_vary_at(&self, object: &Bound<'py, PyAny>) -> bool {
        self.history.is_some() && (object.is_exact_instance_of::<PyInt>() || object.is_exact_instance_of::<PyFloat>())
    }

    fn decided(&self, source: SourceId) -> Option<Decided> {
        self.places.numbers.borrow().get(&source).copied()
    }

    fn decide(&self, source: SourceId, decided: Decided) {
        if self.decided(source) != Some(decided) {
            self.places.numbers.borrow_mut().insert(source, decided);
        }
    }

    /// Returns the items of a container, or of an instance of a subclass of tuple, list or dict, as C stores them, each with its source.
    /// Readers of dict keys and of set elements guard these values themselves.
    pub(crate) fn items_at(&self, container: &Bound<'py, PyAny>, source: SourceId) -> Outcome<Vec<(Bound<'py, PyAny>, SourceId)>> {
        if let Ok(dict) = container.cast::<PyDict>() {
            let pairs: Vec<_> = dict.iter().collect();
            let found = pairs.into_iter().enumerate().map(|(at, (key, value))| (value, self.value_at(source, &key, at)));
            return Ok(found.collect());
        }
        let items = if container.is_instance_of::<PyTuple>() || container.is_instance_of::<PyList>() {
            self.sequence(container)?
        } else if is_deque(container)? {
            container.try_iter()?.collect::<PyResult<_>>()?
        } else {
            Vec::new()
        };
        Ok(items.into_iter().enumerate().map(|(at, item)| (item, self.guards.source(Source::Index(source, at as u32)))).collect())
    }

    /// Returns the source of the value under a key of an existing dict: by the key if the key can be part of a source, otherwise by its
    /// position.
    pub(crate) fn value_at(&self, dict: SourceId, key: &Bound<'py, PyAny>, position: usize) -> SourceId {
        let by_key = self.guards.item(dict, key);
        by_key.unwrap_or_else(|_| self.guards.source(Source::DictValue(dict, position as u32)))
    }
}
