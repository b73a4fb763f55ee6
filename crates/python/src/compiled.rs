//! The object returned by `dynamlir.compile` for a function: the native callable with its compiler.

use std::sync::Arc;

use dynamlir_autograd::torch;
use dynamlir_capture::{Backend, CapturedPiece, Compilation, Dynamic, capture_and_compile, graph_break::GraphBreak, interruption_behind};
use dynamlir_cpython_abi::{
    Thread, abi,
    callable::{callable, callable_type, callee_of},
    stack,
};
use dynamlir_frame::{
    Admission, Callable, Compiled, Compiler, Description, Difference, Entry, Limits, Method, Miss, Next, Plain, PythonGraph, Share,
    Unforeseen, Verdict, settings,
};
use dynamlir_reasons as reason;
use dynamlir_symint::Unbacked;
use pyo3::{
    exceptions::{PyException, PyRuntimeError, PyTypeError},
    prelude::*,
    types::{PyCFunction, PyTuple, PyType},
};

use crate::{
    capture::{CapturedFrame, break_tuple},
    entries::{self, CacheView},
    errors::RunError,
    graph::{Held, NativeGraph},
    sized::{HeldSized, SizedGraph},
};

/// A `dynamlir.capture.api.Compiler` behind a callable.
struct PythonCompiler {
    object: Py<PyAny>,
    admission: Admission,
}

/// Returns true if nothing was written: a graph has refused, or there is none for these sizes.
fn retry(py: Python<'_>, error: &PyErr) -> bool {
    let fallback = || dynamlir_cpython_abi::import(py, "dynamlir.reasons")?.getattr("Fallback");
    error.is_instance_of::<RunError>(py) || fallback().is_ok_and(|class| error.get_type(py).is(&class))
}

impl PythonCompiler {
    fn new(object: Py<PyAny>) -> Self {
        Self { object, admission: Admission::default() }
    }

    /// Reports the reason that a call runs as plain Python, if no entry records it.
    fn tell_unforeseen(&self, py: Python<'_>, why: Unforeseen) -> PyResult<()> {
        let (reason, message) = match why {
            Unforeseen::Compiling => (reason::COMPILING, ""),
            Unforeseen::Observed(by) => (reason::OBSERVED, by),
            Unforeseen::Unsteady => (reason::UNGUARDABLE, "what the call looks at changed while it was compiled"),
        };
        self.object.bind(py).call_method1("unforeseen", (reason, message)).map(drop)
    }

    /// Returns the reasons that no entry hits, as text.
    fn misses(miss: &Miss<'_, '_>) -> Vec<String> {
        miss.failures().iter().map(ToString::to_string).collect()
    }

    /// Handles a miss. The call may be deep in a recursion that has left little of the stack.
    fn answer<'py>(&self, miss: &Miss<'_, 'py>) -> PyResult<Next<'py>> {
        match Thread::current(miss.function.py()) {
            Ok(thread) => stack::with_room_to_compile(thread, || self.answer_here(miss)),
            Err(_) => self.answer_here(miss),
        }
    }

    fn answer_here<'py>(&self, miss: &Miss<'_, 'py>) -> PyResult<Next<'py>> {
        if self.admission.skips() {
            self.tell_unforeseen(miss.function.py(), Unforeseen::Unsteady)?;
            return Ok(Next::Plain);
        }
        // Before torch is inspected.
        if self.object.bind(miss.function.py()).call_method0("disturbed")?.is_truthy()? || !self.may_compile(miss)? {
            return Ok(Next::Plain);
        }
        let py = miss.function.py();
        torch::prepare_guards(py)?;
        let steps = self.object.bind(py).getattr("steps")?;
        let steps = (!steps.is_none()).then(|| steps.unbind());
        capture_and_compile(miss, steps.as_ref(), self)?;
        self.admission.created();
        Ok(Next::Again)
    }

    /// Returns true if one more entry may be created; the Python side warns if not.
    fn may_compile(&self, miss: &Miss<'_, '_>) -> PyResult<bool> {
        self.admission.admits(miss, |room| {
            let (own, all) = (miss.cache.counted(miss.callable.key()), miss.cache.entries().len());
            let compiler = self.object.bind(miss.function.py());
            compiler.call_method1("may_compile", (room, own, all, Self::misses(miss))).map(drop)
        })
    }
}

impl Backend for PythonCompiler {
    fn takes_numbers(&self, py: Python<'_>) -> PyResult<(bool, bool, Dynamic)> {
        let (reads, changes, dynamic) = self.object.bind(py).call_method0("takes_numbers")?.extract()?;
        Ok((reads, changes, Dynamic::of(dynamic)))
    }

