//! Attempts at capturing a frame, or a piece of it.
//!
//! An attempt that fails, or that gives the program another result than eager would, is followed by one with other settings. The settings
//! are data ([`Attempt`]). Each is varied by a [`Rung`], which sees the outcomes of its attempts and knows only its own setting:
//!
//! | rung, outermost first | what it varies |
//! |---|---|
//! | [`Answers`](super::compile_queries::Answers) | the answer to a program that asks if it is being compiled |
//! | [`UnbackedSizes`] | if the graph may contain unbacked sizes and numbers |
//! | [`Unrolling`] | if a loop that the piece begins in is captured to its end |
//! | [`Breaks`] | the instruction before which the graph ends |
//! | [`Symbols`] | which numbers and sizes are symbols, and which are constants |
//! | [`Options`] | the options that an attempt has asked for |
//!
//! [`capture_in_attempts`] is the only loop. When a rung tries its next setting, the rungs within it begin again. All attempts at a piece
//! share one budget; once it is spent, each rung keeps the best outcome so far. Each further attempt is logged with its reason
//! (`DYNAMLIR_LOGS=attempts`).

use dynamlir_frame::settings;
use dynamlir_symint::Unbacked;
use pyo3::prelude::*;

use crate::{
    frames::{
        attempt_options::AttemptOptions,
        compile_queries::Answers,
        run::{Before, Breaks as Allowed, CaptureFailure, CaptureRequest, Captured, Ended, Tables, capture_once},
    },
    graph_break::{GraphBreak, reason},
    state::{Instead, dynamic_sizes::Dynamic},
};

/// The maximum number of attempts at a piece of a frame.
const MOST_ATTEMPTS: usize = 96;

/// The maximum number of times that a frame is captured again to break at an earlier instruction.
const MOST_RESTARTS: usize = 6;

/// The maximum number of captures that blame some of the symbols, before all symbols of the frame become constants.
const MOST_BLAMED: usize = 6;

/// The outcome of an attempt.
pub(crate) type Outcome = Result<Box<Captured>, Box<CaptureFailure>>;

/// The settings in which the attempts at a piece of a frame differ.
pub(crate) struct Attempt {
    /// True if a program that asks if it is being compiled gets the answer no.
    pub denies: bool,
    /// The unbacked values that the graph may contain.
    pub unbacked: Unbacked,
    /// True if the loops that the piece begins in are captured to their ends.
    pub unrolls: bool,
    /// The number of instructions after which the graph breaks regardless.
    pub every: Option<usize>,
    /// The instruction before which the graph breaks.
    pub stop: Option<usize>,
    /// The call at that instruction, and its replacement.
    pub instead: Option<Instead>,
    /// The sizes that may be dynamic.
    pub sizes: Dynamic,
    /// True if all numbers and sizes are constants.
    pub constants: bool,
    /// The options that earlier attempts have asked for.
    pub options: AttemptOptions,
}

impl Attempt {
    /// Returns the settings of a request.
    fn of(request: &CaptureRequest<'_, '_>) -> Self {
        Self {
            denies: request.denies,
            unbacked: request.unbacked,
            unrolls: request.unrolls,
            every: request.every,
            stop: request.stop,
            instead: request.instead.map(|instead| instead.clone_ref(request.function.py())),
            sizes: request.sizes,
            constants: false,
            options: AttemptOptions::default(),
        }
    }

    /// Returns the request with these settings.
    fn request<'a, 'py>(&'a self, request: &CaptureRequest<'a, 'py>) -> CaptureRequest<'a, 'py> {
        CaptureRequest {
            denies: self.denies,
            unbacked: self.unbacked,
            unrolls: self.unrolls,
            every: self.every,
            stop: self.stop,
            instead: self.instead.as_ref(),
            sizes: self.sizes,
            history: request.history.filter(|_| !self.constants),
            ..*request
        }
    }
}

