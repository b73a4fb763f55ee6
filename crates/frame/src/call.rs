//! The compiled callable: bind, find the entry that fits, run its graph, make the result; on a miss ask the compiler.

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
use dynamlir_interpreter::Standing;
use pyo3::{exceptions::PyRuntimeError, prelude::*, types::PyFunction};
use smallvec::SmallVec;

use crate::{
    audit::Verdict,
    bind::{Given, Owned, Signature, Slots},
    cache::{Broke, Cache, Entry, Run, Share, forgotten},
    description::{Description, Method},
    drive,
    epilogue::{Ended, Suspended},
    graph::{Failed, Objects},
    settings,
    stance::Stance,
    successors::Successors,
    turn::Turns,
};

/// A frame that no entry fits.
pub struct Miss<'a, 'py> {
    /// The callable.
    pub callable: &'a Callable,
    /// The function whose frame is to be captured.
    pub function: &'a Bound<'py, PyAny>,
    /// The values of its parameters; of frames that stand elsewhere than at their beginning, all local slots and the stack of each.
    pub slots: &'a [Option<&'a Bound<'py, PyAny>>],
    /// Arguments that make such a frame.
    pub given: &'a Given<'py>,
    /// Where the frame stands, and those that run within it; None at its beginning.
    pub from: Option<&'a [Rc<Standing>]>,
    /// The entries that were asked.
    pub cache: &'a Cache,
}

/// What a call does after a miss.
pub enum Next<'py> {
    /// Asks the entries once more: one was added.
    Again,
    /// Runs as plain Python.
    Plain,
    /// Returns this.
    Return(Bound<'py, PyAny>),
}

/// Why a call runs as plain Python, where no entry says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unforeseen {
    /// Another thread is compiling.
    Compiling,
    /// Somebody sees what the thread runs.
    Observed(&'static str),
    /// The guards of the entry that was made for the call do not hold for it.
    Unsteady,
}

/// Capture and compiler, as a callable sees them.
pub trait Compiler: Send + Sync {
    /// Handles a miss, usually by adding an entry to the cache.
    ///
    /// # Errors
    /// What the call raises.
    fn miss<'py>(&self, miss: &Miss<'_, 'py>) -> PyResult<Next<'py>>;

    /// What a call raises that no entry fits, where none may be made.
    fn refused(&self, miss: &Miss<'_, '_>) -> PyErr;

    /// The callable that stands for this one while `torch.compiler.set_stance(force_backend=…)` names a backend.
    ///
    /// # Errors
    /// When there is no such backend.
    fn under<'py>(&self, callable: &Callable, backend: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>;

