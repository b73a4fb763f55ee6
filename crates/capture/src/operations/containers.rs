//! Items, membership, truth, identity and iteration.

use dynamlir_cpython_abi::mapping;
use dynamlir_guards::{Facet, Source, SourceId};
use pyo3::{
    exceptions::PyKeyError,
    intern,
    prelude::*,
    types::{PyDict, PyList, PySet, PySlice, PyString, PyTuple, PyType},
};

use crate::{
    floors::{Operations, Reads},
    graph_break::{Halt, Outcome, reason},
    heap::{attribute_writes::Overlay, container_writes::Item, subclassed::item_count, tensor_keys::Kept},
    objects::{Tracked, contents::is_deque, lookup::lookup, special_names},
    state::number_places::Want,
};

impl<'py> Operations<'py> {
    /// `container[key]`.
    pub fn get_item(&self, container: &Tracked<'py>, key: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        if let Some(value) = self.item_of_tensor(container, key)? {
            return Ok(value);
        }
        if let Some(dict) = self.keyed_by_tensors(&container.object, &key.object) {
            return match dict.iter().find(|(known, _)| known.is(&key.object)) {
                Some((_, value)) => self.wrap_untracked(value),
                None => self.missing_item(container, key),
            };
        }
        if self.torch.is_fake(&key.object)
            && (container.object.is_instance_of::<PyList>() || container.object.is_instance_of::<PyTuple>())
            && let Some(index) = self.known_contents(&key.object, "__index__")?
        {
            return self.get_item(container, &index);
        }
        self.refuse_numbers("an item is looked up by", [&key.object])?;
        if self.torch.any_fake(&container.object) && self.torch.is_fake(&container.object) || self.torch.any_fake(&key.object) {
            return self.operator("getitem", &[container.clone(), key.clone()]);
        }
        let key = &self.settle_size(key)?;
        self.guard_value(key)?;
        self.guard_value(container)?;
        self.refuse_nan(&container.object, &key.object)?;
        if let Some(dict) = self.keys_viewed(&container.object)?.filter(|_| mapping::shows_items(&container.object)) {
            return self.get_item(&dict, key);
        }
        match self.changed_item(&container.object, key)? {
            None => {}
            Some(Item::Set(value)) => return Ok(value),
            Some(Item::Gone) => return self.missing_item(container, key),
            Some(Item::In(copy)) if self.is_default_missing(&copy, &key.object)? => return self.missing_item(container, key),
            Some(Item::In(copy)) => return self.get_item(&Tracked::new(copy), key),
        }
        self.settle_key(&container.object, key)?;
        let Some(source) = self.source_of(&container.object) else {
            let found = container.object.get_item(&key.object).map_err(Halt::from);
            return self.wrap_untracked(self.or_lacking(found, &container.object, special_names::ITEM)?);
        };
        if key.object.is_instance_of::<PySlice>() {
            return self.wrap_untracked(self.readable(container)?.get_item(&key.object)?);
        }
        let object = &container.object;
        if self.has_items(object, source)? {
            self.pin_type(object, source)?;
            // Called once, as in Python; a key that is not an index raises below.
            let index = match lookup(&key.object.get_type(), "__index__")? {
                Some(_) => dynamlir_cpython_abi::import(self.py, "operator")?.call_method1("index", (&key.object,))?,
                None => key.object.clone(),
            };
            let length = item_count(object)?;
            let value = object.get_item(&index).inspect_err(|_| self.guards.length(source, length))?;
            let index = index.extract::<i64>()?;
            let at = if index < 0 {
                self.guards.length(source, length);
                index + length as i64
            } else {
                index
            };
            return self.wrap(value, self.guards.source(Source::Index(source, at as u32)));
        }
        if self.torch.is_container(object) && object.is_instance_of::<PyDict>() {
            let dict = object.cast::<PyDict>().map_err(PyErr::from)?;
            let Ok(item) = self.item_source(object, source, &key.object) else {
                return self.wrap_untracked(self.readable(container)?.get_item(&key.object)?);
            };
            if let Some(owner) = self.written_in(object)
                && let Ok(name) = key.object.extract::<String>()
            {
                match self.written_attr(&owner, &name) {
                    Overlay::Set(value) => return Ok(value),
                    Overlay::Deleted => return Err(Halt::Raise(PyKeyError::new_err((name,)))),
                    Overlay::Untouched => {}
                }
            }
            if let Some(value) = dict.get_item(&key.object)? {
                return self.wrap(value, item);
            }
            self.guards.absent(item);
            return self.missing_item(container, key);
        }
        if let Some(value) = self.item_of_subclass(object, source, &key.object)? {
            return Ok(value);
        }
        if is_deque(object)? {
            let found = self.readable(container)?.get_item(&key.object).map_err(Halt::from);
            return self.wrap_untracked(self.or_lacking(found, object, special_names::ITEM)?);
        }
        self.pin_type(object, source)?;
        self.guard_contents(object, source)?;
        if let Ok(class) = object.cast::<PyType>() {
            self.pin_specials(object, special_names::SPREAD)?;
            self.pin_entry(class, source, intern!(self.py, "__class_getitem__"))?;
        }
        if self.is_typing(&object.get_type())? {
            // `List[Tensor]` is only a type, which `typing` keeps in a cache.
            return Ok(Tracked::new(self.outside(|| object.get_item(&key.object))?));
        }
        let found = object.get_item(&key.object).map_err(Halt::from);
        self.wrap_untracked(self.or_lacking(found, object, special_names::ITEM)?)
    }

    /// Returns the result of looking up a key that an existing dict does not have: an error, or the default that a `defaultdict` creates
    /// and stores.
    pub(crate) fn missing_item(&self, container: &Tracked<'py>, key: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        let dict = &container.object;
        let source = self.source_of(dict).filter(|_| lookup(&dict.get_type(), "__missing__").is_ok_and(|found| found.is_some()));
        let Some(source) = source else { return Err(Halt::Raise(PyKeyError::new_err((key.object.clone().unbind(),)))) };
        self.pin_factory(dict, source)?;
        if !self.has_defaults(dict)? {
            return Err(Halt::Raise(PyKeyError::new_err((key.object.clone().unbind(),))));
        }
        let factory = self.part(dict, "default_factory")?;
        let made = self.call(&factory, &[], &Vec::new())?;
        self.set_item(container, key, Some(&made))?;
        Ok(made)
    }

    /// Returns true if a dict would insert a default for a key.
    fn is_default_missing(&self, dict: &Bound<'py, PyAny>, key: &Bound<'py, PyAny>) -> PyResult<bool> {
        Ok(self.has_defaults(dict)? && self.torch.is_primitive(key) && !dict.contains(key)?)
    }

    /// Guards what decides which item a key selects: in a dict the comparisons with its keys, elsewhere the index that the key converts to.
    fn settle_key(&self, container: &Bound<'py, PyAny>, key: &Tracked<'py>) -> Outcome<()> {
        if container.is_instance_of::<PyDict>() {
            return self.looked_up(container, &key.object);
        }
        let parts = match key.object.cast_exact::<PySlice>() {
            Ok(slice) if self.source(key).is_none() => {
                ["start", "stop", "step"].iter().map(|name| slice.getattr(*name)).collect::<PyResult<Vec<_>>>()?
            }
            _ => vec![key.object.clone()],
        };
        self.guard_inside(&parts, special_names::INDEX)
    }

    /// Returns the source of the value under a key of an existing dict. An entry of an object's `__dict__` has the source of the attribute.
    fn item_source(&self, dict: &Bound<'py, PyAny>, source: SourceId, key: &Bound<'py, PyAny>) -> Result<SourceId, Halt> {
        if let Source::GetAttr(owner, name) = self.guards.get(source)
            && &*name == "__dict__"
            && let Ok(key) = key.cast_exact::<PyString>()
            && let Ok(key) = key.to_str()
        {
            return Ok(self.guards.attr(owner, key));
        }
        self.pin_type(dict, source)?;
        self.guarded(self.guards.item(source, key))
    }

    /// `container[key] = value`, or `del container[key]`.
    pub fn set_item(&self, container: &Tracked<'py>, key: &Tracked<'py>, value: Option<&Tracked<'py>>) -> Outcome<()> {
        if self.torch.is_fake(&container.object) {
            let Some(value) = value else {
                return Err(Halt::Raise(pyo3::exceptions::PyTypeError::new_err("Tensor does not support deleting items")));
            };
            return self.operator("setitem", &[container.clone(), key.clone(), value.clone()]).map(|_| ());
        }
        self.refuse_numbers("a key is", [&key.object])?;
        let key = &self.settle_size(key)?;
        if let Some(source) = self.source(container) {
            if let Source::GetAttr(owner, attribute) = self.guards.get(source)
                && &*attribute == "__dict__"
                && let Ok(name) = key.object.cast_exact::<PyString>()
                && let Some(object) = self.existing_at(owner)
            {
                // A value put into an object's dict is an attribute, unless its class decides otherwise.
                self.guard_value(key)?;
                return self.write_in_dict(&object, owner, name, value);
            }
            if let Some(value) = value
                && self.is_there(container, source, key, value)?
            {
                return Ok(());
            }
            if self.can_change(&container.object) {
                let (method, args) = match value {
                    Some(value) => ("__setitem__", vec![key.clone(), value.clone()]),
                    None => ("__delitem__", vec![key.clone()]),
                };
                return self.change(&container.object, source, method, &args, &Vec::new()).map(|_| ());
            }
            return self.break_graph(reason::SIDE_EFFECT, format!("changes {}", self.guards.expression(source)));
        }
        self.own(&container.object)?;
        self.guard_value(key)?;
        self.refuse_nan(&container.object, &key.object)?;
        self.settle_key(&container.object, key)?;
        match value {
            Some(value) => {
                self.guard_value(value)?;
                let value = if key.object.is_instance_of::<PySlice>() { self.readable(value)? } else { value.object.clone() };
                container.object.set_item(&key.object, value)?;
            }
            None => container.object.del_item(&key.object)?,
        }
        Ok(())
    }

    /// Returns true if an existing dict already holds this very tensor under this name, so that storing it changes nothing. This is
    /// guarded.
    fn is_there(&self, container: &Tracked<'py>, source: SourceId, key: &Tracked<'py>, value: &Tracked<'py>) -> Outcome<bool> {
        let (Ok(dict), Some((real, _))) = (container.object.cast_exact::<PyDict>(), self.real_of(&value.object)) else { return Ok(false) };
        if self.is_changed(dict)
            || !key.object.is_exact_instance_of::<PyString>()
            || !dict.get_item(&key.object)?.is_some_and(|known| known.is(&real))
        {
            return Ok(false);
        }
        self.refuse_written(dict)?;
        self.guard_value(key)?;
        let item = self.item_source(dict, source, &key.object)?;
        Ok(self.wrap(real, item)?.object.is(&value.object))
    }

    /// `item in container`.
    pub fn contains(&self, container: &Tracked<'py>, item: &Tracked<'py>) -> Outcome<bool> {
        if self.torch.is_fake(&container.object) {
            return self.break_graph(reason::DATA_DEPENDENT_BRANCH, "`in` a tensor");
        }
        if let Some(dict) = self.keyed_by_tensors(&container.object, &item.object) {
            return Ok(dict.iter().any(|(known, _)| known.is(&item.object)));
        }
        if let Some(kept) = self.under_tensor(container, item)? {
            return Ok(matches!(kept, Kept::Value(_)));
        }
        self.refuse_numbers("`in` looks for", [&item.object])?;
        let item = &if self.source_of(&container.object).is_some() { self.settle_size(item)? } else { item.clone() };
        self.guard_value(item)?;
        self.note_looks_within([&item.object]);
        self.refuse_changed(&item.object)?;
        self.refuse_nan(&container.object, &item.object)?;
        if let Some(dict) = self.keys_viewed(&container.object)? {
            return self.contains(&dict, item);
        }
        if container.object.is_instance_of::<PyDict>() {
            match self.changed_item(&container.object, item)? {
                None => {}
                Some(Item::Set(_)) => return Ok(true),
                Some(Item::Gone) => return Ok(false),
                Some(Item::In(copy)) => return self.contains(&Tracked::new(copy), item),
            }
        } else if let Some(copy) = self.changed(&container.object)? {
            return self.contains(&Tracked::new(copy), item);
        }
        if let Some(source) = self.source_of(&container.object)
            && container.object.is_instance_of::<PyDict>()
            && self.torch.is_container(&container.object)
            && let Ok(entry) = self.item_source(&container.object, source, &item.object)
        {
            self.guard_inside([&item.object], special_names::HASH)?;
            if let Some(owner) = self.written_in(&container.object)
                && let Ok(name) = item.object.extract::<String>()
                && let overlay @ (Overlay::Set(_) | Overlay::Deleted) = self.written_attr(&owner, &name)
            {
                return Ok(matches!(overlay, Overlay::Set(_)));
            }
            let found = container.object.contains(&item.object)?;
            if found {
                self.guards.present(entry);
            } else {
                self.guards.absent(entry);
            }
            return Ok(found);
        }
        if let Some(source) = self.source_of(&container.object)
            && container.object.is_exact_instance_of::<PySet>()
            && self.torch.is_primitive(&item.object)
            && self.guarded(self.guards.set_elements(source, &container.object))?
        {
            // Here the order does not matter.
            self.pin_type(&container.object, source)?;
            return Ok(container.object.contains(&item.object)?);
        }
        if let Some(source) = self.source_of(&container.object)
            && container.object.is_instance_of::<PyDict>()
            && self.torch.is_primitive(&item.object)
            && let (Some(own), Some(plain)) =
                (lookup(&container.object.get_type(), "__contains__")?, lookup(&self.py.get_type::<PyDict>(), "__contains__")?)
            && own.is(&plain)
        {
            // An instance of a user-defined dict class, which may hold tensors: only keys are looked at.
            self.pin_specials(&container.object, special_names::MEMBERS)?;
            self.guard_receiver("__contains__", &container.object, source)?;
            return Ok(container.object.contains(&item.object)?);
        }
        self.pin_specials(&container.object, special_names::MEMBERS)?;
        let readable = self.readable(container)?;
        // In a dict, the item is compared with the keys.
        self.guard_values([&readable], special_names::MEMBERS, !readable.is_exact_instance_of::<PyDict>(), Want::Exact)?;
        if lookup(&readable.get_type(), "__contains__")?.is_none() {
            return self.comes_out(&readable, &item.object);
        }
        self.looked_up(&readable, &item.object)?;
        let found = self.natively("contains", || readable.contains(&item.object));
        if let Some(found) = self.graph_break.borrow().clone() {
            return Err(Halt::Break(found));
        }
        Ok(found?)
    }

    /// Returns true if a class is one of `typing`'s own.
    fn is_typing(&self, class: &Bound<'py, PyType>) -> PyResult<bool> {
        let typing = dynamlir_cpython_abi::import(self.py, "typing")?;
        Ok(typing.getattr_opt(class.name()?)?.is_some_and(|found| found.is(class)))
    }

    /// `item in iterator`, as CPython implements it, with each comparison noted.
    fn comes_out(&self, container: &Bound<'py, PyAny>, item: &Bound<'py, PyAny>) -> Outcome<bool> {
        let class = container.get_type();
        if lookup(&class, "__iter__")?.is_none() && lookup(&class, "__getitem__")?.is_none() {
            // This raises with the interpreter's own message.
            return Ok(container.contains(item)?);
        }
        for found in container.try_iter()? {
            let found = found?;
            self.note_looks_within([&found]);
            self.refuse_changed(&found)?;
            self.guard_inside([&found, item], special_names::COMPARED)?;
            self.refuse_nans([&found, item], true)?;
            self.compared([&found, item])?;
            if found.is(item) || self.natively("contains", || found.eq(item))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Notes that an object is compared with the elements or keys of a container. Those of an existing set or dict are guarded by identity
    /// and not followed, and in a set the address decides the position.
    fn looked_up(&self, container: &Bound<'py, PyAny>, item: &Bound<'py, PyAny>) -> Outcome<()> {
        if self.torch.is_primitive(item) || self.torch.is_fake(item) {
            return Ok(());
        }
        let is_dict = container.is_instance_of::<PyDict>();
        let hashes = !container.is_instance_of::<PyList>() && !container.is_instance_of::<PyTuple>();
        if hashes && (self.source_of(container).is_some() || !is_dict) {
            self.addressed([item])?;
        }
        self.guard_inside([item], special_names::HASH)?;
        match container.cast_exact::<PyDict>() {
            Ok(dict) => self.compared(dict.keys().iter().chain([item.clone()]).collect::<Vec<_>>().iter()),
            // A view of a dict either hashes the item or compares it with each value.
            Err(_) => self.compared([container, item]),
        }
    }

    /// Returns the truth value of an object.
    pub fn truth(&self, value: &Tracked<'py>) -> Outcome<bool> {
        if self.torch.is_number(&value.object) {
            if let Some(outcome) = self.guard_comparison(value, "!=", 0.0)? {
                return Ok(outcome);
            }
            return self.needs_value(&value.object, "the truth of");
        }
        if self.torch.is_fake(&value.object) {
            if let Some(known) = self.known_contents(&value.object, "__bool__")? {
                return Ok(known.object.is_truthy()?);
            }
            return self.break_graph(reason::DATA_DEPENDENT_BRANCH, "whether a tensor is true");
        }
        if let Some(outcome) = self.truth_of_number(value)? {
            return Ok(outcome);
        }
        if let Some(copy) = self.changed(&value.object)? {
            return Ok(copy.is_truthy()?);
        }
        self.guard_value(value)?;
        if self.source_of(&value.object).is_none()
            && let Some(class) = self.class_at(&value.object)?
        {
            for name in ["__bool__", "__len__"] {
                self.pin_entry(&value.object.get_type(), class, &PyString::new(self.py, name))?;
            }
        }
        if let Some(source) = self.source_of(&value.object) {
            self.pin_type(&value.object, source)?;
            if self.torch.is_container(&value.object) {
                self.refuse_written(&value.object)?;
                self.guards.length(source, value.object.len()?);
            } else if let Some(truth) = self.truth_by_items(&value.object, source)? {
                return Ok(truth);
            } else {
                self.guard_contents(&value.object, source)?;
                for name in ["__bool__", "__len__"] {
                    self.pin_class_entry(&value.object, source, &PyString::new(self.py, name))?;
                }
            }
        }
        Ok(value.object.is_truthy()?)
    }
}

impl<'py> Reads<'py> {
    /// `iter(value)`.
    #[expect(clippy::iter_not_returning_iterator, reason = "it is Python's iter")]
    pub fn iter(&self, value: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        if self.torch.is_number(&value.object) {
            return self.needs_value(&value.object, "iter() of");
        }
        if self.torch.is_fake(&value.object) {
            self.tensor_slot(&value.object, "__iter__")?;
            let parts =
                self.method("unbind", &[value.clone(), Tracked::new(0i64.into_pyobject(self.py).map_err(PyErr::from)?.into_any())])?;
            return Ok(Tracked::new(parts.object.try_iter()?.into_any()));
        }
        if let Some(dict) = self.keys_viewed(&value.object)? {
            return self.iter(&dict);
        }
        if let Some(source) = self.source_of(&value.object)
            && !self.torch.is_container(&value.object)
            && let Some(items) = self.plain_items(&value.object, source)?
        {
            self.guards.demand(source, Facet::Shape);
            return Ok(Tracked::new(items.try_iter()?.into_any()));
        }
        if let Some(source) = self.source_of(&value.object)
            && !self.torch.is_container(&value.object)
            && let Some(keys) = self.keys_of_subclass(&value.object, source)?
        {
            self.guards.demand(source, Facet::Shape);
            return Ok(keys);
        }
        let readable = self.readable(value)?;
        if let Some(source) = self.source_of(&readable) {
            self.pin_type(&readable, source)?;
        }
        let iterator = readable.try_iter().map_err(Halt::from);
        let iterator = self.or_lacking(iterator, &readable, special_names::ITERATED)?.into_any();
        if !readable.is(&iterator) {
            self.note_new(&iterator);
        }
        Ok(Tracked::new(iterator))
    }
}
