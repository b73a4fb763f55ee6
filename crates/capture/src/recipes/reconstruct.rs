//! Functions, iterators and other instances of C classes in a result: by the call that rebuilds them.
//!
//! A function that the frame created is rebuilt from its code, the globals of the existing function under which it was created, and the
//! cells that it closes over. Iterators, partial functions and the like describe how to rebuild them (`__reduce__`), at the position that
//! they have reached.

use dynamlir_cpython_abi::{function, kind, mapping, types};
use dynamlir_frame::{Made, Recipe};
use dynamlir_guards::{Source, SourceId};
use dynamlir_interpreter::semantics;
use pyo3::{
    prelude::*,
    types::{PyDict, PyList, PyRange, PyString, PyTuple, PyType},
};

use crate::{
    floors::Recipes,
    graph_break::{Outcome, reason},
    objects::{
        Tracked,
        lookup::{instance_dict, is_immutable, lookup},
        type_name,
    },
    state::outputs::Outputs,
};

/// C classes whose instances, rebuilt from `__reduce__`, have the same class and position.
const REDUCED: &[&str] = &[
    "slice",
    "itertools.accumulate",
    "itertools.chain",
    "itertools.compress",
    "itertools.count",
    "itertools.cycle",
    "itertools.dropwhile",
    "itertools.filterfalse",
    "itertools.islice",
    "itertools.repeat",
    "itertools.starmap",
    "itertools.takewhile",
    "itertools.zip_longest",
    "operator.attrgetter",
    "operator.itemgetter",
    "operator.methodcaller",
];

/// Iterators that the garbage collector does not track, so that they cannot be recognized as new.
const UNTRACKED: [&str; 2] = ["longrange_iterator", "range_iterator"];

/// The attributes of a function besides its code, globals, name, defaults and closure.
const OF_FUNCTIONS: &[&str] = &["__kwdefaults__", "__qualname__", "__module__", "__doc__", "__annotations__", "__type_params__"];

impl<'py> Recipes<'py> {
    /// Returns the recipe for a function, or for an instance of a C class; `None` for anything else.
    pub(crate) fn rebuilt(&self, object: &Bound<'py, PyAny>, outputs: &mut Outputs<'py>) -> Outcome<Option<Recipe>> {
        if kind::is_function(object) {
            return if self.is_made(object) { self.function_recipe(object, outputs).map(Some) } else { Ok(None) };
        }
        if let Ok(class) = object.cast::<PyType>() {
            return self.named_tuple_recipe(class, outputs);
        }
        let class = object.get_type();
        let name = types::name(object);
        let made = |given: Vec<Recipe>| Made::new(class.clone().into_any().unbind(), given);
        if class.is(dynamlir_cpython_abi::import(self.py, "collections")?.getattr("deque")?) {
            let items = object.try_iter()?.map(|item| self.recipe(&Tracked::new(item?), outputs)).collect::<Outcome<Vec<_>>>()?;
            let longest = Recipe::Constant(object.getattr("maxlen")?.unbind());
            return Ok(Some(made(vec![Recipe::List(items), longest]).into()));
        }
        if class.is(dynamlir_cpython_abi::import(self.py, "collections")?.getattr("defaultdict")?) {
            let factory = self.recipe(&Tracked::new(object.getattr("default_factory")?), outputs)?;
            let items = self.pairs(object.cast::<PyDict>().map_err(PyErr::from)?, outputs)?;
            return Ok(Some(made(vec![factory, Recipe::Dict(items)]).into()));
        }
        if let Some(shown) = mapping::viewed(object).filter(|_| mapping::shows_items(object)) {
            return Ok(Some(made(vec![self.recipe(&self.wrap_untracked(shown)?, outputs)?]).into()));
        }
        // `*list[int]` is created by iterating over an alias.
        if class.is(dynamlir_cpython_abi::import(self.py, "types")?.getattr("GenericAlias")?)
            && !object.getattr("__unpacked__")?.is_truthy()?
        {
            let parts = ["__origin__", "__args__"].map(|part| self.recipe(&Tracked::new(object.getattr(part)?), outputs));
            return Ok(Some(made(parts.into_iter().collect::<Outcome<_>>()?).into()));
        }
        // The entry keeps the callable that creates one alive, so it must not be a user-defined class.
        let reduces = self.effects.kinds.is_partial_class(&class) || (is_immutable(&class) && REDUCED.contains(&name.as_str()));
        if reduces { Ok(Some(self.reduced(object, outputs)?.into())) } else { Ok(None) }
    }

