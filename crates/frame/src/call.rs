//! The compiled callable: bind, find the entry that fits, run its graph, make the result; on a miss ask the compiler.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::ThreadId,
};

use dynamlir_cpython_abi::{
    Abi, Thread, abi,
    callable::{Arguments, Callee},
    exception,
    function::code_address,
    observer,
};
use dynamlir_guards::{Checked, Failure, Inputs, Roots};
use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    types::{PyDict, PyFunction, PyTuple},
};
use smallvec::SmallVec;

use crate::{
    bind::{Owned, Signature, Slots},
    cache::{Cache, Entry, Run, Share, forgotten},
    graph::{Failed, Objects},
    settings,
    stance::Stance,
};

/// A call that no entry fits.
pub struct Miss<'a, 'py> {
    /// The callable.
    pub callable: &'a Callable,
    /// The function whose frame is to be captured.
    pub function: &'a Bound<'py, PyAny>,
    /// The values of its parameters.
    pub slots: &'a [Option<&'a Bound<'py, PyAny>>],
    /// The arguments as given, without those that the callable adds.
    pub arguments: Arguments<'a, 'py>,
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
    /// Somebody has given the function another code.
    Changed,
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

    /// A call is about to run as plain Python, for a reason of which the user is to be told before.
    ///
    /// # Errors
    /// What the call raises instead.
    fn plain(&self, py: Python<'_>, why: &Py<PyAny>) -> PyResult<()>;

    /// A call is about to run as plain Python, for a reason that no entry has.
    ///
    /// # Errors
    /// What the call raises instead.
    fn unforeseen(&self, py: Python<'_>, why: Unforeseen) -> PyResult<()>;

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
    code: usize,
    /// Arguments that it is bound to.
    bound: Vec<Py<PyAny>>,
    /// Whether the first argument of a call is not for the function: the view of a module that is bound already.
    skips_first: bool,
    /// What plain Python calls, with the arguments as given.
    plain: Py<PyAny>,
    signature: Signature,
    /// The entries that it uses.
    share: Arc<Share>,
    abi: &'static Abi,
    compiler: Box<dyn Compiler>,
    compiling: Mutex<Option<(ThreadId, usize)>>,
    /// Whether it is the one that stands for another under a forced backend.
    forced: bool,
    /// When a call has missed under the stance that leaves the first miss to plain Python: how often all entries had been forgotten.
    delayed: AtomicU64,
}

/// Ends when the compilation does.
struct Turn<'a> {
    of: &'a Mutex<Option<(ThreadId, usize)>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut compiling = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        *compiling = compiling.take().and_then(|(thread, depth)| (depth > 1).then(|| (thread, depth - 1)));
    }
}

/// What a callable is made of.
pub struct Description<'py> {
    /// The Python function whose frame is captured.
    pub function: Bound<'py, PyAny>,
    /// Arguments that it is bound to.
    pub bound: Vec<Bound<'py, PyAny>>,
    /// Whether the first argument of each call is dropped.
    pub skips_first: bool,
    /// What plain Python calls, with the same arguments.
    pub plain: Bound<'py, PyAny>,
    /// Which entries of the code's cache it uses: None for its own.
    pub share: Option<Arc<Share>>,
    /// Whether its backend is the one that a stance forces: it is used under that stance only.
    pub forced: bool,
}

/// What the entries have for a call.
enum Hit<'py> {
    Done(Bound<'py, PyAny>),
    Plain(Arc<Entry>),
    /// A graph has failed before anything was written.
    Failed,
    Miss,
}

/// For [`Callable::delayed`].
const NEVER: u64 = u64::MAX;

