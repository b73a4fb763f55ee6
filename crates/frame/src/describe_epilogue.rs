//! Epilogues as text, equal for two that do the same. Objects are described by their content, or numbered by first appearance.

use std::collections::HashMap;

use dynamlir_cpython_abi::{shown, types};
use pyo3::{
    prelude::*,
    types::{PyBool, PyBytes, PyComplex, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PyString, PyTuple, PyType},
};

use crate::{
    Instance, Made, Measured, Recipe,
    epilogue::{AfterGraph, Epilogue, FrameParts},
};

/// Describes epilogues as text.
pub struct EpilogueText<'a> {
    /// The expressions for the objects that the guards collect.
    inputs: &'a [String],
    /// The objects seen so far, by address.
    met: HashMap<usize, usize>,
}

/// The maximum depth to which containers of constants are described.
const DEEPEST: usize = 16;

impl<'a> EpilogueText<'a> {
    /// Creates one for epilogues that use these inputs.
    #[must_use]
    pub fn new(inputs: &'a [String]) -> Self {
        Self { inputs, met: HashMap::new() }
    }

    /// Describes the steps, one line each.
    pub fn steps(&mut self, py: Python<'_>, epilogue: &Epilogue) -> Vec<String> {
        epilogue.steps().iter().map(|step| self.step(py, step)).collect()
    }

    fn step(&mut self, py: Python<'_>, step: &AfterGraph) -> String {
        match step {
            AfterGraph::StoreAttribute { owner, name, value } => {
                let name = name.bind(py).to_string();
                format!("{}.{name} = {}", self.recipe(py, owner), self.recipe(py, value))
            }
            AfterGraph::DeleteAttribute { owner, name } => format!("del {}.{}", self.recipe(py, owner), name.bind(py)),
            AfterGraph::StoreGlobal { globals, name, value } => {
                format!("{}['{}'] = {}", self.recipe(py, globals), name.bind(py), self.recipe(py, value))
            }
            AfterGraph::DeleteGlobal { globals, name } => format!("del {}['{}']", self.recipe(py, globals), name.bind(py)),
            AfterGraph::Call { method, given } => format!("{}({})", self.object(method.bind(py), 0), self.recipes(py, given)),
            AfterGraph::Return(recipe) => format!("return {}", self.recipe(py, recipe)),
            AfterGraph::Suspend(suspension) => {
                let frames: Vec<_> = suspension.frames.iter().map(|frame| self.frame(py, frame)).collect();
                format!("go on within {} frames with {}", suspension.base, frames.join(", "))
            }
        }
    }

    fn frame(&mut self, py: Python<'_>, frame: &FrameParts) -> String {
        let mut all = |recipes: &[Option<Recipe>]| {
            let texts: Vec<_> = recipes
                .iter()
                .map(|recipe| recipe.as_ref().map_or_else(|| "nothing".to_owned(), |recipe| self.recipe(py, recipe)))
                .collect();
            texts.join(", ")
        };
        let (locals, stack) = (all(&frame.locals), all(&frame.stack));
        format!("{} at {}: [{locals}], [{stack}]", without_addresses(&shown(frame.code.bind(py))), frame.unit)
    }