    /// Returns the parts of a class that the frame created, if `collections.namedtuple` would create it: name, fields, defaults, module.
    pub(crate) fn named_tuple_parts(&self, class: &Bound<'py, PyType>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        if !class.is_subclass_of::<PyTuple>()? {
            return Ok(None);
        }
        let named_tuples = dynamlir_cpython_abi::import(self.py, "dynamlir.capture.named_tuples")?;
        Ok(dynamlir_interpreter::suspended(|| named_tuples.call_method1("parts", (class,)))?.cast_into().ok())
    }

    /// Returns the recipe for such a class: it is a different class at each call.
    fn named_tuple_recipe(&self, class: &Bound<'py, PyType>, outputs: &mut Outputs<'py>) -> Outcome<Option<Recipe>> {
        let Some(parts) = self.named_tuple_parts(class)? else { return Ok(None) };
        let given = parts.iter().enumerate().map(|(at, part)| match part.cast::<PyTuple>() {
            // The defaults, which are values from the frame.
            Ok(defaults) if at == 2 => {
                defaults.iter().map(|value| self.recipe(&self.wrap_untracked(value)?, outputs)).collect::<Outcome<_>>().map(Recipe::Tuple)
            }
            _ => Ok(Recipe::Constant(part.unbind())),
        });
        let given = given.collect::<Outcome<_>>()?;
        let callable = dynamlir_cpython_abi::import(self.py, "dynamlir.capture.named_tuples")?.getattr("made")?.unbind();
        Ok(Some(Made::new(callable, given).into()))
    }

    /// Returns the cell that one of the frame's functions closes over and is itself stored in, if it has not been seen yet.
    pub(crate) fn own_cell(&self, object: &Bound<'py, PyAny>, outputs: &Outputs<'py>) -> Outcome<Option<Bound<'py, PyAny>>> {
        if !kind::is_function(object) || !self.is_made(object) {
            return Ok(None);
        }
        let Ok(cells) = object.getattr("__closure__")?.cast_into::<PyTuple>() else { return Ok(None) };
        for cell in cells {
            let seen = outputs.seen.contains_key(&(cell.as_ptr() as usize)) || self.handed_cell(&cell).is_some();
            if !seen && semantics::cell_get(&cell)?.is_some_and(|content| content.is(object)) {
                return Ok(Some(cell));
            }
        }
        Ok(None)
    }

    fn function_recipe(&self, object: &Bound<'py, PyAny>, outputs: &mut Outputs<'py>) -> Outcome<Recipe> {
        let Some(code) = function::code(object) else { return self.break_graph(reason::OUTPUT, type_name(object)) };
        if function::has_computed_annotations(object)? {
            return self.break_graph(reason::OUTPUT, "a function whose annotations were computed");
        }
        let beneath = self.made_beneath(object).unwrap_or_else(|| self.guards.source(Source::Function));
        let globals = self.guards.source(Source::Globals(beneath));
        let mut part = |name: &str| self.recipe(&Tracked::new(object.getattr(name)?), outputs);
        let given = vec![
            Recipe::Constant(code.into_any().unbind()),
            Recipe::Input(self.guards.collect(globals)),
            part("__name__")?,
            part("__defaults__")?,
            part("__closure__")?,
        ];
        let mut attributes = Vec::new();
        // The function still has its `__annotate__`, which the program has not called.
        let computes = function::has_annotations_to_compute(object);
        for name in OF_FUNCTIONS {
            let name = if computes && *name == "__annotations__" { &"__annotate__" } else { name };
            let Some(value) = object.getattr_opt(*name)? else { continue };
            let counts = !value.is_none() || ["__module__", "__doc__"].contains(name);
            if counts && !(value.is_instance_of::<PyDict>() && value.is_empty()?) {
                attributes.push((PyString::intern(self.py, name).unbind(), self.recipe(&Tracked::new(value), outputs)?));
            }
        }
        let own = object.getattr("__dict__")?.cast_into::<PyDict>().map_err(PyErr::from)?;
        for (name, value) in own.iter() {
            let name = name.cast_into::<PyString>().map_err(PyErr::from)?;
            attributes.push((name.unbind(), self.recipe(&Tracked::new(value), outputs)?));
        }
        let callable = dynamlir_cpython_abi::import(self.py, "types")?.getattr("FunctionType")?.unbind();
        Ok(Made { attributes, ..Made::new(callable, given) }.into())
    }

    /// Returns the recipe for an instance of a user-defined class with `__slots__`: an empty instance, whose slots are set bypassing its
    /// class.
    pub(crate) fn slotted(&self, object: &Bound<'py, PyAny>, class: &Bound<'py, PyType>, outputs: &mut Outputs<'py>) -> Outcome<Recipe> {
        let refuse = |why: &str| self.break_graph(reason::OUTPUT, format!("a {}, which has __slots__{why}", type_name(object)));
        if instance_dict(object).is_some_and(|dict| !dict.is_empty()) {
            return refuse(" and other attributes");
        }
        let given = vec![self.class_recipe(class)?];
        let mut attributes = Vec::new();
        for base in types::mro(class)?.iter().filter(|base| !is_immutable(base)) {
            for entry in types::dict(base)?.call_method0("items")?.try_iter()? {
                let (name, slot): (Bound<'py, PyAny>, Bound<'py, PyAny>) = entry?.extract()?;
                let Ok(name) = name.cast_into::<PyString>() else { continue };
                if !kind::is_member_descriptor(&slot) {
                    continue;
                }
                if !lookup(class, name.to_str()?)?.is_some_and(|found| found.is(&slot)) {
                    return refuse(" that are out of sight");
                }
                if let Ok(value) = slot.call_method1("__get__", (object,)) {
                    attributes.push((name.unbind(), self.recipe(&Tracked::new(value), outputs)?));
                }
            }
        }
        let callable = self.py.get_type::<PyAny>().getattr("__new__")?.unbind();
        Ok(Made { attributes, ..Made::new(callable, given) }.into())
    }

    /// Returns the source of a cell that was passed to one of the frame's functions.
    pub(crate) fn cell_itself(&self, cell: &Bound<'py, PyAny>) -> Option<SourceId> {
        match self.guards.get(self.handed_cell(cell)?) {
            Source::Free { index, .. } => Some(self.guards.source(Source::ClosureCell(self.guards.source(Source::Function), index))),
            Source::Closure { base, index, .. } => Some(self.guards.source(Source::ClosureCell(base, index))),
            Source::Cell(cell) => Some(cell),
            _ => None,
        }
    }

    /// Rebuilds an object as pickling would.
    pub(crate) fn reduced(&self, object: &Bound<'py, PyAny>, outputs: &mut Outputs<'py>) -> Outcome<Made> {
        self.refuse_changed_beneath(object)?;
        let warnings = dynamlir_cpython_abi::import(self.py, "warnings")?;
        let parts = dynamlir_interpreter::suspended(|| {
            // From CPython 3.12 on, the iterators of itertools warn that support for pickling them will be removed.
            let quiet = warnings.call_method0("catch_warnings")?;
            quiet.call_method0("__enter__")?;
            let reduced = warnings.call_method1("simplefilter", ("ignore",)).and_then(|_| object.call_method0("__reduce__"));
            quiet.call_method1("__exit__", (self.py.None(), self.py.None(), self.py.None()))?;
            reduced
        });
        let parts = match parts.map(Bound::cast_into::<PyTuple>) {
            Ok(Ok(parts)) if (2..4).contains(&parts.len()) => parts,
            _ => return self.break_graph(reason::OUTPUT, type_name(object)),
        };
        let callable = parts.get_item(0)?.unbind();
        let given = parts.get_item(1)?.cast_into::<PyTuple>().map_err(PyErr::from)?;
        // The argument tuple was created just now and is not used anywhere else.
        let given = given.iter().map(|part| self.reduced_part(part, outputs)).collect::<Outcome<Vec<_>>>()?;
        let state = match parts.get_item(2) {
            Ok(state) if !state.is_none() => Some(self.reduced_part(state, outputs)?),
            _ => None,
        };
        Ok(Made { state, ..Made::new(callable, given) })
    }

    /// Returns the recipe for a part of the result of `__reduce__`: a tuple that it created, or an object that the reduced object refers
    /// to.
    fn reduced_part(&self, part: Bound<'py, PyAny>, outputs: &mut Outputs<'py>) -> Outcome<Recipe> {
        if let Ok(items) = part.cast_exact::<PyTuple>()
            && !self.is_young(&part)
        {
            return items.iter().map(|item| self.recipe(&Tracked::new(item), outputs)).collect::<Outcome<_>>().map(Recipe::Tuple);
        }
        if let Ok(items) = part.cast_exact::<PyList>()
            && items.is_empty()
        {
            return Ok(Recipe::List(Vec::new()));
        }
        if part.is_exact_instance_of::<PyRange>() {
            return Ok(Recipe::Constant(part.unbind()));
        }
        if self.source_of(&part).is_none() && UNTRACKED.contains(&part.get_type().name()?.to_str()?) {
            // It was created together with the object.
            self.note_new(&part);
        }
        self.recipe(&Tracked::new(part), outputs)
    }
}
