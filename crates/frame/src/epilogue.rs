//! What an entry does once its graph has run: a list of steps, in the order of the program.
//!
//! All steps draw from one [`Supply`]: an object that one of them makes is the same object for the others. The last step gives what
//! the call returns.

use dynamlir_cpython_abi::object::set_generic_attribute;
use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    types::{PyDict, PyString, PyTuple},
};

use crate::{
    graph::Objects,
    recipe::{Recipe, Supply},
};

/// A step after the graph.
#[derive(Debug)]
pub enum AfterGraph {
    /// Stores an attribute of an object as `object.__setattr__` does, which asks nothing of its class but for data descriptors.
    StoreAttribute {
        /// The object.
        owner: Recipe,
        /// The name.
        name: Py<PyString>,
        /// What is stored.
        value: Recipe,
    },
    /// Deletes an attribute of an object as `object.__delattr__` does.
    DeleteAttribute {
        /// The object.
        owner: Recipe,
        /// The name.
        name: Py<PyString>,
    },
    /// Puts a value under a name into a dict of globals, as `global name; name = value` does.
    StoreGlobal {
        /// The dict.
        globals: Recipe,
        /// The name.
        name: Py<PyString>,
        /// What is stored.
        value: Recipe,
    },
    /// Takes a name out of a dict of globals.
    DeleteGlobal {
        /// The dict.
        globals: Recipe,
        /// The name.
        name: Py<PyString>,
    },
    /// Calls a method of a builtin container, or a function of ours. No code of the user's runs in it.
    Call {
        /// The method, as the class has it.
        method: Py<PyAny>,
        /// The container, and what the method is given.
        given: Vec<Recipe>,
    },
    /// Makes what the call returns, and ends it.
    Return(Recipe),
}

impl AfterGraph {
    /// What it makes, in order.
    pub fn recipes(&self) -> impl Iterator<Item = &Recipe> {
        let parts: Vec<_> = match self {
            Self::StoreAttribute { owner, value, .. } | Self::StoreGlobal { globals: owner, value, .. } => vec![owner, value],
            Self::DeleteAttribute { owner: recipe, .. } | Self::DeleteGlobal { globals: recipe, .. } | Self::Return(recipe) => vec![recipe],
            Self::Call { given, .. } => given.iter().collect(),
        };
        parts.into_iter()
    }
}

/// The steps of one entry.
#[derive(Debug)]
pub struct Epilogue {
    steps: Vec<AfterGraph>,
    /// Whether there is nothing to do but to return the graph's only result.
    is_result: bool,
}

impl Epilogue {
    /// These steps. A [`AfterGraph::Return`] has to be the last.
    pub fn new(steps: Vec<AfterGraph>) -> Self {
        let is_result = matches!(&steps[..], [AfterGraph::Return(Recipe::Output(0))]);
        Self { steps, is_result }
    }

    /// The steps in order.
    pub fn steps(&self) -> &[AfterGraph] {
        &self.steps
    }

    /// Takes the steps; what the call returns. `results` are the graph's.
    ///
    /// # Errors
    /// What Python raised: that is what the call raises.
    #[inline]
    pub(crate) fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: &[Option<Bound<'py, PyAny>>],
        mut results: Objects<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if self.is_result
            && results.len() == 1
            && let Some(result) = results.pop()
        {
            return Ok(result);
        }
        self.take(py, &mut Supply { inputs, outputs: &results, kept: Vec::new() })
    }

    fn take<'py>(&self, py: Python<'py>, supply: &mut Supply<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        for step in &self.steps {
            match step {
                AfterGraph::StoreAttribute { owner, name, value } => {
                    let (owner, value) = (owner.make(py, supply)?, value.make(py, supply)?);
                    set_generic_attribute(&owner, name.bind(py), Some(&value))?;
                }
                AfterGraph::DeleteAttribute { owner, name } => set_generic_attribute(&owner.make(py, supply)?, name.bind(py), None)?,
                AfterGraph::StoreGlobal { globals, name, value } => {
                    let (globals, value) = (globals.make(py, supply)?, value.make(py, supply)?);
                    globals.cast::<PyDict>()?.set_item(name, value)?;
                }
                AfterGraph::DeleteGlobal { globals, name } => globals.make(py, supply)?.cast::<PyDict>()?.del_item(name)?,
                AfterGraph::Call { method, given } => {
                    let given = given.iter().map(|part| part.make(py, supply)).collect::<PyResult<Vec<_>>>()?;
                    method.bind(py).call1(PyTuple::new(py, given)?)?;
                }
                AfterGraph::Return(recipe) => return recipe.make(py, supply),
            }
        }
        Err(PyRuntimeError::new_err("an entry's steps end without a result"))
    }
}

