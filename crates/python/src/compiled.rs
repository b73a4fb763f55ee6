//! What `dynamlir.compile` returns for a function: the native callable with its compiler.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use dynamlir_capture::{
    Backend, Compilation, WholeFrame,
    graph_break::GraphBreak,
    interruption_behind,
    sizes::{Dynamic, Unbacked},
    specialize,
};
use dynamlir_cpython_abi::{
    Thread, abi,
    callable::{callable, callable_type, callee_of},
    stack, types,
};
use dynamlir_frame::{
    Callable, Compiled, Compiler, Description, Difference, Entry, Limits, Method, Miss, Next, Plain, PythonGraph, Share, Unforeseen,
    Verdict, settings,
};
use dynamlir_reasons as reason;
use pyo3::{
    exceptions::{PyException, PyRuntimeError, PyTypeError},
    prelude::*,
    sync::PyOnceLock,
    types::{PyCFunction, PyTuple, PyType},
};

use crate::{
    capture::{CapturedFrame, break_tuple},
    entries::{self, CacheView},
    errors::RunError,
    graph::{Held, NativeGraph},
    guards,
    sized::{HeldSized, SizedGraph},
    torch,
};

/// A `dynamlir.capture.api.Compiler` behind a callable.
struct PythonCompiler {
    object: Py<PyAny>,
    /// Whether it was told that there is no room.
    full: AtomicBool,
    /// How often in a row there was no room for a call that was looked at, and how many of the next ones are not looked at.
    crowded: AtomicU32,
    unseen: AtomicU32,
    /// How often in a row the guards of an entry did not hold for the call that it was made for, and for how many of the next calls none
    /// is made.
    unsteady: AtomicU32,
    untried: AtomicU32,
    /// Whether those of the last one did.
    steady: AtomicBool,
}

/// What there is no room or no use for is tried again after twice as many calls, up to so many times.
const MOST_DOUBLINGS: u32 = 10;

/// So often in a row guards do not hold by chance.
const STEADY_AGAIN: u32 = 8;

/// Whether nothing was written: a graph has refused, or there is none for these sizes.
fn retry(py: Python<'_>, error: &PyErr) -> bool {
    let fallback = || dynamlir_cpython_abi::import(py, "dynamlir.reasons")?.getattr("Fallback");
    error.is_instance_of::<RunError>(py) || fallback().is_ok_and(|class| error.get_type(py).is(&class))
}

impl PythonCompiler {
    fn new(object: Py<PyAny>) -> Self {
        let [crowded, unseen, unsteady, untried] = [(); 4].map(|()| AtomicU32::new(0));
        let [full, steady] = [(); 2].map(|()| AtomicBool::new(false));
        Self { object, full, crowded, unseen, unsteady, untried, steady }
    }

