//! Iterators that the frame has created and that outlive the captured part: they are created again at the same position.
//!
//! Python's own iterators describe themselves for `pickle` (`__reduce__`), except those of dicts. They iterate over the very object, so
//! later changes to it are seen as in eager.

use dynamlir_frame::{Made, Recipe};
use dynamlir_guards::{Constant, Source};
use pyo3::{
    intern,
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};

use crate::{
    floors::{Heap, Recipes},
    graph_break::{Outcome, reason},
    objects::lookup::is_immutable,
    state::outputs::Outputs,
};

/// Iterators that describe themselves, by their names in `builtins`.
const REDUCED: [&str; 13] = [
    "bytes_iterator",
    "enumerate",
    "filter",
    "list_iterator",
    "list_reverseiterator",
    "longrange_iterator",
    "map",
    "range_iterator",
    "reversed",
    "str_ascii_iterator",
    "str_iterator",
    "tuple_iterator",
    "zip",
];

/// Iterators of dicts, and the methods that create the views which they iterate over.
const OF_DICTS: [(&str, &str); 3] = [("dict_keyiterator", "keys"), ("dict_valueiterator", "values"), ("dict_itemiterator", "items")];

impl<'py> Heap<'py> {
    /// Returns the iterator that the capture advances in place of one that was created for a loop in which the frame was left. The
    /// remaining items are guarded by identity. None for other iterators, and for items that are not all modules: each of those is to be
    /// found by the same instruction.
    pub(crate) fn advanced(&self, iterator: &Bound<'py, PyAny>) -> Outcome<Option<Bound<'py, PyAny>>> {
        let progress = &self.progress;
        let address = iterator.as_ptr() as usize;
        if !progress.unrolls || !progress.loops.borrow().contains(&address) {
            return Ok(None);
        }
        if let Some(known) = progress.advanced.borrow().get(&address) {
            return Ok(known.as_ref().map(|own| own.bind(self.py).clone()));
        }
        let Some(source) = self.source_of(iterator) else { return Ok(None) };
        let class = iterator.get_type();
        let (is_list, is_values) = (class.name()? == "list_iterator", class.name()? == "dict_valueiterator");
        if !is_list && !is_values {
            return Ok(None);
        }
        let reduced = dynamlir_interpreter::suspended(|| iterator.call_method0(intern!(self.py, "__reduce__")))?;
        let held = reduced.get_item(1)?.get_item(0)?.cast_into::<PyList>().map_err(PyErr::from)?;
        let first: usize = if is_list && reduced.len()? > 2 { reduced.get_item(2)?.extract()? } else { 0 };
        if !held.iter().skip(first).all(|item| self.torch.is_module(&item)) {
            return Ok(None);
        }
        self.pin_type(iterator, source)?;
        let Some(nothing) = Constant::new(PyTuple::empty(self.py).as_any())? else { return Ok(None) };
        let asked = self.guards.source(Source::Answer(self.guards.source(Source::GetAttr(source, "__reduce__".into())), nothing));
        let at = |base, index| self.guards.source(Source::Index(base, index));
        let items = at(at(asked, 1), 0);
        self.pin_type(&reduced, asked)?;
        self.pin_type(&reduced.get_item(1)?, at(asked, 1))?;
        self.pin_type(&held, items)?;
        self.guards.length(items, held.len());
        if is_list {
            self.guarded(self.guards.equals(at(asked, 2), &reduced.get_item(2)?))?;
        }
        for (place, item) in held.iter().enumerate().skip(first) {
            self.wrap(item, at(items, place as u32))?;
        }
        let own = PyList::new(self.py, held.iter().skip(first))?.try_iter()?.into_any();
        self.note_new(&own);
        self.layers.note_unrepeatable();
        progress.advanced.borrow_mut().insert(address, Some(own.clone().unbind()));
        Ok(Some(own))
    }

    /// Notes that an iterator has no more items.
    pub(crate) fn note_exhausted(&self, iterator: &Bound<'py, PyAny>) {
        let mut advanced = self.progress.advanced.borrow_mut();
        if let Some(own) = advanced.values_mut().find(|own| own.as_ref().is_some_and(|own| own.is(iterator))) {
            *own = None;
        }
    }

    /// Ends the capture where an iterator is needed in its original state but has been advanced since.
    pub(crate) fn refuse_advanced(&self, object: &Bound<'py, PyAny>) -> Outcome<()> {
        if self.progress.advanced.borrow().contains_key(&(object.as_ptr() as usize)) {
            return self.break_graph(reason::RESUMED, "leaves a loop in the middle of which it was captured");
        }
        Ok(())
    }
}

impl<'py> Recipes<'py> {
    /// Returns the recipe that creates an iterator of the frame again; None for another object.
    pub(crate) fn iterator_recipe(&self, object: &Bound<'py, PyAny>, outputs: &mut Outputs<'py>) -> Outcome<Option<Recipe>> {
        let class = object.get_type();
        let name = class.name()?;
        let name = name.to_str()?;
        let of_dict = OF_DICTS.iter().find(|(known, _)| *known == name);
        // A user's class may describe itself in any way.
        if (of_dict.is_none() && !REDUCED.contains(&name)) || !is_immutable(&class) || class.module()?.to_str()? != "builtins" {
            return Ok(None);
        }
        match of_dict {
            Some((_, method)) => self.dict_iterator(object, method, outputs),
            None => Ok(Some(Made { iterates: Some(0), ..self.reduced(object, outputs)? }.into())),
        }
    }

    /// `iter(dict.method())`, after some of its items.
    fn dict_iterator(&self, object: &Bound<'py, PyAny>, method: &str, outputs: &mut Outputs<'py>) -> Outcome<Option<Recipe>> {
        let held = dynamlir_cpython_abi::import(self.py, "gc")?.call_method1("get_referents", (object,))?;
        let dict = held.try_iter()?.find_map(|held| held.ok().filter(PyAnyMethods::is_instance_of::<PyDict>));
        let left = object.call_method0("__length_hint__")?.extract::<usize>()?;
        let skipped = dict.as_ref().map_or(Ok(0), PyAnyMethods::len)?.checked_sub(left);
        // This raises if the dict has changed since.
        let goes_on = dynamlir_interpreter::suspended(|| object.call_method0(intern!(self.py, "__reduce__"))).is_ok();
        let (Some(dict), Some(skipped), true) = (dict, skipped, goes_on) else { return Ok(None) };
        let callable = self.py.get_type::<PyDict>().getattr(method)?.unbind();
        let given = vec![self.recipe(&self.wrap_untracked(dict)?, outputs)?];
        Ok(Some(Made { iterates: Some(skipped), ..Made::new(callable, given) }.into()))
    }
}
