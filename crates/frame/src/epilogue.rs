//! The steps that an entry runs after its graph, in the order of the program.
//!
//! All steps draw from one [`Supply`]: an object created by one step is the same object for the others. The last step produces the result
//! of the call.

use dynamlir_cpython_abi::object::set_generic_attribute;
use dynamlir_interpreter::FrameState;
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
    /// Stores an attribute of an object as `object.__setattr__` does, which uses nothing of its class except data descriptors.
    StoreAttribute {
        /// The object.
        owner: Recipe,
        /// The name.
        name: Py<PyString>,
        /// The value.
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
        /// The value.
        value: Recipe,
    },
    /// Removes a name from a dict of globals.
    DeleteGlobal {
        /// The dict.
        globals: Recipe,
        /// The name.
        name: Py<PyString>,
    },
    /// Calls a method of a builtin container, or one of our own functions. It runs no user code.
    Call {
        /// The method, as the class has it.
        method: Py<PyAny>,
        /// The container, and the method's arguments.
        given: Vec<Recipe>,
    },
    /// Creates the result of the call, and returns it.
    Return(Recipe),
    /// Creates the frames in their state at the graph break, and ends the compiled part: Python continues there.
    Suspend(Suspension),
}

/// Nested frames.
#[derive(Debug)]
pub struct Suspension {
    /// The number of frames around them whose state is unchanged.
    pub base: usize,
    /// The other frames, outermost first. Each except the last is making the call in which the next one runs.
    pub frames: Vec<FrameParts>,
}

/// The parts of a frame. None means NULL: a variable without a value, or an empty place on the stack.
#[derive(Debug)]
pub struct FrameParts {
    /// Its code object.
    pub code: Py<PyAny>,
    /// The unit of the instruction that Python runs next.
    pub unit: u32,
    /// All local slots: arguments, variables, cells, free variables. The function's own free variables, which come last, may be omitted.
    pub locals: Vec<Option<Recipe>>,
    /// The value stack, from the bottom.
    pub stack: Vec<Option<Recipe>>,
}

/// The state in which a graph has left its frames.
pub(crate) struct Suspended {
    /// See [`Suspension::base`].
    pub base: usize,
    /// See [`Suspension::frames`].
    pub frames: Vec<FrameState>,
}

/// The result of an entry.
pub(crate) enum Ended<'py> {
    /// The call returns this.
    Returned(Bound<'py, PyAny>),
    /// The frames continue in this state.
    Suspended(Suspended),
}

impl AfterGraph {
    /// Returns the recipes of the step, in order.
    pub fn recipes(&self) -> impl Iterator<Item = &Recipe> {
        let parts: Vec<_> = match self {
            Self::StoreAttribute { owner, value, .. } | Self::StoreGlobal { globals: owner, value, .. } => vec![owner, value],
            Self::DeleteAttribute { owner: recipe, .. } | Self::DeleteGlobal { globals: recipe, .. } | Self::Return(recipe) => vec![recipe],
            Self::Call { given, .. } => given.iter().collect(),
            Self::Suspend(suspension) => {
                suspension.frames.iter().flat_map(|frame| frame.locals.iter().chain(&frame.stack)).flatten().collect()
            }
        };
        parts.into_iter()
    }
}

/// The steps of one entry.
#[derive(Debug)]
pub struct Epilogue {
    steps: Vec<AfterGraph>,
    /// True if the only step is to return the graph's only result.
    is_result: bool,
}

impl Epilogue {
    /// Creates an epilogue. The last step must be a [`AfterGraph::Return`] or a [`AfterGraph::Suspend`].
    pub fn new(steps: Vec<AfterGraph>) -> Self {
        let is_result = matches!(&steps[..], [AfterGraph::Return(Recipe::Output(0))]);
        Self { steps, is_result }
    }

    /// Returns the state in which the frames are handed to Python, if they are.
    pub fn suspends(&self) -> Option<&Suspension> {
        self.steps.iter().find_map(|step| if let AfterGraph::Suspend(suspension) = step { Some(suspension) } else { None })
    }

    /// Returns the steps in order.
    pub fn steps(&self) -> &[AfterGraph] {
        &self.steps
    }

    /// Runs the steps, and returns the result of the call. `results` are the graph's.
    ///
    /// # Errors
    /// Returns the exception raised by Python; the call raises it.
    #[inline]
    pub(crate) fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: &[Option<Bound<'py, PyAny>>],
        mut results: Objects<'py>,
    ) -> PyResult<Ended<'py>> {
        if self.is_result
            && results.len() == 1
            && let Some(result) = results.pop()
        {
            return Ok(Ended::Returned(result));
        }
        self.take(py, &mut Supply { inputs, outputs: &results, kept: Vec::new() })
    }

    fn take<'py>(&self, py: Python<'py>, supply: &mut Supply<'_, 'py>) -> PyResult<Ended<'py>> {
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
                AfterGraph::Return(recipe) => return recipe.make(py, supply).map(Ended::Returned),
                AfterGraph::Suspend(suspension) => return suspension.make(py, supply).map(Ended::Suspended),
            }
        }
        Err(PyRuntimeError::new_err("an entry's steps end without a result"))
    }
}

impl Suspension {
    fn make<'py>(&self, py: Python<'py>, supply: &mut Supply<'_, 'py>) -> PyResult<Suspended> {
        let frames = self.frames.iter().map(|frame| frame.make(py, supply)).collect::<PyResult<_>>()?;
        Ok(Suspended { base: self.base, frames })
    }
}

impl FrameParts {
    fn make<'py>(&self, py: Python<'py>, supply: &mut Supply<'_, 'py>) -> PyResult<FrameState> {
        let mut all = |recipes: &[Option<Recipe>]| {
            let make = |recipe: &Option<Recipe>| recipe.as_ref().map(|recipe| recipe.make(py, supply).map(Bound::unbind)).transpose();
            recipes.iter().map(make).collect::<PyResult<Vec<_>>>()
        };
        let (locals, stack) = (all(&self.locals)?, all(&self.stack)?);
        let is_iterator = |recipe: &Option<Recipe>| match recipe {
            Some(Recipe::Keep(_, inner)) => matches!(&**inner, Recipe::Made(made) if made.iterates.is_some()),
            _ => false,
        };
        let made = self.stack.iter().enumerate().filter(|(_, recipe)| is_iterator(recipe)).map(|(place, _)| place).collect();
        Ok(FrameState { code: Some(self.code.clone_ref(py)), unit: self.unit, locals, stack, made })
    }
}

#[cfg(test)]
mod tests {
    use dynamlir_cpython_abi::number::BinaryOp;

    use super::*;

    fn keep(number: usize, recipe: Recipe) -> Recipe {
        Recipe::Keep(number, Box::new(recipe))
    }

    fn returned(ended: Ended<'_>) -> PyResult<Bound<'_, PyAny>> {
        match ended {
            Ended::Returned(value) => Ok(value),
            Ended::Suspended(_) => Err(PyRuntimeError::new_err("it is suspended")),
        }
    }

    #[test]
    fn steps_are_taken_in_order_on_the_same_objects() -> PyResult<()> {
        Python::initialize();
        Python::attach(|py| {
            let owner = dynamlir_cpython_abi::import(py, "types")?.getattr("SimpleNamespace")?.call0()?;
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
            let returned = returned(epilogue.take(py, &mut Supply { inputs: &inputs, outputs: &outputs, kept: Vec::new() })?)?;
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
            let returned = returned(epilogue.take(py, &mut Supply { inputs: &inputs, outputs: &outputs, kept: Vec::new() })?)?;
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
