//! The return value of a frame as a recipe: how to rebuild it from the graph's outputs and from existing objects.

use dynamlir_cpython_abi::{kind, object};
use dynamlir_frame::{Instance, Recipe, SetKind};
use pyo3::{
    prelude::*,
    types::{PyDict, PyFrozenSet, PyFunction, PyList, PySet, PyString, PyTuple, PyType},
};

use crate::{
    floors::Recipes,
    graph_break::{Outcome, reason},
    objects::{
        Tracked,
        callables::describe,
        callback_wrapper,
        layout::Layout,
        lookup::{instance_dict, is_immutable},
        type_name,
    },
    state::outputs::Outputs,
    values::{nesting::DEEPEST, numbers::where_it_is_made},
};

impl<'py> Recipes<'py> {
    /// Returns the recipe for a value, adding the graph's results to `outputs`.
    pub fn recipe(&self, value: &Tracked<'py>, outputs: &mut Outputs<'py>) -> Outcome<Recipe> {
        let made = self.recipe_of(value, outputs);
        if made.is_err() {
            outputs.failed.push(value.object.as_ptr() as usize);
        }
        made
    }

    fn recipe_of(&self, value: &Tracked<'py>, outputs: &mut Outputs<'py>) -> Outcome<Recipe> {
        let object = &value.object;
        if self.torch.is_fake(object) {
            if let Some((_, source)) = self.real_of(object) {
                return Ok(Recipe::Input(self.guards.collect(source)));
            }
            if self.torch.is_number(object) {
                return self.needs_value(object, "returns").map_err(|halt| where_it_is_made(halt, object));
            }
            if self.recorder().is_differentiated_by(object)? {
                // The values computed from it would no longer depend on it, because both are results of one graph.
                return self.break_graph(reason::OUTPUT, "a tensor that a transform of torch.func differentiates with respect to");
            }
            let known = outputs.fakes.iter().position(|fake| fake.is(object));
            return Ok(Recipe::Output(known.unwrap_or_else(|| {
                outputs.fakes.push(object.clone());
                outputs.fakes.len() - 1
            })));
        }
        if let Some(source) = value.source.filter(|source| self.is_computed(*source)) {
            // One object, regardless of where it is stored. This key is not the address of any object.
            let key = usize::MAX - source.index();
            if let Some(number) = outputs.seen.get(&key) {
                return Ok(Recipe::Kept(*number));
            }
            let number = outputs.seen.len();
            outputs.seen.insert(key, number);
            return Ok(Recipe::Keep(number, Box::new(self.computation(source, outputs)?)));
        }
        if let Some(wrapped) = callback_wrapper::unwrapped(object)? {
            return self.recipe(&Tracked::new(wrapped), outputs);
        }
        if let Some(source) = self.source(value) {
            self.refuse_advanced(object)?;
            return Ok(Recipe::Input(self.guards.collect(source)));
        }
        let known = self.original(object).map(|(_, source)| source).or_else(|| self.cell_itself(object));
        if let Some(source) = known {
            return Ok(Recipe::Input(self.guards.collect(source)));
        }
        if let Some(recipe) = self.size_recipe(object, outputs)? {
            return Ok(recipe);
        }
        if let Some(source) = self.nan_at(object) {
            return Ok(Recipe::Input(self.guards.collect(source)));
        }
        if self.torch.is_primitive(object) && !self.torch.any_fake(object) {
            return Ok(Recipe::Constant(object.clone().unbind()));
        }
        if let Ok(class) = object.cast::<PyType>()
            && (!self.is_young(class) || self.named_tuple_parts(class)?.is_none())
        {
            return self.class_recipe(class);
        }
        if !self.is_young(object) && self.never_changes(object)? && !object.is_exact_instance_of::<PyFunction>() {
            return self.held_recipe(object);
        }
        self.own_output(object)?;
        let address = object.as_ptr() as usize;
        if let Some(cell) = self.own_cell(object, outputs)? {
            // The function is in a cell that it closes over.
            let cell = self.recipe(&Tracked::new(cell), outputs)?;
            return Ok(Recipe::Attribute(Box::new(cell), PyString::intern(self.py, "cell_contents").unbind()));
        }
        if outputs.attributes.contains_key(&address) {
            return self.break_graph(reason::OUTPUT, "the dict of an instance's attributes, which is returned as well");
        }
        if outputs.open.len() >= DEEPEST {
            return self.break_graph(reason::OUTPUT, format!("a {} within more than {DEEPEST} others", type_name(object)));
        }
        if let Some(number) = outputs.seen.get(&address).filter(|_| kind::is_cell(object)) {
            // The cell is created before its content.
            return Ok(Recipe::Kept(*number));
        }
        if outputs.open.contains(&address) {
            return self.break_graph(reason::OUTPUT, format!("a {} that contains itself", type_name(object)));
        }
        if let Some(number) = outputs.seen.get(&address) {
            return Ok(Recipe::Kept(*number));
        }
        let number = outputs.seen.len();
        outputs.seen.insert(address, number);
        outputs.alive.push(object.clone());
        outputs.open.push(address);
        let made = self.object_recipe(object, outputs);
        outputs.open.pop();
        Ok(Recipe::Keep(number, Box::new(made?)))
    }

