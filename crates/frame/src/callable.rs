//! The compiled callable: it binds, finds the entry whose guards pass, runs its graph, and builds the result. On a miss it calls the
//! compiler.

use std::{
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use dynamlir_cpython_abi::{
    Abi, Listening, Thread, abi,
    callable::{Arguments, Callee},
    function::code_address,
    kind, observer,
};
use dynamlir_guards::{Checked, Failure, Inputs, Roots};
use dynamlir_interpreter::FrameState;
use pyo3::{exceptions::PyRuntimeError, prelude::*, types::PyFunction};
use smallvec::SmallVec;

use crate::{
    audit::Verdict,
    bind::{CallArguments, Owned, Signature, Slots},
    cache::{Cache, Entry, EntryBreak, Run, Share, forgotten},
    callable_description::{Description, Method},
    compile_lock::Turns,
    epilogue::{Ended, Suspended},
    graph::{Failed, Objects},
    replaced_code::Successors,
    resume, settings,
    stance::Stance,
};

/// A frame for which no entry's guards pass.
pub struct Miss<'a, 'py> {
    /// The callable.
    pub callable: &'a Callable,
    /// The function whose frame is to be captured.
    pub function: &'a Bound<'py, PyAny>,
    /// The values of its parameters; for a continuation, all local slots and the stack of each frame.
    pub slots: &'a [Option<&'a Bound<'py, PyAny>>],
    /// Arguments that create such a frame.
    pub given: &'a CallArguments<'py>,
    /// The state of the frame and of those that run within it; None at the beginning of the frame.
    pub from: Option<&'a [Rc<FrameState>]>,
    /// The entries that were checked.
    pub cache: &'a Cache,
}

/// The action of a call after a miss.
pub enum Next<'py> {
    /// Checks the entries again: one was added.
    Again,
    /// Runs as plain Python.
    Plain,
    /// Returns this.
    Return(Bound<'py, PyAny>),
}

/// The reason that a call runs as plain Python, where no entry records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unforeseen {
    /// Another thread is compiling.
    Compiling,
    /// Other code observes what the thread runs.
    Observed(&'static str),
    /// The guards of the entry that was created for the call do not pass for it.
    Unsteady,
}

/// Capture and compilation, as a callable sees them.
pub trait Compiler: Send + Sync {
    /// Handles a miss, usually by adding an entry to the cache.
    ///
    /// # Errors
    /// Returns the exception that the call raises.
    fn miss<'py>(&self, miss: &Miss<'_, 'py>) -> PyResult<Next<'py>>;

    /// Returns the exception that a call raises when it misses and no entry may be created.
    fn refused(&self, miss: &Miss<'_, '_>) -> PyErr;

    /// Returns the callable that replaces this one while `torch.compiler.set_stance(force_backend=…)` names a backend.
    ///
    /// # Errors
    /// If the backend does not exist.
    fn under<'py>(&self, callable: &Callable, backend: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>;

    /// Returns the compiler for a callable that replaces this one's.
    fn for_replacement(&self, py: Python<'_>) -> Box<dyn Compiler>;

    /// Called when the entries are being forgotten: drops all other state as well.
    fn reset(&self, py: Python<'_>);

    /// Called when a graph failed before anything of the caller's was written; plain Python runs next.
    ///
    /// # Errors
    /// Returns the exception that the call raises instead.
    fn failed(&self, py: Python<'_>, error: &PyErr) -> PyResult<()>;

    /// Called when a graph failed but plain Python then did not.
    ///
    /// # Errors
    /// Returns the exception that the call raises instead.
    fn repeated(&self, py: Python<'_>) -> PyResult<()>;

    /// Returns the callable for a function that is called where Python runs between graphs, with the same options as its caller. Returns
    /// None if such a function must not be compiled.
    ///
    /// # Errors
    /// Returns the exception raised by Python.
    fn called(&self, function: &Bound<'_, PyAny>) -> PyResult<Option<Callable>>;

    /// Returns true if an argument is a reason to compile the callee.
    fn concerns(&self, argument: &Bound<'_, PyAny>) -> bool;

    /// Called when a call is about to run as plain Python, for a reason that must be reported to the user first.
    ///
    /// # Errors
    /// Returns the exception that the call raises instead.
    fn plain(&self, py: Python<'_>, why: &Py<PyAny>) -> PyResult<()>;

    /// Called when Python is about to run a part of a frame, for a reason that must be reported to the user first.
    ///
    /// # Errors
    /// Returns the exception that the call raises instead.
    fn report_break(&self, py: Python<'_>, why: &Py<PyAny>) -> PyResult<()>;

    /// Called when Python is about to run all or part of a frame where the program does not allow that.
    ///
    /// # Errors
    /// Returns the exception that the call raises instead.
    fn forbidden(&self, py: Python<'_>, why: &Py<PyAny>) -> PyResult<()>;

    /// Called when a call is about to run as plain Python, for a reason that no entry records.
    ///
    /// # Errors
    /// Returns the exception that the call raises instead.
    fn unforeseen(&self, py: Python<'_>, why: Unforeseen) -> PyResult<()>;

    /// Audits a call that an entry is about to answer: has `replay` capture it again, without leaving a trace.
    ///
    /// # Errors
    /// Returns an interruption.
    fn audit(&self, py: Python<'_>, replay: &dyn Fn() -> PyResult<Verdict>) -> PyResult<Verdict>;

    /// Called when an audit has ended with this verdict.
    ///
    /// # Errors
    /// Returns the exception that the call raises.
    fn audited(&self, py: Python<'_>, verdict: &Verdict) -> PyResult<()>;

    /// Returns the exception of a signal handler, if one is behind an error that guards ran into.
    fn interruption(&self, py: Python<'_>, error: &PyErr) -> Option<PyErr>;

    /// Visits each Python object that it holds strongly.
    fn referents(&self, visit: &mut dyn FnMut(&Py<PyAny>));
}

/// A callable whose calls go to captured, compiled graphs.
pub struct Callable {
    /// The Python function whose frame is captured.
    function: Py<PyAny>,
    /// Its code when it was compiled: with another code it is another function.
    code: Py<PyAny>,
    pub(crate) successors: Successors,
    /// The arguments to which it is bound.
    bound: Vec<Py<PyAny>>,
    /// The view of a module that is already bound: the module is the first argument of a call, and is not passed to the function.
    method: Option<Method>,
    /// The object that plain Python calls, with the arguments as given.
    plain: Py<PyAny>,
    /// True if the captured frame also exists when the call runs as plain Python.
    is_itself: bool,
    signature: Signature,
    /// The entries that it uses.
    share: Arc<Share>,
    abi: &'static Abi,
    compiler: Box<dyn Compiler>,
    pub(crate) turns: Turns,
    /// True if it replaces another callable under a forced backend.
    forced: bool,
    /// The number of calls of `forget_all` at the time of the last miss under a stance that leaves the first miss to plain Python.
    delayed: AtomicU64,
}

/// The result of checking the entries for a frame.
enum Hit<'py> {
    Done(Bound<'py, PyAny>),
    Suspended(Suspended),
    Walk(u32),
    Plain(Arc<Entry>),
    /// A graph failed before anything was written.
    Failed,
    Miss,
}

/// The decision about how a frame continues.
pub(crate) enum Resolved<'py> {
    /// The frame returns this.
    Done(Bound<'py, PyAny>),
    /// The graph has run; the frame continues in this state, with those that run within it.
    Suspended(Suspended),
    /// There is nothing to compile before the instruction at this unit.
    Walk(u32),
    /// It runs as plain Python, under an entry that says so.
    Plain(Arc<Entry>),
    /// It runs as plain Python, this time.
    Now,
    /// It runs as plain Python, since a graph failed before anything was written.
    Failed,
}

/// The initial value of [`Callable::delayed`].
const NEVER: u64 = u64::MAX;

impl Callable {
    /// Creates a callable.
    ///
    /// # Errors
    /// If `function` is not a Python function.
    pub fn new(description: Description<'_>, compiler: Box<dyn Compiler>) -> PyResult<Self> {
        let Description { function, bound, method, plain, share, forced } = description;
        let abi = abi(function.py()).map_err(|refusal| PyRuntimeError::new_err(refusal.to_string()))?;
        let code = function.getattr("__code__")?;
        // A share for other code was created before the function was given its present code.
        let share = share.filter(|share| share.is_of(abi, &code)).unwrap_or_else(|| Share::new(abi, &code));
        let is_itself = kind::is_method(&plain) || plain.is(&function);
        Ok(Self {
            is_itself,
            signature: Signature::of(&function)?,
            code: code.unbind(),
            successors: Successors::default(),
            function: function.unbind(),
            bound: bound.into_iter().map(Bound::unbind).collect(),
            method,
            plain: plain.unbind(),
            share,
            abi,
            compiler,
            turns: Turns::default(),
            forced,
            delayed: AtomicU64::new(NEVER),
        })
    }

    /// Returns the compiled object.
    pub fn wrapped(&self) -> &Py<PyAny> {
        &self.plain
    }

    /// Returns the function whose frame is captured.
    pub fn function(&self) -> &Py<PyAny> {
        &self.function
    }

    /// Returns the code for which it was created.
    pub fn code(&self) -> &Py<PyAny> {
        &self.code
    }

    /// Returns the cache of its code.
    pub fn cache(&self) -> &Cache {
        self.share.cache()
    }

    /// Returns the key of its entries.
    pub fn key(&self) -> u64 {
        self.share.key()
    }

    /// Returns its own description, for creating another callable that takes the same arguments, as [`Callee::call`] sees them.
    pub fn description<'py>(&self, py: Python<'py>, forced: bool) -> Description<'py> {
        let (function, plain) = (self.function.bind(py).clone(), self.plain.bind(py).clone());
        Description { function, bound: self.bound(py).to_vec(), method: None, plain, share: None, forced }
    }

    /// Forgets its entries.
    pub fn reset(&self, py: Python<'_>) {
        self.cache().forget(self.key());
        self.successors.all().iter().for_each(|successor| successor.cache().forget(successor.key()));
        self.delayed.store(NEVER, Ordering::Relaxed);
        self.compiler.reset(py);
    }

    /// Binds arguments as a call would, and calls `then` with the values of the parameters. Returns None if they do not match the
    /// parameters.
    ///
    /// # Errors
    /// Returns the exception raised by Python.
    pub fn with_slots<'a, 'py, R>(&self, arguments: Arguments<'a, 'py>, then: impl FnOnce(Roots<'_, 'py>) -> R) -> PyResult<Option<R>> {
        let function = self.function.bind(arguments.py());
        let bound = self.bound(arguments.py());
        let (mut owned, mut slots) = (Owned::new(), Slots::new());
        let fits = self.signature.bind(function, &bound, arguments, &mut owned, &mut slots)?;
        Ok(fits.then(|| then(Roots { function, locals: &slots })))
    }

    fn bound<'py>(&self, py: Python<'py>) -> SmallVec<[Bound<'py, PyAny>; 2]> {
        self.bound.iter().map(|object| object.bind(py).clone()).collect()
    }

    /// Checks the entries of a cache. `is_new`: an entry was created for this very call.
    fn look_up<'py>(&self, cache: &Cache, roots: Roots<'_, 'py>, from: Option<&[Rc<FrameState>]>, is_new: bool) -> PyResult<Hit<'py>> {
        let mut inputs = Inputs::default();
        let key = self.key();
        let entries = cache.entries();
        for at in cache.order(&entries) {
            let entry = &entries[at];
            if entry.key != key {
                continue;
            }
            match entry.guards.check(roots, &mut inputs) {
                Checked::Pass => {
                    if settings::audits() && !is_new && !self.stands(cache, entry, roots, from, &mut inputs)? {
                        continue;
                    }
                    cache.hit(&entries, at);
                    return self.run(roots.function.py(), entry, &inputs);
                }
                Checked::Fail => {}
                // A check that raises does not pass; Python raises the exception again, or another entry passes.
                Checked::Error(error) => self.pass_on(roots.function.py(), &error)?,
            }
        }
        // A graph that ends there is an error where graphs must not break.
        let walks = cache.skipped_until(key).filter(|(_, breaks)| !breaks || !settings::breaks_are_errors(roots.function.py()));
        Ok(walks.map_or(Hit::Miss, |(until, _)| Hit::Walk(until)))
    }

    fn run<'py>(&self, py: Python<'py>, entry: &Arc<Entry>, inputs: &Inputs<'py>) -> PyResult<Hit<'py>> {
        let Run::Graph { graph, tensors, epilogue, known, breaks } = &entry.run else { return Ok(Hit::Plain(entry.clone())) };
        if let Some(EntryBreak { why, allowed }) = breaks {
            if !allowed && settings::breaks_are_errors(py) {
                self.compiler.forbidden(py, why)?;
            }
            if settings::refuses_plain() {
                self.compiler.report_break(py, why)?;
            }
        }
        let values = inputs.tensors(entry.guards.input_count());
        let mut arguments: SmallVec<[&Bound<'py, PyAny>; 12]> = SmallVec::with_capacity(tensors.len());
        for &at in tensors {
            if let Some(Some(value)) = values.get(at) {
                arguments.push(value);
            }
        }
        let known = *known && inputs.undisturbed() && arguments.len() == tensors.len();
        let mut results = Objects::new();
        match graph.run(py, &arguments, known, &mut results) {
            Ok(()) => Ok(match epilogue.run(py, values, results)? {
                Ended::Returned(value) => Hit::Done(value),
                Ended::Suspended(frames) => Hit::Suspended(frames),
            }),
            Err(Failed::Raise(error)) => Err(error),
            Err(Failed::Before(error)) => {
                self.compiler.failed(py, &error)?;
                Ok(Hit::Failed)
            }
        }
    }

    /// Decides how a frame continues after a miss.
    fn resolve_miss<'py>(&self, miss: &Miss<'_, 'py>, stance: &Stance<'py>) -> PyResult<Resolved<'py>> {
        let py = miss.function.py();
        match stance {
            Stance::Default | Stance::Backend(_) => {}
            Stance::EagerFirst if self.delayed.swap(forgotten(), Ordering::Relaxed) == forgotten() => {}
            Stance::Eager | Stance::EagerFirst | Stance::EagerOnMiss => return Ok(Resolved::Now),
            Stance::FailOnMiss => return Err(self.compiler.refused(miss)),
        }
        if let Ok(thread) = Thread::current(py)
            && let Some(observer) = observer(thread, miss.function)
        {
            self.compiler.unforeseen(py, Unforeseen::Observed(observer))?;
            return Ok(Resolved::Now);
        }
        let Some(turn) = self.turns.take() else {
            self.compiler.unforeseen(py, Unforeseen::Compiling)?;
            return Ok(Resolved::Now);
        };
        // The compiler may drop owned references anywhere, which requires an attached interpreter.
        let next = Python::attach(|_| self.compiler.miss(miss));
        drop(turn);
        match next? {
            Next::Return(value) => return Ok(Resolved::Done(value)),
            Next::Plain => return Ok(Resolved::Now),
            Next::Again => {}
        }
        Ok(match self.look_up(miss.cache, miss.roots(), miss.from, true)? {
            Hit::Done(value) => Resolved::Done(value),
            Hit::Suspended(frames) => Resolved::Suspended(frames),
            Hit::Walk(until) => Resolved::Walk(until),
            Hit::Plain(entry) => Resolved::Plain(entry),
            Hit::Failed => Resolved::Failed,
            Hit::Miss => {
                self.compiler.unforeseen(py, Unforeseen::Unsteady)?;
                Resolved::Now
            }
        })
    }

    /// Decides how a called frame with these values continues. `given` returns arguments that bind to them.
    pub(crate) fn resolve<'py>(
        &self,
        function: &Bound<'py, PyAny>,
        slots: &[Option<&Bound<'py, PyAny>>],
        at: Option<(&[Rc<FrameState>], &Cache)>,
        given: impl FnOnce() -> PyResult<CallArguments<'py>>,
    ) -> PyResult<Resolved<'py>> {
        let (from, cache) = at.map_or((None, self.cache()), |(from, cache)| (Some(from), cache));
        Ok(match self.look_up(cache, Roots { function, locals: slots }, from, false)? {
            Hit::Done(value) => Resolved::Done(value),
            Hit::Suspended(frames) => Resolved::Suspended(frames),
            Hit::Walk(until) => Resolved::Walk(until),
            Hit::Plain(entry) => Resolved::Plain(entry),
            Hit::Failed => Resolved::Failed,
            Hit::Miss => {
                let given = given()?;
                let miss = Miss { callable: self, function, slots, given: &given, from, cache };
                self.resolve_miss(&miss, &Stance::now(function.py(), self.abi)?)?
            }
        })
    }

    /// Returns true if the captured frame also exists when the call runs as plain Python.
    pub fn is_itself(&self) -> bool {
        self.is_itself
    }

    /// Returns true if it replaces another callable under a forced backend.
    pub(crate) fn is_forced(&self) -> bool {
        self.forced
    }

    /// Returns the address of its code.
    pub(crate) fn code_address(&self) -> usize {
        self.code.as_ptr() as usize
    }

    /// Returns the entries that it uses.
    pub fn share(&self) -> &Share {
        &self.share
    }

    /// Returns the compiler, also for functions called where Python runs between graphs.
    pub(crate) fn compiler(&self) -> &dyn Compiler {
        &*self.compiler
    }

    /// Returns the parameters of the function.
    pub(crate) fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Returns the interpreter.
    pub(crate) fn abi(&self) -> &'static Abi {
        self.abi
    }
}

/// A [`Callable`] as a Python object calls it.
pub struct Compiled(pub Arc<Callable>);

impl Compiled {
    fn answer<'py>(&self, arguments: Arguments<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let Self(callable) = self;
        let py = arguments.py();
        let arguments = match &callable.method {
            Some(method) if !method.is_called(arguments) => return arguments.forward(method.otherwise.bind(py)),
            Some(_) => arguments.without_first(),
            None => arguments,
        };
        // Calls made by a graph and by the compiler are not the program's.
        let away = away();
        let stance = Stance::now(py, callable.abi)?;
        match &stance {
            Stance::Eager => return in_program(away, || callable.call_plain(arguments)),
            Stance::Backend(backend) if !callable.forced => {
                let other = callable.compiler.under(callable, backend)?;
                return in_program(away, || arguments.forward(&other));
            }
            _ => {}
        }
        let function = callable.function.bind(py);
        if code_address(function) != Some(callable.code_address()) {
            let successor = Self(callable.successor(function)?);
            return in_program(away, || successor.answer(arguments));
        }
        let bound = callable.bound(py);
        let (mut owned, mut slots) = (Owned::new(), Slots::new());
        if !callable.signature.bind(function, &bound, arguments, &mut owned, &mut slots)? {
            return in_program(away, || callable.call_plain(arguments));
        }
        let resolved = match callable.look_up(callable.cache(), Roots { function, locals: &slots }, None, false)? {
            Hit::Done(value) => return Ok(value),
            Hit::Suspended(frames) => Resolved::Suspended(frames),
            Hit::Walk(until) => Resolved::Walk(until),
            Hit::Plain(entry) => Resolved::Plain(entry),
            Hit::Failed => Resolved::Failed,
            Hit::Miss => {
                let given = callable.signature.unbind(py, &slots)?;
                let miss = Miss { callable, function, slots: &slots, given: &given, from: None, cache: callable.cache() };
                callable.resolve_miss(&miss, &stance)?
            }
        };
        match resolved {
            Resolved::Done(value) => Ok(value),
            // Nothing was computed if the function is only a substitute for the compiled object.
            Resolved::Suspended(_) | Resolved::Walk(_) if !callable.is_itself => {
                in_program(away, || resume::listening(py, callable, || callable.call_plain(arguments)))
            }
            Resolved::Suspended(suspended) => in_program(away, || resume::go_on(callable, function, suspended.frames)),
            Resolved::Plain(entry) => in_program(away, || callable.call_plain_under(&entry, arguments)),
            Resolved::Failed => in_program(away, || callable.repeat_plain(arguments)),
            Resolved::Now | Resolved::Walk(_) => in_program(away, || callable.call_plain(arguments)),
        }
    }
}

/// Suspends the interception of this thread's frames, if it is active.
#[inline]
fn away() -> Option<Listening> {
    Listening::current().map(|_| Listening::new(None))
}

/// Runs code of the program itself, with interception as it was.
fn in_program<R>(away: Option<Listening>, body: impl FnOnce() -> R) -> R {
    drop(away);
    body()
}

impl Callee for Compiled {
    fn call<'py>(&self, arguments: Arguments<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        self.answer(arguments)
    }

    fn describe(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<dynamlir.compile of {}>", self.0.plain.bind(py).repr()?))
    }

    fn is_function(&self, py: Python<'_>) -> bool {
        self.0.plain.bind(py).is_exact_instance_of::<PyFunction>()
    }

    fn referents(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        visit(&self.0.function);
        visit(&self.0.code);
        visit(&self.0.plain);
        self.0.bound.iter().for_each(&mut *visit);
        if let Some(method) = &self.0.method {
            visit(&method.of);
            visit(&method.otherwise);
        }
        self.0.compiler.referents(visit);
    }
}

impl<'a, 'py> Miss<'a, 'py> {
    /// Returns the first failing guard of each entry that the callable uses.
    pub fn failures(&self) -> Vec<Failure> {
        let entries = self.cache.of_key(self.callable.key());
        entries.iter().filter_map(|entry| entry.guards.explain(self.roots()).ok().flatten()).collect()
    }

    /// Returns the roots of paths.
    pub fn roots(&self) -> Roots<'a, 'py> {
        Roots { function: self.function, locals: self.slots }
    }

    /// Returns the interpreter.
    pub fn abi(&self) -> &'static Abi {
        self.callable.abi
    }
}
