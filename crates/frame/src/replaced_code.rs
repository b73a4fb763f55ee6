//! Functions whose code was replaced after they were compiled: by `%autoreload`, a profiler, or a test.
//!
//! With other code it is another function, with entries of its own. The callable keeps a successor for each of the latest codes, in case
//! one comes back. The code itself is kept as well, since its address is its identity.

use std::sync::{Arc, Mutex, PoisonError};

use dynamlir_cpython_abi::function::code_address;
use pyo3::prelude::*;

use crate::callable::Callable;

/// The number of successors that are kept.
const MOST: usize = 8;

/// The callables that replace one whose function has other code, oldest first.
#[derive(Default)]
pub(crate) struct Successors(Mutex<Vec<Arc<Callable>>>);

impl Successors {
    /// Returns all of them.
    pub(crate) fn all(&self) -> Vec<Arc<Callable>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Callable {
    /// Returns this callable, and those that replace it while its function has other code, oldest first.
    pub fn of_all_codes(self: &Arc<Self>) -> Vec<Arc<Self>> {
        std::iter::once(self.clone()).chain(self.successors.all()).collect()
    }

    /// Returns the callable that replaces this one while its function has its current code.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(crate) fn successor(&self, function: &Bound<'_, PyAny>) -> PyResult<Arc<Self>> {
        let code = code_address(function);
        if let Some(known) = self.successors.all().into_iter().find(|known| Some(known.code_address()) == code) {
            return Ok(known);
        }
        let py = function.py();
        let made = Arc::new(Self::new(self.description(py, self.is_forced()), self.compiler().for_replacement(py))?);
        let mut kept = self.successors.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(made.clone());
        let oldest = (kept.len() > MOST).then(|| kept.remove(0));
        // Objects that it holds may run code when they die.
        drop(kept);
        drop(oldest);
        Ok(made)
    }
}
