//! An entry as Python code, for people to read: the graph's inputs, its call, and the use of its results.
//!
//! ```python
//! graph_out = __compiled_graph_0(x, self._parameters['weight'])
//! return {'logits': graph_out[0], 'input': x}
//! ```
//!
//! It runs only if the person who requested it runs it. Objects that are not literals (the graph, classes, objects that the guards hold)
//! are referred to by unused global names.

mod reach;

use std::{
    collections::{HashMap, HashSet},
    sync::atomic::{AtomicUsize, Ordering},
};

use dynamlir_bytecode::{CodeObject, Const, Expr, Statement};
use dynamlir_cpython_abi::shown;
use dynamlir_guards::GuardSet;
use pyo3::{
    exceptions::{PyNotImplementedError, PyReferenceError},
    prelude::*,
    types::{PyBool, PyBytes, PyComplex, PyDict, PyFloat, PyFunction, PyInt, PyList, PyString, PyTuple, PyType},
};

use crate::{
    cache::{Entry, Run},
    epilogue::AfterGraph,
    recipe::{Instance, Made, Recipe},
};

/// The object behind a name that an entry's code uses.
pub enum Named {
    /// The compiled graph.
    Graph,
    /// An object that the recipe keeps.
    Object(Py<PyAny>),
    /// An object that the guards hold weakly, on the route to the object collected at this place.
    Held(usize),
    /// A Python builtin whose name the function uses for something else.
    Builtin(&'static str),
    /// The globals of the function itself, in which the entry sets names.
    Globals,
}

/// An entry's code with the names that it needs.
pub struct EntryCode {
    /// The code.
    pub code: CodeObject,
    /// The names to add to the function's own globals.
    pub names: Vec<(String, Named)>,
}

impl EntryCode {
    /// Puts the named objects into a dict of globals. `own` are the globals of the compiled function.
    ///
    /// # Errors
    /// If one of the objects has died.
    pub fn install(&self, globals: &Bound<'_, PyDict>, own: &Bound<'_, PyDict>, entry: &Entry) -> PyResult<()> {
        let py = globals.py();
        for (name, named) in &self.names {
            let object = match (named, &entry.run) {
                (Named::Graph, Run::Graph { graph, .. }) => graph.callable(py).into_bound(py),
                (Named::Graph, Run::Plain(_)) => return Err(gone()),
                (Named::Object(object), _) => object.bind(py).clone(),
                (Named::Held(place), _) => reach::held(py, &entry.guards, *place).ok_or_else(gone)?,
                (Named::Globals, _) => own.clone().into_any(),
                (Named::Builtin(name), _) => dynamlir_cpython_abi::import(py, "builtins")?.getattr(*name)?,
            };
            globals.set_item(name, object)?;
        }
        Ok(())
    }
}

fn gone() -> PyErr {
    PyReferenceError::new_err("something that the entry refers to is gone, so that it cannot be taken again")
}

fn unwritable(what: &str) -> PyErr {
    PyNotImplementedError::new_err(format!("this entry has no bytecode: {what} cannot be written as Python"))
}

/// Writes an entry as code. `like` is the function's own code, `globals` are the function's. Returns None for an entry that is plain
/// Python.
///
/// # Errors
/// If the recipe or the route to an input has no Python form that surely does the same, or if an object has died.
pub fn write(entry: &Entry, like: &CodeObject, globals: &Bound<'_, PyDict>) -> PyResult<Option<EntryCode>> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let Run::Graph { tensors, epilogue, .. } = &entry.run else { return Ok(None) };
    let mut scribe = Scribe {
        py: globals.py(),
        guards: &entry.guards,
        like,
        globals,
        names: Vec::new(),
        locals: HashSet::new(),
        body: Vec::new(),
        again: HashSet::new(),
        kept: HashMap::new(),
        before: HashMap::new(),
        results: String::new(),
        sets_globals: epilogue.steps().iter().any(|step| matches!(step, AfterGraph::StoreGlobal { .. } | AfterGraph::DeleteGlobal { .. })),
    };
    epilogue.steps().iter().flat_map(AfterGraph::recipes).for_each(|recipe| repeated(recipe, &mut scribe.again));
    let inputs = tensors.iter().map(|&place| scribe.input(place)).collect::<PyResult<_>>()?;
    let graph = scribe.name(&format!("__compiled_graph_{}", NEXT.fetch_add(1, Ordering::Relaxed)), Named::Graph)?;
    scribe.results = scribe.local("graph_out")?;
    let results = scribe.results.clone();
    scribe.body.push(Statement::Assign(results, graph.call(inputs)));
    scribe.read_before_writing(epilogue.steps())?;
    let result = scribe.steps(epilogue.steps())?;
    let Scribe { names, body, .. } = scribe;
    let code = dynamlir_bytecode::write(like, &body, &result).map_err(|error| unwritable(&error.to_string()))?;
    Ok(Some(EntryCode { code, names }))
}

/// Finds the numbers of objects that are used again after they were created.
fn repeated(recipe: &Recipe, found: &mut HashSet<usize>) {
    if let Recipe::Kept(number) = recipe {
        found.insert(*number);
    }
    recipe.parts().into_iter().for_each(|part| repeated(part, found));
}

/// Finds the places of the collected objects that a recipe uses.
fn inputs_of(recipe: &Recipe, found: &mut Vec<usize>) {
    if let Recipe::Input(place) = recipe {
        found.push(*place);
    }
    recipe.parts().into_iter().for_each(|part| inputs_of(part, found));
}

struct Scribe<'a, 'py> {
    py: Python<'py>,
    guards: &'a GuardSet,
    like: &'a CodeObject,
    globals: &'a Bound<'py, PyDict>,
    names: Vec<(String, Named)>,
    locals: HashSet<String>,
    body: Vec<Statement>,
    /// Objects that the recipe uses more than once.
    again: HashSet<usize>,
    /// The variables that hold them.
    kept: HashMap<usize, String>,
    /// The variables that hold the objects read before anything is written.
    before: HashMap<usize, String>,
    /// The variable that holds the graph's results.
    results: String,
    /// True if the entry sets global names: they are then read from the dict in which they are set.
    sets_globals: bool,
}

impl<'py> Scribe<'_, 'py> {
    /// Returns true if a name is already in use.
    fn is_taken(&self, name: &str) -> PyResult<bool> {
        Ok(self.like.slots().contains(&name)
            || self.like.names.iter().any(|known| known == name)
            || self.locals.contains(name)
            || self.names.iter().any(|(known, _)| known == name)
            || self.globals.contains(name)?
            || dynamlir_cpython_abi::import(self.py, "builtins")?.hasattr(name)?)
    }

