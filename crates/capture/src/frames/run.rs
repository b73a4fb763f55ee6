//! One capture from beginning to end: the call, then its outcome.

use std::{cell::OnceCell, rc::Rc, sync::Arc};

use dynamlir_cpython_abi::{Thread, function::code, observer};
use dynamlir_frame::{AfterGraph, Epilogue, Recipe, ValueHistory};
use dynamlir_graph::{Argument, Graph, Line};
use dynamlir_guards::GuardBuilder;
use dynamlir_interpreter::{FrameState, flags, with_policy};
use dynamlir_symint::{Declared, Unbacked};
use dynamlir_torch_abi::State as TorchState;
use pyo3::{
    exceptions::{PyException, PyRuntimeError},
    prelude::*,
    types::{PyBool, PyDict, PyTuple},
};
use rustc_hash::FxHashSet;

use crate::{
    floors::Capture,
    frames::{
        attempt_options::{AttemptOptions, Wishes},
        attempts::capture_in_attempts,
        audit::Decisions,
        policy::CapturePolicy,
    },
    graph_break::{GraphBreak, Halt, reason},
    heap::describe_effects::SeenEffect,
    objects::{Tracked, effects::Effects, interruptions::interruption_behind, torch_types::Torch, unraisable::Reports},
    recorder::Recorder,
    session_scope::Entered,
    state::{
        Input, Instead, Progress, State,
        answers::{Answers, QueryAnswers},
        defined_at,
        dynamic_sizes::{Dynamic, DynamicSizes},
        outputs::Outputs,
        raised_at,
        use_marks::UseMarks,
    },
    values::sizes::policy::follow,
};

/// Tables that are built once per process.
#[derive(Clone)]
pub struct Tables {
    /// C functions.
    pub effects: Rc<Effects>,
    /// Torch's types.
    pub torch: Rc<Torch>,
}

thread_local! {
    // Addresses of Python objects, the same in every thread; a table per thread needs no lock.
    static TABLES: OnceCell<Tables> = const { OnceCell::new() };
}

impl Tables {
    /// Returns this thread's tables, created on first use.
    ///
    /// # Errors
    /// As for [`Tables::new`].
    pub fn of(py: Python<'_>) -> PyResult<Self> {
        TABLES.with(|cell| {
            if let Some(tables) = cell.get() {
                return Ok(tables.clone());
            }
            let made = Self::new(py)?;
            Ok(cell.get_or_init(|| made).clone())
        })
    }

    /// Imports torch's types and resolves the effect table.
    pub fn new(py: Python<'_>) -> PyResult<Self> {
        Ok(Self { effects: Rc::new(Effects::new(py)?), torch: Rc::new(Torch::new(py)?) })
    }
}

/// A frame that was captured whole.
pub struct Captured {
    /// The torch-level graph; its placeholders are the used inputs, in order.
    pub graph: Graph<Py<PyAny>>,
    /// Everything that was assumed.
    pub guards: GuardBuilder,
    /// The inputs of the graph, in order of its placeholders.
    pub inputs: Vec<Input>,
    /// Their positions among the objects that the guards collect.
    pub tensors: Vec<usize>,
    /// The side effects and the result after the graph.
    pub epilogue: Epilogue,
    /// The epilogue's effects on existing objects, as text.
    pub effects: Vec<(String, Vec<Line>)>,
    /// The session, with the finished recording.
    pub session: Py<PyAny>,
    /// The outcome of the call, if it was requested.
    pub ends: Option<Ends>,
    /// True if the graph breaks before a call that is replaced with another one.
    pub calls_instead: bool,
    /// The reason why the graph ends before the frame does; `None` if it does not. With a reason, this is a piece of the frame.
    pub graph_break: Option<GraphBreak>,
    /// True if the frame itself allows the break.
    pub allowed: bool,
    /// The effects of answering the program that it is being compiled.
    pub(crate) told: QueryAnswers,
    /// The decisions of the capture, if it may be repeated.
    pub decisions: Option<Decisions>,
}