    fn takes_unbacked(&self, py: Python<'_>) -> PyResult<Unbacked> {
        let (sizes, numbers, uncut) = self.object.bind(py).call_method0("takes_unbacked")?.extract()?;
        Ok(Unbacked { sizes, numbers, uncut })
    }

    fn takes_recurrent(&self, py: Python<'_>) -> PyResult<bool> {
        self.object.bind(py).call_method0("takes_recurrent")?.extract()
    }

    fn compile(&self, py: Python<'_>, frame: CapturedPiece) -> PyResult<Compilation> {
        let runner = self.object.bind(py).call_method1("compile", (Bound::new(py, CapturedFrame::from(frame))?,))?;
        if let Ok(why) = runner.cast::<PyTuple>() {
            return plain(why).map(Compilation::Plain);
        }
        Ok(Compilation::Graph(match runner.cast::<NativeGraph>() {
            Ok(native) => Box::new(Held(native.clone().unbind())),
            Err(_) => match runner.cast::<SizedGraph>() {
                Ok(sized) => Box::new(HeldSized(sized.clone().unbind())),
                Err(_) => Box::new(PythonGraph::new(runner.unbind(), retry)),
            },
        }))
    }

    fn capture_failed(&self, py: Python<'_>, found: GraphBreak, forbidden: bool) -> PyResult<Plain> {
        // Under `fullgraph`, or where breaks are forbidden, this raises, and so will the next call.
        let (reason, message, location) = break_tuple(py, found)?.extract::<(Py<PyAny>, Py<PyAny>, Py<PyAny>)>()?;
        plain(&self.object.bind(py).call_method1("stopped", (reason, message, location, forbidden))?)
    }

    fn graph_broke(&self, py: Python<'_>, found: GraphBreak) -> PyResult<Py<PyAny>> {
        self.object.bind(py).call_method1("broke", break_tuple(py, found)?).map(Bound::unbind)
    }

    fn pieces(&self, py: Python<'_>) -> PyResult<(bool, bool, Option<usize>)> {
        self.object.bind(py).call_method0("pieces")?.extract()
    }

    /// Shows its bytecode if that was requested.
    fn entry_made(&self, miss: &Miss<'_, '_>, entry: &Entry) -> PyResult<()> {
        let py = miss.function.py();
        let compiler = self.object.bind(py);
        if miss.from.is_none() && compiler.call_method0("shows_bytecode")?.is_truthy()? {
            match entries::code(py, entry, miss.callable) {
                Ok(code) => compiler.call_method1("show", (code,))?,
                Err(error) => compiler.call_method1("show", (error.value(py),))?,
            };
        }
        Ok(())
    }
}

/// Converts `(event, told)` from the compiler to plain Python.
fn plain(why: &Bound<'_, PyAny>) -> PyResult<Plain> {
    let (event, told) = why.extract()?;
    Ok(Plain::new(event, told))
}

impl Compiler for PythonCompiler {
    fn miss<'py>(&self, miss: &Miss<'_, 'py>) -> PyResult<Next<'py>> {
        let py = miss.function.py();
        torch::untraced(py, || self.answer(miss))
    }

    fn refused(&self, miss: &Miss<'_, '_>) -> PyErr {
        let compiler = self.object.bind(miss.function.py());
        match compiler.call_method1("refused", (Self::misses(miss),)) {
            Ok(error) => PyErr::from_value(error),
            Err(error) => error,
        }
    }

