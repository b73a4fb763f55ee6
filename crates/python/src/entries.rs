//! The public view of a compiled function's cache: entries with their guards, their graph, and the entry as Python code.

use std::sync::Arc;

use dynamlir_cpython_abi::callable::Arguments;
use dynamlir_frame::{Callable, Entry, EntryCode, Run};
use dynamlir_guards::{Checked, Failure, Inputs, Roots};
use pyo3::{
    exceptions::{PyIndexError, PyKeyError, PyRuntimeError},
    prelude::*,
    types::{PyDict, PyString, PyTuple},
};

use crate::{
    bytecode,
    compiled::of,
    guards::{FailureRow, failure_row},
};

/// Returns the code of an entry of a callable: the function's own for one that is plain Python.
pub fn code<'py>(py: Python<'py>, entry: &Entry, callable: &Callable) -> PyResult<Bound<'py, PyAny>> {
    Ok(match written(py, entry, callable)? {
        Some((_, code)) => code.bind(py).clone(),
        None => callable.code().bind(py).clone(),
    })
}

/// Returns an entry's code, written when it is first requested.
fn written<'a>(py: Python<'_>, entry: &'a Entry, callable: &Callable) -> PyResult<Option<&'a (EntryCode, Py<PyAny>)>> {
    if let Some(known) = entry.written.get() {
        return Ok(Some(known));
    }
    let original = callable.code().bind(py);
    let globals = callable.function().bind(py).getattr("__globals__")?.cast_into::<PyDict>()?;
    let like = bytecode::object(bytecode::version(py)?, original)?;
    let Some(made) = dynamlir_frame::write(entry, &like, &globals)? else { return Ok(None) };
    let code = bytecode::build(original, &made.code)?.unbind();
    Ok(Some(entry.written.get_or_init(|| (made, code))))
}

/// The entries of a compiled function, as a sequence.
#[pyclass(frozen)]
pub struct CacheView {
    owner: Py<PyAny>,
}

impl CacheView {
    /// Creates the view for a compiled function.
    pub fn new(owner: Py<PyAny>) -> Self {
        Self { owner }
    }

    /// Returns the entries, each with the callable of the code for which it was created.
    fn entries(&self, py: Python<'_>) -> PyResult<Vec<(Arc<Callable>, Arc<Entry>)>> {
        let of_code = |callable: Arc<Callable>| {
            let entries = callable.cache().of_key(callable.key());
            entries.into_iter().map(move |entry| (callable.clone(), entry))
        };
        Ok(of(self.owner.bind(py))?.of_all_codes().into_iter().flat_map(of_code).collect())
    }
}

#[pymethods]
impl CacheView {
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.entries(py)?.len())
    }

    fn __getitem__(&self, py: Python<'_>, index: isize) -> PyResult<CacheEntry> {
        let entries = self.entries(py)?;
        let at = if index < 0 { index + entries.len() as isize } else { index };
        let found = usize::try_from(at).ok().and_then(|at| entries.get(at)).ok_or_else(|| PyIndexError::new_err("no such entry"))?;
        let (callable, entry) = found;
        let guards = Py::new(py, EntryGuards { callable: callable.clone(), entry: entry.clone() })?;
        let compiled = match &entry.run {
            Run::Graph { graph, .. } => graph.callable(py),
            Run::Plain(_) => py.None(),
        };
        Ok(CacheEntry { guards, compiled })
    }
}

/// Returns a copy of a function with other code and globals.
fn with_code<'py>(function: &Bound<'py, PyAny>, code: &Bound<'py, PyAny>, globals: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let own = |name: &str| function.getattr(name);
    let made = function.get_type().call1((code, globals, own("__name__")?, own("__defaults__")?, own("__closure__")?))?;
    made.setattr("__kwdefaults__", own("__kwdefaults__")?)?;
    Ok(made)
}