/// The outcome of a call, on the objects that it was captured with: the frame's own tensors and its input tensors are fakes.
pub struct Ends {
    /// The return value.
    pub returned: Py<PyAny>,
    /// The graph's results, in order.
    pub results: Vec<Py<PyAny>>,
    /// Its effects on existing objects once the graph has run, in order.
    pub effects: Vec<SeenEffect>,
}

/// A frame that cannot be captured whole: the reason, and the assumptions under which it applies.
pub struct CaptureFailure {
    /// The reason.
    pub graph_break: GraphBreak,
    /// The assumptions made up to that point.
    pub guards: GuardBuilder,
    /// The sources of floats that were treated as numbers of the graph.
    pub numbers: Vec<String>,
    /// The sources of floats and sizes whose values Python needs.
    pub blamed: Vec<String>,
    /// The sources of sizes that were treated as symbols.
    pub(crate) sizes: Vec<String>,
    /// The instruction of the frame before which the graph may break instead.
    pub(crate) step: Option<usize>,
    /// The call at that instruction, and its replacement.
    pub(crate) instead: Option<Instead>,
    /// True if it was in a loop that was to be captured to its end.
    pub(crate) unrolling: bool,
    /// True if the frame forbids graph breaks there; `None` if it says nothing about them.
    pub forbids: Option<bool>,
    /// The effects of answering the program that it is being compiled.
    pub(crate) told: QueryAnswers,
    /// The options that another attempt should have.
    pub(crate) wishes: Wishes,
}

/// The places where the graph may break, if a frame cannot be captured whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaks {
    /// Nowhere.
    Never,
    /// Only before instructions of the frame itself.
    Around,
    /// Also before instructions of frames within it.
    Within,
}

/// The operations before which the graph may break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Anything that cannot be captured.
    Anything,
    /// Calls of `torch.cond` and `torch.while_loop`; everything between them has to be captured.
    Regions,
}

/// A request to capture one call.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "independent settings of a request")]
pub struct CaptureRequest<'a, 'py> {
    /// The function whose frame is captured.
    pub function: &'a Bound<'py, PyAny>,
    /// Arguments by position.
    pub args: &'a Bound<'py, PyTuple>,
    /// Arguments by keyword.
    pub kwargs: Option<&'a Bound<'py, PyDict>>,
    /// Called with each instruction.
    pub steps: Option<&'a Py<PyAny>>,
    /// Observed values of changing floats. `None` treats every float as a constant.
    pub history: Option<&'a Arc<ValueHistory>>,
    /// True if numbers may be read from tensors.
    pub reads: bool,
    /// The sizes that may be dynamic; none without `floats`.
    pub sizes: Dynamic,
    /// The declared dynamic sizes, if `sizes` selects those.
    pub declared: Option<&'a Rc<Declared>>,
    /// The unbacked values that the graph may contain.
    pub unbacked: Unbacked,
    /// True if the graph may contain torch's recurrent layers.
    pub recurrent: bool,
    /// The states of the frame and of those within it at the graph break, outermost first; `None` for a frame that starts at its beginning.
    pub from: Option<&'a [Rc<FrameState>]>,
    /// True if the loops that these frames are in are captured to their ends.
    pub unrolls: bool,
    /// The places where the graph may break.
    pub breaks: Breaks,
    /// The operations before which it may break.
    pub before: Before,
    /// The number of instructions after which the graph breaks regardless.
    pub every: Option<usize>,
    /// The instruction before which the graph breaks.
    pub stop: Option<usize>,
    /// True if a program that queries if it is being compiled gets the answer no.
    pub denies: bool,
    /// The call at that instruction, and its replacement.
    pub instead: Option<&'a Instead>,
    /// True if the outcome of the call is kept for inspection.
    pub shows: bool,
    /// True if the same call is to be captured again later.
    pub keeps: bool,
    /// The decisions of an earlier capture, if it is to be repeated.
    pub replays: Option<&'a Decisions>,
}