    fn under<'py>(&self, original: &Callable, backend: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = backend.py();
        let other = self.object.bind(py).call_method1("under", (backend,))?;
        let known = other.getattr("callable")?;
        if !known.is_none() {
            return Ok(known);
        }
        let compiler = PythonCompiler::new(other.clone().unbind());
        let made = Callable::new(original.description(py, true), Box::new(compiler))?;
        let made = callable(py, Box::new(Compiled(Arc::new(made))))?;
        other.setattr("callable", &made)?;
        Ok(made)
    }

    fn for_replacement(&self, py: Python<'_>) -> Box<dyn Compiler> {
        Box::new(Self::new(self.object.clone_ref(py)))
    }

    fn reset(&self, py: Python<'_>) {
        if let Err(error) = self.object.bind(py).call_method0("reset") {
            error.write_unraisable(py, Some(self.object.bind(py)));
        }
    }

    fn failed(&self, py: Python<'_>, error: &PyErr) -> PyResult<()> {
        self.object.bind(py).call_method1("failed", (error.value(py),)).map(drop)
    }

    fn repeated(&self, py: Python<'_>) -> PyResult<()> {
        self.object.bind(py).call_method0("repeated").map(drop)
    }

    fn called(&self, function: &Bound<'_, PyAny>) -> PyResult<Option<Callable>> {
        let made = self.object.bind(function.py()).call_method1("called", (function,))?;
        if made.is_none() {
            return Ok(None);
        }
        let (function, compiler): (Bound<'_, PyAny>, Py<PyAny>) = made.extract()?;
        let description = Description { plain: function.clone(), function, bound: Vec::new(), method: None, share: None, forced: false };
        Callable::new(description, Box::new(Self::new(compiler))).map(Some)
    }

    fn concerns(&self, argument: &Bound<'_, PyAny>) -> bool {
        torch::is_tensor_or_module(argument).unwrap_or(false)
    }

    fn plain(&self, py: Python<'_>, why: &Py<PyAny>) -> PyResult<()> {
        self.object.bind(py).call_method1("tell", (why,)).map(drop)
    }

    fn report_break(&self, py: Python<'_>, why: &Py<PyAny>) -> PyResult<()> {
        self.object.bind(py).call_method1("tell_break", (why,)).map(drop)
    }

    fn forbidden(&self, py: Python<'_>, why: &Py<PyAny>) -> PyResult<()> {
        self.object.bind(py).call_method1("forbidden", (why,)).map(drop)
    }

    fn unforeseen(&self, py: Python<'_>, why: Unforeseen) -> PyResult<()> {
        if why == Unforeseen::Unsteady {
            self.admission.did_not_pass();
        }
        self.tell_unforeseen(py, why)
    }

    fn audit(&self, py: Python<'_>, replay: &dyn Fn() -> PyResult<Verdict>) -> PyResult<Verdict> {
        torch::prepare_guards(py)?;
        let begun = self.object.bind(py).call_method0("begin_audit")?;
        if let Ok(why) = begun.extract::<String>() {
            return Ok(Verdict::Skipped(why));
        }
        // Everything is restored, regardless of the verdict; an exception from restoring is an interruption.
        let verdict = replay();
        let left = begun.call_method0("end").or_else(|error| begun.call_method0("end").and(Err(error)));
        match (verdict, left) {
            (Err(error), _) if error.is_instance_of::<PyException>(py) && self.interruption(py, &error).is_none() => {
                Ok(Verdict::Skipped(format!("it failed: {error}")))
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
            (Ok(verdict), Ok(_)) => Ok(verdict),
        }
    }

    fn audited(&self, py: Python<'_>, verdict: &Verdict) -> PyResult<()> {
        let compiler = self.object.bind(py);
        match verdict {
            Verdict::Same => compiler.call_method1("audited", (py.None(),)),
            Verdict::Skipped(why) => compiler.call_method1("audited", (why,)),
            Verdict::Unsteady(found) | Verdict::Differs(found) => {
                let Difference { what, kept, found, places, guards, location } = &**found;
                let method = if matches!(verdict, Verdict::Differs(_)) { "stale" } else { "unsteady" };
                compiler.call_method1(method, (what, kept, found, places.clone(), guards.clone(), location.clone()))
            }
        }
        .map(drop)
    }

    fn interruption(&self, py: Python<'_>, error: &PyErr) -> Option<PyErr> {
        interruption_behind(py, error)
    }

    fn referents(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        visit(&self.object);
    }
}

/// The entries of a function's code that are shared by all callables created with this object.
#[pyclass(frozen, name = "Share")]
pub struct SharedEntries(Arc<Share>);

#[pymethods]
impl SharedEntries {
    #[new]
    fn new(function: &Bound<'_, PyAny>) -> PyResult<Self> {
        let abi = abi(function.py()).map_err(|refusal| PyRuntimeError::new_err(refusal.to_string()))?;
        Ok(Self(Share::new(abi, &function.getattr("__code__")?)))
    }
}

/// Creates a callable: `plain` is called by plain Python, `function` is captured, with `bound` before the arguments. With `view` (a weak
/// reference, and the object that is called otherwise), it is a method of the referenced object, which is then not an argument of the
/// captured function. Without `share` it has entries of its own.
#[pyfunction]
#[pyo3(signature = (function, bound, plain, compiler, share=None, view=None))]
pub fn compiled_function<'py>(
    function: Bound<'py, PyAny>,
    bound: Vec<Bound<'py, PyAny>>,
    plain: Bound<'py, PyAny>,
    compiler: Py<PyAny>,
    share: Option<&Bound<'py, SharedEntries>>,
    view: Option<(Py<PyAny>, Py<PyAny>)>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = function.py();
    let share = share.map(|share| share.get().0.clone());
    let method = view.map(|(of, otherwise)| Method { of, otherwise });
    let description = Description { function, bound, method, plain, share, forced: false };
    let compiler = PythonCompiler::new(compiler);
    callable(py, Box::new(Compiled(Arc::new(Callable::new(description, Box::new(compiler))?))))
}

