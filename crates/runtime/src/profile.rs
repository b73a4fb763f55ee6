//! Times each kernel and each extern call, while a profile is open.
//!
//! A graph checks once per call whether a [`Profile`] is open ([`is_on`]). If so, its steps run under a [`Stopwatch`], which sums up their
//! times. After the call, regardless of its outcome, the sums are added to all profiles that were open when it began, and to the graph's
//! own [`About`], for reports. A profile holds the graphs' descriptions, not the graphs.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// A number of runs, and their total time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of runs.
    pub calls: u64,
    /// The sum of the times.
    pub nanoseconds: u64,
}

impl Tally {
    fn count(&mut self, time: Duration) {
        self.calls += 1;
        self.nanoseconds += u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    }

    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.nanoseconds += other.nanoseconds;
    }
}

fn add_all(sums: &mut [Tally], tallies: &[Tally]) {
    for (sum, tally) in sums.iter_mut().zip(tallies) {
        sum.add(*tally);
    }
}

/// A separately measured item: a kernel in all its launches, or one extern call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timed {
    /// The kernel's name, or the operator's schema.
    pub name: String,
    /// The route of an extern call; None for a kernel.
    pub route: Option<String>,
    /// The bytes that one launch reads and writes; None if unknown.
    pub bytes: Option<usize>,
    /// `file:line` in the user's program.
    pub lines: Vec<String>,
}

/// A graph's description in profiles, with its measurements.
#[derive(Debug, Default)]
pub struct About {
    /// The name of the graph, once it is set.
    pub name: OnceLock<String>,
    /// Its kernels, then its extern calls.
    pub timed: Vec<Timed>,
    sums: Mutex<Vec<Tally>>,
}

impl About {
    pub(crate) fn new(timed: Vec<Timed>) -> Self {
        let sums = Mutex::new(vec![Tally::default(); timed.len()]);
        Self { name: OnceLock::new(), timed, sums }
    }

    /// Returns the measurements under all profiles so far, in the order of `timed`.
    pub fn sums(&self) -> Vec<Tally> {
        lock(&self.sums).clone()
    }
}

/// A graph in a profile.
#[derive(Debug, Clone)]
pub struct Measured {
    /// The graph's description.
    pub about: Arc<About>,
    /// Its calls as a whole: checks of inputs, memory and outputs too.
    pub whole: Tally,
    /// The time of each of `about.timed`.
    pub steps: Vec<Tally>,
}

/// The time taken by graphs from [`Profile::open`] to [`Profile::close`], in all threads.
#[derive(Debug, Default)]
pub struct Profile {
    graphs: Mutex<Vec<Measured>>,
}

static OPEN: AtomicUsize = AtomicUsize::new(0);
static PROFILES: Mutex<Vec<Arc<Profile>>> = Mutex::new(Vec::new());

/// Locks a mutex, ignoring poisoning. Code that holds one of these does not panic; if it did, counts would still be valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if a profile is open.
#[inline]
pub(crate) fn is_on() -> bool {
    // If threads do not synchronize with each other, it is undefined which calls are the first and last ones counted.
    OPEN.load(Ordering::Relaxed) != 0
}

impl Profile {
    /// Starts measuring.
    pub fn open() -> Arc<Self> {
        let profile = Arc::new(Self::default());
        let mut profiles = lock(&PROFILES);
        profiles.push(profile.clone());
        OPEN.store(profiles.len(), Ordering::Relaxed);
        profile
    }

    /// Stops measuring; calls in progress are counted when they end.
    pub fn close(self: &Arc<Self>) {
        let mut profiles = lock(&PROFILES);
        profiles.retain(|profile| !Arc::ptr_eq(profile, self));
        OPEN.store(profiles.len(), Ordering::Relaxed);
    }

    /// Returns the measurements so far, in the order in which graphs were first called.
    pub fn graphs(&self) -> Vec<Measured> {
        lock(&self.graphs).clone()
    }

    fn add(&self, about: &Arc<About>, time: Duration, steps: &[Tally]) {
        let mut graphs = lock(&self.graphs);
        let at = graphs.iter().position(|graph| Arc::ptr_eq(&graph.about, about)).unwrap_or_else(|| {
            graphs.push(Measured { about: about.clone(), whole: Tally::default(), steps: vec![Tally::default(); steps.len()] });
            graphs.len() - 1
        });
        graphs[at].whole.count(time);
        add_all(&mut graphs[at].steps, steps);
    }
}