impl<'a, 'py> CaptureRequest<'a, 'py> {
    /// Creates a request for a call from its beginning, which is captured whole or not at all.
    pub fn new(function: &'a Bound<'py, PyAny>, args: &'a Bound<'py, PyTuple>, kwargs: Option<&'a Bound<'py, PyDict>>) -> Self {
        Self {
            function,
            args,
            kwargs,
            steps: None,
            history: None,
            reads: true,
            sizes: Dynamic::Never,
            declared: None,
            unbacked: Unbacked::default(),
            recurrent: true,
            from: None,
            unrolls: false,
            breaks: Breaks::Never,
            before: Before::Anything,
            every: None,
            stop: None,
            denies: false,
            instead: None,
            shows: false,
            keeps: false,
            replays: None,
        }
    }
}

/// Calls `function` on fakes. The inner error says why the frame cannot be captured; an internal error of the capture is one of these
/// reasons too.
///
/// # Errors
/// Returns an interruption, which the caller must handle.
pub fn capture(tables: &Tables, request: CaptureRequest<'_, '_>) -> PyResult<Result<Captured, CaptureFailure>> {
    match capture_in_attempts(tables, request) {
        Ok(outcome) => {
            if let Some(floats) = request.history {
                let guards = match &outcome {
                    Ok(captured) => &captured.guards,
                    Err(failure) => &failure.guards,
                };
                guards.numbers().into_iter().for_each(|(place, value)| floats.note(place, value));
            }
            Ok(outcome.map(|captured| *captured).map_err(|failure| *failure))
        }
        Err(Ended::Interrupted(error)) => Err(error),
        // Nothing is known about the call, so no other call will be tried either.
        Err(Ended::Failed(error)) => Ok(Err(CaptureFailure {
            graph_break: GraphBreak::internal(&error),
            guards: GuardBuilder::new(),
            numbers: Vec::new(),
            blamed: Vec::new(),
            sizes: Vec::new(),
            step: None,
            unrolling: false,
            instead: None,
            forbids: None,
            told: QueryAnswers::default(),
            wishes: Wishes::default(),
        })),
    }
}

/// The cause of an end with neither a captured frame nor a break reason.
pub(crate) enum Ended {
    /// A signal handler has raised.
    Interrupted(PyErr),
    /// An internal error.
    Failed(PyErr),
}

impl From<PyErr> for Ended {
    fn from(error: PyErr) -> Self {
        Python::attach(|py| match interruption_behind(py, &error) {
            Some(error) => Self::Interrupted(error),
            None if !error.is_instance_of::<PyException>(py) => Self::Interrupted(error),
            None => Self::Failed(error),
        })
    }
}

