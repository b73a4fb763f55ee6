//! The cache of a code object: its entries, oldest first.
//!
//! The cache lives with the code object. All functions that share the code share the cache, and it is dropped with the code. Entries are
//! only ever appended; those whose guards can never pass again are dropped when the next one is added.

use std::{
    collections::HashMap,
    rc::Rc,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
};

use dynamlir_cpython_abi::{Abi, CodeSlot};
use dynamlir_guards::{GuardSet, TensorMatch};
use dynamlir_interpreter::FrameState;
use pyo3::prelude::*;

use crate::{
    audit::Recapture, callable::Callable, callees::Noted, continuation_key::Continuations, entry_code::EntryCode, epilogue::Epilogue,
    graph::CompiledGraph, limits::SizeClass, value_history::ValueHistory,
};

/// The action of an entry when its guards pass.
pub enum Run {
    /// Runs a graph on the collected tensors, then the epilogue.
    Graph {
        /// The graph.
        graph: Box<dyn CompiledGraph>,
        /// The indices of the graph's tensor inputs among the objects collected by the guards.
        tensors: Vec<usize>,
        /// The steps that process its results.
        epilogue: Epilogue,
        /// True if the guards establish everything that the graph needs to know about the tensors.
        known: bool,
        /// The graph break after the graph, if Python runs a part of the frame after it.
        breaks: Option<EntryBreak>,
    },
    /// Plain Python: the frame could not be captured whole under these guards.
    Plain(Plain),
}

/// A graph break: the reason that a graph ends before its frame does.
pub struct EntryBreak {
    /// The compiler's description of the break.
    pub why: Py<PyAny>,
    /// True if the frame itself allows graph breaks there, regardless of its caller.
    pub allowed: bool,
}

/// Plain Python, and whether this was reported to the user.
pub struct Plain {
    why: Py<PyAny>,
    state: AtomicU8,
}

/// Plain Python is expected to raise; then nothing else need be reported.
const RAISES: u8 = 0;
/// Plain Python returned instead: report to the user before the next call.
const RETURNED: u8 = 1;
const TOLD: u8 = 2;

impl Plain {
    /// Returns plain Python for a given reason. `told`: the compiler has already reported the reason; false if plain Python is expected to
    /// raise.
    pub fn new(why: Py<PyAny>, told: bool) -> Self {
        Self { why, state: AtomicU8::new(if told { TOLD } else { RAISES }) }
    }

    /// The reason.
    pub fn why(&self) -> &Py<PyAny> {
        &self.why
    }

    /// Returns true if the fallback must be reported before a call runs. Where such calls are refused, that is before every call.
    pub(crate) fn is_due(&self, refused: bool) -> bool {
        match self.state.load(Ordering::Relaxed) {
            RAISES => false,
            RETURNED => true,
            _ => refused,
        }
    }

    /// Records that the fallback was reported to the user.
    pub(crate) fn note_reported(&self) {
        self.state.store(TOLD, Ordering::Relaxed);
    }

