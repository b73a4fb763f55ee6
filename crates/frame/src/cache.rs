//! The cache of a code object: entries in the order in which they were made.
//!
//! It lives with the code object, so all functions that share the code share it, and it goes when the code goes. Entries are
//! only ever appended; those whose guards can never pass again go when the next one is made.

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
use dynamlir_interpreter::Standing;
use pyo3::prelude::*;

use crate::{
    audit::Replay, call::Callable, called::Noted, entry_code::EntryCode, epilogue::Epilogue, floats::Floats, graph::CompiledGraph,
    point::Continuations, room::Kind,
};

/// What an entry does when its guards pass.
pub enum Run {
    /// Runs a graph on the collected tensors, then what comes after it.
    Graph {
        /// The graph.
        graph: Box<dyn CompiledGraph>,
        /// Where the tensors it takes stand among what the guards collect.
        tensors: Vec<usize>,
        /// What is done with its results.
        epilogue: Epilogue,
        /// Whether the guards say all that the graph wants to know of the tensors.
        known: bool,
        /// Why Python runs a part of the frame after it, if it does.
        breaks: Option<Broke>,
    },
    /// Plain Python: the frame could not be captured whole under these guards.
    Plain(Plain),
}

/// Why a graph ends before its frame does.
pub struct Broke {
    /// What the compiler knows of it.
    pub why: Py<PyAny>,
    /// Whether the frame itself says that graphs may break there, whatever its caller says.
    pub allowed: bool,
}

/// Plain Python, and whether the user has been told.
pub struct Plain {
    why: Py<PyAny>,
    state: AtomicU8,
}

/// Plain Python is expected to raise, which says it all.
const RAISES: u8 = 0;
/// It has returned, though: the user is to be told before the next call.
const RETURNED: u8 = 1;
const TOLD: u8 = 2;

impl Plain {
    /// Plain Python for a reason that the compiler can tell, and has told, unless plain Python is expected to raise.
    pub fn new(why: Py<PyAny>, told: bool) -> Self {
        Self { why, state: AtomicU8::new(if told { TOLD } else { RAISES }) }
    }

    /// The reason.
    pub fn why(&self) -> &Py<PyAny> {
        &self.why
    }

    /// Whether the user is to be told before a call runs; where such calls are refused, that is so each time.
    pub(crate) fn is_due(&self, refused: bool) -> bool {
        match self.state.load(Ordering::Relaxed) {
            RAISES => false,
            RETURNED => true,
            _ => refused,
        }
    }

    /// The user has been told.
    pub(crate) fn told(&self) {
        self.state.store(TOLD, Ordering::Relaxed);
    }

