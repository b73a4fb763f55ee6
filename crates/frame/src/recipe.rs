//! Output recipes: how to build a function's result from the graph's outputs and from existing objects.

use dynamlir_cpython_abi::{
    abi, cell, import_once,
    number::{BinaryOp, binary},
    object::{attributes_of, set_generic_attribute},
    types,
};
use dynamlir_guards::size_in;
use dynamlir_shapes::{Algebra, Bindings, Dim, Symbol};
use pyo3::{
    exceptions::{PyOverflowError, PyRuntimeError, PyStopIteration},
    intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyFrozenSet, PyList, PySet, PyString, PyTuple, PyType},
};

/// Instructions for building a value.
#[derive(Debug)]
pub enum Recipe {
    /// The object that the guards collected under this number: an argument, or an object reached from one.
    Input(usize),
    /// A result of the graph.
    Output(usize),
    /// This very object, which refers to nothing of the user's. An entry would leak its object if the object referred to the function that
    /// was compiled. Objects that do are inputs, which the guards hold weakly.
    Constant(Py<PyAny>),
    /// A size that the program computed from sizes of tensors and from ints.
    Size(Box<Measured>),
    /// A number that the program computed from others.
    Computed(BinaryOp, Box<[Recipe; 2]>),
    /// A tuple.
    Tuple(Vec<Recipe>),
    /// A list.
    List(Vec<Recipe>),
    /// A set of these elements, added in this order.
    Set(Vec<Recipe>, SetKind),
    /// A dict.
    Dict(Vec<(Recipe, Recipe)>),
    /// A named tuple or another subclass of tuple: `tuple.__new__(class, items)`, or `class(items)` for torch's; with the contents of its
    /// `__dict__`.
    TupleClass(Box<Recipe>, Vec<Recipe>, Vec<(Py<PyAny>, Recipe)>),
    /// An instance of one of the user's classes, created without its `__init__`.
    Instance(Box<Instance>),
    /// The result of calling a C function with these arguments.
    Made(Box<Made>),
    /// A cell, with its contents.
    Cell(Option<Box<Recipe>>),
    /// A bound method: this function, bound to this object.
    Method(Box<[Recipe; 2]>),
    /// The attribute of a C object under this name: a method of a tensor.
    Attribute(Box<Recipe>, Py<PyString>),
    /// The first use of an object that is used again.
    Keep(usize, Box<Recipe>),
    /// A further use.
    Kept(usize),
}

/// A size as an expression.
#[derive(Debug)]
pub struct Measured {
    /// The expression.
    pub size: Dim,
    /// Each of its symbols, with the dimension of a collected object that the symbol denotes, as in [`size_in`].
    pub symbols: Vec<(Symbol, usize, usize)>,
}

impl Measured {
    fn make<'py>(&self, py: Python<'py>, inputs: &[Option<Bound<'py, PyAny>>]) -> PyResult<Bound<'py, PyAny>> {
        let mut bindings = Bindings::default();
        for &(symbol, input, dimension) in &self.symbols {
            let object = inputs.get(input).and_then(Option::as_ref);
            let found = object.map(|object| size_in(object, dimension)).transpose()?.flatten();
            bindings.insert(symbol, found.ok_or_else(|| PyRuntimeError::new_err("a size is not there"))?);
        }
        if let Ok(value) = self.size.at(&bindings) {
            return Ok(value.into_pyobject(py)?.into_any());
        }
        // The program's ints may be arbitrarily large.
        let mut ints = PythonInts { py, bindings: &bindings, raised: None };
        let made = self.size.fold(&mut ints);
        made.ok_or_else(|| ints.raised.unwrap_or_else(|| PyOverflowError::new_err("a size is too large")))
    }
}

/// Computes with Python's ints, which do not overflow. Returns None if Python has raised.
struct PythonInts<'a, 'py> {
    py: Python<'py>,
    bindings: &'a Bindings,
    raised: Option<PyErr>,
}

type Computed<'py> = Option<Bound<'py, PyAny>>;

impl<'py> PythonInts<'_, 'py> {
    fn with(
        &mut self,
        a: Computed<'py>,
        b: Computed<'py>,
        compute: impl FnOnce(Bound<'py, PyAny>, Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
    ) -> Computed<'py> {
        compute(a?, b?).map_err(|error| self.raised = Some(error)).ok()
    }