/// Observes the steps of a run.
pub(crate) trait Watch {
    /// True if a step must be complete before the next one; on a device it otherwise has only been submitted.
    const WAITS: bool;

    /// Runs `body`, which is measured separately.
    fn time<T>(&mut self, timed: usize, body: impl FnOnce() -> T) -> T;
}

/// Measures nothing.
pub(crate) struct Unwatched;

impl Watch for Unwatched {
    const WAITS: bool = false;

    #[inline]
    fn time<T>(&mut self, _: usize, body: impl FnOnce() -> T) -> T {
        body()
    }
}

/// Measures the steps of one call.
pub(crate) struct Stopwatch {
    steps: Vec<Tally>,
}

impl Watch for Stopwatch {
    const WAITS: bool = true;

    fn time<T>(&mut self, timed: usize, body: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let result = body();
        self.steps[timed].count(begin.elapsed());
        result
    }
}

/// Runs one call of a graph under a watch.
#[cold]
#[inline(never)]
pub(crate) fn watched<T>(about: &Arc<About>, call: impl FnOnce(&mut Stopwatch) -> T) -> T {
    let profiles = lock(&PROFILES).clone();
    let mut watch = Stopwatch { steps: vec![Tally::default(); about.timed.len()] };
    let begin = Instant::now();
    let result = call(&mut watch);
    let time = begin.elapsed();
    for profile in profiles {
        profile.add(about, time, &watch.steps);
    }
    add_all(&mut lock(&about.sums), &watch.steps);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> Arc<About> {
        Arc::new(About::new(vec![
            Timed { name: "k".into(), ..Timed::default() },
            Timed { name: "aten.mm.default".into(), ..Timed::default() },
        ]))
    }

    fn calls(profile: &Profile, about: &Arc<About>) -> Option<(u64, Vec<u64>)> {
        let graphs = profile.graphs();
        let graph = graphs.iter().find(|graph| Arc::ptr_eq(&graph.about, about))?;
        Some((graph.whole.calls, graph.steps.iter().map(|step| step.calls).collect()))
    }

    #[test]
    fn each_profile_has_the_calls_that_were_made_while_it_was_open() {
        let graph = about();
        let call = || watched(&graph, |watch| watch.time(0, || ()));
        let outer = Profile::open();
        call();
        let inner = Profile::open();
        call();
        inner.close();
        call();
        outer.close();
        call();
        assert_eq!(calls(&outer, &graph), Some((3, vec![3, 0])));
        assert_eq!(calls(&inner, &graph), Some((1, vec![1, 0])));
        assert_eq!(graph.sums()[0].calls, 4);
    }

    #[test]
    fn a_call_that_fails_is_counted_with_the_steps_that_ran() {
        let graph = about();
        let profile = Profile::open();
        let failed: Result<(), &str> = watched(&graph, |watch| {
            watch.time(0, || ());
            watch.time(1, || Err("no"))
        });
        profile.close();
        assert!(failed.is_err());
        assert_eq!(calls(&profile, &graph), Some((1, vec![1, 1])));
    }

    #[test]
    fn a_call_under_way_is_counted_when_it_ends_and_keeps_the_graph_alive_in_words_only() {
        let graph = about();
        let profile = Profile::open();
        watched(&graph, |watch| {
            profile.close();
            watch.time(1, || ());
        });
        let name = graph.timed[1].name.clone();
        drop(graph);
        let graphs = profile.graphs();
        let seen = graphs.iter().find(|graph| graph.steps.len() == 2 && graph.about.timed[1].name == name);
        assert_eq!(seen.map(|graph| graph.steps[1].calls), Some(1));
    }

    #[test]
    fn threads_add_up() {
        let graph = about();
        let profile = Profile::open();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..100).for_each(|_| watched(&graph, |watch| watch.time(0, || ()))));
            }
        });
        profile.close();
        assert_eq!(calls(&profile, &graph), Some((400, vec![400, 0])));
    }
}