/// The decision of a rung about an outcome.
pub(crate) enum Verdict {
    /// The rung has tried everything it wants to: this is its outcome.
    Keep(Outcome),
    /// Another attempt, for this reason.
    Again(&'static str),
}

/// One setting, and the outcomes so far of its variations.
pub(crate) trait Rung {
    /// Sets the setting.
    fn apply(&self, py: Python<'_>, attempt: &mut Attempt);

    /// Takes the outcome of the rungs within this one.
    fn after(&mut self, request: &CaptureRequest<'_, '_>, outcome: Outcome) -> Result<Verdict, Ended>;

    /// Returns the best outcome so far, given the latest one, when there are no further attempts.
    fn best(&mut self, outcome: Outcome) -> Outcome;
}

/// The number of rungs.
const RUNGS: usize = 6;

/// Returns a rung that has tried nothing; 0 is the innermost one.
fn fresh(rung: usize, request: &CaptureRequest<'_, '_>) -> Box<dyn Rung> {
    match rung {
        0 => Box::new(Options::default()),
        1 => Box::new(Symbols::new(request)),
        2 => Box::new(Breaks::new(request)),
        3 => Box::new(Unrolling::new(request)),
        4 => Box::new(UnbackedSizes::new(request)),
        _ => Box::new(Answers::default()),
    }
}

/// Captures a frame to its end, or a piece of it, in as many attempts as that takes.
///
/// # Errors
/// If a signal handler has raised, or the capture itself has failed: no other attempt will follow.
pub(crate) fn capture_in_attempts(tables: &Tables, request: CaptureRequest<'_, '_>) -> Result<Outcome, Ended> {
    let py = request.function.py();
    let mut rungs: Vec<_> = (0..RUNGS).map(|rung| fresh(rung, &request)).collect();
    let mut count = 1;
    loop {
        let mut attempt = Attempt::of(&request);
        rungs.iter().rev().for_each(|rung| rung.apply(py, &mut attempt));
        let captured = capture_once(tables, attempt.request(&request), attempt.options)?;
        let mut outcome = Some(captured.map(Box::new).map_err(Box::new));
        let mut again = None;
        for (at, rung) in rungs.iter_mut().enumerate() {
            let Some(latest) = outcome.take() else { break };
            if count == MOST_ATTEMPTS {
                outcome = Some(rung.best(latest));
                continue;
            }
            let reason = latest.as_ref().map_or_else(|failure| Some(failure.graph_break.clone()), |captured| captured.graph_break.clone());
            match rung.after(&request, latest)? {
                Verdict::Keep(kept) => outcome = Some(kept),
                Verdict::Again(why) => again = Some((at, why, reason)),
            }
        }
        if let Some(outcome) = outcome {
            return Ok(outcome);
        }
        if let Some((at, why, reason)) = again {
            for (within, rung) in rungs.iter_mut().enumerate().take(at) {
                *rung = fresh(within, &request);
            }
            count += 1;
            log_attempt(request.function, count, why, reason)?;
        }
    }
}

/// The options that an attempt has asked for.
#[derive(Default)]
struct Options(AttemptOptions);

impl Rung for Options {
    fn apply(&self, _: Python<'_>, attempt: &mut Attempt) {
        attempt.options = self.0;
    }

    fn after(&mut self, _: &CaptureRequest<'_, '_>, outcome: Outcome) -> Result<Verdict, Ended> {
        let next = outcome.as_ref().err().and_then(|failure| self.0.after(failure));
        Ok(match next {
            Some((options, why)) => {
                self.0 = options;
                Verdict::Again(why)
            }
            None => Verdict::Keep(outcome),
        })
    }

    fn best(&mut self, outcome: Outcome) -> Outcome {
        outcome
    }
}

/// Numbers and sizes as symbols where they have changed. If the graph breaks because Python needs the values of some of them, those are
/// constants from then on.
struct Symbols {
    sizes: Dynamic,
    constants: bool,
    /// The number of captures that may still blame some symbols.
    left: usize,
    /// The failure with dynamic sizes, while there are none.
    with_sizes: Option<Box<CaptureFailure>>,
    /// The failure with symbolic numbers, while all are constants.
    with_numbers: Option<Box<CaptureFailure>>,
}

impl Symbols {
    fn new(request: &CaptureRequest<'_, '_>) -> Self {
        Self { sizes: request.sizes, constants: false, left: MOST_BLAMED, with_sizes: None, with_numbers: None }
    }

