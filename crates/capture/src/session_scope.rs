//! The scope in which a session is entered: however it ends, the thread gets back the dispatch modes that it had before.

use pyo3::prelude::*;

/// An entered session, until it is left or this is dropped.
pub(crate) struct Entered<'py> {
    context: Bound<'py, PyAny>,
    stack: Stack<'py>,
    left: bool,
}

impl<'py> Entered<'py> {
    /// Enters a session.
    pub fn new(session: &Bound<'py, PyAny>) -> PyResult<Self> {
        let stack = Stack::now(session.py())?;
        // An exception while entering leaves it, too.
        let entered = Self { context: session.clone(), stack, left: false };
        session.call_method0("__enter__")?;
        Ok(entered)
    }

    /// Leaves the session.
    pub fn leave(mut self) -> PyResult<()> {
        self.end()
    }

    fn end(&mut self) -> PyResult<()> {
        self.left = true;
        let left = leave(&self.context);
        self.stack.restore().and(left)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if !self.left
            && let Err(error) = self.end()
        {
            error.write_unraisable(self.context.py(), Some(&self.context));
        }
    }
}

/// Leaves a context manager that may be left twice. A signal handler may raise at the first line of its `__exit__`, before anything is
/// undone: the exception goes to the caller, but the undoing must still happen here.
pub(crate) fn leave(context: &Bound<'_, PyAny>) -> PyResult<()> {
    let none = context.py().None();
    let leave = || context.call_method1("__exit__", (&none, &none, &none)).map(drop);
    leave().inspect_err(|_| drop(leave()))
}

/// The dispatch modes of this thread, innermost last. Everything called here is C code, which signal handlers do not interrupt.
struct Stack<'py> {
    torch: Bound<'py, PyModule>,
    modes: Vec<Bound<'py, PyAny>>,
}

impl<'py> Stack<'py> {
    fn now(py: Python<'py>) -> PyResult<Self> {
        let torch = dynamlir_cpython_abi::import(py, "torch._C")?;
        let modes = modes(&torch)?;
        Ok(Self { torch, modes })
    }

    fn restore(&self) -> PyResult<()> {
        let found = modes(&self.torch)?;
        let same = found.len() == self.modes.len() && found.iter().zip(&self.modes).all(|(found, mode)| found.is(mode));
        if same {
            return Ok(());
        }
        for _ in 0..found.len() {
            self.torch.call_method1("_pop_torch_dispatch_stack", (self.torch.py().None(),))?;
        }
        for mode in &self.modes {
            self.torch.call_method1("_push_on_torch_dispatch_stack", (mode,))?;
        }
        Ok(())
    }
}

fn modes<'py>(torch: &Bound<'py, PyModule>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let length: usize = torch.call_method0("_len_torch_dispatch_stack")?.extract()?;
    (0..length).map(|at| torch.call_method1("_get_dispatch_stack_at", (at,))).collect()
}