    fn extreme(&mut self, name: &str, a: Computed<'py>, b: Computed<'py>) -> Computed<'py> {
        let py = self.py;
        self.with(a, b, |a, b| dynamlir_cpython_abi::import(py, "builtins")?.call_method1(name, (a, b)))
    }
}

impl<'py> Algebra for PythonInts<'_, 'py> {
    type Value = Computed<'py>;

    fn number(&mut self, value: i64) -> Computed<'py> {
        value.into_pyobject(self.py).ok().map(Bound::into_any)
    }
    fn symbol(&mut self, symbol: Symbol) -> Computed<'py> {
        let value = self.bindings.get(symbol)?;
        self.number(value)
    }
    fn add(&mut self, a: Computed<'py>, b: Computed<'py>) -> Computed<'py> {
        self.with(a, b, |a, b| a.add(b))
    }
    fn mul(&mut self, a: Computed<'py>, b: Computed<'py>) -> Computed<'py> {
        self.with(a, b, |a, b| a.mul(b))
    }
    fn floordiv(&mut self, a: Computed<'py>, b: Computed<'py>) -> Computed<'py> {
        self.with(a, b, |a, b| a.floor_div(b))
    }
    fn modulo(&mut self, a: Computed<'py>, b: Computed<'py>) -> Computed<'py> {
        self.with(a, b, |a, b| a.rem(b))
    }
    fn min(&mut self, a: Computed<'py>, b: Computed<'py>) -> Computed<'py> {
        self.extreme("min", a, b)
    }
    fn max(&mut self, a: Computed<'py>, b: Computed<'py>) -> Computed<'py> {
        self.extreme("max", a, b)
    }
}

/// The way in which a set was created, which determines its iteration order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetKind {
    /// True for a `frozenset`.
    pub frozen: bool,
    /// True if it is created from another set, all at once.
    pub copied: bool,
}

impl SetKind {
    /// Creates the set.
    ///
    /// # Errors
    /// If an element has no hash.
    pub fn make<'py>(self, py: Python<'py>, items: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
        let set = PySet::new(py, items)?.into_any();
        Ok(match self {
            Self { frozen: false, copied: false } => set,
            Self { frozen: false, copied: true } => py.get_type::<PySet>().call1((set,))?,
            Self { frozen: true, copied: true } => py.get_type::<PyFrozenSet>().call1((set,))?,
            Self { frozen: true, copied: false } => PyFrozenSet::new(py, items)?.into_any(),
        })
    }
}

/// The parts of an instance.
#[derive(Debug)]
pub struct Instance {
    /// Its class.
    pub class: Recipe,
    /// The builtin class whose `__new__` and item protocol it uses: object, dict, `OrderedDict`, list.
    pub base: Py<PyAny>,
    /// Items: key and value for dicts; for lists only the value is used.
    pub items: Vec<(Recipe, Recipe)>,
    /// The contents of its `__dict__`.
    pub attributes: Vec<(Py<PyAny>, Recipe)>,
}

/// An object, described by the call that creates it.
#[derive(Debug)]
pub struct Made {
    /// A class or a C function.
    pub callable: Py<PyAny>,
    /// The arguments of the call.
    pub given: Vec<Recipe>,
    /// The argument of `__setstate__`, if it is called.
    pub state: Option<Recipe>,
    /// The attributes set afterwards, by name, as `object.__setattr__` does.
    pub attributes: Vec<(Py<PyString>, Recipe)>,
    /// For a Python builtin iterator, the number of items that it has yielded since it was created in this way. The iterable may be one
    /// that is created.
    pub iterates: Option<usize>,
}