    /// Tries fewer symbols after a failure.
    fn fewer(&mut self, request: &CaptureRequest<'_, '_>, failure: Box<CaptureFailure>) -> Result<Verdict, Ended> {
        let Some(history) = request.history.filter(|_| !(failure.numbers.is_empty() && failure.sizes.is_empty())) else {
            return Ok(Verdict::Keep(Err(failure)));
        };
        log_constants(request.function, &failure)?;
        if !failure.blamed.is_empty() && self.left > 1 {
            failure.blamed.iter().for_each(|place| history.specialize(place.clone()));
            self.left -= 1;
            return Ok(Verdict::Again("Python needs the values of some symbols, which become constants"));
        }
        if self.sizes == Dynamic::Declared {
            // A size that is declared dynamic must not become a constant.
            return Ok(Verdict::Keep(Err(failure)));
        }
        if failure.sizes.is_empty() {
            (self.constants, self.with_numbers) = (true, Some(failure));
            return Ok(Verdict::Again("Python needs the value of a number: all numbers are constants"));
        }
        (self.sizes, self.with_sizes) = (Dynamic::Never, Some(failure));
        Ok(Verdict::Again("sizes cannot be symbols: all sizes are constants"))
    }
}

impl Rung for Symbols {
    fn apply(&self, _: Python<'_>, attempt: &mut Attempt) {
        (attempt.sizes, attempt.constants) = (self.sizes, self.constants);
    }

    fn after(&mut self, request: &CaptureRequest<'_, '_>, outcome: Outcome) -> Result<Verdict, Ended> {
        let mut outcome = outcome;
        let specialize =
            |places: &[String]| places.iter().for_each(|place| request.history.iter().for_each(|it| it.specialize(place.clone())));
        if let Some(first) = self.with_numbers.take() {
            outcome = outcome.inspect(|_| specialize(&first.numbers)).or(Err(first));
        } else if let Err(failure) = outcome {
            match self.fewer(request, failure)? {
                Verdict::Keep(kept) => outcome = kept,
                again @ Verdict::Again(_) => return Ok(again),
            }
        }
        if let (Ok(_), Some(first)) = (&outcome, &self.with_sizes) {
            specialize(&first.sizes);
        }
        Ok(Verdict::Keep(self.best(outcome)))
    }

    fn best(&mut self, outcome: Outcome) -> Outcome {
        let outcome = match self.with_numbers.take() {
            // The numbers are not the reason: the capture ends regardless of their values.
            Some(first) => outcome.or(Err(first)),
            None => outcome,
        };
        match (self.with_sizes.take(), outcome) {
            // Marked sizes must not become constants, so this attempt fails because of them. The first one has the actual reason.
            (Some(first), Err(failure)) if failure.graph_break.reason == reason::DYNAMIC_SHAPE => Err(first),
            (_, outcome) => outcome,
        }
    }
}

/// The instruction before which the graph ends: first none, then the one that breaks the graph, then earlier ones, if something that was
/// created before it could not be taken over by the continuation.
struct Breaks {
    every: Option<usize>,
    /// The failure of the attempt without a break, and the instruction before which the graph ends since.
    first: Option<(Box<CaptureFailure>, usize)>,
    restarts: usize,
    /// True if the first failure was met at a region.
    is_region: bool,
    /// True if only regions may break the graph.
    only_regions: bool,
}

impl Breaks {
    fn new(request: &CaptureRequest<'_, '_>) -> Self {
        let every = request.every.filter(|_| request.breaks != Allowed::Never);
        Self { every, first: None, restarts: 0, is_region: false, only_regions: request.before == Before::Regions }
    }