    fn recipes<'r>(&mut self, py: Python<'_>, recipes: impl IntoIterator<Item = &'r Recipe>) -> String {
        let texts: Vec<_> = recipes.into_iter().map(|recipe| self.recipe(py, recipe)).collect();
        texts.join(", ")
    }

    fn pairs(&mut self, py: Python<'_>, pairs: &[(Recipe, Recipe)]) -> String {
        let texts: Vec<_> = pairs.iter().map(|(key, value)| format!("{}: {}", self.recipe(py, key), self.recipe(py, value))).collect();
        texts.join(", ")
    }

    fn attributes(&mut self, py: Python<'_>, attributes: &[(Py<PyAny>, Recipe)]) -> String {
        let named = |(name, value): &(Py<PyAny>, Recipe)| format!("{}={}", self.object(name.bind(py), 0), self.recipe(py, value));
        attributes.iter().map(named).collect::<Vec<_>>().join(", ")
    }

    fn input(&self, at: usize) -> String {
        self.inputs.get(at).cloned().unwrap_or_else(|| "?".to_owned())
    }

    fn recipe(&mut self, py: Python<'_>, recipe: &Recipe) -> String {
        match recipe {
            Recipe::Input(at) => self.input(*at),
            Recipe::Output(at) => format!("output {at}"),
            Recipe::Constant(object) => self.object(object.bind(py), 0),
            Recipe::Size(measured) => self.size(measured),
            Recipe::Computed(op, operands) => format!("{op:?}({})", self.recipes(py, &**operands)),
            Recipe::Tuple(items) => format!("({})", self.recipes(py, items)),
            Recipe::List(items) => format!("[{}]", self.recipes(py, items)),
            Recipe::Set(items, kind) => format!("{kind:?}({})", self.recipes(py, items)),
            Recipe::Dict(pairs) => format!("{{{}}}", self.pairs(py, pairs)),
            Recipe::TupleClass(class, items, attributes) => {
                format!("{}({}; {})", self.recipe(py, class), self.recipes(py, items), self.attributes(py, attributes))
            }
            Recipe::Instance(instance) => self.instance(py, instance),
            Recipe::Made(made) => self.made(py, made),
            Recipe::Cell(content) => format!("cell({})", self.recipes(py, content.as_deref())),
            Recipe::Method(parts) => format!("method({})", self.recipes(py, &**parts)),
            Recipe::Attribute(owner, name) => format!("{}.{}", self.recipe(py, owner), name.bind(py)),
            Recipe::Keep(number, inner) => format!("#{number} := {}", self.recipe(py, inner)),
            Recipe::Kept(number) => format!("#{number}"),
        }
    }

    fn size(&self, measured: &Measured) -> String {
        let symbols: Vec<_> =
            measured.symbols.iter().map(|(symbol, input, dimension)| format!("{symbol} = {}[{dimension}]", self.input(*input))).collect();
        format!("{} where {}", measured.size, symbols.join(", "))
    }

    fn instance(&mut self, py: Python<'_>, instance: &Instance) -> String {
        let (class, base) = (self.recipe(py, &instance.class), self.object(instance.base.bind(py), 0));
        let (items, attributes) = (self.pairs(py, &instance.items), self.attributes(py, &instance.attributes));
        format!("{class} by {base} of {{{items}}} with {attributes}")
    }

    fn made(&mut self, py: Python<'_>, made: &Made) -> String {
        let (callable, given) = (self.object(made.callable.bind(py), 0), self.recipes(py, &made.given));
        let state = self.recipes(py, &made.state);
        let named = |(name, value): &(Py<PyString>, Recipe)| format!("{}={}", name.bind(py), self.recipe(py, value));
        let attributes: Vec<_> = made.attributes.iter().map(named).collect();
        format!("{callable}({given}) in state {state:?} with {} after {:?} items", attributes.join(", "), made.iterates)
    }

    /// Describes an object by its content if it is indistinguishable from another with the same content, otherwise by its kind and a
    /// number.
    fn object(&mut self, object: &Bound<'_, PyAny>, depth: usize) -> String {
        if let Some(text) = content(object) {
            return text;
        }
        if depth < DEEPEST {
            let mut all = |items: Vec<Bound<'_, PyAny>>, name: &str| {
                let texts: Vec<_> = items.iter().map(|item| self.object(item, depth + 1)).collect();
                format!("{name}({})", texts.join(", "))
            };
            if let Ok(items) = object.cast_exact::<PyTuple>() {
                return all(items.iter().collect(), "tuple");
            }
            if let Ok(items) = object.cast_exact::<PyFrozenSet>() {
                return all(items.iter().collect(), "frozenset");
            }
            if let Ok(items) = object.cast_exact::<PyList>() {
                return all(items.iter().collect(), "list");
            }
            if let Ok(items) = object.cast_exact::<PyDict>() {
                return all(items.iter().flat_map(|(key, value)| [key, value]).collect(), "dict");
            }
        }
        let text = without_addresses(&shown(object));
        if object.is_instance_of::<PyType>() {
            return text;
        }
        let next = self.met.len();
        let number = *self.met.entry(object.as_ptr() as usize).or_insert(next);
        format!("{} {number} {text}", types::name(object))
    }
}

/// Returns the value of a number, a string or None, which describes such an object completely. Returns `None` for other objects.
#[must_use]
pub fn content(object: &Bound<'_, PyAny>) -> Option<String> {
    let is_plain = object.is_none()
        || object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyBool>()
        || object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyComplex>()
        || object.is_exact_instance_of::<PyString>()
        || object.is_exact_instance_of::<PyBytes>();
    if is_plain { object.repr().ok().map(|text| text.to_string()) } else { None }
}

/// Removes addresses from a text.
pub fn without_addresses(text: &str) -> String {
    let mut parts = text.split("0x");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("0x");
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_steps_have_equal_words_and_others_do_not() -> PyResult<()> {
        Python::initialize();
        Python::attach(|py| {
            let inputs = ["L['a']".to_owned()];
            let made = |source: &std::ffi::CStr| -> PyResult<Vec<String>> {
                let recipe = Recipe::Tuple(vec![Recipe::Constant(py.eval(source, None, None)?.unbind()), Recipe::Input(0)]);
                Ok(EpilogueText::new(&inputs).steps(py, &Epilogue::new(vec![AfterGraph::Return(recipe)])))
            };
            assert_eq!(made(c"(1, 'a')")?, ["return (tuple(1, 'a'), L['a'])"]);
            for (one, other) in [(c"1", c"True"), (c"0.0", c"-0.0"), (c"(1,)", c"[1]"), (c"1", c"1.0")] {
                assert_ne!(made(one)?, made(other)?);
            }
            assert_eq!(made(c"object()")?, made(c"object()")?);
            Ok(())
        })
    }

    #[test]
    fn addresses_are_left_out() {
        assert_eq!(without_addresses("<f at 0x7f00ab> and <g at 0x1>"), "<f at 0x> and <g at 0x>");
        assert_eq!(without_addresses("none"), "none");
    }
}