impl Callable {
    /// Makes a callable.
    ///
    /// # Errors
    /// When it is not a Python function.
    pub fn new(description: Description<'_>, compiler: Box<dyn Compiler>) -> PyResult<Self> {
        let Description { function, bound, skips_first, plain, share, forced } = description;
        let abi = abi(function.py()).map_err(|refusal| PyRuntimeError::new_err(refusal.to_string()))?;
        let code = function.getattr("__code__")?;
        // One of other code was made before the function was given this one.
        let share = share.filter(|share| share.is_of(abi, &code)).unwrap_or_else(|| Share::new(abi, &code));
        Ok(Self {
            signature: Signature::of(&function)?,
            code: code.as_ptr() as usize,
            function: function.unbind(),
            bound: bound.into_iter().map(Bound::unbind).collect(),
            skips_first,
            plain: plain.unbind(),
            share,
            abi,
            compiler,
            compiling: Mutex::new(None),
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
        Description { function, bound: self.bound(py).to_vec(), skips_first: false, plain, share: None, forced }
    }

    /// Forgets its entries.
    pub fn reset(&self, py: Python<'_>) {
        self.cache().forget(self.key());
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

    /// Asks the entries.
    fn look_up<'py>(&self, roots: Roots<'_, 'py>) -> PyResult<Hit<'py>> {
        let mut inputs = Inputs::default();
        let (cache, key) = (self.cache(), self.key());
        let entries = cache.entries();
        for at in cache.order(entries.len()) {
            let entry = &entries[at];
            if entry.key != key {
                continue;
            }
            match entry.guards.check(roots, &mut inputs) {
                Checked::Pass => {
                    cache.hit(at);
                    return self.run(roots.function.py(), entry, &inputs);
                }
                Checked::Fail => {}
                // What raises while it is looked at does not fit; Python raises it again, or something else matches.
                Checked::Error(error) => {
                    let py = roots.function.py();
                    if exception::may_interrupt(py, &error)
                        && let Some(interruption) = self.compiler.interruption(py, &error)
                    {
                        return Err(interruption);
                    }
                }
            }
        }
        Ok(Hit::Miss)
    }

    fn run<'py>(&self, py: Python<'py>, entry: &Arc<Entry>, inputs: &Inputs<'py>) -> PyResult<Hit<'py>> {
        let Run::Graph { graph, tensors, epilogue, known } = &entry.run else { return Ok(Hit::Plain(entry.clone())) };
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
            Ok(()) => epilogue.run(py, values, results).map(Hit::Done),
            Err(Failed::Raise(error)) => Err(error),
            Err(Failed::Before(error)) => {
                self.compiler.failed(py, &error)?;
                Ok(Hit::Failed)
            }
        }
    }

    /// A turn to compile. None while another thread has it: waiting for what may run any code could last for ever, and a second entry
    /// for the same call would be one too many. A compilation that calls what it compiles has the turn already.
    fn turn(&self) -> Option<Turn<'_>> {
        let me = std::thread::current().id();
        let mut compiling = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *compiling {
            Some((thread, _)) if *thread != me => return None,
            Some((_, depth)) => *depth += 1,
            none => *none = Some((me, 1)),
        }
        Some(Turn { of: &self.compiling })
    }

    fn call_plain<'py>(&self, arguments: Arguments<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        arguments.forward(self.plain.bind(arguments.py()))
    }

    /// As an entry has it, unless the user does not want that.
    fn call_plain_under<'py>(&self, entry: &Entry, arguments: Arguments<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let Run::Plain(plain) = &entry.run else { return self.call_plain(arguments) };
        if plain.is_due(settings::refuses_plain()) {
            self.compiler.plain(arguments.py(), plain.why())?;
            plain.told();
        }
        let result = self.call_plain(arguments)?;
        plain.returned();
        Ok(result)
    }

    /// After a graph has failed: plain Python raises what it raises, or there was no need to fail.
    fn repeat_plain<'py>(&self, arguments: Arguments<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let result = self.call_plain(arguments)?;
        self.compiler.repeated(arguments.py())?;
        Ok(result)
    }
}