    /// A call has run, and did not raise.
    pub(crate) fn returned(&self) {
        // One that another thread has told of stays so.
        let _ = self.state.compare_exchange(RAISES, RETURNED, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Run {
    /// A graph on what these guards collect. `numbers` says for which of its inputs it is given a float, and what tensor is made of that.
    pub fn graph(
        graph: Box<dyn CompiledGraph>,
        tensors: Vec<usize>,
        numbers: &[(usize, TensorMatch)],
        epilogue: Epilogue,
        guards: &GuardSet,
        breaks: Option<Broke>,
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
    /// Whose it is: the [`Share`] of the callables that use it.
    pub key: u64,
    /// Which calls it is for, but for their sizes.
    pub kind: Kind,
    /// When it holds.
    pub guards: GuardSet,
    /// What it does.
    pub run: Run,
    /// The same as Python code, once somebody has asked.
    pub written: OnceLock<(EntryCode, Py<PyAny>)>,
    /// By which calls that it answers are audited; None where no audits were asked for when it was made.
    pub replay: Option<Box<dyn Replay>>,
    /// Whether a later entry takes all calls that this one does: then it is there to be faster, and does not count.
    covered: AtomicBool,
    /// The place of the entry that fitted after this one the last time.
    next: AtomicUsize,
}

impl Entry {
    /// An entry.
    pub fn new(key: u64, kind: Kind, guards: GuardSet, run: Run) -> Self {
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

    /// The same, with what audits need.
    #[must_use]
    pub fn with_replay(self, replay: Option<Box<dyn Replay>>) -> Self {
        Self { replay, ..self }
    }

    /// Whether it is one of those that are limited in number.
    pub(crate) fn counts(&self) -> bool {
        self.guards.is_valid() && !self.covered.load(Ordering::Relaxed)
    }
}

type Entries = Arc<Vec<Arc<Entry>>>;

/// The entries of one code object.
#[derive(Default)]
pub struct Cache {
    entries: Mutex<Entries>,
    /// The entry that fitted last.
    recent: AtomicUsize,
    /// What is known of floats, by the keys of the entries.
    floats: Mutex<HashMap<u64, Arc<Floats>>>,
    /// The caches of frames that stand elsewhere than at their beginning.
    continuations: Mutex<Continuations>,
    /// For such a frame, by key: the unit of the instruction before which there is nothing to compile.
    walks: Mutex<HashMap<u64, (u32, bool)>>,
    /// Callables for the code where it is called from a frame that has left its graph, by the key of the callable whose frame that is.
    callees: Mutex<HashMap<u64, Noted>>,
}

/// The entries of a code object that callables have in common which were compiled alike. They go with the last of its owners.
pub struct Share {
    cache: Arc<Cache>,
    key: u64,
    /// What is called between the graphs of such callables, by the address of its code, which is kept alive.
    callees: Mutex<HashMap<usize, Arc<Callable>>>,
    /// Whether it is of such a one itself.
    is_called: AtomicBool,
}

impl Share {
    /// A share of the cache of a code object, with no entries yet.
    pub fn new(abi: &'static Abi, code: &Bound<'_, PyAny>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Arc::new(Self {
            cache: Cache::of(abi, code),
            key: NEXT.fetch_add(1, Ordering::Relaxed),
            callees: Mutex::default(),
            is_called: AtomicBool::new(false),
        })
    }

    /// Whether it is one of this code object's cache.
    pub fn is_of(&self, abi: &'static Abi, code: &Bound<'_, PyAny>) -> bool {
        Arc::ptr_eq(&self.cache, &Cache::of(abi, code))
    }

    /// The cache of the code object.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The callable for code that is called between the graphs, if there is one; else the one that is made, which is kept.
    ///
    /// # Errors
    /// What making one raised.
    pub(crate) fn callee(&self, code: usize, make: impl FnOnce() -> PyResult<Option<Callable>>) -> PyResult<Option<Arc<Callable>>> {
        let known = || self.callees.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get(&code) {
            return Ok(Some(known.clone()));
        }
        let Some(made) = make()?.map(Arc::new) else { return Ok(None) };
        made.share().is_called.store(true, Ordering::Relaxed);
        Ok(Some(known().entry(code).or_insert(made).clone()))
    }

    /// Whether it is what a compiled function calls between its graphs: nobody sees whether such a frame is compiled, where that computes
    /// nothing.
    pub fn is_called(&self) -> bool {
        self.is_called.load(Ordering::Relaxed)
    }

    /// By which its entries are known.
    pub fn key(&self) -> u64 {
        self.key
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // The code may live longer, and there are other shares of its cache.
        self.cache.forget(self.key);
    }
}

/// How many entries a code object may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For callables of one share: how many kinds of calls, and how many entries of each, see [`crate::Kind`].
    pub entries: usize,
    /// In all.
    pub accumulated: usize,
}

static SLOT: CodeSlot<Cache> = CodeSlot::new();
/// All caches there are, for [`forget_all`]. No Python code runs while it is locked.
static ALL: Mutex<Vec<Weak<Cache>>> = Mutex::new(Vec::new());
/// How often all was forgotten.
static FORGOTTEN: AtomicU64 = AtomicU64::new(0);

/// Forgets all entries of all code objects. Those that are running finish.
pub fn forget_all() {
    FORGOTTEN.fetch_add(1, Ordering::Relaxed);
    let caches: Vec<_> = ALL.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect();
    for cache in caches {
        cache.clear();
    }
}

/// How often all entries were forgotten.
pub(crate) fn forgotten() -> u64 {
    FORGOTTEN.load(Ordering::Relaxed)
}

impl Cache {
    /// The cache of a code object, made if it has none.
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

    /// The entries, the oldest first.
    #[inline]
    pub fn entries(&self) -> Entries {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The entries of one key, the oldest first.
    pub fn of_key(&self, key: u64) -> Vec<Arc<Entry>> {
        self.entries().iter().filter(|entry| entry.key == key).cloned().collect()
    }

    /// What the captures of one key have found out of floats.
    pub fn floats(&self, key: u64) -> Arc<Floats> {
        self.floats.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone()
    }

    /// The order in which to ask entries: the one that came after the last one when that had fitted before, as in a loop over layers, the
    /// last one itself, then the others from the first.
    #[inline]
    pub(crate) fn order(&self, entries: &[Arc<Entry>]) -> impl Iterator<Item = usize> + use<> {
        let count = entries.len();
        let recent = Some(self.recent.load(Ordering::Relaxed)).filter(|&at| at < count);
        let next = recent.map(|at| entries[at].next.load(Ordering::Relaxed)).filter(|&at| at < count);
        let last = recent.filter(|_| next != recent);
        next.into_iter().chain(last).chain((0..count).filter(move |&at| Some(at) != recent && Some(at) != next))
    }

    /// The cache of the code's frames that stand as these do.
    pub(crate) fn at(&self, frames: &[Rc<Standing>]) -> Arc<Self> {
        self.continuations.lock().unwrap_or_else(PoisonError::into_inner).at(frames)
    }

    /// Says that there is nothing to compile for frames that stand here before the instruction at this unit, whatever they hold.
    /// `breaks` says that a graph break is why, which the frame itself does not allow.
    pub fn walk(&self, key: u64, until: u32, breaks: bool) {
        self.walks.lock().unwrap_or_else(PoisonError::into_inner).insert(key, (until, breaks));
    }

    /// What [`Cache::walk`] was told.
    pub(crate) fn walks(&self, key: u64) -> Option<(u32, bool)> {
        self.walks.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied()
    }

    /// What was said of the code as one that the callable of this key calls.
    pub(crate) fn called(&self, key: u64) -> Option<Noted> {
        self.callees.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    /// Remembers it.
    pub(crate) fn note_called(&self, key: u64, called: Noted) {
        let former = self.callees.lock().unwrap_or_else(PoisonError::into_inner).insert(key, called);
        drop(former);
    }

    /// Remembers which of the entries fitted.
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

    /// How many entries of a key count: not those that a later one covers, which are for sizes and numbers that have turned out to vary.
    /// There is an end to those, since an entry is never made for calls that another one takes.
    pub fn counted(&self, key: u64) -> usize {
        self.entries().iter().filter(|entry| entry.key == key && entry.counts()).count()
    }

    /// Whether an entry of this key has a graph that takes no tensors.
    pub fn has_idle(&self, key: u64) -> bool {
        self.entries().iter().any(|entry| entry.key == key && matches!(&entry.run, Run::Graph { tensors, .. } if tensors.is_empty()))
    }

    /// Adds an entry; those whose objects have died go.
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

    /// Forgets the entries of one key. Those that are running finish.
    pub fn forget(&self, key: u64) {
        self.floats.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
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
        self.floats.lock().unwrap_or_else(PoisonError::into_inner).clear();
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

    /// The caches of frames that stand elsewhere, in the order of their units, with those.
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
        // What is dropped may run Python code, which may come back here.
        drop(entries);
        drop(former);
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // A code object may die anywhere; what entries own wants to know that the lock is held.
        let entries = std::mem::take(self.entries.get_mut().unwrap_or_else(PoisonError::into_inner));
        if !entries.is_empty() {
            Python::attach(|_| drop(entries));
        }
    }
}