/// Captures a frame in one attempt.
pub(crate) fn capture_once(
    tables: &Tables,
    request: CaptureRequest<'_, '_>,
    mode: AttemptOptions,
) -> Result<Result<Captured, CaptureFailure>, Ended> {
    let CaptureRequest { function, steps, history: floats, reads, from, unrolls, stop, every, breaks, .. } = request;
    let py = function.py();
    let name: String = function.getattr("__qualname__").and_then(|name| name.extract()).unwrap_or_default();
    let session = tables.torch.session(py, &name)?;
    session.setattr("reads_numbers", reads)?;
    if mode.interprets_all {
        session.setattr("repeats", false)?;
    }
    if request.sizes != Dynamic::Never || request.unbacked.any() {
        // Creating the class runs Python code, which must not be captured.
        dynamlir_symint::class(py)?;
    }
    let entered = Entered::new(&session)?;
    let state = State::new(
        &session,
        tables.effects.clone(),
        tables.torch.clone(),
        steps.is_some(),
        floats.cloned(),
        DynamicSizes::new(
            if floats.is_some() { request.sizes } else { Dynamic::Never },
            request.declared.cloned(),
            request.unbacked.uncut,
            request.replays.map(Decisions::sizes),
        ),
        mode.copies_containers,
        Progress {
            resumed: from.map_or(0, <[_]>::len),
            unrolls,
            stop,
            answers: Answers::new(request.denies),
            every,
            chains: breaks == Breaks::Within,
            leaves_recurrent: !request.recurrent,
            patience: Recorder(&session).patience()?,
            marks: mode.tells_uses.then(UseMarks::default),
            ..Progress::default()
        },
    )?;
    state.progress.instead.replace(request.instead.map(|instead| instead.clone_ref(py)));
    let reports = Reports::listen(py)?;
    let mut step = None;
    if request.unbacked.any() {
        let Unbacked { sizes, numbers, uncut } = request.unbacked;
        Recorder(&session).take_unbacked(state.sizes.known(py), sizes, numbers, uncut)?;
    }
    follow(&state);
    let outcome = run_frame(py, &state, request, &mut step);
    Capture::new(py, state.clone()).settle_compared();
    let outcome = outcome.map(|outcome| Capture::new(py, state.clone()).failed_size().map_or(outcome, Err));
    Capture::new(py, state.clone()).guard_sizes();
    let outcome = match outcome {
        Ok(Ok(whole)) => Capture::new(py, state.clone()).unproven().map(|found| found.map_or(Ok(whole), Err)),
        outcome => outcome,
    };
    let outcome = outcome.and_then(|outcome| Capture::new(py, state.clone()).guard_buffers().map(|()| outcome));
    let left = entered.leave();
    let reported = reports.interruption();
    drop(reports);
    if let Some(error) = state.interruption.take().or(reported) {
        return Err(Ended::Interrupted(error));
    }
    let outcome = match outcome.and_then(|outcome| left.map(|()| outcome)).map_err(Ended::from) {
        Err(Ended::Failed(error)) => {
            Err(GraphBreak { location: raised_at(py, &error).unwrap_or_default(), ..GraphBreak::internal(&error) })
        }
        outcome => outcome?,
    };
    let torch_state = TorchState::now().map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    state.guards.torch_state(torch_state);
    match outcome {
        Ok((epilogue, kept, ends)) => {
            let mut effects = Capture::new(py, state.clone()).effects_in_words();
            let grad_left_off = state.progress.grad_left_off.take();
            effects.extend(grad_left_off.map(|location| ("torch.set_grad_enabled(False)".to_owned(), location)));
            let (graph, inputs) = finish(&state, &kept);
            if let Some(error) = Capture::new(py, state.clone()).violated()? {
                return Err(Ended::Interrupted(error));
            }
            Capture::new(py, state.clone()).tell_sizes(&inputs)?;
            let tensors = inputs.iter().map(|input| state.guards.collect(input.source)).collect();
            let told = Capture::new(py, state.clone()).answers();
            let decisions = (request.keeps || request.replays.is_some()).then(|| Decisions::of(request, mode, &state));
            let Ok(state) = Rc::try_unwrap(state) else {
                return Err(PyRuntimeError::new_err("a frame of the capture is still running").into());
            };
            let session = session.unbind();
            let calls_instead = request.instead.is_some();
            Ok(Ok(Captured {
                graph,
                guards: state.guards,
                inputs,
                tensors,
                epilogue,
                effects,
                session,
                ends,
                calls_instead,
                graph_break: None,
                allowed: false,
                told,
                decisions,
            }))
        }
        Err(found) => {
            state.graph.take();
            let wishes = Wishes { histories: Recorder(&session).wants_histories()?, copies: state.wants_copies.get() };
            let numbers =
                state.tensors.inputs.borrow().iter().filter(|input| input.number).map(|i| state.guards.expression(i.source)).collect();
            let mut blamed = Recorder(&session).blamed()?;
            blamed.extend(state.sizes.blamed());
            if found.reason == reason::MIXED_DEVICES {
                blamed.extend(state.sizes.places_of_ints());
            }
            let sizes = state.sizes.places();
            let instead = state.progress.instead.take();
            let forbids = Capture::new(py, state.clone()).forbids_breaks()?;
            let told = Capture::new(py, state.clone()).answers();
            let Ok(state) = Rc::try_unwrap(state) else {
                return Err(PyRuntimeError::new_err("a frame of the capture is still running").into());
            };
            // Frames that are already suspended stay as they are: a break cannot precede the point of resumption.
            let step = step.filter(|step| state.progress.has_resumed() && *step >= state.progress.floor.get());
            let unrolling = state.progress.is_unrolling();
            Ok(Err(CaptureFailure {
                graph_break: found,
                guards: state.guards,
                numbers,
                sizes,
                blamed,
                step,
                unrolling,
                instead,
                forbids,
                told,
                wishes,
            }))
        }
    }
}

