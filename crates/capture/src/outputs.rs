//! What a frame returns, as a recipe: how to make it again from the graph's outputs and from what exists.

use std::collections::HashMap;

use dynamlir_guards::SourceId;
use pyo3::{
    prelude::*,
    types::{PyDict, PyFrozenSet, PyList, PySet, PyTuple, PyType},
};

use crate::{
    attributes::instance_dict,
    state::{Capture, Outcome, Tracked, type_name},
    stop::reason,
};

/// How to make a value.
#[derive(Debug)]
pub enum Recipe {
    /// What a source reaches: an argument, or something reached from one.
    Source(SourceId),
    /// A result of the graph.
    Output(usize),
    /// This very object.
    Constant(Py<PyAny>),
    /// A tuple.
    Tuple(Vec<Recipe>),
    /// A list.
    List(Vec<Recipe>),
    /// A set, or a frozen one.
    Set(Vec<Recipe>, bool),
    /// A dict.
    Dict(Vec<(Recipe, Recipe)>),
    /// A subclass of tuple: `tuple.__new__(class, items)`, or `class(items)` for torch's.
    TupleClass(Py<PyAny>, Vec<Recipe>),
    /// An instance of a class of the user's, made without its `__init__`.
    Instance(Instance),
    /// The first use of an object that is used again.
    Keep(usize, Box<Recipe>),
    /// A further use.
    Kept(usize),
}

/// An instance by its parts.
#[derive(Debug)]
pub struct Instance {
    /// Its class.
    pub class: Py<PyAny>,
    /// The builtin class whose `__new__` and item protocol it uses: object, dict, OrderedDict, list.
    pub base: Py<PyAny>,
    /// Items, for dicts (key, value) and lists (the key is unused).
    pub items: Vec<(Recipe, Recipe)>,
    /// What stands in its `__dict__`.
    pub attributes: Vec<(String, Recipe)>,
}

/// Collects recipes and the fakes that the graph must return.
#[derive(Default)]
pub struct Outputs<'py> {
    /// The graph's results, in order.
    pub fakes: Vec<Bound<'py, PyAny>>,
    seen: HashMap<usize, usize>,
    open: Vec<usize>,
}

impl<'py> Capture<'py> {
    /// The recipe for a value, adding the graph's results to `outputs`.
    pub fn recipe(&self, value: &Tracked<'py>, outputs: &mut Outputs<'py>) -> Outcome<Recipe> {
        let object = &value.object;
        if self.torch.is_fake(object) {
            if let Some((_, source)) = self.real_of(object) {
                return Ok(Recipe::Source(source));
            }
            let known = outputs.fakes.iter().position(|fake| fake.is(object));
            return Ok(Recipe::Output(known.unwrap_or_else(|| {
                outputs.fakes.push(object.clone());
                outputs.fakes.len() - 1
            })));
        }
        if let Some(source) = self.source(value) {
            return Ok(Recipe::Source(source));
        }
        if self.torch.is_primitive(object) || object.is_instance_of::<PyType>() {
            return Ok(Recipe::Constant(object.clone().unbind()));
        }
        let address = object.as_ptr() as usize;
        if outputs.open.contains(&address) {
            return self.stop(reason::OUTPUT, format!("a {} that contains itself", type_name(object)));
        }
        if let Some(number) = outputs.seen.get(&address) {
            return Ok(Recipe::Kept(*number));
        }
        let number = outputs.seen.len();
        outputs.seen.insert(address, number);
        outputs.open.push(address);
        let made = self.object_recipe(object, outputs);
        outputs.open.pop();
        Ok(Recipe::Keep(number, Box::new(made?)))
    }

    fn items(&self, items: impl Iterator<Item = Bound<'py, PyAny>>, outputs: &mut Outputs<'py>) -> Outcome<Vec<Recipe>> {
        items.map(|item| self.recipe(&Tracked::new(item), outputs)).collect()
    }

    fn pairs(&self, dict: &Bound<'py, PyDict>, outputs: &mut Outputs<'py>) -> Outcome<Vec<(Recipe, Recipe)>> {
        let pair = |(key, value)| Ok((self.recipe(&Tracked::new(key), outputs)?, self.recipe(&Tracked::new(value), outputs)?));
        dict.iter().map(pair).collect()
    }

    fn object_recipe(&self, object: &Bound<'py, PyAny>, outputs: &mut Outputs<'py>) -> Outcome<Recipe> {
        if let Ok(items) = object.cast_exact::<PyTuple>() {
            return Ok(Recipe::Tuple(self.items(items.iter(), outputs)?));
        }
        if let Ok(items) = object.cast_exact::<PyList>() {
            return Ok(Recipe::List(self.items(items.iter(), outputs)?));
        }
        if let Ok(items) = object.cast_exact::<PyDict>() {
            return Ok(Recipe::Dict(self.pairs(items, outputs)?));
        }
        if let Ok(items) = object.cast_exact::<PySet>() {
            return Ok(Recipe::Set(self.items(items.iter(), outputs)?, false));
        }
        if let Ok(items) = object.cast_exact::<PyFrozenSet>() {
            return Ok(Recipe::Set(self.items(items.iter(), outputs)?, true));
        }
        let class = object.get_type();
        if let Ok(items) = object.cast::<PyTuple>() {
            return Ok(Recipe::TupleClass(class.into_any().unbind(), self.items(items.iter(), outputs)?));
        }
        self.instance_recipe(object, &class, outputs)
    }

    fn instance_recipe(&self, object: &Bound<'py, PyAny>, class: &Bound<'py, PyType>, outputs: &mut Outputs<'py>) -> Outcome<Recipe> {
        // The first class of the MRO that is not written in Python decides how instances are laid out.
        let heap = 1u64 << 9;
        let mut base = None;
        for candidate in class.mro() {
            if candidate.getattr("__flags__")?.extract::<u64>()? & heap == 0 {
                base = Some(candidate);
                break;
            }
            // Abstract base classes declare that they have none.
            if candidate.getattr("__dict__")?.get_item("__slots__").is_ok_and(|slots| slots.is_truthy().unwrap_or(true)) {
                return self.stop(reason::OUTPUT, format!("a {}, which has __slots__", type_name(object)));
            }
        }
        let Some(base) = base else { return self.stop(reason::OUTPUT, type_name(object)) };
        let name: String = base.getattr("__name__")?.extract()?;
        let items = match name.as_str() {
            "object" => Vec::new(),
            "dict" | "OrderedDict" => self.pairs(object.cast::<PyDict>().map_err(PyErr::from)?, outputs)?,
            "list" => {
                let items = self.items(object.cast::<PyList>().map_err(PyErr::from)?.iter(), outputs)?;
                items.into_iter().map(|item| (Recipe::Constant(self.py.None()), item)).collect()
            }
            _ => return self.stop(reason::OUTPUT, type_name(object)),
        };
        let mut attributes = Vec::new();
        if let Some(dict) = instance_dict(object) {
            for (key, value) in dict.iter() {
                attributes.push((key.extract()?, self.recipe(&Tracked::new(value), outputs)?));
            }
        }
        Ok(Recipe::Instance(Instance {
            class: class.clone().into_any().unbind(),
            base: base.into_any().unbind(),
            items,
            attributes,
        }))
    }
}