impl Made {
    /// Creates the result of a call with these arguments, unchanged.
    pub fn new(callable: Py<PyAny>, given: Vec<Recipe>) -> Self {
        Self { callable, given, state: None, attributes: Vec::new(), iterates: None }
    }
}

impl From<Made> for Recipe {
    fn from(made: Made) -> Self {
        Self::Made(Box::new(made))
    }
}

/// The objects that recipes draw from.
pub struct Supply<'a, 'py> {
    /// The objects that the guards collected.
    pub inputs: &'a [Option<Bound<'py, PyAny>>],
    /// The graph's results.
    pub outputs: &'a [Bound<'py, PyAny>],
    /// Objects kept for a further use.
    pub kept: Vec<Option<Bound<'py, PyAny>>>,
}

impl<'py> Supply<'_, 'py> {
    fn keep(&mut self, number: usize, made: Bound<'py, PyAny>) -> Bound<'py, PyAny> {
        if self.kept.len() <= number {
            self.kept.resize(number + 1, None);
        }
        self.kept[number] = Some(made.clone());
        made
    }
}

impl Recipe {
    /// Returns the recipes of its parts, in order.
    #[must_use]
    pub fn parts(&self) -> Vec<&Self> {
        match self {
            Self::Input(_) | Self::Output(_) | Self::Constant(_) | Self::Size(_) | Self::Kept(_) => Vec::new(),
            Self::Computed(_, operands) | Self::Method(operands) => operands.iter().collect(),
            Self::Cell(content) => content.iter().map(|content| &**content).collect(),
            Self::Tuple(items) | Self::List(items) | Self::Set(items, _) => items.iter().collect(),
            Self::Dict(pairs) => pairs.iter().flat_map(|(key, value)| [key, value]).collect(),
            Self::TupleClass(class, items, attributes) => {
                std::iter::once(&**class).chain(items).chain(attributes.iter().map(|(_, value)| value)).collect()
            }
            Self::Instance(instance) => {
                let items = instance.items.iter().flat_map(|(key, value)| [key, value]);
                std::iter::once(&instance.class).chain(items).chain(instance.attributes.iter().map(|(_, value)| value)).collect()
            }
            Self::Made(made) => made.given.iter().chain(&made.state).chain(made.attributes.iter().map(|(_, value)| value)).collect(),
            Self::Keep(_, inner) | Self::Attribute(inner, _) => vec![inner],
        }
    }

    /// Builds the value.
    pub fn make<'py>(&self, py: Python<'py>, supply: &mut Supply<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let lost = || pyo3::exceptions::PyRuntimeError::new_err("the graph's callable has returned fewer outputs than the graph has");
        Ok(match self {
            Self::Input(at) => supply.inputs.get(*at).cloned().flatten().ok_or_else(lost)?,
            Self::Output(at) => supply.outputs.get(*at).cloned().ok_or_else(lost)?,
            Self::Constant(object) => object.bind(py).clone(),
            Self::Size(measured) => measured.make(py, supply.inputs)?,
            Self::Computed(op, operands) => {
                let [left, right] = &**operands;
                binary(*op, false, &left.make(py, supply)?, &right.make(py, supply)?)?
            }
            Self::Tuple(items) => PyTuple::new(py, all(py, items, supply)?)?.into_any(),
            Self::List(items) => PyList::new(py, all(py, items, supply)?)?.into_any(),
            Self::Set(items, kind) => kind.make(py, &all(py, items, supply)?)?,
            Self::Dict(entries) => {
                let dict = PyDict::new(py);
                for (key, value) in entries {
                    dict.set_item(key.make(py, supply)?, value.make(py, supply)?)?;
                }
                dict.into_any()
            }
            Self::TupleClass(class, items, attributes) => {
                // The items may be instances of the same class.
                let class = class.make(py, supply)?;
                let items = PyTuple::new(py, all(py, items, supply)?)?;
                // Struct sequences have their own `__new__`, which takes the items.
                let made = if class.hasattr("n_sequence_fields")? {
                    class.call1((items,))?
                } else {
                    py.get_type::<PyTuple>().getattr("__new__")?.call1((class, items))?
                };
                attach(&made, attributes, supply)?;
                made
            }
            Self::Instance(instance) => instance.make(py, supply)?,
            Self::Made(made) => made.make(py, supply)?,
            Self::Cell(content) => {
                let content = content.as_ref().map(|content| content.make(py, supply)).transpose()?;
                new_cell(py, content.as_ref())?
            }
            Self::Method(parts) => {
                static METHOD: PyOnceLock<Py<PyType>> = PyOnceLock::new();
                let [function, this] = &**parts;
                let class = import_once(py, &METHOD, "types", "MethodType")?;
                class.call1((function.make(py, supply)?, this.make(py, supply)?))?
            }
            Self::Attribute(owner, name) => owner.make(py, supply)?.getattr(name)?,
            Self::Keep(number, recipe) => {
                if let Self::Cell(Some(content)) = &**recipe {
                    // Its content may be a function that closes over it.
                    let made = supply.keep(*number, new_cell(py, None)?);
                    made.setattr(intern!(py, "cell_contents"), content.make(py, supply)?)?;
                    return Ok(made);
                }
                let made = recipe.make(py, supply)?;
                supply.keep(*number, made)
            }
            Self::Kept(number) => supply.kept.get(*number).cloned().flatten().ok_or_else(lost)?,
        })
    }
}

