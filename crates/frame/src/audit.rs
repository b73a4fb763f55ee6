//! Audits: a call that hit an entry is captured again, without effects, and the result is compared with the entry.
//!
//! The second capture uses the same choices as the first: the same places are inputs, the same sizes are dynamic, and the graph breaks at
//! the same points. So the two are equal unless the program would have done something else. If they differ, a guard is missing: the entry
//! is dropped, the user is notified, and the call is treated as a miss. None of this is on the path of calls while no audits are requested.

use std::{rc::Rc, sync::Arc};

use dynamlir_cpython_abi::{Thread, exception, observer};
use dynamlir_guards::{Checked, Inputs, Roots};
use dynamlir_interpreter::FrameState;
use pyo3::prelude::*;

use crate::{
    cache::{Cache, Entry, Run},
    callable::{Callable, Miss},
    compile_lock::Turns,
    settings,
};

/// The state that an entry keeps of its capture in order to repeat it.
pub trait Recapture: Send + Sync {
    /// Captures a call as the entry was captured, and compares the two. `values` are the objects collected by its guards. Nothing is
    /// compiled, and none of the program's state is touched.
    ///
    /// # Errors
    /// Returns an interruption.
    fn replay<'py>(&self, call: &Miss<'_, 'py>, entry: &Entry, values: &[Option<Bound<'py, PyAny>>]) -> PyResult<Verdict>;
}

/// The outcome of an audit.
pub enum Verdict {
    /// The entry does the same as the call.
    Same,
    /// Nothing was established, for this reason.
    Skipped(String),
    /// Nothing was established, since the program differs each time it is captured. The difference is attached.
    Unsteady(Box<Difference>),
    /// The entry does something else.
    Differs(Box<Difference>),
}

/// A difference between an entry and a call that passed its guards.
pub struct Difference {
    /// The part that differs: the program, the epilogue, the guards.
    pub what: &'static str,
    /// This part in the entry.
    pub kept: String,
    /// This part in the capture of the call.
    pub found: String,
    /// The places that differ between the two, with the former and the current value.
    pub places: Vec<String>,
    /// The guards that let these places pass.
    pub guards: Vec<String>,
    /// The Python lines, the innermost frame first.
    pub location: Vec<(String, u32, String, u32)>,
}

impl Callable {
    /// Returns true if an entry whose guards have passed may answer the call, as far as an audit can tell. The guards are checked again
    /// afterwards, because another thread may have written meanwhile.
    ///
    /// # Errors
    /// Returns the exception that the call raises.
    #[cold]
    pub(crate) fn stands<'py>(
        &self,
        cache: &Cache,
        entry: &Arc<Entry>,
        roots: Roots<'_, 'py>,
        from: Option<&[Rc<FrameState>]>,
        inputs: &mut Inputs<'py>,
    ) -> PyResult<bool> {
        let py = roots.function.py();
        // A call made by a capture is part of that capture.
        if !matches!(entry.run, Run::Graph { .. }) || Turns::is_any_taken() || !settings::is_audited() {
            return Ok(true);
        }
        let skipped = |why: &str| self.compiler().audited(py, &Verdict::Skipped(why.to_owned())).map(|()| true);
        if let Ok(thread) = Thread::current(py)
            && let Some(observer) = observer(thread, roots.function)
        {
            return skipped(observer);
        }
        let Some(replay) = &entry.replay else {
            // The entry does not record its capture.
            cache.remove(entry);
            return Ok(false);
        };
        let Some(turn) = self.turns.take() else { return skipped("another thread compiles") };
        let given = if from.is_none() { self.signature().unbind(py, roots.locals)? } else { self.signature().placeholders(py)? };
        let call = Miss { callable: self, function: roots.function, slots: roots.locals, given: &given, from, cache };
        let values = inputs.tensors(entry.guards.input_count());
        // As during compilation, owned references may be dropped anywhere, which requires an attached interpreter.
        let verdict = Python::attach(|py| self.compiler().audit(py, &|| replay.replay(&call, entry, values)));
        drop(turn);
        let verdict = verdict?;
        match entry.guards.check(roots, inputs) {
            Checked::Pass => {}
            Checked::Fail => return skipped("what the call looks at changed meanwhile").map(|_| false),
            Checked::Error(error) => return self.pass_on(py, &error).map(|()| false),
        }
        let differs = matches!(verdict, Verdict::Differs(_));
        if differs {
            cache.remove(entry);
        }
        self.compiler().audited(py, &verdict)?;
        Ok(!differs)
    }

    /// Raises the exception of a signal handler, if one is behind an error that guards ran into.
    ///
    /// # Errors
    /// Returns that exception.
    pub(crate) fn pass_on(&self, py: Python<'_>, error: &PyErr) -> PyResult<()> {
        let interruption = if exception::may_interrupt(py, error) { self.compiler().interruption(py, error) } else { None };
        interruption.map_or(Ok(()), Err)
    }
}