impl Callee for Callable {
    fn call<'py>(&self, arguments: Arguments<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let py = arguments.py();
        let arguments = if self.skips_first { arguments.without_first() } else { arguments };
        let stance = Stance::now(py, self.abi)?;
        match &stance {
            Stance::Eager => return self.call_plain(arguments),
            Stance::Backend(backend) if !self.forced => return arguments.forward(&self.compiler.under(self, backend)?),
            _ => {}
        }
        let function = self.function.bind(py);
        if code_address(function) != Some(self.code) {
            self.compiler.unforeseen(py, Unforeseen::Changed)?;
            return self.call_plain(arguments);
        }
        let bound = self.bound(py);
        let (mut owned, mut slots) = (Owned::new(), Slots::new());
        if !self.signature.bind(function, &bound, arguments, &mut owned, &mut slots)? {
            return self.call_plain(arguments);
        }
        let roots = Roots { function, locals: &slots };
        match self.look_up(roots)? {
            Hit::Done(value) => return Ok(value),
            Hit::Plain(entry) => return self.call_plain_under(&entry, arguments),
            Hit::Failed => return self.repeat_plain(arguments),
            Hit::Miss => {}
        }
        let miss = Miss { callable: self, function, slots: &slots, arguments };
        match stance {
            Stance::Default | Stance::Backend(_) | Stance::Eager => {}
            Stance::EagerFirst if self.delayed.swap(forgotten(), Ordering::Relaxed) == forgotten() => {}
            Stance::EagerFirst | Stance::EagerOnMiss => return self.call_plain(arguments),
            Stance::FailOnMiss => return Err(self.compiler.refused(&miss)),
        }
        if let Ok(thread) = Thread::current(py)
            && let Some(observer) = observer(thread, function)
        {
            self.compiler.unforeseen(py, Unforeseen::Observed(observer))?;
            return self.call_plain(arguments);
        }
        let Some(turn) = self.turn() else {
            self.compiler.unforeseen(py, Unforeseen::Compiling)?;
            return self.call_plain(arguments);
        };
        // What a compiler does may drop owned references anywhere.
        let next = Python::attach(|_| self.compiler.miss(&miss));
        drop(turn);
        match next? {
            Next::Return(value) => return Ok(value),
            Next::Plain => return self.call_plain(arguments),
            Next::Again => {}
        }
        match self.look_up(roots)? {
            Hit::Done(value) => Ok(value),
            Hit::Plain(entry) => self.call_plain_under(&entry, arguments),
            Hit::Failed => self.repeat_plain(arguments),
            Hit::Miss => {
                self.compiler.unforeseen(py, Unforeseen::Unsteady)?;
                self.call_plain(arguments)
            }
        }
    }

    fn describe(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<dynamlir.compile of {}>", self.plain.bind(py).repr()?))
    }

    fn is_function(&self, py: Python<'_>) -> bool {
        self.plain.bind(py).is_exact_instance_of::<PyFunction>()
    }

    fn referents(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        visit(&self.function);
        visit(&self.plain);
        self.bound.iter().for_each(&mut *visit);
        self.compiler.referents(visit);
    }
}

impl<'a, 'py> Miss<'a, 'py> {
    /// The arguments as the function would be called with: those it is bound to, then those given by position.
    ///
    /// # Errors
    /// When Python is out of memory.
    pub fn positional(&self) -> PyResult<Bound<'py, PyTuple>> {
        let py = self.function.py();
        PyTuple::new(py, self.callable.bound(py).into_iter().chain(self.arguments.positional().iter().cloned()).collect::<Vec<_>>())
    }

    /// The arguments given by keyword.
    ///
    /// # Errors
    /// When Python is out of memory.
    pub fn keywords(&self) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(self.function.py());
        for (name, value) in self.arguments.by_keyword() {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    /// The first guard that fails of each entry that the callable uses.
    pub fn failures(&self) -> Vec<Failure> {
        let entries = self.callable.cache().of_key(self.callable.key());
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