    /// Records that a call ran and did not raise.
    pub(crate) fn returned(&self) {
        // A reason that another thread has reported stays reported.
        let _ = self.state.compare_exchange(RAISES, RETURNED, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Run {
    /// Runs a graph on the objects collected by these guards. `numbers` lists the graph inputs that receive a float, with the tensor
    /// created from each.
    pub fn graph(
        graph: Box<dyn CompiledGraph>,
        tensors: Vec<usize>,
        numbers: &[(usize, TensorMatch)],
        epilogue: Epilogue,
        guards: &GuardSet,
        breaks: Option<EntryBreak>,
    ) -> Self {
        let collected = guards.tensor_guards();
        let mut guarded: Vec<_> = tensors.iter().map(|&at| collected.get(at).copied().flatten()).collect();
        for (at, made) in numbers {
            guarded[*at] = Some(made);
        }
        Self::Graph { known: graph.accepts(&guarded), graph, tensors, epilogue, breaks }
    }
}

/// One specialization.
pub struct Entry {
    /// The owner's key: that of the [`Share`] of the callables that use it.
    pub key: u64,
    /// The class of calls that it is for, apart from their sizes.
    pub kind: SizeClass,
    /// The conditions under which it is valid.
    pub guards: GuardSet,
    /// Its action.
    pub run: Run,
    /// The entry as Python code, once it was requested.
    pub written: OnceLock<(EntryCode, Py<PyAny>)>,
    /// The state for auditing hits of this entry; None if no audits were requested when it was created.
    pub replay: Option<Box<dyn Recapture>>,
    /// True if a later entry accepts all calls that this one accepts. This entry is then kept only for speed, and does not count.
    covered: AtomicBool,
    /// The index of the entry that last hit after this one.
    next: AtomicUsize,
}

impl Entry {
    /// Creates an entry.
    pub fn new(key: u64, kind: SizeClass, guards: GuardSet, run: Run) -> Self {
        Self {
            key,
            kind,
            guards,
            run,
            written: OnceLock::new(),
            replay: None,
            covered: AtomicBool::new(false),
            next: AtomicUsize::new(usize::MAX),
        }
    }

    /// Returns the entry with the state that audits need.
    #[must_use]
    pub fn with_replay(self, replay: Option<Box<dyn Recapture>>) -> Self {
        Self { replay, ..self }
    }

    /// Returns true if the entry counts towards the limit on the number of entries.
    pub(crate) fn counts(&self) -> bool {
        self.guards.is_valid() && !self.covered.load(Ordering::Relaxed)
    }
}

type Entries = Arc<Vec<Arc<Entry>>>;

/// The entries of one code object.
#[derive(Default)]
pub struct Cache {
    entries: Mutex<Entries>,
    /// The entry that hit last.
    recent: AtomicUsize,
    /// The observed floats, by the keys of the entries.
    histories: Mutex<HashMap<u64, Arc<ValueHistory>>>,
    /// The caches of continuations.
    continuations: Mutex<Continuations>,
    /// For a continuation, by key: the unit of the instruction before which there is nothing to compile.
    walks: Mutex<HashMap<u64, (u32, bool)>>,
    /// The decisions about this code when it is called from a frame that has left its graph, by the key of the callable that compiled that
    /// frame.
    callees: Mutex<HashMap<u64, Noted>>,
}

/// The entries of a code object that are shared by callables compiled with the same options. They are dropped with the last of its owners.
pub struct Share {
    cache: Arc<Cache>,
    key: u64,
    /// The callees between the graphs of such callables, by the address of their code, which is kept alive.
    callees: Mutex<HashMap<usize, Arc<Callable>>>,
    /// True if this share itself belongs to such a callee.
    is_called: AtomicBool,
}

impl Share {
    /// Creates a share of the cache of a code object, without entries.
    pub fn new(abi: &'static Abi, code: &Bound<'_, PyAny>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Arc::new(Self {
            cache: Cache::of(abi, code),
            key: NEXT.fetch_add(1, Ordering::Relaxed),
            callees: Mutex::default(),
            is_called: AtomicBool::new(false),
        })
    }

    /// Returns true if this is a share of this code object's cache.
    pub fn is_of(&self, abi: &'static Abi, code: &Bound<'_, PyAny>) -> bool {
        Arc::ptr_eq(&self.cache, &Cache::of(abi, code))
    }

    /// Returns the cache of the code object.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Returns the callable for code that is called between the graphs. If it does not exist yet, it is created and kept.
    ///
    /// # Errors
    /// Returns an exception raised by `make`.
    pub(crate) fn callee(&self, code: usize, make: impl FnOnce() -> PyResult<Option<Callable>>) -> PyResult<Option<Arc<Callable>>> {
        let known = || self.callees.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get(&code) {
            return Ok(Some(known.clone()));
        }
        let Some(made) = make()?.map(Arc::new) else { return Ok(None) };
        made.share().is_called.store(true, Ordering::Relaxed);
        Ok(Some(known().entry(code).or_insert(made).clone()))
    }

    /// Returns true if this belongs to a function that a compiled function calls between its graphs. Where such a frame computes nothing,
    /// it is unobservable whether it is compiled.
    pub fn is_called(&self) -> bool {
        self.is_called.load(Ordering::Relaxed)
    }

    /// Returns the key of its entries.
    pub fn key(&self) -> u64 {
        self.key
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // The code may live longer, and its cache has other shares.
        self.cache.forget(self.key);
    }
}

/// The limits on the number of entries of a code object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For the callables of one share: the number of kinds of calls, and the number of entries of each kind, see [`crate::SizeClass`].
    pub entries: usize,
    /// The total.
    pub accumulated: usize,
}

static SLOT: CodeSlot<Cache> = CodeSlot::new();
/// All existing caches, for [`forget_all`]. No Python code runs while it is locked.
static ALL: Mutex<Vec<Weak<Cache>>> = Mutex::new(Vec::new());
/// The number of calls of [`forget_all`].
static FORGOTTEN: AtomicU64 = AtomicU64::new(0);

/// Forgets all entries of all code objects. Running ones finish.
pub fn forget_all() {
    FORGOTTEN.fetch_add(1, Ordering::Relaxed);
    let caches: Vec<_> = ALL.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect();
    for cache in caches {
        cache.clear();
    }
}

/// Returns how often all entries were forgotten.
pub(crate) fn forgotten() -> u64 {
    FORGOTTEN.load(Ordering::Relaxed)
}

impl Cache {
    /// Returns the cache of a code object, creating it if needed.
    pub fn of(abi: &'static Abi, code: &Bound<'_, PyAny>) -> Arc<Self> {
        SLOT.get(abi, code).unwrap_or_else(|| {
            let cache = Arc::new(Self::default());
            SLOT.set(abi, code, cache.clone());
            let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
            if all.len() == all.capacity() {
                all.retain(|cache| cache.strong_count() > 0);
            }
            all.push(Arc::downgrade(&cache));
            cache
        })
    }

    /// Returns the entries, oldest first.
    #[inline]
    pub fn entries(&self) -> Entries {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the entries of one key, oldest first.
    pub fn of_key(&self, key: u64) -> Vec<Arc<Entry>> {
        self.entries().iter().filter(|entry| entry.key == key).cloned().collect()
    }

    /// Returns the float history of the captures of one key.
    pub fn history(&self, key: u64) -> Arc<ValueHistory> {
        self.histories.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone()
    }

    /// Returns the order in which to check entries. First comes the one that followed the last hit the previous time, as in a loop over
    /// layers; then the last hit itself; then the others from the first.
    #[inline]
    pub(crate) fn order(&self, entries: &[Arc<Entry>]) -> impl Iterator<Item = usize> + use<> {
        let count = entries.len();
        let recent = Some(self.recent.load(Ordering::Relaxed)).filter(|&at| at < count);
        let next = recent.map(|at| entries[at].next.load(Ordering::Relaxed)).filter(|&at| at < count);
        let last = recent.filter(|_| next != recent);
        next.into_iter().chain(last).chain((0..count).filter(move |&at| Some(at) != recent && Some(at) != next))
    }

    /// Returns the cache for frames of this code that are at the same point as these.
    pub(crate) fn at(&self, frames: &[Rc<FrameState>]) -> Arc<Self> {
        self.continuations.lock().unwrap_or_else(PoisonError::into_inner).at(frames)
    }

    /// Records that frames at this point have nothing to compile before the instruction at this unit, regardless of their values. `breaks`:
    /// the reason is a graph break that the frame itself does not allow.
    pub fn skip_until(&self, key: u64, until: u32, breaks: bool) {
        self.walks.lock().unwrap_or_else(PoisonError::into_inner).insert(key, (until, breaks));
    }

    /// Returns what was recorded by [`Cache::skip_until`].
    pub(crate) fn skipped_until(&self, key: u64) -> Option<(u32, bool)> {
        self.walks.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied()
    }

    /// Returns the decision about this code when it is called from the callable with this key.
    pub(crate) fn called(&self, key: u64) -> Option<Noted> {
        self.callees.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    /// Records the decision for [`Cache::called`].
    pub(crate) fn note_called(&self, key: u64, called: Noted) {
        let former = self.callees.lock().unwrap_or_else(PoisonError::into_inner).insert(key, called);
        drop(former);
    }

    /// Records which entry hit.
    #[inline]
    pub(crate) fn hit(&self, entries: &[Arc<Entry>], at: usize) {
        let recent = self.recent.load(Ordering::Relaxed);
        if let Some(before) = entries.get(recent)
            && before.next.load(Ordering::Relaxed) != at
        {
            before.next.store(at, Ordering::Relaxed);
        }
        if recent != at {
            self.recent.store(at, Ordering::Relaxed);
        }
    }

    /// Returns how many entries of a key count towards the limit. Entries covered by a later one do not count: they are for sizes and
    /// numbers that turned out to be dynamic. Their number is bounded as well, since an entry is never created for calls that another one
    /// accepts.
    pub fn counted(&self, key: u64) -> usize {
        self.entries().iter().filter(|entry| entry.key == key && entry.counts()).count()
    }

    /// Returns true if an entry of this key has a graph that takes no tensors.
    pub fn has_idle(&self, key: u64) -> bool {
        self.entries().iter().any(|entry| entry.key == key && matches!(&entry.run, Run::Graph { tensors, .. } if tensors.is_empty()))
    }

    /// Adds an entry; drops those whose objects have died.
    pub fn add(&self, entry: Entry) {
        for earlier in self.entries().iter().filter(|earlier| earlier.key == entry.key && earlier.counts()) {
            earlier.covered.store(entry.guards.covers(&earlier.guards), Ordering::Relaxed);
        }
        self.change(|list| {
            list.retain(|entry| entry.guards.is_valid());
            list.push(Arc::new(entry));
        });
    }

    /// Forgets an entry.
    pub(crate) fn remove(&self, entry: &Arc<Entry>) {
        self.change(|list| list.retain(|other| !Arc::ptr_eq(other, entry)));
    }

    /// Forgets the entries of one key. Running ones finish.
    pub fn forget(&self, key: u64) {
        self.histories.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        self.walks.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        let called = self.callees.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        for cache in self.all_continuations() {
            cache.forget(key);
        }
        self.change(|list| list.retain(|entry| entry.key != key));
        drop(called);
    }

    /// Forgets all entries.
    fn clear(&self) {
        self.histories.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.walks.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let former = (
            std::mem::take(&mut *self.continuations.lock().unwrap_or_else(PoisonError::into_inner)),
            std::mem::take(&mut *self.callees.lock().unwrap_or_else(PoisonError::into_inner)),
        );
        for (_, cache) in former.0.iter() {
            cache.clear();
        }
        self.change(Vec::clear);
        drop(former);
    }

    fn all_continuations(&self) -> Vec<Arc<Self>> {
        self.continuations.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|(_, cache)| cache.clone()).collect()
    }

    /// Returns the caches of continuations with their units, in the order of the units.
    pub fn continuations(&self) -> Vec<(u32, Arc<Self>)> {
        let mut all: Vec<_> = self
            .continuations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .map(|(point, cache)| (point.unit(), cache.clone()))
            .collect();
        all.sort_by_key(|(unit, _)| *unit);
        all
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Entry>>)) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list = entries.to_vec();
        change(&mut list);
        let former = std::mem::replace(&mut *entries, Arc::new(list));
        // Dropping these may run Python code, which may re-enter this cache.
        drop(entries);
        drop(former);
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // A code object may die anywhere, but dropping the objects owned by entries requires an attached interpreter.
        let entries = std::mem::take(self.entries.get_mut().unwrap_or_else(PoisonError::into_inner));
        if !entries.is_empty() {
            Python::attach(|_| drop(entries));
        }
    }
}
