//! Views of dicts, read-only proxies and frozen dicts that existed before the frame: reads go to the dict that they show.
//!
//! A frozen dict shows a copy of itself, which is a dict. `L['keys']`, `type(x).__dict__` and the `parameters` of a signature hold nothing
//! themselves. The dict that they show is an existing object that they lead to ([`Source::Viewed`]), so a read through one is guarded like
//! a read of the dict.

use dynamlir_cpython_abi::mapping;
use dynamlir_guards::Source;
use pyo3::{intern, prelude::*, types::PyType};

use crate::{
    floors::Heap,
    graph_break::{Outcome, reason},
    objects::Tracked,
};

impl<'py> Heap<'py> {
    /// Returns the container that an existing view or proxy shows, if it is one of Python's own; `None` for anything else.
    pub(crate) fn viewed(&self, view: &Bound<'py, PyAny>) -> Outcome<Option<Tracked<'py>>> {
        let Some(source) = self.source_of(view) else { return Ok(None) };
        let Some(shown) = self.shown(view).filter(|shown| self.torch.is_container(shown)) else { return Ok(None) };
        // Writes to a class are recorded under the class, and may be visible here.
        if self.writes.find_map(|entry| entry.owner.bind(self.py).is_instance_of::<PyType>().then_some(())).is_some() {
            return self.break_graph(reason::SIDE_EFFECT, "looks into a view after writing to a class");
        }
        self.pin_type(view, source)?;
        self.wrap(shown, self.guards.source(Source::Viewed(source))).map(Some)
    }

    /// Returns the container that a view shows: the same object each time.
    fn shown(&self, view: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        if !mapping::is_frozen(view) {
            return mapping::viewed(view);
        }
        if let Some([_, copy]) = self.existing.thawed.borrow().get(&(view.as_ptr() as usize)) {
            return Some(copy.bind(self.py).clone());
        }
        let copy = mapping::viewed(view)?;
        self.existing.thawed.borrow_mut().insert(view.as_ptr() as usize, [view, &copy].map(|object| object.clone().unbind()));
        Some(copy)
    }

    /// Like [`Self::viewed`], if key lookups and iteration give the same results for the view as for the dict.
    pub(crate) fn keys_viewed(&self, view: &Bound<'py, PyAny>) -> Outcome<Option<Tracked<'py>>> {
        if mapping::is_keys(view) || mapping::shows_items(view) { self.viewed(view) } else { Ok(None) }
    }

    /// Returns a view for C code, which shows the guarded copy of the container if that was copied. `None` if this is not a view.
    pub(super) fn readable_view(&self, view: &Bound<'py, PyAny>) -> Outcome<Option<Bound<'py, PyAny>>> {
        let Some(shown) = self.viewed(view)? else { return Ok(None) };
        let copy = self.readable(&shown)?;
        if copy.is(&shown.object) {
            return Ok(Some(view.clone()));
        }
        let made = match () {
            () if mapping::is_keys(view) => copy.call_method0(intern!(self.py, "keys")),
            () if mapping::is_values(view) => copy.call_method0(intern!(self.py, "values")),
            () if mapping::is_items(view) => copy.call_method0(intern!(self.py, "items")),
            () => view.get_type().call1((copy,)),
        }?;
        if let Some(source) = self.source_of(view).filter(|_| mapping::is_frozen(view)) {
            // If C code returns this argument, the result is the existing object.
            self.existing.originals.borrow_mut().insert(made.as_ptr() as usize, (view.clone().unbind(), source));
            self.existing.frozen_copies.borrow_mut().push(made.clone().unbind());
        }
        Ok(Some(made))
    }
}
