//! Guards that a container which the frame has changed is not, at another call, also another one that the frame has read.

use std::{collections::BTreeMap, rc::Rc};

use dynamlir_guards::{Relation, Source, SourceId};
use pyo3::{prelude::*, types::PyDict};
use rustc_hash::FxHashMap;

use crate::{
    floors::Writes,
    objects::{contents::is_named, lookup::instance_dict},
    state::{Written, WrittenKind},
};

/// The containers in which modules keep their parts. No two modules share them.
const OF_MODULES: &[&str] = &["_buffers", "_modules", "_non_persistent_buffers_set", "_parameters"];

impl<'py> Writes<'py> {
    /// Guards that the changed containers are distinct from the other containers that were seen, and from the dicts of the attributes,
    /// globals and module parts that were read.
    pub(in crate::heap) fn tell_containers_apart(&self, writes: &[Rc<Written>]) {
        // Grouped by class, and by belonging to modules, since there are many modules.
        let mut groups: BTreeMap<(usize, bool), BTreeMap<usize, SourceId>> = BTreeMap::new();
        for written in writes.iter().filter(|written| matches!(written.kind, WrittenKind::Call | WrittenKind::Contents)) {
            let class = written.owner.bind(self.py).get_type_ptr() as usize;
            groups.entry((class, self.is_of_module(written.source))).or_default().insert(written.storage, written.source);
        }
        for ((class, of_module), mut all) in groups {
            for (object, source) in self.existing_objects() {
                if object.get_type_ptr() as usize == class && !(of_module && self.is_of_module(source)) {
                    all.entry(object.as_ptr() as usize).or_insert(source);
                }
            }
            if class == self.py.get_type::<PyDict>().as_ptr() as usize && !of_module {
                for (address, source) in self.dicts_behind() {
                    all.entry(address).or_insert(source);
                }
            }
            let mut all: Vec<_> = all.into_values().collect();
            all.sort_unstable();
            if all.len() > 1 {
                self.guards.relate(Relation::Distinct(all));
            }
        }
    }

    /// Returns true if a source leads to one of the containers in which a module keeps its parts.
    fn is_of_module(&self, source: SourceId) -> bool {
        match self.guards.get(source) {
            Source::Attr(owner, name) if OF_MODULES.contains(&&*name) || name.ends_with("_hooks") => {
                self.existing_at(owner).is_some_and(|owner| self.torch.is_module(&owner))
            }
            _ => false,
        }
    }

    /// Returns the dicts that were read without being seen as objects themselves, by their addresses: of attributes, of globals, of module
    /// parts.
    fn dicts_behind(&self) -> FxHashMap<usize, SourceId> {
        let mut found = FxHashMap::default();
        let mut add = |dict: Option<Bound<'py, PyAny>>, source: SourceId| {
            if let Some(dict) = dict.filter(|dict| !self.effects.kinds.is_of_torch(dict)) {
                found.entry(dict.as_ptr() as usize).or_insert(source);
            }
        };
        let read = self.guards.readers_of_attributes();
        for (object, source) in self.existing_objects() {
            let is_holder = !is_named(&object) && !self.torch.is_module(&object);
            if is_holder || read.binary_search(&source).is_ok() {
                add(instance_dict(&object).map(Bound::into_any), self.guards.source(Source::GetAttr(source, "__dict__".into())));
            }
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
            let function = function.unwrap_or_else(|| self.guards.source(Source::Function));
            add(globals, self.guards.source(Source::Globals(function)));
        }
        found
    }
}
