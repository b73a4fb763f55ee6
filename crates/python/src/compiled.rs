//! `CompiledFunction`: what `dynamlir.compile` returns for a function.

use dynamlir_capture::{Captured, Stopped};
use dynamlir_frame::{Cache, Entry, Hit, Run, Signature};
use dynamlir_guards::{Failure, GuardSet, Roots};
use pyo3::{
    exceptions::{PyIndexError, PyRuntimeError},
    prelude::*,
    types::{PyDict, PyList, PyTuple, PyType},
};

use crate::{
    capture::{CapturedFrame, stop_tuple, tables},
    guards,
};

/// Entries that one callable may have, unless its compiler says otherwise.
const LIMIT: usize = 8;

/// A callable whose calls go to captured, compiled graphs.
#[pyclass(frozen, weakref, dict)]
pub struct CompiledFunction {
    /// The Python function whose frame is captured.
    function: Py<PyAny>,
    /// Arguments that it is bound to.
    bound: Vec<Py<PyAny>>,
    /// What plain Python calls.
    wrapped: Py<PyAny>,
    /// `dynamlir.capture.api.Compiler`
    compiler: Py<PyAny>,
    signature: Signature,
    cache: Cache,
}

impl CompiledFunction {
    fn bound<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyAny>> {
        self.bound.iter().map(|object| object.bind(py).clone()).collect()
    }

    fn plain<'py>(&self, py: Python<'py>, args: &Bound<'py, PyTuple>, kwargs: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>> {
        self.wrapped.bind(py).call(args, kwargs)
    }

    /// Captures and compiles a call that no entry fits.
    fn specialize<'py>(&self, py: Python<'py>, args: &Bound<'py, PyTuple>, kwargs: Option<&Bound<'py, PyDict>>) -> PyResult<()> {
        guards::prepare(py)?;
        let mut all = self.bound(py);
        all.extend(args.iter());
        let all = PyTuple::new(py, all)?;
        let compiler = self.compiler.bind(py);
        let steps = compiler.getattr("steps")?;
        let steps = (!steps.is_none()).then(|| steps.unbind());
        match dynamlir_capture::capture(&tables(py)?, self.function.bind(py), &all, kwargs, steps)? {
            Err(Stopped { stop, guards }) => {
                self.cache.add(Entry { guards: guards.build(py)?, run: Run::Plain });
                compiler.call_method1("stopped", stop_tuple(py, stop)?)?;
            }
            Ok(Captured { graph, guards, inputs, tensors, recipe, session }) => {
                let sources = inputs.iter().map(|input| guards.expression(input.source)).collect();
                let inputs = inputs.into_iter().map(|input| input.real).collect();
                let guards = guards.build(py)?;
                let captured = Bound::new(py, CapturedFrame::new(graph, guards.code_parts(), sources, inputs, session))?;
                let runner = compiler.call_method1("compile", (captured,))?;
                let run = if runner.is_none() { Run::Plain } else { Run::Graph { runner: runner.unbind(), tensors, recipe } };
                self.cache.add(Entry { guards, run });
            }
        }
        Ok(())
    }

    /// The failing guard of each entry, as text.
    fn misses(&self, py: Python<'_>, locals: &[Option<Bound<'_, PyAny>>]) -> Vec<String> {
        let references: Vec<_> = locals.iter().map(Option::as_ref).collect();
        let function = self.function.bind(py);
        let explain = |guards: &GuardSet| guards.explain(Roots { function, locals: &references });
        self.cache.entries().iter().filter_map(|entry| explain(&entry.guards).ok().flatten().map(|failure| describe(&failure))).collect()
    }
}

#[pymethods]
impl CompiledFunction {
    #[new]
    fn new(function: Bound<'_, PyAny>, bound: Vec<Py<PyAny>>, wrapped: Py<PyAny>, compiler: Py<PyAny>) -> PyResult<Self> {
        let signature = Signature::of(&function)?;
        Ok(Self { function: function.unbind(), bound, wrapped, compiler, signature, cache: Cache::default() })
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(&self, py: Python<'py>, args: &Bound<'py, PyTuple>, kwargs: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>> {
        let function = self.function.bind(py);
        let Some(locals) = self.signature.bind(function, &self.bound(py), args, kwargs)? else {
            return self.plain(py, args, kwargs);
        };
        match self.cache.call(function, &locals)? {
            Hit::Done(value) => return Ok(value),
            Hit::Plain => return self.plain(py, args, kwargs),
            Hit::Failed(error) => return self.failed(py, error, args, kwargs),
            Hit::Miss => {}
        }
        let compiler = self.compiler.bind(py);
        let misses = self.misses(py, &locals);
        if !compiler.call_method1("may_compile", (self.cache.entries().len(), LIMIT, misses))?.is_truthy()? {
            return self.plain(py, args, kwargs);
        }
        self.specialize(py, args, kwargs)?;
        match self.cache.call(function, &locals)? {
            Hit::Done(value) => Ok(value),
            Hit::Failed(error) => self.failed(py, error, args, kwargs),
            Hit::Plain | Hit::Miss => self.plain(py, args, kwargs),
        }
    }

    fn __get__<'py>(slf: &Bound<'py, Self>, instance: &Bound<'py, PyAny>, _owner: Option<&Bound<'py, PyType>>) -> PyResult<Bound<'py, PyAny>> {
        if instance.is_none() {
            return Ok(slf.clone().into_any());
        }
        slf.py().import("types")?.getattr("MethodType")?.call1((slf, instance))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<dynamlir.compile of {}>", self.wrapped.bind(py).repr()?))
    }