/// The epilogue, the positions of the inputs used, and the outcome to show.
type FrameOutcome = (Epilogue, Vec<usize>, Option<Ends>);

fn run_frame<'py>(
    py: Python<'py>,
    state: &Rc<State>,
    request: CaptureRequest<'_, 'py>,
    step: &mut Option<usize>,
) -> PyResult<Result<FrameOutcome, GraphBreak>> {
    let CaptureRequest { function, args, kwargs, .. } = request;
    let steps = request.steps.map(|steps| steps.clone_ref(py));
    if let Some(kind) = runs_later(function) {
        let message = format!("a {kind}, which runs after the call");
        return Ok(Err(GraphBreak { reason: reason::OUTPUT, message, location: defined_at(function).unwrap_or_default() }));
    }
    if let Ok(thread) = Thread::current(py)
        && let Some(observer) = observer(thread, function)
    {
        return Ok(Err(GraphBreak { reason: reason::OBSERVED, message: observer.to_owned(), location: Vec::new() }));
    }
    let from = request.from.unwrap_or_default().to_vec();
    let policy = Rc::new(CapturePolicy::new(state.clone(), steps, from));
    if let Err(Halt::Break(found)) = Capture::new(py, state.clone()).guard_default_device() {
        return Ok(Err(found));
    }
    let finished = match with_policy(py, policy, || function.call(args, kwargs)) {
        Ok(finished) => finished,
        Err(refusal) => return Ok(Err(GraphBreak { reason: reason::UNKNOWN_PYTHON, message: refusal.to_string(), location: Vec::new() })),
    };
    let capture = Capture::new(py, state.clone());
    if let Some(found) = state.graph_break.borrow().clone() {
        let _seen_to = dynamlir_interpreter::suspended(|| capture.outlived());
        *step = state.progress.stopping_step(found.reason == reason::RAISED);
        return Ok(Err(found));
    }
    if !state.progress.has_resumed() {
        let message = "a frame that runs is called by another one".to_owned();
        return Ok(Err(GraphBreak { reason: reason::RESUMED, message, location: capture.location() }));
    }
    let halt = |halt: Halt| match halt {
        Halt::Break(found) => found,
        Halt::Raise(error) => {
            // The error is stored for the caller; the value returned here is then ignored.
            capture.interruption(&error);
            GraphBreak { reason: reason::RAISED, message: error.to_string(), location: raised_at(py, &error).unwrap_or_default() }
        }
    };
    let left = state.progress.left.take();
    if !left.is_empty() {
        let mut outputs = Outputs::default();
        if let Err(why) = capture.suspension(&left, &mut outputs) {
            // The value that cannot be rebuilt is a better reason than a finalizer that would run.
            let _seen_to = dynamlir_interpreter::suspended(|| capture.outlived());
            *step = capture.step_before(&outputs);
            return Ok(Err(halt(why)));
        }
    }
    let outlived = dynamlir_interpreter::suspended(|| capture.outlived());
    let value = match finished.result {
        _ if !left.is_empty() => None,
        Ok(value) => Some(value),
        Err(error) => {
            *step = state.progress.raising_step();
            return Ok(Err(halt(capture.session_error(error))));
        }
    };
    // If the function returns, grad mode is turned off after the graph. An exported program has no such effect.
    let grad_left_off = match &value {
        Some(_) if !request.shows => capture.recorder().grad_left_off()?,
        _ => None,
    };
    if let Some((message, location)) = capture.recorder().left_set(grad_left_off.is_some())? {
        *step = state.progress.set.get().or(Some(state.progress.step.get())).filter(|step| *step > 0);
        return Ok(Err(GraphBreak { reason: reason::STATE_LEFT_SET, message, location }));
    }
    if outlived.is_err() {
        *step = state.progress.doomed.get().filter(|step| *step > 0);
    }
    if let Err(error) = outlived.and_then(|()| capture.refuse_defaults()).and_then(|()| capture.guard_offsets()) {
        return Ok(Err(halt(error)));
    }
    // A value used several times is rebuilt at its first use: in program order, and so in the order of the steps.
    let mut outputs = Outputs::default();
    let returned = value.as_ref().filter(|_| request.shows).cloned();
    let steps = capture.effect_steps(&mut outputs).and_then(|mut steps| {
        if grad_left_off.is_some() {
            let given = vec![Recipe::Constant(PyBool::new(py, false).to_owned().into_any().unbind())];
            steps.push(AfterGraph::Call {
                method: dynamlir_cpython_abi::import(py, "torch._C")?.getattr("_set_grad_enabled")?.unbind(),
                given,
            });
        }
        steps.push(match value {
            Some(object) => {
                let returned = Tracked { source: state.returned.take(), object };
                AfterGraph::Return(capture.recipe(&returned, &mut outputs)?)
            }
            None => AfterGraph::Suspend(capture.suspension(&left, &mut outputs)?),
        });
        capture.use_up(&mut outputs, &mut steps)?;
        Ok(steps)
    });
    let epilogue = match steps {
        Ok(steps) => Epilogue::new(steps),
        Err(error) => {
            *step = capture.step_before(&outputs);
            return Ok(Err(halt(error)));
        }
    };
    state.progress.grad_left_off.replace(grad_left_off);
    let results = outputs.fakes.iter().map(|fake| capture.argument(fake)).collect::<Result<Vec<_>, _>>();
    match results {
        Ok(results) => state.graph.borrow_mut().output(Argument::Tuple(results)),
        Err(error) => return Ok(Err(halt(error))),
    };
    match capture.recorder().finish(outputs.fakes.clone(), named_inputs(state)) {
        Ok(kept) => {
            let ends = returned.map(|returned| Ends {
                returned: returned.unbind(),
                results: outputs.fakes.into_iter().map(Bound::unbind).collect(),
                effects: capture.effects_seen(),
            });
            Ok(Ok((epilogue, kept, ends)))
        }
        Err(error) => {
            *step = capture.step_before(&outputs);
            Ok(Err(halt(capture.session_error(error))))
        }
    }
}