    /// Returns an unused name similar to this one.
    fn fresh(&self, wanted: &str) -> PyResult<String> {
        let mut name = wanted.to_owned();
        let mut number = 0;
        while self.is_taken(&name)? {
            number += 1;
            name = format!("{wanted}_{number}");
        }
        Ok(name)
    }

    /// Adds a global.
    fn name(&mut self, wanted: &str, named: Named) -> PyResult<Expr> {
        let name = self.fresh(wanted)?;
        self.names.push((name.clone(), named));
        Ok(Expr::Global(name))
    }

    /// Adds a variable.
    fn local(&mut self, wanted: &str) -> PyResult<String> {
        let name = self.fresh(wanted)?;
        self.locals.insert(name.clone());
        Ok(name)
    }

    /// Returns a Python builtin function or class.
    fn builtin(&mut self, name: &'static str) -> PyResult<Expr> {
        if !self.like.slots().contains(&name) && !self.globals.contains(name)? {
            return Ok(Expr::Global(name.to_owned()));
        }
        let known = self.names.iter().find(|(_, named)| matches!(named, Named::Builtin(known) if *known == name));
        match known {
            Some((known, _)) => Ok(Expr::Global(known.clone())),
            None => self.name(&format!("__builtin_{name}"), Named::Builtin(name)),
        }
    }

    /// Returns the globals of the function.
    fn own_globals(&mut self) -> PyResult<Expr> {
        match self.names.iter().find(|(_, named)| matches!(named, Named::Globals)) {
            Some((known, _)) => Ok(Expr::Global(known.clone())),
            None => self.name("__globals", Named::Globals),
        }
    }