    /// Returns a failure under the name that the user knows: if the frame cannot be left where `break_every` asks for a break, the break
    /// is the one that was asked for.
    fn named(&self, failure: Box<CaptureFailure>) -> Box<CaptureFailure> {
        let is_asked = self.every.is_some() && failure.graph_break.reason == reason::RESUMED;
        if is_asked { Box::new(CaptureFailure { graph_break: asked(), ..*failure }) } else { failure }
    }

    /// Decides if the graph may break where the first attempt has failed.
    fn begin(&mut self, request: &CaptureRequest<'_, '_>, failure: Box<CaptureFailure>) -> Verdict {
        let first = self.named(failure);
        let (is_region, is_resumed) = (first.graph_break.reason == reason::REGION, first.graph_break.reason == reason::RESUMED);
        // A capture that has begun with a region continues.
        let is_whole = is_region || is_resumed && request.from.is_some();
        let forbidden = if self.only_regions { !is_whole } else { !is_region && !is_resumed && forbids(request, &first) };
        let may_break = request.breaks != Allowed::Never && !forbidden;
        let in_pieces = may_break && !first.unrolling && first.graph_break.kind() != reason::Kind::Refuse;
        match first.step.filter(|_| in_pieces) {
            Some(step) => {
                (self.first, self.is_region, self.restarts) = (Some((first, step)), is_region, 1);
                Verdict::Again("the graph breaks, and ends before that instruction")
            }
            None => Verdict::Keep(Err(first)),
        }
    }
}

impl Rung for Breaks {
    fn apply(&self, py: Python<'_>, attempt: &mut Attempt) {
        let Some((first, step)) = &self.first else {
            attempt.every = self.every;
            return;
        };
        (attempt.stop, attempt.every) = (Some(*step), None);
        // The replacement belongs to the first break. A break at an earlier instruction runs a different instruction.
        attempt.instead = first.instead.as_ref().filter(|_| Some(*step) == first.step).map(|instead| instead.clone_ref(py));
    }

    fn after(&mut self, request: &CaptureRequest<'_, '_>, outcome: Outcome) -> Result<Verdict, Ended> {
        let Some((first, step)) = self.first.take() else {
            return Ok(match outcome {
                Ok(_) => Verdict::Keep(self.best(outcome)),
                Err(failure) => self.begin(request, failure),
            });
        };
        let failure = match outcome {
            // Before a region, nothing falls back to plain Python.
            Err(failure) if self.is_region && (self.only_regions || forbids(request, &first)) => return Ok(Verdict::Keep(Err(failure))),
            Err(failure) => failure,
            Ok(_) => {
                self.first = Some((first, step));
                return Ok(Verdict::Keep(self.best(outcome)));
            }
        };
        Ok(match failure.step.filter(|earlier| *earlier < step && self.restarts < MOST_RESTARTS) {
            Some(earlier) => {
                (self.first, self.restarts) = (Some((first, earlier)), self.restarts + 1);
                Verdict::Again("the frame's values there cannot be taken over: the graph ends earlier")
            }
            None => Verdict::Keep(Err(first)),
        })
    }

    fn best(&mut self, outcome: Outcome) -> Outcome {
        match (self.first.take(), outcome) {
            (None, Ok(mut captured)) => {
                if captured.epilogue.suspends().is_some() {
                    captured.graph_break = Some(asked());
                }
                Ok(captured)
            }
            (Some((first, _)), Ok(captured)) => {
                let allowed = first.forbids == Some(false) || self.is_region || self.only_regions;
                Ok(Box::new(Captured { graph_break: Some(first.graph_break), allowed, ..*captured }))
            }
            (Some((first, _)), Err(_)) => Err(first),
            (None, Err(failure)) => Err(self.named(failure)),
        }
    }
}

/// A loop that the piece begins in: captured to its end, provided that its graph does not break within. Otherwise each iteration is a
/// piece, like the iteration in which the frame was left.
struct Unrolling {
    unrolls: bool,
    /// True if the attempt to the loop's end is the current one.
    is_tried: bool,
}

impl Unrolling {
    fn new(request: &CaptureRequest<'_, '_>) -> Self {
        let in_loops = request.from.is_some_and(|from| from.iter().any(|frame_state| !frame_state.made.is_empty()));
        Self { unrolls: in_loops || request.unrolls, is_tried: in_loops }
    }
}

impl Rung for Unrolling {
    fn apply(&self, _: Python<'_>, attempt: &mut Attempt) {
        attempt.unrolls = self.unrolls;
    }

