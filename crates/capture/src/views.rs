//! Views of dicts and read-only proxies that existed before the frame: what they show is looked at in their place.
//!
//! `L['keys']`, `type(x).__dict__` and the `parameters` of a signature hold nothing themselves. The dict that they show is an existing
//! object, which they lead to ([`Source::Viewed`]), so what is read through one is guarded as what is read of the dict.

use dynamlir_cpython_abi::{kind, mapping};
use dynamlir_guards::Source;
use pyo3::{intern, prelude::*, types::PyType};

use crate::{
    graph_break::reason,
    state::{Capture, Outcome, Tracked},
};

impl<'py> Capture<'py> {
    /// What an existing view or proxy shows, where that is one of Python's own containers; None for anything else.
    pub(crate) fn viewed(&self, view: &Bound<'py, PyAny>) -> Outcome<Option<Tracked<'py>>> {
        let Some(shown) = mapping::viewed(view).filter(|shown| self.torch.is_container(shown)) else { return Ok(None) };
        let Some(source) = self.source_of(view) else { return Ok(None) };
        // What is written to a class is noted by the class, and may be shown here.
        if self.writes.find_map(|entry| entry.owner.bind(self.py).is_instance_of::<PyType>().then_some(())).is_some() {
            return self.break_graph(reason::SIDE_EFFECT, "looks into a view after writing to a class");
        }
        self.pin_type(view, source)?;
        self.wrap(shown, self.guards.source(Source::Viewed(source))).map(Some)
    }

    /// As [`Self::viewed`], where looks for a key and steps come to the same for the view as for the dict.
    pub(crate) fn keys_viewed(&self, view: &Bound<'py, PyAny>) -> Outcome<Option<Tracked<'py>>> {
        if mapping::is_keys(view) || kind::is_mapping_proxy(view) { self.viewed(view) } else { Ok(None) }
    }

    /// A view for C code: of the guarded copy of what it shows, if that is one. None for anything else.
    pub(crate) fn readable_view(&self, view: &Bound<'py, PyAny>) -> Outcome<Option<Bound<'py, PyAny>>> {
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
        };
        Ok(Some(made?))
    }
}