/// Returns the parameter names of a function with this code, including `*args` and `**kwargs`.
fn parameters<'py>(code: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyString>>> {
    let like = bytecode::object(bytecode::version(code.py())?, code)?;
    let names = code.getattr("co_varnames")?.cast_into::<PyTuple>()?;
    names.iter().take(like.parameter_count()).map(|name| Ok(name.cast_into()?)).collect()
}

/// One entry. Unpacks as `guards, compiled`.
#[pyclass(frozen)]
pub struct CacheEntry {
    /// The guards; callable with `(L, G)`.
    #[pyo3(get)]
    guards: Py<EntryGuards>,
    /// Runs the graph; None for one that is plain Python.
    #[pyo3(get)]
    compiled: Py<PyAny>,
}

#[pymethods]
impl CacheEntry {
    /// Returns its action as a code object with the function's arguments: it loads the graph's inputs, calls it, and builds the result.
    #[getter]
    fn code<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let guards = self.guards.get();
        code(py, &guards.entry, &guards.callable)
    }

    /// Returns the function's current globals in a new dict, with the additional names that the code needs.
    #[getter]
    fn globals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let guards = self.guards.get();
        let function = guards.callable.function().bind(py);
        let own = function.getattr("__globals__")?.cast_into::<PyDict>()?;
        let globals = own.copy()?;
        if let Some((written, _)) = written(py, &guards.entry, &guards.callable)? {
            written.install(&globals, &own, &guards.entry)?;
        }
        Ok(globals)
    }

    /// Returns a function with this code, with the current defaults and closure of the compiled one.
    #[getter]
    fn function<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let function = self.guards.get().callable.function().bind(py);
        with_code(function, &self.code(py)?, self.globals(py)?.as_any())
    }

    /// Returns the guards, by their usual name.
    #[getter]
    fn check_fn(&self, py: Python<'_>) -> Py<EntryGuards> {
        self.guards.clone_ref(py)
    }

    fn __len__(&self) -> usize {
        2
    }

    fn __getitem__(&self, py: Python<'_>, index: isize) -> PyResult<Py<PyAny>> {
        match index {
            0 | -2 => Ok(self.guards.clone_ref(py).into_any()),
            1 | -1 => Ok(self.compiled.clone_ref(py)),
            _ => Err(PyIndexError::new_err("an entry is its guards and its compiled graph")),
        }
    }
}

/// The guards of one entry.
#[pyclass(frozen)]
pub struct EntryGuards {
    callable: Arc<Callable>,
    entry: Arc<Entry>,
}

impl EntryGuards {
    /// Returns the guards that fail for a call with these arguments.
    fn failures<'py>(&self, args: &Bound<'py, PyTuple>, kwargs: Option<&Bound<'py, PyDict>>) -> PyResult<Vec<Failure>> {
        self.with_roots(args, kwargs, |roots| self.entry.guards.failures(roots))?
    }

    /// Binds arguments, and calls `then` with the frame of such a call.
    fn with_roots<'py, R>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
        then: impl FnOnce(Roots<'_, 'py>) -> R,
    ) -> PyResult<R> {
        let mut values: Vec<_> = args.iter().collect();
        let names: Vec<_> = kwargs.into_iter().flatten().map(|(name, value)| (name, values.push(value)).0).collect();
        let names = PyTuple::new(args.py(), names)?;
        let arguments = Arguments::new(args.py(), &values, Some(&names));
        let found = self.callable.with_slots(arguments, then)?;
        found.ok_or_else(|| PyRuntimeError::new_err("these are not arguments of the function"))
    }
}

#[pymethods]
impl EntryGuards {
    /// Returns the guards as Python predicates.
    #[getter]
    fn code_parts(&self) -> Vec<String> {
        self.entry.guards.code_parts()
    }

    /// Returns true if everything to which the guards refer is alive.
    #[getter]
    fn valid(&self) -> bool {
        self.entry.guards.is_valid()
    }