    /// Whether one more entry is within the limits. The longer there is no room, the fewer calls are looked at.
    fn has_room(&self, miss: &Miss<'_, '_>) -> bool {
        let limits = settings::limits();
        if let Some(known) = miss.surely_has_room(limits) {
            return known;
        }
        if self.unseen.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            return false;
        }
        let room = miss.has_room(limits);
        let crowded = if room { 0 } else { self.crowded.load(Ordering::Relaxed).saturating_add(1) };
        self.crowded.store(crowded, Ordering::Relaxed);
        self.unseen.store((1 << crowded.min(MOST_DOUBLINGS)) - 1, Ordering::Relaxed);
        room
    }

    /// Says why a call runs plain that no entry says it of.
    fn tell_unforeseen(&self, py: Python<'_>, why: Unforeseen) -> PyResult<()> {
        let (reason, message) = match why {
            Unforeseen::Compiling => (reason::COMPILING, ""),
            Unforeseen::Observed(by) => (reason::OBSERVED, by),
            Unforeseen::Unsteady => (reason::UNGUARDABLE, "what the call looks at changed while it was compiled"),
        };
        self.object.bind(py).call_method1("unforeseen", (reason, message)).map(drop)
    }

    /// Why no entry fits, as text.
    fn misses(miss: &Miss<'_, '_>) -> Vec<String> {
        miss.failures().iter().map(ToString::to_string).collect()
    }

    /// What to do with a call that fits no entry. It may be deep in a recursion that has left little of the stack.
    fn answer<'py>(&self, miss: &Miss<'_, 'py>) -> PyResult<Next<'py>> {
        match Thread::current(miss.function.py()) {
            Ok(thread) => stack::with_room_to_compile(thread, || self.answer_here(miss)),
            Err(_) => self.answer_here(miss),
        }
    }

    fn answer_here<'py>(&self, miss: &Miss<'_, 'py>) -> PyResult<Next<'py>> {
        if self.untried.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            self.tell_unforeseen(miss.function.py(), Unforeseen::Unsteady)?;
            return Ok(Next::Plain);
        }
        // Before torch is looked at.
        if self.object.bind(miss.function.py()).call_method0("disturbed")?.is_truthy()? || !self.may_compile(miss)? {
            return Ok(Next::Plain);
        }
        let py = miss.function.py();
        guards::prepare(py)?;
        let steps = self.object.bind(py).getattr("steps")?;
        let steps = (!steps.is_none()).then(|| steps.unbind());
        specialize(miss, steps.as_ref(), self)?;
        if self.steady.swap(true, Ordering::Relaxed) {
            self.unsteady.store(0, Ordering::Relaxed);
        }
        Ok(Next::Again)
    }

    /// Asks whether one more entry may be made; Python warns when it may not.
    fn may_compile(&self, miss: &Miss<'_, '_>) -> PyResult<bool> {
        let cache = miss.cache;
        let room = self.has_room(miss);
        if !room && self.full.load(Ordering::Relaxed) && !settings::refuses_plain() {
            return Ok(false);
        }
        let (own, all) = (cache.counted(miss.callable.key()), cache.entries().len());
        let compiler = self.object.bind(miss.function.py());
        compiler.call_method1("may_compile", (room, own, all, Self::misses(miss)))?;
        self.full.store(!room, Ordering::Relaxed);
        Ok(room)
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

    fn compile(&self, py: Python<'_>, frame: WholeFrame) -> PyResult<Compilation> {
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

    fn broken(&self, py: Python<'_>, found: GraphBreak, forbidden: bool) -> PyResult<Plain> {
        // Under `fullgraph`, or where it is forbidden, this raises, and so will the next call.
        let (reason, message, location) = break_tuple(py, found)?.extract::<(Py<PyAny>, Py<PyAny>, Py<PyAny>)>()?;
        plain(&self.object.bind(py).call_method1("stopped", (reason, message, location, forbidden))?)
    }

    fn broke(&self, py: Python<'_>, found: GraphBreak) -> PyResult<Py<PyAny>> {
        self.object.bind(py).call_method1("broke", break_tuple(py, found)?).map(Bound::unbind)
    }

    fn pieces(&self, py: Python<'_>) -> PyResult<(bool, bool, Option<usize>)> {
        self.object.bind(py).call_method0("pieces")?.extract()
    }

    /// Shows its bytecode to those who asked for that.
    fn made(&self, miss: &Miss<'_, '_>, entry: &Entry) -> PyResult<()> {
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

/// Whether an object is a tensor or a module. Nothing of it is asked.
fn is_of_torch(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASSES: PyOnceLock<[Py<PyAny>; 2]> = PyOnceLock::new();
    let py = object.py();
    let classes = CLASSES.get_or_try_init(py, || {
        let torch = dynamlir_cpython_abi::import(py, "torch")?;
        Ok::<_, PyErr>([torch.getattr("Tensor")?.unbind(), torch.getattr("nn")?.getattr("Module")?.unbind()])
    })?;
    Ok(types::mro(&object.get_type())?.iter().any(|base| classes.iter().any(|class| base.is(class))))
}

/// What `(event, told)` from the compiler says: plain Python.
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

    fn again(&self, py: Python<'_>) -> Box<dyn Compiler> {
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
        is_of_torch(argument).unwrap_or(false)
    }

    fn plain(&self, py: Python<'_>, why: &Py<PyAny>) -> PyResult<()> {
        self.object.bind(py).call_method1("tell", (why,)).map(drop)
    }

    fn broken(&self, py: Python<'_>, why: &Py<PyAny>) -> PyResult<()> {
        self.object.bind(py).call_method1("tell_break", (why,)).map(drop)
    }

    fn forbidden(&self, py: Python<'_>, why: &Py<PyAny>) -> PyResult<()> {
        self.object.bind(py).call_method1("forbidden", (why,)).map(drop)
    }

    fn unforeseen(&self, py: Python<'_>, why: Unforeseen) -> PyResult<()> {
        if why == Unforeseen::Unsteady {
            self.steady.store(false, Ordering::Relaxed);
            let again = self.unsteady.fetch_add(1, Ordering::Relaxed).saturating_sub(STEADY_AGAIN);
            self.untried.store((1 << again.min(MOST_DOUBLINGS)) - 1, Ordering::Relaxed);
        }
        self.tell_unforeseen(py, why)
    }

    fn audit(&self, py: Python<'_>, replay: &dyn Fn() -> PyResult<Verdict>) -> PyResult<Verdict> {
        guards::prepare(py)?;
        let begun = self.object.bind(py).call_method0("begin_audit")?;
        if let Ok(why) = begun.extract::<String>() {
            return Ok(Verdict::Skipped(why));
        }
        // Whatever comes of it, all is put back; what that raises is an interruption.
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

/// The entries of a function's code that all callables have in common which are made with it.
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

/// Makes a callable: `plain` is what plain Python calls, `function` what is captured, with `bound` before the arguments. With
/// `view`, a weak reference and what else is called, it is a method of that object, which is not an argument of what is captured. Without
/// `share` it has entries of its own.
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

/// Sets what all callables look at on each call: whether those that would run as plain Python may, how many entries there may be, and
/// which share of hits is audited.
#[pyfunction]
pub fn configure(refuses_plain: bool, entries: usize, accumulated: usize, audited: f64) {
    settings::set(refuses_plain, Limits { entries, accumulated }, audited);
}

/// Says of which numbers, by their places, it is known that they change, before there is an entry: until the entries are forgotten.
#[pyfunction]
pub fn expect_changes(compiled: &Bound<'_, PyAny>, places: Vec<String>) -> PyResult<()> {
    let callable = of(compiled)?;
    let known = callable.cache().floats(callable.key());
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

/// An attribute of compiled functions, unless what was compiled has one of that name: unlike a property it gives way to that.
#[pyclass(frozen)]
struct Offered(Py<PyAny>);

#[pymethods]
impl Offered {
    fn __get__<'py>(slf: &Bound<'py, Self>, compiled: &Bound<'py, PyAny>, _class: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if compiled.is_none() { Ok(slf.clone().into_any()) } else { slf.get().0.bind(slf.py()).call1((compiled,)) }
    }
}

/// The type of compiled functions, with what people look at.
pub fn function_type(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
    let class = callable_type(py)?.clone();
    let property = dynamlir_cpython_abi::import(py, "builtins")?.getattr("property")?;
    let attribute = |name: &str, get: Bound<'_, PyCFunction>| class.setattr(name, property.call1((get,))?);
    attribute("__wrapped__", wrap_pyfunction!(wrapped, py)?)?;
    let offer = |name: &str, get: Bound<'_, PyCFunction>| class.setattr(name, Bound::new(py, Offered(get.into_any().unbind()))?);
    offer("_cache", wrap_pyfunction!(cache_of, py)?)?;
    offer("reset", wrap_pyfunction!(reset_of, py)?)?;
    // What tools that take functions apart ask a function for: torch.fx, Dynamo, inspect.
    for name in ["__defaults__", "__kwdefaults__", "__code__", "__closure__", "__globals__"] {
        let get =
            PyCFunction::new_closure(py, None, None, move |args, _| of_wrapped(&args.get_item(0)?)?.getattr(name).map(Bound::unbind))?;
        let set =
            PyCFunction::new_closure(py, None, None, move |args, _| of_wrapped(&args.get_item(0)?)?.setattr(name, args.get_item(1)?))?;
        class.setattr(name, property.call1((get, set))?)?;
    }
    Ok(class)
}

/// The function of which attributes are asked, past a bound method.
fn of_wrapped<'py>(compiled: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let wrapped = of(compiled)?.wrapped().bind(compiled.py()).clone();
    Ok(wrapped.getattr("__func__").unwrap_or(wrapped))
}

/// What was compiled.
#[pyfunction]
fn wrapped(compiled: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    Ok(of(compiled)?.wrapped().clone_ref(compiled.py()))
}

/// The entries, as a sequence.
#[pyfunction]
fn cache_of(compiled: Bound<'_, PyAny>) -> PyResult<CacheView> {
    of(&compiled)?;
    Ok(CacheView::new(compiled.unbind()))
}

/// What forgets all entries, as a method: what a closure holds would be released when Rust is called the next time.
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