/// Returns the positions of the inputs that nodes of the torch-level graph name, even if the underlying operations do not read them
/// (`x.type_as(y)`), and of those with a symbolic size.
fn named_inputs(state: &State) -> Vec<usize> {
    let mut named = FxHashSet::default();
    for node in state.graph.borrow().nodes() {
        for argument in node.args.iter().chain(node.kwargs.iter().map(|(_, value)| value)) {
            argument.nodes(&mut |used| {
                named.insert(used);
            });
        }
    }
    let bound = Python::attach(|py| state.sizes.bound(py));
    let inputs = state.tensors.inputs.borrow();
    let wanted = |input: &Input| named.contains(&input.node) || bound.iter().flatten().any(|(source, _)| *source == input.source);
    inputs.iter().enumerate().filter(|(_, input)| wanted(input)).map(|(at, _)| at).collect()
}

/// Returns the kind of object that a call of the function creates instead of running it.
fn runs_later(function: &Bound<'_, PyAny>) -> Option<&'static str> {
    let flags: u32 = code(function)?.getattr("co_flags").and_then(|flags| flags.extract()).ok()?;
    [(flags::GENERATOR, "generator"), (flags::COROUTINE, "coroutine"), (flags::ASYNC_GENERATOR, "asynchronous generator")]
        .into_iter()
        .find_map(|(flag, kind)| (flags & flag != 0).then_some(kind))
}

/// Returns the graph with the used placeholders first, and their inputs.
fn finish(state: &State, kept: &[usize]) -> (Graph<Py<PyAny>>, Vec<Input>) {
    let inputs = state.tensors.inputs.take();
    let mut used: Vec<Option<Input>> = inputs.into_iter().map(Some).collect();
    let inputs: Vec<Input> = kept.iter().filter_map(|at| used.get_mut(*at).and_then(Option::take)).collect();
    let placeholders: Vec<_> = inputs.iter().map(|input| input.node).collect();
    (state.graph.take().with_placeholders(&placeholders), inputs)
}