    /// Returns true if all guards pass for a call with these arguments.
    #[pyo3(signature = (*args, **kwargs))]
    fn check_all<'py>(&self, args: &Bound<'py, PyTuple>, kwargs: Option<&Bound<'py, PyDict>>) -> PyResult<bool> {
        Ok(self.failures(args, kwargs)?.is_empty())
    }

    /// Returns the guards that fail for a call with these arguments, with the expected and actual values.
    #[pyo3(signature = (*args, **kwargs))]
    fn failing_guards<'py>(&self, args: &Bound<'py, PyTuple>, kwargs: Option<&Bound<'py, PyDict>>) -> PyResult<Vec<FailedGuard>> {
        Ok(self.failures(args, kwargs)?.into_iter().map(|failure| FailedGuard { told: failure_row(failure) }).collect())
    }

    /// Returns true if all guards pass in a frame with these parameters, and these globals instead of the function's, if given.
    #[pyo3(signature = (locals, globals=None))]
    fn __call__<'py>(&self, locals: &Bound<'py, PyAny>, globals: Option<&Bound<'py, PyAny>>) -> PyResult<bool> {
        let py = locals.py();
        let (function, code) = (self.callable.function().bind(py), self.callable.code().bind(py));
        let names = parameters(code)?;
        let value = |name: &Bound<'py, PyString>| match locals.get_item(name) {
            Err(error) if error.is_instance_of::<PyKeyError>(py) => Ok(None),
            found => found.map(Some),
        };
        let values = names.iter().map(value).collect::<PyResult<Vec<_>>>()?;
        let locals: Vec<_> = values.iter().map(Option::as_ref).collect();
        let own = function.getattr("__globals__")?;
        let other = globals.filter(|globals| !globals.is(&own));
        let other = other.map(|globals| with_code(function, code, globals)).transpose()?;
        let roots = Roots { function: other.as_ref().unwrap_or(function), locals: &locals };
        Ok(self.entry.guards.failures(roots)?.is_empty())
    }

    /// Checks a call with these arguments `times` times without Python in between: for measuring. The check must pass.
    #[pyo3(signature = (times, *args, **kwargs))]
    fn repeat<'py>(&self, times: u32, args: &Bound<'py, PyTuple>, kwargs: Option<&Bound<'py, PyDict>>) -> PyResult<()> {
        let mut inputs = Inputs::default();
        let check = |roots: Roots<'_, 'py>| {
            (0..times).try_for_each(|_| match self.entry.guards.check(roots, &mut inputs) {
                Checked::Pass => Ok(()),
                Checked::Fail => Err(PyRuntimeError::new_err("the check does not pass")),
                Checked::Error(error) => Err(error),
            })
        };
        self.with_roots(args, kwargs, check)?
    }

    /// Returns the cost of a check once it has passed a few times: `(words, objects, again)`, the words of memory that it compares, the
    /// objects that it takes, and the paths that it checks as it did the first time.
    #[getter]
    fn remembered(&self) -> (usize, usize, Vec<String>) {
        let remembered = self.entry.guards.remembered();
        (remembered.words, remembered.objects, remembered.again)
    }

    fn __len__(&self) -> usize {
        self.entry.guards.code_parts().len()
    }

    fn __repr__(&self) -> String {
        format!("GuardSet([\n  {}\n])", self.entry.guards.code_parts().join("\n  "))
    }
}

/// A guard that failed.
#[pyclass(frozen)]
pub struct FailedGuard {
    told: FailureRow,
}

#[pymethods]
impl FailedGuard {
    /// Returns the Python expression that reaches the value.
    #[getter]
    fn source(&self) -> &str {
        &self.told.0
    }

    /// Returns the predicate that is false.
    #[getter]
    fn guard(&self) -> &str {
        &self.told.1
    }

    /// Returns the expected value.
    #[getter]
    fn expected(&self) -> &str {
        &self.told.2
    }

    /// Returns the actual value.
    #[getter]
    fn seen(&self) -> &str {
        &self.told.3
    }

    fn __repr__(&self) -> String {
        format!("Guard({})", self.told.1)
    }

    fn __str__(&self) -> String {
        let (_, guard, expected, seen) = &self.told;
        format!("{guard}: expected {expected}, seen {seen}")
    }
}
