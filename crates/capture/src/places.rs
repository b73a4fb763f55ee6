//! One decision for each place where there is a number: something stands for it, or it is what it is.
//!
//! An int or float that has changed since an earlier capture is a size that varies, or a number of the graph; what is guarded of its place is
//! no more than its type. That is right for those who work with what stands for it. C code that compares, hashes or prints the tuple that
//! holds it works with the number of this call. So each reader says what it wants, and there is one answer for a place in a capture:
//! where the number itself is wanted after something stood for it, the attempt ends, and the next one has a constant there (`attempts.rs`).

use std::cell::RefCell;

use dynamlir_guards::{Source, SourceId};
use pyo3::{
    prelude::*,
    types::{PyDict, PyFloat, PyInt, PyList, PyTuple},
};

use crate::{
    graph_break::reason,
    snapshots::is_deque,
    state::{Capture, Journal, Mark, Outcome, Tracked},
};

/// The use that a reader makes of what is at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Want {
    /// It uses what it is given, which may stand for a number.
    Flexible,
    /// It, or C code that it calls, looks at the real thing, which is guarded to be what it is.
    Exact,
}

/// The meaning of a number at a place for one capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decided {
    /// Something stands for it.
    Stands,
    /// It is itself. Where its value decides something, that is guarded.
    Itself,
}

/// The decisions of one capture.
#[derive(Default)]
pub(crate) struct Places {
    numbers: RefCell<Journal<SourceId, Decided>>,
    /// Containers of which all that is in them is guarded to be what it is, by their addresses.
    exact: RefCell<Journal<usize, ()>>,
}

/// How far [`Places`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlacesMark {
    numbers: Mark,
    exact: Mark,
}

impl Places {
    pub(crate) fn mark(&self) -> PlacesMark {
        PlacesMark { numbers: self.numbers.borrow().mark(), exact: self.exact.borrow().mark() }
    }

    pub(crate) fn roll_back(&self, to: PlacesMark) {
        let _ = self.numbers.borrow_mut().roll_back(to.numbers);
        let _ = self.exact.borrow_mut().roll_back(to.exact);
    }
}

impl<'py> Capture<'py> {
    /// Takes in something that existed before the frame, as its reader wants it. Where that is the real thing, the value of a primitive is
    /// guarded.
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

    /// Returns what stands for the number at a source; None for anything else, and for a number that is itself.
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

    /// Guards that all numbers which C code finds in an existing container are what they are, in those within it as well.
    pub(crate) fn take_contents(&self, container: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        if self.floats.is_none() || self.places.exact.borrow().contains(&(container.as_ptr() as usize)) {
            return Ok(());
        }
        let _deeper = self.deeper(container)?;
        self.places.exact.borrow_mut().insert(container.as_ptr() as usize, ());
        let items = self.items_at(container, source)?;
        self.insist_all(&items)?;
        for (item, at) in items {
            if self.torch.is_container(&item) {
                // It may have been reached before, by another way.
                let first = self.source_of(&item).unwrap_or(at);
                self.take_contents(&item, first)?;
            }
        }
        Ok(())
    }

    /// As [`Self::take`] of each of these, where the real thing is wanted. Where something stands for several, all are told at once: each costs
    /// an attempt.
    pub(crate) fn insist_all(&self, items: &[(Bound<'py, PyAny>, SourceId)]) -> Outcome<()> {
        let mut first = Ok(());
        for (item, at) in items {
            let insisted = self.insist(item, *at);
            first = first.and(insisted);
        }
        first
    }

    /// Has a number be itself from now on. Ends the attempt where something stands for it already.
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

    /// Says that the number itself is needed of a place, if something stands for it there.
    pub(crate) fn blame_place(&self, source: SourceId) -> PyResult<bool> {
        if self.decided(source) != Some(Decided::Stands) {
            return Ok(false);
        }
        if let Some(number) = self.tensors.number_of(source).filter(|number| self.torch.is_number(number.bind(self.py))) {
            self.ask("blame", (number,))?;
        }
        self.blame_int(source).map(|()| true)
    }

    /// Returns true if something may stand for an object.
    fn may_vary_at(&self, object: &Bound<'py, PyAny>) -> bool {
        self.floats.is_some() && (object.is_exact_instance_of::<PyInt>() || object.is_exact_instance_of::<PyFloat>())
    }

    fn decided(&self, source: SourceId) -> Option<Decided> {
        self.places.numbers.borrow().get(&source).copied()
    }

    fn decide(&self, source: SourceId, decided: Decided) {
        if self.decided(source) != Some(decided) {
            self.places.numbers.borrow_mut().insert(source, decided);
        }
    }

    /// The items of a container, or of an instance of a subclass of tuple, list or dict, as C stores them: each with where it is found. The keys of
    /// dicts and the elements of sets are guarded to be what they are by those who look at them.
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

    /// The place of the value under a key of an existing dict, by the key where that can be said, else by its position.
    pub(crate) fn value_at(&self, dict: SourceId, key: &Bound<'py, PyAny>, position: usize) -> SourceId {
        let by_key = self.guards.item(dict, key);
        by_key.unwrap_or_else(|_| self.guards.source(Source::DictValue(dict, position as u32)))
    }
}