/// Sets the options that all callables read on each call: whether calls that would run as plain Python may do so, the limits on entries,
/// and the share of hits to audit.
#[pyfunction]
pub fn configure(refuses_plain: bool, entries: usize, accumulated: usize, audited: f64) {
    settings::set(refuses_plain, Limits { entries, accumulated }, audited);
}

/// Records that the numbers at these places are known to change, before an entry exists. Valid until the entries are forgotten.
#[pyfunction]
pub fn expect_changes(compiled: &Bound<'_, PyAny>, places: Vec<String>) -> PyResult<()> {
    let callable = of(compiled)?;
    let known = callable.cache().history(callable.key());
    for place in places {
        known.expect_change(place);
    }
    Ok(())
}

/// Forgets the entries of all compiled functions.
#[pyfunction]
pub fn forget_entries() {
    dynamlir_frame::forget_all();
}

pub fn of<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<&'a Arc<Callable>> {
    let compiled: Option<&Compiled> = callee_of(object);
    compiled.map(|compiled| &compiled.0).ok_or_else(|| PyTypeError::new_err("not a compiled function"))
}

/// An attribute of compiled functions, unless the compiled object has one of the same name: unlike a property it yields to that.
#[pyclass(frozen)]
struct Offered(Py<PyAny>);

#[pymethods]
impl Offered {
    fn __get__<'py>(slf: &Bound<'py, Self>, compiled: &Bound<'py, PyAny>, _class: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if compiled.is_none() { Ok(slf.clone().into_any()) } else { slf.get().0.bind(slf.py()).call1((compiled,)) }
    }
}

/// Returns the type of compiled functions, with their public attributes.
pub fn function_type(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
    let class = callable_type(py)?.clone();
    let property = dynamlir_cpython_abi::import(py, "builtins")?.getattr("property")?;
    let attribute = |name: &str, get: Bound<'_, PyCFunction>| class.setattr(name, property.call1((get,))?);
    attribute("__wrapped__", wrap_pyfunction!(wrapped, py)?)?;
    let offer = |name: &str, get: Bound<'_, PyCFunction>| class.setattr(name, Bound::new(py, Offered(get.into_any().unbind()))?);
    offer("_cache", wrap_pyfunction!(cache_of, py)?)?;
    offer("reset", wrap_pyfunction!(reset_of, py)?)?;
    // Attributes read by tools that inspect functions: torch.fx, Dynamo, inspect.
    for name in ["__defaults__", "__kwdefaults__", "__code__", "__closure__", "__globals__"] {
        let get =
            PyCFunction::new_closure(py, None, None, move |args, _| of_wrapped(&args.get_item(0)?)?.getattr(name).map(Bound::unbind))?;
        let set =
            PyCFunction::new_closure(py, None, None, move |args, _| of_wrapped(&args.get_item(0)?)?.setattr(name, args.get_item(1)?))?;
        class.setattr(name, property.call1((get, set))?)?;
    }
    Ok(class)
}

/// Returns the function whose attributes are read, looking through a bound method.
fn of_wrapped<'py>(compiled: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let wrapped = of(compiled)?.wrapped().bind(compiled.py()).clone();
    Ok(wrapped.getattr("__func__").unwrap_or(wrapped))
}

/// Returns the compiled object.
#[pyfunction]
fn wrapped(compiled: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    Ok(of(compiled)?.wrapped().clone_ref(compiled.py()))
}

/// Returns the entries, as a sequence.
#[pyfunction]
fn cache_of(compiled: Bound<'_, PyAny>) -> PyResult<CacheView> {
    of(&compiled)?;
    Ok(CacheView::new(compiled.unbind()))
}

/// Returns the reset function as a method: an object held by a closure would only be released at the next call into Rust.
#[pyfunction]
fn reset_of<'py>(compiled: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = compiled.py();
    dynamlir_cpython_abi::import(py, "types")?.getattr("MethodType")?.call1((wrap_pyfunction!(reset, py)?, compiled))
}

/// Forgets all entries.
#[pyfunction]
fn reset(compiled: &Bound<'_, PyAny>) -> PyResult<()> {
    of(compiled)?.reset(compiled.py());
    Ok(())
}
