//! The cache of a compiled callable: entries in the order in which they were made, scanned from the first.

use std::sync::{Arc, Mutex, PoisonError};

use dynamlir_guards::{GuardSet, Inputs, Outcome, Roots};
use pyo3::{prelude::*, types::PyTuple};

use crate::recipe::{Recipe, Supply};

/// What an entry does when its guards pass.
pub enum Run {
    /// Calls the graph's runner with the collected tensors, and makes the result.
    Graph {
        /// Takes the graph's tensors, returns its results as a list or tuple.
        runner: Py<PyAny>,
        /// Where the tensors it takes stand among what the guards collect.
        tensors: Vec<usize>,
        /// The result.
        recipe: Recipe,
    },
    /// Plain Python: the frame could not be captured whole under these guards.
    Plain,
}

/// One specialization.
pub struct Entry {
    /// When it holds.
    pub guards: GuardSet,
    /// What it does.
    pub run: Run,
}

/// The entries of one compiled callable.
#[derive(Default)]
pub struct Cache {
    entries: Mutex<Arc<Vec<Arc<Entry>>>>,
}

/// What the cache has for a call.
pub enum Hit<'py> {
    /// The result of a graph.
    Done(Bound<'py, PyAny>),
    /// A graph raised: the call is for plain Python.
    Failed(PyErr),
    /// An entry says that this is for plain Python.
    Plain,
    /// No entry fits.
    Miss,
}

impl Cache {
    /// The entries, the oldest first.
    pub fn entries(&self) -> Arc<Vec<Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds an entry; those whose objects have died go.
    pub fn add(&self, entry: Entry) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list: Vec<Arc<Entry>> = entries.iter().filter(|entry| entry.guards.is_valid()).cloned().collect();
        list.push(Arc::new(entry));
        *entries = Arc::new(list);
    }

    /// Forgets all entries.
    pub fn clear(&self) {
        *self.entries.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
    }

    /// Looks for an entry whose guards pass, and runs it.
    pub fn call<'py>(&self, function: &Bound<'py, PyAny>, locals: &[Option<Bound<'py, PyAny>>]) -> PyResult<Hit<'py>> {
        let py = function.py();
        let references: Vec<_> = locals.iter().map(Option::as_ref).collect();
        let mut inputs = Inputs::default();
        for entry in self.entries().iter() {
            match entry.guards.check(Roots { function, locals: &references }, &mut inputs) {
                Outcome::Pass => {}
                // What raises while it is looked at does not fit; Python raises it again, or something else matches.
                Outcome::Fail | Outcome::Error(_) => continue,
            }
            return match &entry.run {
                Run::Plain => Ok(Hit::Plain),
                Run::Graph { runner, tensors, recipe } => {
                    let values = inputs.tensors(entry.guards.input_count());
                    let arguments: Vec<_> = tensors.iter().filter_map(|at| values.get(*at)?.as_ref()).collect();
                    let arguments = PyTuple::new(py, arguments)?;
                    match runner.bind(py).call1(arguments) {
                        Err(error) => Ok(Hit::Failed(error)),
                        Ok(results) => {
                            let outputs: Vec<_> = results.try_iter()?.collect::<PyResult<_>>()?;
                            let mut supply = Supply { inputs: values, outputs: &outputs, kept: Vec::new() };
                            recipe.make(py, &mut supply).map(Hit::Done)
                        }
                    }
                }
            };
        }
        Ok(Hit::Miss)
    }
}
