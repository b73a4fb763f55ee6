//! Functions, iterators and other objects of C's classes in a result: by the call that makes them again.
//!
//! A function that the frame has made is its code with the globals of the function beneath which it was made, and the cells that it
//! closes over. Iterators, partial functions and the like say themselves how they are made again (`__reduce__`), at the place to which
//! they have come.

use dynamlir_cpython_abi::{function, kind, mapping, types};
use dynamlir_frame::{Made, Recipe};
use dynamlir_guards::{Source, SourceId};
use dynamlir_interpreter::semantics;
use pyo3::{
    prelude::*,
    types::{PyDict, PyList, PyRange, PyString, PyTuple, PyType},
};

use crate::{
    attributes::{instance_dict, lookup},
    graph_break::reason,
    lookups::is_immutable,
    outputs::Outputs,
    state::{Capture, Outcome, Tracked, type_name},
};

/// Classes of C's whose instances are, after `__reduce__`, of the same class and at the same place.
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

/// Iterators of which the collector does not know, so that nobody sees that they are new.
const UNTRACKED: [&str; 2] = ["longrange_iterator", "range_iterator"];

/// What a function has besides its code, globals, name, defaults and closure.
const OF_FUNCTIONS: &[&str] = &["__kwdefaults__", "__qualname__", "__module__", "__doc__", "__annotations__", "__type_params__"];

impl<'py> Capture<'py> {
    /// The recipe for a function, or an object of one of C's classes; None for anything else.
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
        // `*list[int]` is made by iterating over one.
        if class.is(dynamlir_cpython_abi::import(self.py, "types")?.getattr("GenericAlias")?)
            && !object.getattr("__unpacked__")?.is_truthy()?
        {
            let parts = ["__origin__", "__args__"].map(|part| self.recipe(&Tracked::new(object.getattr(part)?), outputs));
            return Ok(Some(made(parts.into_iter().collect::<Outcome<_>>()?).into()));
        }
        // What makes one is kept by the entry, so it is no class of the user's.
        let reduces = self.effects.kinds.is_partial_class(&class) || (is_immutable(&class) && REDUCED.contains(&name.as_str()));
        if reduces { Ok(Some(self.reduced(object, outputs)?.into())) } else { Ok(None) }
    }

    /// What a class of the frame's is made of, if it is as `collections.namedtuple` makes it: name, fields, defaults, module.
    pub(crate) fn named_tuple_parts(&self, class: &Bound<'py, PyType>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        if !class.is_subclass_of::<PyTuple>()? {
            return Ok(None);
        }
        let named_tuples = dynamlir_cpython_abi::import(self.py, "dynamlir.capture.named_tuples")?;
        Ok(dynamlir_interpreter::suspended(|| named_tuples.call_method1("parts", (class,)))?.cast_into().ok())
    }

    /// The recipe for such a class: it is another one at each call.
    fn named_tuple_recipe(&self, class: &Bound<'py, PyType>, outputs: &mut Outputs<'py>) -> Outcome<Option<Recipe>> {
        let Some(parts) = self.named_tuple_parts(class)? else { return Ok(None) };
        let given = parts.iter().enumerate().map(|(at, part)| match part.cast::<PyTuple>() {
            // The defaults, which are what the frame has given.
            Ok(defaults) if at == 2 => {
                defaults.iter().map(|value| self.recipe(&self.wrap_untracked(value)?, outputs)).collect::<Outcome<_>>().map(Recipe::Tuple)
            }
            _ => Ok(Recipe::Constant(part.unbind())),
        });
        let given = given.collect::<Outcome<_>>()?;
        let callable = dynamlir_cpython_abi::import(self.py, "dynamlir.capture.named_tuples")?.getattr("made")?.unbind();
        Ok(Some(Made::new(callable, given).into()))
    }

    /// The cell that a function of the frame's closes over and is in, if there is one that has not been looked at.
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
        // The function has its `__annotate__`, which the program has not called.
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

    /// The recipe for an instance of a class of the user's that has `__slots__`: an empty one, whose slots are filled past its class.
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

    /// Where a cell itself is reached that was handed to a function of the frame's.
    pub(crate) fn cell_itself(&self, cell: &Bound<'py, PyAny>) -> Option<SourceId> {
        match self.guards.get(self.handed_cell(cell)?) {
            Source::Free { index, .. } => Some(self.guards.source(Source::ClosureCell(self.guards.source(Source::Function), index))),
            Source::Closure { base, index, .. } => Some(self.guards.source(Source::ClosureCell(base, index))),
            Source::Cell(cell) => Some(cell),
            _ => None,
        }
    }

    /// As pickling would have it made again.
    pub(crate) fn reduced(&self, object: &Bound<'py, PyAny>, outputs: &mut Outputs<'py>) -> Outcome<Made> {
        self.refuse_changed_beneath(object)?;
        let warnings = dynamlir_cpython_abi::import(self.py, "warnings")?;
        let parts = dynamlir_interpreter::suspended(|| {
            // From CPython 3.12 on those of itertools warn that they will not be pickled for ever.
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
        // It was made just now, and is of no use but here.
        let given = given.iter().map(|part| self.reduced_part(part, outputs)).collect::<Outcome<Vec<_>>>()?;
        let state = match parts.get_item(2) {
            Ok(state) if !state.is_none() => Some(self.reduced_part(state, outputs)?),
            _ => None,
        };
        Ok(Made { state, ..Made::new(callable, given) })
    }

    /// Part of what `__reduce__` returns: a tuple that it has made, or something that the object refers to.
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
            // It was made with the object.
            self.note_new(&part);
        }
        self.recipe(&Tracked::new(part), outputs)
    }
}
