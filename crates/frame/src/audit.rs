//! Audits: a call whose entry has been found is captured again, without effects, and what that comes to is compared with the entry.
//!
//! What the entry was made with – which places are inputs, which sizes vary, where the graph breaks – is made the same way once more, so
//! that the two are equal unless the program would have done something else. Then a guard is missing: the entry is dropped, the user is
//! told, and the call is one that no entry fits. Nothing of this is on the way of calls while no audits are asked for.

use std::{rc::Rc, sync::Arc};

use dynamlir_cpython_abi::{Thread, exception, observer};
use dynamlir_guards::{Checked, Inputs, Roots};
use dynamlir_interpreter::Standing;
use pyo3::prelude::*;

use crate::{
    cache::{Cache, Entry, Run},
    call::{Callable, Miss},
    settings,
    turn::Turns,
};

/// What an entry keeps of its capture to have it repeated.
pub trait Replay: Send + Sync {
    /// Captures a call as the entry was captured, and compares; `values` is what its guards have collected. Nothing is compiled, and
    /// nothing of the program's is touched.
    ///
    /// # Errors
    /// An interruption.
    fn replay<'py>(&self, call: &Miss<'_, 'py>, entry: &Entry, values: &[Option<Bound<'py, PyAny>>]) -> PyResult<Verdict>;
}

/// How an audit ended.
pub enum Verdict {
    /// The entry does what the call would.
    Same,
    /// Nothing is known, for this reason.
    Skipped(String),
    /// Nothing is known, since the program is another each time that it is captured: in this.
    Unsteady(Box<Difference>),
    /// The entry does something else.
    Differs(Box<Difference>),
}

/// In what an entry differs from a call that its guards let through.
pub struct Difference {
    /// What is different: the program, what is done after it, the guards.
    pub what: &'static str,
    /// What the entry has.
    pub kept: String,
    /// What the call comes to.
    pub found: String,
    /// The places that vary between the two, with what was there and what is there.
    pub places: Vec<String>,
    /// The guards that let these through.
    pub guards: Vec<String>,
    /// The Python lines, the innermost frame first.
    pub location: Vec<(String, u32, String)>,
}

impl Callable {
    /// Whether an entry whose guards have passed may answer the call, as far as an audit tells. The guards are asked once more
    /// afterwards: another thread may have written meanwhile.
    ///
    /// # Errors
    /// What the call raises.
    #[cold]
    pub(crate) fn stands<'py>(
        &self,
        cache: &Cache,
        entry: &Arc<Entry>,
        roots: Roots<'_, 'py>,
        from: Option<&[Rc<Standing>]>,
        inputs: &mut Inputs<'py>,
    ) -> PyResult<bool> {
        let py = roots.function.py();
        // What a capture calls is a part of it.
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
            // Nothing is known of how it was made.
            cache.remove(entry);
            return Ok(false);
        };
        let Some(turn) = self.turns.take() else { return skipped("another thread compiles") };
        let given = if from.is_none() { self.signature().unbind(py, roots.locals)? } else { self.signature().placeholders(py)? };
        let call = Miss { callable: self, function: roots.function, slots: roots.locals, given: &given, from, cache };
        let values = inputs.tensors(entry.guards.input_count());
        // As for a compiler, what it drops may be owned anywhere.
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

    /// Raises what a signal handler has raised, if it is behind an error that guards ran into.
    ///
    /// # Errors
    /// That.
    pub(crate) fn pass_on(&self, py: Python<'_>, error: &PyErr) -> PyResult<()> {
        let interruption = if exception::may_interrupt(py, error) { self.compiler().interruption(py, error) } else { None };
        interruption.map_or(Ok(()), Err)
    }
}