    /// Returns an expression for this very object, or an identical literal.
    fn object(&mut self, object: &Bound<'py, PyAny>) -> PyResult<Expr> {
        if let Some(value) = literal(object)? {
            return Ok(Expr::Const(value));
        }
        let known = self.names.iter().find(|(_, named)| matches!(named, Named::Object(known) if known.is(object)));
        if let Some((name, _)) = known {
            return Ok(Expr::Global(name.clone()));
        }
        if let Ok(class) = object.cast::<PyType>() {
            let home = dynamlir_cpython_abi::import(self.py, "builtins")?;
            for name in ["object", "dict", "list", "set", "tuple"] {
                if home.getattr(name)?.is(class) {
                    return self.builtin(name);
                }
            }
        }
        let name = wanted(object)?;
        self.name(&name, Named::Object(object.clone().unbind()))
    }

    fn values(&mut self, items: &[Recipe]) -> PyResult<Vec<Expr>> {
        items.iter().map(|item| self.value(item)).collect()
    }

    /// If the steps write anything, first reads their operands into variables: the operands may not be there any more afterwards.
    fn read_before_writing(&mut self, steps: &[AfterGraph]) -> PyResult<()> {
        if steps.len() < 2 {
            return Ok(());
        }
        let mut places = Vec::new();
        steps.iter().flat_map(AfterGraph::recipes).for_each(|recipe| inputs_of(recipe, &mut places));
        for place in places {
            let reached = self.input(place)?;
            let stays = match &reached {
                Expr::Local(_) => true,
                // The function's own globals are among those that may be written.
                Expr::Global(name) => self.names.iter().any(|(known, _)| known == name),
                _ => false,
            };
            if stays || self.before.contains_key(&place) {
                continue;
            }
            let name = self.local("before")?;
            self.body.push(Statement::Assign(name.clone(), reached));
            self.before.insert(place, name);
        }
        Ok(())
    }

    /// Writes the steps after the graph; returns the result.
    fn steps(&mut self, steps: &[AfterGraph]) -> PyResult<Expr> {
        for step in steps {
            match step {
                AfterGraph::StoreAttribute { owner, name, value } => {
                    let given = vec![self.value(owner)?, self.object(name.bind(self.py).as_any())?, self.value(value)?];
                    let store = self.builtin("object")?.attr("__setattr__").call(given);
                    self.body.push(Statement::Do(store));
                }
                AfterGraph::DeleteAttribute { owner, name } => {
                    let given = vec![self.value(owner)?, self.object(name.bind(self.py).as_any())?];
                    let delete = self.builtin("object")?.attr("__delattr__").call(given);
                    self.body.push(Statement::Do(delete));
                }
                AfterGraph::StoreGlobal { globals, name, value } => {
                    let value = self.value(value)?;
                    let (base, key) = (self.value(globals)?, self.object(name.bind(self.py).as_any())?);
                    self.body.push(Statement::SetItem { base, key, value });
                }
                AfterGraph::DeleteGlobal { globals, name } => {
                    let given = vec![self.value(globals)?, self.object(name.bind(self.py).as_any())?];
                    let delete = self.builtin("dict")?.attr("__delitem__").call(given);
                    self.body.push(Statement::Do(delete));
                }
                AfterGraph::Call { method, given } => {
                    let given = self.values(given)?;
                    let call = self.method(method.bind(self.py))?.call(given);
                    self.body.push(Statement::Do(call));
                }
                AfterGraph::Return(recipe) => return self.value(recipe),
                AfterGraph::Suspend(_) => return Err(unwritable("a frame that goes on after a graph break")),
            }
        }
        Err(unwritable("an entry without a result"))
    }

    /// Returns an expression for a method of a class (`list.append`), or for a function.
    fn method(&mut self, method: &Bound<'py, PyAny>) -> PyResult<Expr> {
        if method.is_exact_instance_of::<PyFunction>() {
            return self.object(method);
        }
        let name: String = method.getattr("__name__")?.extract()?;
        Ok(self.object(&method.getattr("__objclass__")?)?.attr(&name))
    }