    fn after(&mut self, request: &CaptureRequest<'_, '_>, outcome: Outcome) -> Result<Verdict, Ended> {
        if outcome.is_ok() || !std::mem::take(&mut self.is_tried) {
            return Ok(Verdict::Keep(outcome));
        }
        self.unrolls = request.unrolls;
        Ok(Verdict::Again("a loop cannot be captured to its end: each iteration is a piece"))
    }

    fn best(&mut self, outcome: Outcome) -> Outcome {
        outcome
    }
}

/// Unbacked sizes and numbers: if the capture fails because of them, the frame is captured without them.
struct UnbackedSizes {
    unbacked: Unbacked,
    first: Option<Box<CaptureFailure>>,
}

impl UnbackedSizes {
    fn new(request: &CaptureRequest<'_, '_>) -> Self {
        Self { unbacked: request.unbacked, first: None }
    }
}

impl Rung for UnbackedSizes {
    fn apply(&self, _: Python<'_>, attempt: &mut Attempt) {
        attempt.unbacked = self.unbacked;
    }

    fn after(&mut self, _: &CaptureRequest<'_, '_>, outcome: Outcome) -> Result<Verdict, Ended> {
        match outcome {
            Err(failure) if self.first.is_none() && self.unbacked.any() => {
                (self.first, self.unbacked) = (Some(failure), Unbacked::default());
                Ok(Verdict::Again("the graph may break at unbacked sizes instead of containing them"))
            }
            outcome => Ok(Verdict::Keep(self.best(outcome))),
        }
    }