    /// The compiler of a callable that takes the place of this one's.
    fn again(&self, py: Python<'_>) -> Box<dyn Compiler>;

    /// The entries are being forgotten: what was made besides them goes as well.
    fn reset(&self, py: Python<'_>);

    /// A graph failed before anything of the caller's was written; plain Python is next.
    ///
    /// # Errors
    /// What the call raises instead.
    fn failed(&self, py: Python<'_>, error: &PyErr) -> PyResult<()>;

    /// After a graph had failed, plain Python did not.
    ///
    /// # Errors
    /// What the call raises instead.
    fn repeated(&self, py: Python<'_>) -> PyResult<()>;

    /// The callable for a function that is called where Python runs between graphs, with the same wishes as for the caller; None if such
    /// a function is not to be compiled.
    ///
    /// # Errors
    /// What Python raised.
    fn called(&self, function: &Bound<'_, PyAny>) -> PyResult<Option<Callable>>;

    /// Whether an argument is a reason to compile what is called with it.
    fn concerns(&self, argument: &Bound<'_, PyAny>) -> bool;

    /// A call is about to run as plain Python, for a reason of which the user is to be told before.
    ///
    /// # Errors
    /// What the call raises instead.
    fn plain(&self, py: Python<'_>, why: &Py<PyAny>) -> PyResult<()>;

    /// Python is about to run a part of a frame, for a reason of which the user is to be told before.
    ///
    /// # Errors
    /// What the call raises instead.
    fn broken(&self, py: Python<'_>, why: &Py<PyAny>) -> PyResult<()>;

    /// Python is about to run a part of a frame, or all of it, where the program does not want that.
    ///
    /// # Errors
    /// What the call raises instead.
    fn forbidden(&self, py: Python<'_>, why: &Py<PyAny>) -> PyResult<()>;

    /// A call is about to run as plain Python, for a reason that no entry has.
    ///
    /// # Errors
    /// What the call raises instead.
    fn unforeseen(&self, py: Python<'_>, why: Unforeseen) -> PyResult<()>;

    /// Audits a call that an entry is about to answer: has it captured again by `replay`, in a way that leaves no trace.
    ///
    /// # Errors
    /// An interruption.
    fn audit(&self, py: Python<'_>, replay: &dyn Fn() -> PyResult<Verdict>) -> PyResult<Verdict>;

    /// An audit has ended so.
    ///
    /// # Errors
    /// What the call raises.
    fn audited(&self, py: Python<'_>, verdict: &Verdict) -> PyResult<()>;

    /// What a signal handler has raised, if it is behind an error that guards ran into.
    fn interruption(&self, py: Python<'_>, error: &PyErr) -> Option<PyErr>;

    /// Names each Python object that it holds strongly.
    fn referents(&self, visit: &mut dyn FnMut(&Py<PyAny>));
}

/// A callable whose calls go to captured, compiled graphs.
pub struct Callable {
    /// The Python function whose frame is captured.
    function: Py<PyAny>,
    /// Its code when it was compiled: another one is another function.
    code: Py<PyAny>,
    pub(crate) successors: Successors,
    /// Arguments that it is bound to.
    bound: Vec<Py<PyAny>>,
    /// The view of a module that is bound already, which is the first argument of a call and not for the function.
    method: Option<Method>,
    /// What plain Python calls, with the arguments as given.
    plain: Py<PyAny>,
    /// Whether the frame that is captured is one that plain Python has as well.
    is_itself: bool,
    signature: Signature,
    /// The entries that it uses.
    share: Arc<Share>,
    abi: &'static Abi,
    compiler: Box<dyn Compiler>,
    pub(crate) turns: Turns,
    /// Whether it is the one that stands for another under a forced backend.
    forced: bool,
    /// When a call has missed under the stance that leaves the first miss to plain Python: how often all entries had been forgotten.
    delayed: AtomicU64,
}

/// What the entries have for a frame.
enum Hit<'py> {
    Done(Bound<'py, PyAny>),
    Suspended(Suspended),
    Walk(u32),
    Plain(Arc<Entry>),
    /// A graph has failed before anything was written.
    Failed,
    Miss,
}

/// What becomes of a frame.
pub(crate) enum Resolved<'py> {
    /// It returns this.
    Done(Bound<'py, PyAny>),
    /// It goes on like this, and what runs within it, after what its graph has computed.
    Suspended(Suspended),
    /// There is nothing to compile before the instruction at this unit.
    Walk(u32),
    /// It is plain Python, under an entry that says so.
    Plain(Arc<Entry>),
    /// It is plain Python, this time.
    Now,
    /// It is plain Python, since a graph has failed before anything was written.
    Failed,
}

/// For [`Callable::delayed`].
const NEVER: u64 = u64::MAX;

impl Callable {
    /// Makes a callable.
    ///
    /// # Errors
    /// When it is not a Python function.
    pub fn new(description: Description<'_>, compiler: Box<dyn Compiler>) -> PyResult<Self> {
        let Description { function, bound, method, plain, share, forced } = description;
        let abi = abi(function.py()).map_err(|refusal| PyRuntimeError::new_err(refusal.to_string()))?;
        let code = function.getattr("__code__")?;
        // One of other code was made before the function was given this one.
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

    /// What was compiled.
    pub fn wrapped(&self) -> &Py<PyAny> {
        &self.plain
    }

    /// The function whose frame is captured.
    pub fn function(&self) -> &Py<PyAny> {
        &self.function
    }

    /// The code that it was made of.
    pub fn code(&self) -> &Py<PyAny> {
        &self.code
    }

    /// The cache of its code.
    pub fn cache(&self) -> &Cache {
        self.share.cache()
    }

    /// By which its entries are known.
    pub fn key(&self) -> u64 {
        self.share.key()
    }

    /// What it was made of, for another one with the same arguments as [`Callee::call`] sees them.
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

    /// Binds arguments as a call would, and does something with the values of the parameters; None if they do not fit.
    ///
    /// # Errors
    /// What Python raised.
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

    /// Asks the entries of a cache; one that was made for this very call `is_new`.
    fn look_up<'py>(&self, cache: &Cache, roots: Roots<'_, 'py>, from: Option<&[Rc<Standing>]>, is_new: bool) -> PyResult<Hit<'py>> {
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
                // What raises while it is looked at does not fit; Python raises it again, or something else matches.
                Checked::Error(error) => self.pass_on(roots.function.py(), &error)?,
            }
        }
        // What ends there is an error where graphs must not break.
        let walks = cache.walks(key).filter(|(_, breaks)| !breaks || !settings::breaks_are_errors(roots.function.py()));
        Ok(walks.map_or(Hit::Miss, |(until, _)| Hit::Walk(until)))
    }

    fn run<'py>(&self, py: Python<'py>, entry: &Arc<Entry>, inputs: &Inputs<'py>) -> PyResult<Hit<'py>> {
        let Run::Graph { graph, tensors, epilogue, known, breaks } = &entry.run else { return Ok(Hit::Plain(entry.clone())) };
        if let Some(Broke { why, allowed }) = breaks {
            if !allowed && settings::breaks_are_errors(py) {
                self.compiler.forbidden(py, why)?;
            }
            if settings::refuses_plain() {
                self.compiler.broken(py, why)?;
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

    /// What becomes of a frame that no entry fits.
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
        // What a compiler does may drop owned references anywhere.
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

    /// What becomes of a frame that somebody has called whose values are these. `given` makes arguments that bind to them.
    pub(crate) fn resolve<'py>(
        &self,
        function: &Bound<'py, PyAny>,
        slots: &[Option<&Bound<'py, PyAny>>],
        at: Option<(&[Rc<Standing>], &Cache)>,
        given: impl FnOnce() -> PyResult<Given<'py>>,
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

    /// Whether the frame that is captured is one that plain Python has as well.
    pub fn is_itself(&self) -> bool {
        self.is_itself
    }

    /// Whether it is the one that stands for another under a forced backend.
    pub(crate) fn is_forced(&self) -> bool {
        self.forced
    }

    /// The address of its code.
    pub(crate) fn code_address(&self) -> usize {
        self.code.as_ptr() as usize
    }

    /// The entries that it uses.
    pub fn share(&self) -> &Share {
        &self.share
    }

    /// What is compiled where Python runs between graphs.
    pub(crate) fn compiler(&self) -> &dyn Compiler {
        &*self.compiler
    }

    /// The parameters of the function.
    pub(crate) fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The interpreter.
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
        // What a graph and the compiler call is not the program's.
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
            // Nothing was computed where the function only stands for what was compiled.
            Resolved::Suspended(_) | Resolved::Walk(_) if !callable.is_itself => {
                in_program(away, || drive::listening(py, callable, || callable.call_plain(arguments)))
            }
            Resolved::Suspended(suspended) => in_program(away, || drive::go_on(callable, function, suspended.frames)),
            Resolved::Plain(entry) => in_program(away, || callable.call_plain_under(&entry, arguments)),
            Resolved::Failed => in_program(away, || callable.repeat_plain(arguments)),
            Resolved::Now | Resolved::Walk(_) => in_program(away, || callable.call_plain(arguments)),
        }
    }
}

/// Where this thread's frames are listened to, they are not for the time being.
#[inline]
fn away() -> Option<Listening> {
    Listening::current().map(|_| Listening::new(None))
}

/// Does what the program itself does.
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
    /// The first guard that fails of each entry that the callable uses.
    pub fn failures(&self) -> Vec<Failure> {
        let entries = self.cache.of_key(self.callable.key());
        entries.iter().filter_map(|entry| entry.guards.explain(self.roots()).ok().flatten()).collect()
    }

    /// Where paths begin.
    pub fn roots(&self) -> Roots<'a, 'py> {
        Roots { function: self.function, locals: self.slots }
    }

    /// The interpreter.
    pub fn abi(&self) -> &'static Abi {
        self.callable.abi
    }
}
