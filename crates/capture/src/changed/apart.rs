//! What a container that the frame has changed must not be at another call: another one that the frame has looked into.

use std::collections::HashMap;

use dynamlir_guards::{Relation, Source, SourceId};
use pyo3::{prelude::*, types::PyDict};

use crate::{
    attributes::instance_dict,
    identity::is_named,
    state::{Capture, Written},
};

/// The dicts in which modules keep what they are made of. No two modules share them.
const OF_MODULES: &[&str] = &["_buffers", "_modules", "_non_persistent_buffers_set", "_parameters"];

impl<'py> Capture<'py> {
    /// Guards that a container which was changed is none of the others that were met, nor what holds attributes, globals or the parts of
    /// a module that were looked at.
    pub(crate) fn tell_containers_apart(&self, written: &Written) {
        let container = written.owner.bind(self.py);
        let is_module = |source: SourceId| self.existing_at(source).is_some_and(|owner| self.torch.is_module(&owner));
        let of_module = |source: SourceId| match self.guards.get(source) {
            Source::Attr(owner, name) => (OF_MODULES.contains(&&*name) || name.ends_with("_hooks")) && is_module(owner),
            _ => false,
        };
        let own = of_module(written.source);
        let alike = |object: &Bound<'py, PyAny>, source: SourceId| {
            object.get_type().is(container.get_type()) && !object.is(container) && !of_module(source)
        };
        let mut others = self.existing_where(alike);
        if container.is_exact_instance_of::<PyDict>() && !own {
            others.extend(self.dicts_behind(container));
        }
        if !others.is_empty() {
            let mut all: Vec<_> = others.into_iter().chain([written.source]).collect();
            all.sort_unstable();
            all.dedup();
            self.guards.relate(Relation::Distinct(all));
        }
    }

    /// The dicts that were looked into without being met themselves: of attributes, of globals, of the parts of modules. Each once, and
    /// without the one that was changed.
    fn dicts_behind(&self, changed: &Bound<'py, PyAny>) -> Vec<SourceId> {
        let mut found = HashMap::new();
        let mut add = |dict: Option<Bound<'py, PyAny>>, source: SourceId| {
            if let Some(dict) = dict {
                found.entry(dict.as_ptr() as usize).or_insert(source);
            }
        };
        for source in self.existing_where(|object, _| !is_named(object) && !self.torch.is_module(object)) {
            let dict = self.existing_at(source).and_then(|object| instance_dict(&object)).map(Bound::into_any);
            add(dict, self.guards.source(Source::GetAttr(source, "__dict__".into())));
        }
        for (module, table) in self.guards.tables() {
            let dict = self.existing_at(module).and_then(|module| instance_dict(&module)?.get_item(table.attribute()).ok().flatten());
            add(dict, self.guards.attr(module, table.attribute()));
        }
        for function in self.guards.readers_of_globals() {
            let globals = match function {
                Some(function) => self.existing_at(function).and_then(|function| function.getattr("__globals__").ok()),
                None => self.existing.globals.get().map(|globals| globals.bind(self.py).clone()),
            };
            if globals.as_ref().is_some_and(|globals| self.effects.kinds.is_of_torch(globals)) {
                continue;
            }
            let function = function.unwrap_or_else(|| self.guards.source(Source::Function));
            add(globals, self.guards.source(Source::Globals(function)));
        }
        found.remove(&(changed.as_ptr() as usize));
        let mut found: Vec<_> = found.into_values().collect();
        found.sort_unstable();
        found
    }
}