    fn best(&mut self, outcome: Outcome) -> Outcome {
        match self.first.take() {
            Some(first) => outcome.or(Err(first)),
            None => outcome,
        }
    }
}

fn asked() -> GraphBreak {
    GraphBreak { reason: reason::ASKED, message: "asked for by break_every".to_owned(), location: Vec::new() }
}

fn forbids(request: &CaptureRequest<'_, '_>, failure: &CaptureFailure) -> bool {
    failure.forbids.unwrap_or_else(|| settings::breaks_are_errors(request.function.py()))
}

/// Logs a further attempt: its number, its reason, and what ended the one before.
fn log_attempt(function: &Bound<'_, PyAny>, count: usize, why: &str, found: Option<GraphBreak>) -> PyResult<()> {
    let attempts = dynamlir_cpython_abi::import(function.py(), "dynamlir.capture.attempts")?;
    let found = found.map(|found| (found.reason, found.message, found.location));
    attempts.call_method1("log_attempt", (function.getattr("__qualname__")?, count, why, found))?;
    Ok(())
}

/// Logs the symbols that become constants, and the reason.
fn log_constants(function: &Bound<'_, PyAny>, failure: &CaptureFailure) -> PyResult<()> {
    if failure.sizes.is_empty() {
        return Ok(());
    }
    let (name, found) = (function.getattr("__qualname__")?, &failure.graph_break);
    let places = if failure.blamed.is_empty() { &failure.sizes } else { &failure.blamed };
    let attempts = dynamlir_cpython_abi::import(function.py(), "dynamlir.capture.attempts")?;
    attempts.call_method1("log_constants", (name, places.clone(), found.reason, &found.message, found.location.clone()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dynamlir_frame::ValueHistory;
    use dynamlir_guards::GuardBuilder;
    use pyo3::types::PyTuple;

    use super::*;
    use crate::{frames::attempt_options::Wishes, state::answers::QueryAnswers};

    /// A failure at an instruction of the frame.
    fn failure(step: usize) -> CaptureFailure {
        CaptureFailure {
            graph_break: GraphBreak { reason: reason::DATA_DEPENDENT, message: format!("at {step}"), location: Vec::new() },
            guards: GuardBuilder::new(),
            numbers: Vec::new(),
            blamed: Vec::new(),
            sizes: Vec::new(),
            step: Some(step),
            instead: None,
            unrolling: false,
            forbids: Some(false),
            told: QueryAnswers::default(),
            wishes: Wishes::default(),
        }
    }

    fn with_request(test: impl FnOnce(CaptureRequest<'_, '_>) -> PyResult<()>) -> PyResult<()> {
        Python::initialize();
        Python::attach(|py| {
            let function = dynamlir_cpython_abi::import(py, "builtins")?.getattr("len")?;
            test(CaptureRequest::new(&function, &PyTuple::empty(py), None))
        })
    }

    /// Gives a rung a failure. Returns the kept failure's message, or `None` if it wants another attempt.
    fn after(rung: &mut dyn Rung, request: &CaptureRequest<'_, '_>, failure: CaptureFailure) -> PyResult<Option<String>> {
        match rung.after(request, Err(Box::new(failure))) {
            Ok(Verdict::Again(_)) => Ok(None),
            Ok(Verdict::Keep(Err(kept))) => Ok(Some(kept.graph_break.message)),
            Ok(Verdict::Keep(Ok(_))) => Ok(Some("captured".to_owned())),
            Err(Ended::Interrupted(error) | Ended::Failed(error)) => Err(error),
        }
    }

    fn settings(rung: &dyn Rung, request: &CaptureRequest<'_, '_>) -> Attempt {
        let mut attempt = Attempt::of(request);
        rung.apply(request.function.py(), &mut attempt);
        attempt
    }

    #[test]
    fn the_graph_ends_ever_earlier_a_few_times() -> PyResult<()> {
        with_request(|request| {
            let request = CaptureRequest { breaks: Allowed::Within, ..request };
            let mut rung = Breaks::new(&request);
            assert_eq!(settings(&rung, &request).stop, None);
            for (count, step) in (0..MOST_RESTARTS).zip((10..100).rev()) {
                assert_eq!(after(&mut rung, &request, failure(step))?, None, "restart {count}");
                assert_eq!(settings(&rung, &request).stop, Some(step));
            }
            // The user is told where the graph first broke.
            assert_eq!(after(&mut rung, &request, failure(1))?, Some("at 99".to_owned()));
            Ok(())
        })
    }

    #[test]
    fn a_later_instruction_is_no_way_out() -> PyResult<()> {
        with_request(|request| {
            let request = CaptureRequest { breaks: Allowed::Within, ..request };
            let mut rung = Breaks::new(&request);
            assert_eq!(after(&mut rung, &request, failure(5))?, None);
            assert_eq!(after(&mut rung, &request, failure(5))?, Some("at 5".to_owned()));
            Ok(())
        })
    }

    #[test]
    fn a_break_that_was_asked_for_has_its_name_in_the_last_attempt_too() -> PyResult<()> {
        with_request(|request| {
            let resumed = || {
                let graph_break = GraphBreak { reason: reason::RESUMED, message: "in the middle".to_owned(), location: Vec::new() };
                Err(Box::new(CaptureFailure { graph_break, ..failure(5) }))
            };
            let found = |request: &CaptureRequest<'_, '_>| Breaks::new(request).best(resumed()).err().map(|kept| kept.graph_break.reason);
            let request = CaptureRequest { breaks: Allowed::Within, ..request };
            assert_eq!(found(&request), Some(reason::RESUMED));
            assert_eq!(found(&CaptureRequest { every: Some(3), ..request }), Some(reason::ASKED));
            Ok(())
        })
    }

    #[test]
    fn a_graph_breaks_only_where_it_may() -> PyResult<()> {
        with_request(|request| {
            let kept = Some("at 5".to_owned());
            assert_eq!(after(&mut Breaks::new(&request), &request, failure(5))?, kept);
            let request = CaptureRequest { breaks: Allowed::Within, ..request };
            let forbidden = CaptureFailure { forbids: Some(true), ..failure(5) };
            assert_eq!(after(&mut Breaks::new(&request), &request, forbidden)?, kept);
            let in_a_loop = CaptureFailure { unrolling: true, ..failure(5) };
            assert_eq!(after(&mut Breaks::new(&request), &request, in_a_loop)?, kept);
            let regions = CaptureRequest { before: Before::Regions, ..request };
            assert_eq!(after(&mut Breaks::new(&regions), &regions, failure(5))?, kept);
            Ok(())
        })
    }

    #[test]
    fn symbols_are_blamed_one_by_one_before_all_numbers_are_constants() -> PyResult<()> {
        with_request(|request| {
            let history = Arc::new(ValueHistory::default());
            let request = CaptureRequest { history: Some(&history), ..request };
            let mut rung = Symbols::new(&request);
            let of_number = || CaptureFailure { numbers: vec!["L['x']".to_owned()], blamed: vec!["L['x']".to_owned()], ..failure(3) };
            for _ in 1..MOST_BLAMED {
                assert_eq!(after(&mut rung, &request, of_number())?, None);
                assert!(!settings(&rung, &request).constants);
            }
            assert_eq!(after(&mut rung, &request, of_number())?, None);
            assert!(settings(&rung, &request).constants);
            // The capture ends regardless of the numbers: the first failure counts.
            assert_eq!(after(&mut rung, &request, failure(7))?, Some("at 3".to_owned()));
            Ok(())
        })
    }

    #[test]
    fn without_symbols_there_is_nothing_to_vary() -> PyResult<()> {
        with_request(|request| {
            assert_eq!(after(&mut Symbols::new(&request), &request, failure(3))?, Some("at 3".to_owned()));
            assert_eq!(after(&mut Unrolling::new(&request), &request, failure(3))?, Some("at 3".to_owned()));
            assert_eq!(after(&mut UnbackedSizes::new(&request), &request, failure(3))?, Some("at 3".to_owned()));
            assert_eq!(after(&mut Options::default(), &request, failure(3))?, Some("at 3".to_owned()));
            Ok(())
        })
    }

    #[test]
    fn the_first_failure_with_unbacked_sizes_counts() -> PyResult<()> {
        with_request(|request| {
            let request = CaptureRequest { unbacked: Unbacked { sizes: true, ..Unbacked::default() }, ..request };
            let mut rung = UnbackedSizes::new(&request);
            assert!(settings(&rung, &request).unbacked.any());
            assert_eq!(after(&mut rung, &request, failure(3))?, None);
            assert!(!settings(&rung, &request).unbacked.any());
            assert_eq!(after(&mut rung, &request, failure(4))?, Some("at 3".to_owned()));
            Ok(())
        })
    }

    #[test]
    fn a_program_that_asks_gets_eagers_answer_next() -> PyResult<()> {
        with_request(|request| {
            let told = || QueryAnswers { asked: true, met: Vec::new() };
            let mut rung = Answers::default();
            assert!(!settings(&rung, &request).denies);
            assert_eq!(after(&mut rung, &request, CaptureFailure { told: told(), ..failure(3) })?, None);
            assert!(settings(&rung, &request).denies);
            assert_eq!(after(&mut rung, &request, CaptureFailure { told: told(), ..failure(4) })?, Some("at 3".to_owned()));
            assert_eq!(after(&mut Answers::default(), &request, failure(3))?, Some("at 3".to_owned()));
            Ok(())
        })
    }

    #[test]
    fn rungs_within_one_begin_again() -> PyResult<()> {
        with_request(|request| {
            let mut rung = fresh(0, &request);
            let wishes = Wishes { histories: true, copies: false };
            assert_eq!(after(&mut *rung, &request, CaptureFailure { wishes, ..failure(3) })?, None);
            assert!(settings(&*rung, &request).options.interprets_all);
            assert!(!settings(&*fresh(0, &request), &request).options.interprets_all);
            Ok(())
        })
    }
}