#[cfg(test)]
mod tests {
    use dynamlir_cpython_abi::number::BinaryOp;

    use super::*;

    fn keep(number: usize, recipe: Recipe) -> Recipe {
        Recipe::Keep(number, Box::new(recipe))
    }

    #[test]
    fn steps_are_taken_in_order_on_the_same_objects() -> PyResult<()> {
        Python::initialize();
        Python::attach(|py| {
            let owner = py.import("types")?.getattr("SimpleNamespace")?.call0()?;
            let name = |text: &str| PyString::new(py, text).unbind();
            let one = || Recipe::Constant(1_i32.into_pyobject(py).map_or_else(|never| match never {}, |one| one.into_any().unbind()));
            let epilogue = Epilogue::new(vec![
                AfterGraph::StoreAttribute {
                    owner: Recipe::Input(0),
                    name: name("made"),
                    value: keep(0, Recipe::List(vec![Recipe::Output(0)])),
                },
                AfterGraph::StoreAttribute { owner: Recipe::Input(0), name: name("kept"), value: Recipe::Kept(0) },
                AfterGraph::StoreAttribute { owner: Recipe::Input(0), name: name("gone"), value: one() },
                AfterGraph::StoreAttribute {
                    owner: Recipe::Input(0),
                    name: name("last"),
                    value: Recipe::Computed(BinaryOp::Add, Box::new([one(), one()])),
                },
                AfterGraph::DeleteAttribute { owner: Recipe::Input(0), name: name("gone") },
                AfterGraph::Return(Recipe::Tuple(vec![Recipe::Kept(0), Recipe::Input(0)])),
            ]);
            let output = PyDict::new(py).into_any();
            let (inputs, outputs) = ([Some(owner.clone())], [output.clone()]);
            let returned = epilogue.take(py, &mut Supply { inputs: &inputs, outputs: &outputs, kept: Vec::new() })?;
            let returned = returned.cast_into::<PyTuple>().map_err(PyErr::from)?;
            let (list, second) = (returned.get_item(0)?, returned.get_item(1)?);
            assert!(second.is(&owner) && list.get_item(0)?.is(&output));
            assert!(owner.getattr("made")?.is(&list) && owner.getattr("kept")?.is(&list));
            let order: Vec<String> =
                owner.getattr("__dict__")?.call_method0("keys")?.try_iter()?.map(|key| key?.extract()).collect::<PyResult<_>>()?;
            assert_eq!(order, ["made", "kept", "last"]);
            assert_eq!(owner.getattr("last")?.extract::<i32>()?, 2);
            Ok(())
        })
    }

    #[test]
    fn globals_and_containers_are_changed() -> PyResult<()> {
        Python::initialize();
        Python::attach(|py| {
            let (globals, list) = (PyDict::new(py), py.eval(c"[0]", None, None)?);
            globals.set_item("gone", 1)?;
            let name = |text: &str| PyString::new(py, text).unbind();
            let append = || list.get_type().getattr("append").map_or_else(|_| py.None(), Bound::unbind);
            let epilogue = Epilogue::new(vec![
                AfterGraph::StoreGlobal { globals: Recipe::Input(0), name: name("made"), value: Recipe::Input(1) },
                AfterGraph::DeleteGlobal { globals: Recipe::Input(0), name: name("gone") },
                AfterGraph::Call { method: append(), given: vec![Recipe::Input(1), Recipe::Output(0)] },
                AfterGraph::Call { method: append(), given: vec![Recipe::Input(1), Recipe::Input(1)] },
                AfterGraph::Return(Recipe::Input(1)),
            ]);
            let (inputs, outputs) = ([Some(globals.clone().into_any()), Some(list.clone())], [py.Ellipsis().into_bound(py)]);
            let returned = epilogue.take(py, &mut Supply { inputs: &inputs, outputs: &outputs, kept: Vec::new() })?;
            assert!(returned.is(&list) && list.len()? == 3 && list.get_item(1)?.is(&outputs[0]) && list.get_item(2)?.is(&list));
            assert!(globals.get_item("made")?.is_some_and(|made| made.is(&list)) && !globals.contains("gone")?);
            Ok(())
        })
    }

    #[test]
    fn steps_without_a_result_are_an_error() {
        Python::initialize();
        Python::attach(|py| {
            let made = Epilogue::new(Vec::new()).take(py, &mut Supply { inputs: &[], outputs: &[], kept: Vec::new() });
            assert!(made.is_err());
        });
    }
}