    /// Returns an expression for a value of the result; statements that it needs are written first.
    fn value(&mut self, recipe: &Recipe) -> PyResult<Expr> {
        Ok(match recipe {
            Recipe::Input(place) => match self.before.get(place) {
                Some(name) => Expr::Local(name.clone()),
                None => self.input(*place)?,
            },
            Recipe::Output(at) => Expr::Local(self.results.clone()).at(*at),
            Recipe::Constant(object) => self.object(&object.bind(self.py).clone())?,
            Recipe::Computed(op, operands) => {
                let [left, right] = &**operands;
                let left = self.value(left)?;
                left.binary(*op as usize, self.value(right)?)
            }
            Recipe::Tuple(items) => Expr::Tuple(self.values(items)?),
            Recipe::List(items) => Expr::List(self.values(items)?),
            Recipe::Made(made) if made.iterates.is_some() => return Err(unwritable("an iterator")),
            Recipe::Made(made) => self.made(made)?,
            Recipe::Cell(content) => {
                let class = self.object(&dynamlir_cpython_abi::import(self.py, "types")?.getattr("CellType")?)?;
                let content = content.iter().map(|content| self.value(content)).collect::<PyResult<Vec<_>>>()?;
                class.call(content)
            }
            Recipe::Size(_) => return Err(unwritable("a size that varies")),
            Recipe::Method(_) | Recipe::Attribute(..) => return Err(unwritable("a part of a frame")),
            Recipe::Dict(pairs) => self.dict(pairs)?,
            Recipe::Set(items, kind) => {
                let class = self.builtin(if kind.frozen { "frozenset" } else { "set" })?;
                let items = self.values(items)?;
                // CPython would build a display of constants from a frozenset, whose order differs.
                let given = if items.is_empty() { Vec::new() } else { vec![Expr::Tuple(items)] };
                if kind.copied { class.call(vec![self.builtin("set")?.call(given)]) } else { class.call(given) }
            }
            Recipe::TupleClass(class, items, attributes) => {
                let items = Expr::Tuple(self.values(items)?);
                let kind = self.class(class)?;
                let class = self.value(class)?;
                let made = if kind.hasattr("n_sequence_fields")? {
                    class.call(vec![items])
                } else {
                    self.builtin("tuple")?.attr("__new__").call(vec![class, items])
                };
                if attributes.is_empty() { made } else { self.attach(&kind, made, attributes)? }
            }
            Recipe::Instance(instance) => self.instance(instance)?,
            Recipe::Keep(number, inner) => {
                let made = self.value(inner)?;
                if !self.again.contains(number) {
                    return Ok(made);
                }
                let variable = match made {
                    Expr::Local(name) => name,
                    made => {
                        let name = self.local("shared")?;
                        self.body.push(Statement::Assign(name.clone(), made));
                        name
                    }
                };
                self.kept.insert(*number, variable.clone());
                Expr::Local(variable)
            }
            Recipe::Kept(number) => Expr::Local(self.kept.get(number).cloned().ok_or_else(|| unwritable("an object within itself"))?),
        })
    }

    fn dict(&mut self, pairs: &[(Recipe, Recipe)]) -> PyResult<Expr> {
        let pair = |(key, value): &(Recipe, Recipe)| Ok((self.value(key)?, self.value(value)?));
        let pairs = pairs.iter().map(pair).collect::<PyResult<Vec<_>>>()?;
        if pairs.len() < 2 || !pairs.iter().all(|(key, _)| matches!(key, Expr::Const(_))) {
            return Ok(Expr::Dict(pairs));
        }
        // For a display whose keys are constants, depyf omits the quotes.
        let name = self.local("made")?;
        self.body.push(Statement::Assign(name.clone(), Expr::Dict(Vec::new())));
        let made = Expr::Local(name);
        let items = pairs.into_iter().map(|(key, value)| Statement::SetItem { base: made.clone(), key, value });
        self.body.extend(items);
        Ok(made)
    }

    fn made(&mut self, made: &Made) -> PyResult<Expr> {
        let given = self.values(&made.given)?;
        let call = self.object(made.callable.bind(self.py))?.call(given);
        if made.state.is_none() && made.attributes.is_empty() {
            return Ok(call);
        }
        let name = self.local("made")?;
        self.body.push(Statement::Assign(name.clone(), call));
        if let Some(state) = &made.state {
            let set = Expr::Local(name.clone()).attr("__setstate__").call(vec![self.value(state)?]);
            self.body.push(Statement::Do(set));
        }
        for (attribute, value) in &made.attributes {
            let given = vec![Expr::Local(name.clone()), self.object(attribute.bind(self.py).as_any())?, self.value(value)?];
            let set = self.builtin("object")?.attr("__setattr__").call(given);
            self.body.push(Statement::Do(set));
        }
        Ok(Expr::Local(name))
    }

