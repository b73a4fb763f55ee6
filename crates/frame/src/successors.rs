//! Functions that are given another code after they were compiled: by `%autoreload`, by a profiler, by a test.
//!
//! Another code is another function, with entries of its own. The callable keeps one for each of the latest codes, for the case
//! that one comes back; the code itself is kept as well, since its address is its identity.

use std::sync::{Arc, Mutex, PoisonError};

use dynamlir_cpython_abi::function::code_address;
use pyo3::prelude::*;

use crate::call::Callable;

/// How many are kept.
const MOST: usize = 8;

/// The callables that stand for one whose function has another code, the oldest first.
#[derive(Default)]
pub(crate) struct Successors(Mutex<Vec<Arc<Callable>>>);

impl Successors {
    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Callable>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Callable {
    /// It, and those that stand for it while its function has other code, the oldest first.
    pub fn of_all_codes(self: &Arc<Self>) -> Vec<Arc<Self>> {
        std::iter::once(self.clone()).chain(self.successors.all()).collect()
    }

    /// The callable that stands for this one while its function has the code that it has now.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn successor(&self, function: &Bound<'_, PyAny>) -> PyResult<Arc<Self>> {
        let code = code_address(function);
        if let Some(known) = self.successors.all().into_iter().find(|known| Some(known.code_address()) == code) {
            return Ok(known);
        }
        let py = function.py();
        let made = Arc::new(Self::new(self.description(py, self.is_forced()), self.compiler().again(py))?);
        let mut kept = self.successors.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(made.clone());
        let oldest = (kept.len() > MOST).then(|| kept.remove(0));
        // What it holds may run code when it dies.
        drop(kept);
        drop(oldest);
        Ok(made)
    }
}