    /// What was compiled.
    #[getter]
    fn __wrapped__<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.wrapped.bind(py).clone()
    }

    /// The entries, as a sequence.
    #[getter]
    fn _cache(slf: &Bound<'_, Self>) -> CacheView {
        CacheView { owner: slf.clone().unbind() }
    }

    /// Forgets all entries.
    fn reset(&self) {
        self.cache.clear();
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        visit.call(&self.function)?;
        visit.call(&self.wrapped)?;
        visit.call(&self.compiler)?;
        self.bound.iter().try_for_each(|object| visit.call(object))
    }
}

impl CompiledFunction {
    /// A graph raised. Nothing of the caller's was written, so plain Python can say what eager says.
    fn failed<'py>(
        &self,
        py: Python<'py>,
        error: PyErr,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if self.compiler.bind(py).call_method1("failed", (error.value(py),))?.is_truthy()? {
            return self.plain(py, args, kwargs);
        }
        Err(error)
    }
}

/// The entries of a `CompiledFunction`, as a sequence.
#[pyclass(frozen)]
pub struct CacheView {
    owner: Py<CompiledFunction>,
}

#[pymethods]
impl CacheView {
    fn __len__(&self) -> usize {
        self.owner.get().cache.entries().len()
    }

    fn __getitem__(&self, py: Python<'_>, index: isize) -> PyResult<(EntryGuards, Option<Py<PyAny>>)> {
        let entries = self.owner.get().cache.entries();
        let at = if index < 0 { index + entries.len() as isize } else { index };
        let Some(entry) = usize::try_from(at).ok().and_then(|at| entries.get(at)) else {
            return Err(PyIndexError::new_err("no such entry"));
        };
        let runner = match &entry.run {
            Run::Graph { runner, .. } => Some(runner.clone_ref(py)),
            Run::Plain => None,
        };
        Ok((EntryGuards { owner: self.owner.clone_ref(py), entry: entry.clone() }, runner))
    }
}

/// The guards of one entry.
#[pyclass(frozen)]
pub struct EntryGuards {
    owner: Py<CompiledFunction>,
    entry: std::sync::Arc<Entry>,
}

impl EntryGuards {
    fn with_locals<'py, R>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
        check: impl FnOnce(Roots<'_, 'py>) -> R,
    ) -> PyResult<R> {
        let py = args.py();
        let owner = self.owner.get();
        let function = owner.function.bind(py);
        let locals = owner.signature.bind(function, &owner.bound(py), args, kwargs)?;
        let locals = locals.ok_or_else(|| PyRuntimeError::new_err("these are no arguments of the function"))?;
        let references: Vec<_> = locals.iter().map(Option::as_ref).collect();
        Ok(check(Roots { function, locals: &references }))
    }
}

#[pymethods]
impl EntryGuards {
    /// The guards as Python predicates.
    #[getter]
    fn code_parts(&self) -> Vec<String> {
        self.entry.guards.code_parts()
    }

    /// Whether all guards hold for these arguments.
    #[pyo3(signature = (*args, **kwargs))]
    fn check_all<'py>(&self, args: &Bound<'py, PyTuple>, kwargs: Option<&Bound<'py, PyDict>>) -> PyResult<bool> {
        let guards = &self.entry.guards;
        let failure = self.with_locals(args, kwargs, |roots| guards.explain(roots))??;
        Ok(failure.is_none())
    }

    /// The first guard that fails for these arguments, with what is expected and what is seen; empty if none does.
    #[pyo3(signature = (*args, **kwargs))]
    fn failing_guards<'py>(&self, args: &Bound<'py, PyTuple>, kwargs: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyList>> {
        let guards = &self.entry.guards;
        let failure = self.with_locals(args, kwargs, |roots| guards.explain(roots))??;
        PyList::new(args.py(), failure.map(|failure| describe(&failure)))
    }

    fn __len__(&self) -> usize {
        self.entry.guards.code_parts().len()
    }

    fn __repr__(&self) -> String {
        format!("GuardSet([\n  {}\n])", self.entry.guards.code_parts().join("\n  "))
    }
}

/// `L['x'].shape == (3, 4): expected …, seen …`
fn describe(failure: &Failure) -> String {
    format!("{}: expected {}, seen {}", failure.guard, failure.expected, failure.seen)
}