    fn instance(&mut self, instance: &Instance) -> PyResult<Expr> {
        let (kind, base) = (self.class(&instance.class)?, instance.base.bind(self.py));
        let (class, new) = (self.value(&instance.class)?, self.object(base)?);
        let made = self.attach(&kind, new.clone().attr("__new__").call(vec![class]), &[])?;
        for (key, value) in &instance.items {
            let done = if base.is(self.py.get_type::<PyList>()) {
                new.clone().attr("append").call(vec![made.clone(), self.value(value)?])
            } else {
                new.clone().attr("__setitem__").call(vec![made.clone(), self.value(key)?, self.value(value)?])
            };
            self.body.push(Statement::Do(done));
        }
        self.fill(&kind, &made, &instance.attributes)?;
        Ok(made)
    }

    /// Returns the class given by a recipe: a builtin, or one that the guards hold.
    fn class(&self, recipe: &Recipe) -> PyResult<Bound<'py, PyAny>> {
        match recipe {
            Recipe::Constant(class) => Ok(class.bind(self.py).clone()),
            Recipe::Input(place) => reach::held(self.py, self.guards, *place).ok_or_else(gone),
            _ => Err(unwritable("an instance of a class that the function makes")),
        }
    }

    /// Assigns an object to a variable, and puts attributes into its `__dict__`.
    fn attach(&mut self, class: &Bound<'py, PyAny>, made: Expr, attributes: &[(Py<PyAny>, Recipe)]) -> PyResult<Expr> {
        let name = self.local("made")?;
        self.body.push(Statement::Assign(name.clone(), made));
        let made = Expr::Local(name);
        self.fill(class, &made, attributes)?;
        Ok(made)
    }

    fn fill(&mut self, class: &Bound<'py, PyAny>, made: &Expr, attributes: &[(Py<PyAny>, Recipe)]) -> PyResult<()> {
        if !attributes.is_empty() {
            reach::has_own_dict(class)?;
        }
        for (name, value) in attributes {
            let (key, value) = (self.object(name.bind(self.py))?, self.value(value)?);
            self.body.push(Statement::SetItem { base: made.clone().attr("__dict__"), key, value });
        }
        Ok(())
    }
}

/// Returns the name of a global for an object.
fn wanted(object: &Bound<'_, PyAny>) -> PyResult<String> {
    let name = object.getattr("__name__").ok().and_then(|name| name.cast_into::<PyString>().ok());
    let kind = if object.is_instance_of::<PyType>() { "class" } else { "object" };
    Ok(match name {
        Some(name) if name.call_method0("isidentifier")?.is_truthy()? => format!("__{kind}_{name}"),
        _ => format!("__{kind}"),
    })
}

/// Returns the literal for an object, if one has exactly its type and value.
fn literal(object: &Bound<'_, PyAny>) -> PyResult<Option<Const>> {
    Ok(if object.is_none() {
        Some(Const::None)
    } else if object.is(object.py().Ellipsis()) {
        Some(Const::Ellipsis)
    } else if let Ok(value) = object.cast_exact::<PyBool>() {
        Some(Const::Bool(value.is_true()))
    } else if object.is_exact_instance_of::<PyInt>() {
        // Python refuses to write very long integers in decimal.
        shown::str(object).ok().map(|digits| Const::Int(digits.to_string()))
    } else if let Ok(value) = object.cast_exact::<PyFloat>() {
        Some(value.value()).filter(|value| value.is_finite()).map(Const::Float)
    } else if let Ok(value) = object.cast_exact::<PyComplex>() {
        // Complex numbers are written as a sum, which loses the signs of zeros.
        Some((value.real(), value.imag())).filter(|(real, imag)| real.to_bits() == 0 && imag.is_finite()).map(|(r, i)| Const::Complex(r, i))
    } else if let Ok(value) = object.cast_exact::<PyString>() {
        value.to_str().ok().map(|text| Const::Str(text.to_owned()))
    } else if let Ok(value) = object.cast_exact::<PyBytes>() {
        Some(Const::Bytes(value.as_bytes().to_vec()))
    } else if let Ok(items) = object.cast_exact::<PyTuple>() {
        items.iter().map(|item| literal(&item)).collect::<PyResult<Option<_>>>()?.map(Const::Tuple)
    } else {
        None
    })
}