    /// Returns the recipe for a class, which the guards hold. Ends the capture if the frame created the class: it is a different class at
    /// each call, and holds what the frame has stored in it.
    pub(crate) fn class_recipe(&self, class: &Bound<'py, PyType>) -> Outcome<Recipe> {
        if self.is_young(class) {
            return self.break_graph(reason::OUTPUT, format!("{}, a class that the function makes", describe(class)));
        }
        self.held_recipe(class)
    }

    /// Returns the recipe for an existing object without a known source: one of Python's own, or held weakly by the guards.
    fn held_recipe(&self, object: &Bound<'py, PyAny>) -> Outcome<Recipe> {
        if self.is_of_python(object) {
            return Ok(Recipe::Constant(object.clone().unbind()));
        }
        match self.guards.hold(object, &describe(object)) {
            Ok(source) => Ok(Recipe::Input(self.guards.collect(source))),
            Err(_) => self.break_graph(reason::OUTPUT, format!("a {} that existed before and came out of C code", type_name(object))),
        }
    }

    /// Returns true if an object does not refer to the user's objects: numbers, text, builtin classes, and tuples and frozen sets of these.
    fn is_of_python(&self, object: &Bound<'py, PyAny>) -> bool {
        let mut waiting = vec![object.clone()];
        while let Some(object) = waiting.pop() {
            if let Ok(items) = object.cast_exact::<PyTuple>() {
                waiting.extend(items.iter());
            } else if let Ok(items) = object.cast_exact::<PyFrozenSet>() {
                waiting.extend(items.iter());
            } else if !(self.torch.is_primitive(&object) || object.cast::<PyType>().is_ok_and(is_immutable)) {
                return false;
            }
        }
        true
    }

    /// Ends the capture if an object neither belongs to the frame nor has a known source.
    fn own_output(&self, object: &Bound<'py, PyAny>) -> Outcome<()> {
        if self.is_young(object) {
            return Ok(());
        }
        self.break_graph(reason::OUTPUT, format!("a {} that existed before and came out of C code", type_name(object)))
    }