impl Made {
    fn make<'py>(&self, py: Python<'py>, supply: &mut Supply<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let given = PyTuple::new(py, all(py, &self.given, supply)?)?;
        let mut made = self.callable.bind(py).call1(given)?;
        if let Some(state) = &self.state {
            made.call_method1("__setstate__", (state.make(py, supply)?,))?;
        }
        for (name, value) in &self.attributes {
            set_generic_attribute(&made, name.bind(py), Some(&value.make(py, supply)?))?;
        }
        if let Some(given) = self.iterates.filter(|_| !types::has_slot(&made.get_type(), types::slots::Py_tp_iternext)) {
            let mut iterator = made.try_iter()?;
            for _ in 0..given {
                iterator.next().ok_or_else(|| PyStopIteration::new_err(()))??;
            }
            made = iterator.into_any();
        }
        Ok(made)
    }
}

fn new_cell<'py>(py: Python<'py>, content: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    let abi = abi(py).map_err(|refusal| pyo3::exceptions::PyRuntimeError::new_err(refusal.to_string()))?;
    cell::new(abi, py, content)
}

impl Instance {
    fn make<'py>(&self, py: Python<'py>, supply: &mut Supply<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let (class, base) = (self.class.make(py, supply)?, self.base.bind(py));
        let made = base.getattr("__new__")?.call1((class,))?;
        if base.is(py.get_type::<PyList>()) {
            let append = base.getattr("append")?;
            for (_, value) in &self.items {
                append.call1((&made, value.make(py, supply)?))?;
            }
        } else if !self.items.is_empty() {
            let set = base.getattr("__setitem__")?;
            for (key, value) in &self.items {
                set.call1((&made, key.make(py, supply)?, value.make(py, supply)?))?;
            }
        }
        attach(&made, &self.attributes, supply)?;
        Ok(made)
    }
}

/// Puts attributes into an object's `__dict__`, even if its class defines attributes with these names.
fn attach<'py>(object: &Bound<'py, PyAny>, attributes: &[(Py<PyAny>, Recipe)], supply: &mut Supply<'_, 'py>) -> PyResult<()> {
    if attributes.is_empty() {
        return Ok(());
    }
    let py = object.py();
    let dict = attributes_of(object)?;
    for (name, value) in attributes {
        dict.set_item(name, value.make(py, supply)?)?;
    }
    Ok(())
}

fn all<'py>(py: Python<'py>, items: &[Recipe], supply: &mut Supply<'_, 'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    items.iter().map(|item| item.make(py, supply)).collect()
}