    fn items(&self, items: impl Iterator<Item = Bound<'py, PyAny>>, outputs: &mut Outputs<'py>) -> Outcome<Vec<Recipe>> {
        let item = |item: Bound<'py, PyAny>| {
            self.note_held_once(&item);
            self.recipe(&Tracked::new(item), outputs)
        };
        items.map(item).collect()
    }

    /// Records a tuple of plain values as new if its only owner is the frame's container that it was just taken from: from CPython 3.14 on
    /// the garbage collector does not track such tuples.
    fn note_held_once(&self, item: &Bound<'py, PyAny>) {
        if item.is_exact_instance_of::<PyTuple>() && object::references(item) == 2 {
            self.note_new(item);
        }
    }

    pub(crate) fn pairs(&self, dict: &Bound<'py, PyDict>, outputs: &mut Outputs<'py>) -> Outcome<Vec<(Recipe, Recipe)>> {
        let pair = |(key, value): (Bound<'py, PyAny>, Bound<'py, PyAny>)| {
            self.note_held_once(&key);
            self.note_held_once(&value);
            Ok((self.recipe(&Tracked::new(key), outputs)?, self.recipe(&Tracked::new(value), outputs)?))
        };
        dict.iter().map(pair).collect()
    }

    fn object_recipe(&self, object: &Bound<'py, PyAny>, outputs: &mut Outputs<'py>) -> Outcome<Recipe> {
        if let Some(part) = self.frame_part(object, outputs)? {
            return Ok(part);
        }
        if let Some(iterator) = self.iterator_recipe(object, outputs)? {
            return Ok(iterator);
        }
        if let Some(made) = self.rebuilt(object, outputs)? {
            return Ok(made);
        }
        if let Ok(items) = object.cast_exact::<PyTuple>() {
            return Ok(Recipe::Tuple(self.items(items.iter(), outputs)?));
        }
        if let Ok(items) = object.cast_exact::<PyList>() {
            return Ok(Recipe::List(self.items(items.iter(), outputs)?));
        }
        if let Ok(items) = object.cast_exact::<PyDict>() {
            return Ok(Recipe::Dict(self.pairs(items, outputs)?));
        }
        if object.is_exact_instance_of::<PySet>() || object.is_exact_instance_of::<PyFrozenSet>() {
            return self.set_recipe(object, outputs);
        }
        let class = object.get_type();
        if let Ok(items) = object.cast::<PyTuple>() {
            let is_own = self.is_young(&class);
            let kind = if is_own { self.recipe(&Tracked::new(class.into_any()), outputs)? } else { self.class_recipe(&class)? };
            let attributes = self.attributes_recipe(object, outputs)?;
            return Ok(Recipe::TupleClass(Box::new(kind), self.items(items.iter(), outputs)?, attributes));
        }
        self.instance_recipe(object, &class, outputs)
    }

    /// Returns the recipe for a set. The iteration order of a set depends on its history. It is rebuilt if that yields the same order, or
    /// if the order depends on the addresses of new objects anyway.
    fn set_recipe(&self, set: &Bound<'py, PyAny>, outputs: &mut Outputs<'py>) -> Outcome<Recipe> {
        let items: Vec<_> = set.try_iter()?.collect::<PyResult<_>>()?;
        let frozen = set.is_exact_instance_of::<PyFrozenSet>();
        let mut kinds = [false, true].map(|copied| SetKind { frozen, copied }).into_iter();
        let kind = if items.iter().any(|item| self.is_placed_anew(item)) {
            kinds.next()
        } else {
            let mut found = None;
            for kind in kinds {
                let again = kind.make(self.py, &items)?;
                let same = again.try_iter()?.zip(&items).try_fold(true, |same, (left, right)| left.map(|left| same && left.is(right)))?;
                // The size determines where elements added later are placed.
                let size = |set: &Bound<'py, PyAny>| set.call_method0("__sizeof__")?.extract::<usize>();
                if same && (frozen || size(&again)? == size(set)?) {
                    found = Some(kind);
                    break;
                }
            }
            found
        };
        match kind {
            Some(kind) => Ok(Recipe::Set(self.items(items.into_iter(), outputs)?, kind)),
            None => self.break_graph(reason::OUTPUT, "a set whose order comes from how it was filled"),
        }
    }

    /// Returns true if an object is created at each call and hashed by its address, or contains such an object.
    fn is_placed_anew(&self, item: &Bound<'py, PyAny>) -> bool {
        if let Ok(items) = item.cast_exact::<PyTuple>() {
            // Deeper tuples are refused.
            let Ok(_deeper) = self.deeper(item) else { return true };
            return items.iter().any(|item| self.is_placed_anew(&item));
        }
        !self.torch.is_primitive(item) && !item.is_instance_of::<PyType>() && self.source_of(item).is_none()
    }

    fn instance_recipe(&self, object: &Bound<'py, PyAny>, class: &Bound<'py, PyType>, outputs: &mut Outputs<'py>) -> Outcome<Recipe> {
        let module = class.getattr("__module__").and_then(|module| module.extract::<String>());
        if module.is_ok_and(|module| module.starts_with("dynamlir.")) {
            let message = format!("a {}, which stands for something of torch's while a frame is captured", type_name(object));
            return self.break_graph(reason::OUTPUT, message);
        }
        let kind = self.class_recipe(class)?;
        let Layout { base, slots } = Layout::of(class)?;
        if slots && base.is(self.py.get_type::<PyAny>()) {
            return self.slotted(object, class, outputs);
        }
        if slots {
            return self.break_graph(reason::OUTPUT, format!("a {}, which has __slots__", type_name(object)));
        }
        let ordered = dynamlir_cpython_abi::import(self.py, "collections")?.getattr("OrderedDict")?;
        let items = if base.is(self.py.get_type::<PyAny>())
            || base.is(dynamlir_cpython_abi::import(self.py, "types")?.getattr("SimpleNamespace")?)
        {
            Vec::new()
        } else if base.is(self.py.get_type::<PyDict>()) {
            self.pairs(object.cast::<PyDict>().map_err(PyErr::from)?, outputs)?
        } else if base.is(&ordered) {
            // An `OrderedDict` has its own order, which the underlying dict does not know.
            let mut pairs = Vec::new();
            for pair in ordered.call_method1("items", (object,))?.try_iter()? {
                let (key, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = pair?.extract()?;
                pairs.push((self.recipe(&Tracked::new(key), outputs)?, self.recipe(&Tracked::new(value), outputs)?));
            }
            pairs
        } else if base.is(self.py.get_type::<PyList>()) {
            let items = self.items(object.cast::<PyList>().map_err(PyErr::from)?.iter(), outputs)?;
            items.into_iter().map(|item| (Recipe::Constant(self.py.None()), item)).collect()
        } else {
            return self.break_graph(reason::OUTPUT, type_name(object));
        };
        let attributes = self.attributes_recipe(object, outputs)?;
        Ok(Recipe::Instance(Box::new(Instance { class: kind, base: base.into_any().unbind(), items, attributes })))
    }

    /// Returns the contents of the `__dict__` of an object that belongs to the frame.
    fn attributes_recipe(&self, object: &Bound<'py, PyAny>, outputs: &mut Outputs<'py>) -> Outcome<Vec<(Py<PyAny>, Recipe)>> {
        let mut attributes = Vec::new();
        if let Some(dict) = instance_dict(object) {
            let address = dict.as_ptr() as usize;
            let shared = outputs.seen.contains_key(&address) || outputs.attributes.contains_key(&address);
            if shared || self.source_of(&dict).is_some() {
                return self.break_graph(reason::OUTPUT, "the dict of an instance's attributes, which is returned as well");
            }
            outputs.attributes.insert(address, dict.clone().into_any());
            for (key, value) in dict.iter() {
                if !self.torch.is_primitive(&key) {
                    return self.break_graph(reason::OUTPUT, format!("an attribute under a {}", type_name(&key)));
                }
                attributes.push((key.clone().unbind(), self.recipe(&Tracked::new(value), outputs)?));
            }
        }
        Ok(attributes)
    }
}
