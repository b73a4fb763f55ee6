//! One capture from beginning to end: the call, then what it came to.

use std::{cell::OnceCell, rc::Rc, sync::Arc};

use dynamlir_cpython_abi::{Thread, function::code, observer};
use dynamlir_frame::{AfterGraph, Epilogue, Floats, Recipe};
use dynamlir_graph::{Argument, Graph, Line};
use dynamlir_guards::GuardBuilder;
use dynamlir_interpreter::Standing;
use dynamlir_interpreter::{flags, with_policy};
use dynamlir_torch_abi::State as TorchState;
use pyo3::{
    exceptions::{PyException, PyRuntimeError},
    prelude::*,
    types::{PyBool, PyDict, PyTuple},
};
use rustc_hash::FxHashSet;

use crate::{
    audit::Decisions,
    denied::{Answers, Told, in_pieces},
    effects::Effects,
    effects_told::SeenEffect,
    entered::Entered,
    graph_break::{GraphBreak, reason},
    manner::Manner,
    outputs::Outputs,
    policy::CapturePolicy,
    refusals::interruption_behind,
    reports::Reports,
    sizes::{self, Declared, Dynamic, Unbacked, Varying, follow},
    state::{Capture, Halt, Input, Instead, Progress, State, Tracked, defined_at, raised_at},
    torch::Torch,
    unproven::Marks,
};

/// What is looked up once per process.
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
    /// This thread's, made when it is asked for them first.
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
    /// The tensors that the graph is given, in order of its placeholders.
    pub inputs: Vec<Input>,
    /// Where they stand among what the guards collect.
    pub tensors: Vec<usize>,
    /// What comes after the graph.
    pub epilogue: Epilogue,
    /// Of that, what is done to what existed, in words.
    pub effects: Vec<(String, Vec<Line>)>,
    /// The session, with the finished recording.
    pub session: Py<PyAny>,
    /// What the call came to, where somebody wants to see it.
    pub ends: Option<Ends>,
    /// Whether the frame is left before a call of something else than it would call itself.
    pub calls_instead: bool,
    /// Why the graph ends before the frame does; None where it does not. What is known then is a piece of the frame.
    pub graph_break: Option<GraphBreak>,
    /// Whether the frame itself says that it may.
    pub allowed: bool,
    /// The effects of telling the program that it is compiled.
    pub(crate) told: Told,
    /// How it was captured, where that may be done again.
    pub decisions: Option<Decisions>,
}

/// What a call came to, on the objects that it was captured with: tensors of the frame's own, and those that it was given, are fakes.
pub struct Ends {
    /// What it returns.
    pub returned: Py<PyAny>,
    /// The graph's results, in order.
    pub results: Vec<Py<PyAny>>,
    /// What it does to what existed once the graph has run, in order.
    pub effects: Vec<SeenEffect>,
}

/// A frame that cannot be captured whole: why, and under which assumptions that is so.
pub struct Broken {
    /// The reason.
    pub graph_break: GraphBreak,
    /// What was assumed until then.
    pub guards: GuardBuilder,
    /// The places of floats that were taken for numbers.
    pub numbers: Vec<String>,
    /// Those of both whose values Python needs.
    pub blamed: Vec<String>,
    /// The places of sizes that were taken for symbols.
    pub(crate) sizes: Vec<String>,
    /// Before which instruction of the frame it may be left to Python instead.
    pub(crate) step: Option<usize>,
    /// What that calls, and what it is to call in the place of it.
    pub(crate) instead: Option<Instead>,
    /// Whether it was in a loop that was to be captured to its end.
    pub(crate) unrolling: bool,
    /// Whether the frame says that graphs must not break there; None where it says nothing about that.
    pub forbids: Option<bool>,
    /// The effects of telling the program that it is compiled.
    pub(crate) told: Told,
}

/// Whether a frame is captured in pieces, if it cannot be captured whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaks {
    /// It is not.
    Never,
    /// It is left before its own instructions only.
    Around,
    /// It is left before those of frames within it as well.
    Within,
}

/// What a frame that is captured in pieces is left before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Whatever cannot be captured.
    Anything,
    /// Calls of `torch.cond` and `torch.while_loop`, between which all has to be captured.
    Regions,
}

/// A call that is to be captured.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "independent settings of a request")]
pub struct Subject<'a, 'py> {
    /// The function whose frame is captured.
    pub function: &'a Bound<'py, PyAny>,
    /// Arguments by position.
    pub args: &'a Bound<'py, PyTuple>,
    /// Arguments by keyword.
    pub kwargs: Option<&'a Bound<'py, PyDict>>,
    /// Shown each instruction.
    pub steps: Option<&'a Py<PyAny>>,
    /// What is known of floats that change; None takes each for a constant.
    pub floats: Option<&'a Arc<Floats>>,
    /// Whether numbers may be read from tensors.
    pub reads: bool,
    /// Which sizes may vary; none without `floats`.
    pub sizes: Dynamic,
    /// What is declared of them, if that is which.
    pub declared: Option<&'a Rc<Declared>>,
    /// What the graph may have that only running tells.
    pub unbacked: Unbacked,
    /// Whether it may have torch's recurrent layers.
    pub recurrent: bool,
    /// Where Python has left the frame and those within it, the outermost first; None for one that begins.
    pub from: Option<&'a [Rc<Standing>]>,
    /// Whether loops in which these stand are captured to their ends.
    pub unrolls: bool,
    /// Whether a piece of the frame will do.
    pub breaks: Breaks,
    /// What such a piece ends before.
    pub before: Before,
    /// After how many instructions a piece ends in any case.
    pub every: Option<usize>,
    /// Before which instruction it is left to Python.
    pub stop: Option<usize>,
    /// True if a program that asks whether it is compiled is told that it is not.
    pub denies: bool,
    /// What that calls, and what it is to call in the place of it.
    pub instead: Option<&'a Instead>,
    /// Whether what the call comes to is kept for somebody who looks at it.
    pub shows: bool,
    /// Whether the same is to be captured again later.
    pub keeps: bool,
    /// How it was captured before, if that is done again.
    pub replays: Option<&'a Decisions>,
}

impl<'a, 'py> Subject<'a, 'py> {
    /// A call that begins, which is captured whole or not at all.
    pub fn new(function: &'a Bound<'py, PyAny>, args: &'a Bound<'py, PyTuple>, kwargs: Option<&'a Bound<'py, PyDict>>) -> Self {
        Self {
            function,
            args,
            kwargs,
            steps: None,
            floats: None,
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

/// Calls `function` on fakes. The inner error says why the frame cannot be captured; an error of the capture's own is one of these
/// reasons too.
///
/// # Errors
/// An interruption, which is the caller's.
pub fn capture(tables: &Tables, subject: Subject<'_, '_>) -> PyResult<Result<Captured, Broken>> {
    match in_pieces(tables, subject) {
        Ok(outcome) => {
            if let Some(floats) = subject.floats {
                let guards = match &outcome {
                    Ok(captured) => &captured.guards,
                    Err(broken) => &broken.guards,
                };
                guards.numbers().into_iter().for_each(|(place, value)| floats.note(place, value));
            }
            Ok(outcome)
        }
        Err(Ended::Interrupted(error)) => Err(error),
        // Nothing is known of the call: no other one will be tried either.
        Err(Ended::Failed(error)) => Ok(Err(Broken {
            graph_break: GraphBreak::internal(&error),
            guards: GuardBuilder::new(),
            numbers: Vec::new(),
            blamed: Vec::new(),
            sizes: Vec::new(),
            step: None,
            unrolling: false,
            instead: None,
            forbids: None,
            told: Told::default(),
        })),
    }
}

/// Why there is neither a captured frame nor a reason.
pub(crate) enum Ended {
    /// A signal handler has raised.
    Interrupted(PyErr),
    /// Something of ours went wrong.
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

/// Captures a frame once, if nothing is seen on the way by which it must be done another way.
pub(crate) fn whole(tables: &Tables, subject: Subject<'_, '_>, manner: Manner) -> Result<Result<Captured, Broken>, Ended> {
    let Subject { function, steps, floats, reads, from, unrolls, stop, every, breaks, .. } = subject;
    let py = function.py();
    let name: String = function.getattr("__qualname__").and_then(|name| name.extract()).unwrap_or_default();
    let session = tables.torch.session(py, &name)?;
    session.setattr("reads_numbers", reads)?;
    if manner.interprets_all {
        session.setattr("repeats", false)?;
    }
    if subject.sizes != Dynamic::Never || subject.unbacked.any() {
        // Its making runs Python code, which is not to be captured.
        sizes::class(py)?;
    }
    let entered = Entered::new(&session)?;
    let state = State::new(
        &session,
        tables.effects.clone(),
        tables.torch.clone(),
        steps.is_some(),
        floats.cloned(),
        Varying::new(
            if floats.is_some() { subject.sizes } else { Dynamic::Never },
            subject.declared.cloned(),
            subject.unbacked.uncut,
            subject.replays.map(Decisions::sizes),
        ),
        manner.copies_containers,
        Progress {
            resumed: from.map_or(0, <[_]>::len),
            unrolls,
            stop,
            answers: Answers::new(subject.denies),
            every,
            chains: breaks == Breaks::Within,
            leaves_recurrent: !subject.recurrent,
            patience: session.getattr("patience")?.extract()?,
            marks: manner.tells_uses.then(Marks::default),
            ..Progress::default()
        },
    )?;
    state.progress.instead.replace(subject.instead.map(|instead| instead.again(py)));
    let reports = Reports::listen(py)?;
    let mut step = None;
    if subject.unbacked.any() {
        let Unbacked { sizes, numbers, uncut } = subject.unbacked;
        session.call_method1("take_unbacked", (state.varying.known(py), sizes, numbers, uncut))?;
    }
    follow(&state);
    let outcome = attempt(py, &state, subject, &mut step);
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
            let told = Capture::new(py, state.clone()).told();
            let decisions = (subject.keeps || subject.replays.is_some()).then(|| Decisions::of(subject, manner, &state));
            let Ok(state) = Rc::try_unwrap(state) else {
                return Err(PyRuntimeError::new_err("a frame of the capture is still running").into());
            };
            let session = session.unbind();
            let calls_instead = subject.instead.is_some();
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
            if let Some(manner) = manner.after(&found, session.getattr("wants_histories")?.is_truthy()?, state.wants_copies.get()) {
                return whole(tables, subject, manner);
            }
            let numbers =
                state.tensors.inputs.borrow().iter().filter(|input| input.number).map(|i| state.guards.expression(i.source)).collect();
            let mut blamed: Vec<String> = session.call_method0("blamed")?.extract()?;
            blamed.extend(state.varying.blamed());
            if found.reason == reason::MIXED_DEVICES {
                blamed.extend(state.varying.places_of_ints());
            }
            let sizes = state.varying.places();
            let instead = state.progress.instead.take();
            let forbids = Capture::new(py, state.clone()).forbids_breaks()?;
            let told = Capture::new(py, state.clone()).told();
            let Ok(state) = Rc::try_unwrap(state) else {
                return Err(PyRuntimeError::new_err("a frame of the capture is still running").into());
            };
            // What Python has left stays as it is: no frame is left before it goes on.
            let step = step.filter(|step| state.progress.has_resumed() && *step >= state.progress.floor.get());
            let unrolling = state.progress.is_unrolling();
            Ok(Err(Broken { graph_break: found, guards: state.guards, numbers, sizes, blamed, step, unrolling, instead, forbids, told }))
        }
    }
}

/// What comes after the graph, which inputs it takes, by their positions, and what is shown.
type Whole = (Epilogue, Vec<usize>, Option<Ends>);

fn attempt<'py>(
    py: Python<'py>,
    state: &Rc<State>,
    subject: Subject<'_, 'py>,
    step: &mut Option<usize>,
) -> PyResult<Result<Whole, GraphBreak>> {
    let Subject { function, args, kwargs, .. } = subject;
    let steps = subject.steps.map(|steps| steps.clone_ref(py));
    if let Some(kind) = runs_later(function) {
        let message = format!("a {kind}, which runs after the call");
        return Ok(Err(GraphBreak { reason: reason::OUTPUT, message, location: defined_at(function).unwrap_or_default() }));
    }
    if let Ok(thread) = Thread::current(py)
        && let Some(observer) = observer(thread, function)
    {
        return Ok(Err(GraphBreak { reason: reason::OBSERVED, message: observer.to_owned(), location: Vec::new() }));
    }
    let from = subject.from.unwrap_or_default().to_vec();
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
            // It is kept for the caller; what is returned here is not looked at then.
            capture.interruption(&error);
            GraphBreak { reason: reason::RAISED, message: error.to_string(), location: raised_at(py, &error).unwrap_or_default() }
        }
    };
    let left = state.progress.left.take();
    if !left.is_empty() {
        let mut outputs = Outputs::default();
        if let Err(why) = capture.suspension(&left, &mut outputs) {
            // What it is that cannot be made is more than that it runs code when it dies.
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
    // Where the function returns, grad mode is turned off after the graph. An exported program has no such effect.
    let grad_left_off: Option<Vec<Line>> = match &value {
        Some(_) if !subject.shows => capture.session().call_method0("grad_left_off")?.extract()?,
        _ => None,
    };
    if let Some((message, location)) = capture.session().call_method1("left_set", (grad_left_off.is_some(),))?.extract()? {
        *step = state.progress.set.get().or(Some(state.progress.step.get())).filter(|step| *step > 0);
        return Ok(Err(GraphBreak { reason: reason::STATE_LEFT_SET, message, location }));
    }
    if outlived.is_err() {
        *step = state.progress.doomed.get().filter(|step| *step > 0);
    }
    if let Err(error) = outlived.and_then(|()| capture.refuse_defaults()).and_then(|()| capture.guard_offsets()) {
        return Ok(Err(halt(error)));
    }
    // What is made twice is made where it is first used: in the order of the program, and so of the steps.
    let mut outputs = Outputs::default();
    let returned = value.as_ref().filter(|_| subject.shows).cloned();
    let steps = capture.replayed(&mut outputs).and_then(|mut steps| {
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
    match capture.session().call_method1("finish", (outputs.fakes.clone(), named_inputs(state))) {
        Ok(kept) => {
            let ends = returned.map(|returned| Ends {
                returned: returned.unbind(),
                results: outputs.fakes.into_iter().map(Bound::unbind).collect(),
                effects: capture.effects_seen(),
            });
            Ok(Ok((epilogue, kept.extract()?, ends)))
        }
        Err(error) => {
            *step = capture.step_before(&outputs);
            Ok(Err(halt(capture.session_error(error))))
        }
    }
}

/// Positions of the inputs that nodes of the torch-level graph name, although the operations beneath may not read them
/// (`x.type_as(y)`), and of those of which a size is a symbol.
fn named_inputs(state: &State) -> Vec<usize> {
    let mut named = FxHashSet::default();
    for node in state.graph.borrow().nodes() {
        for argument in node.args.iter().chain(node.kwargs.iter().map(|(_, value)| value)) {
            argument.nodes(&mut |used| {
                named.insert(used);
            });
        }
    }
    let bound = Python::attach(|py| state.varying.bound(py));
    let inputs = state.tensors.inputs.borrow();
    let wanted = |input: &Input| named.contains(&input.node) || bound.iter().flatten().any(|(source, _)| *source == input.source);
    inputs.iter().enumerate().filter(|(_, input)| wanted(input)).map(|(at, _)| at).collect()
}

/// What a call of the function makes instead of running it.
fn runs_later(function: &Bound<'_, PyAny>) -> Option<&'static str> {
    let flags: u32 = code(function)?.getattr("co_flags").and_then(|flags| flags.extract()).ok()?;
    [(flags::GENERATOR, "generator"), (flags::COROUTINE, "coroutine"), (flags::ASYNC_GENERATOR, "asynchronous generator")]
        .into_iter()
        .find_map(|(flag, kind)| (flags & flag != 0).then_some(kind))
}

/// The graph with the used placeholders first, and their inputs.
fn finish(state: &State, kept: &[usize]) -> (Graph<Py<PyAny>>, Vec<Input>) {
    let inputs = state.tensors.inputs.take();
    let mut used: Vec<Option<Input>> = inputs.into_iter().map(Some).collect();
    let inputs: Vec<Input> = kept.iter().filter_map(|at| used.get_mut(*at).and_then(Option::take)).collect();
    let placeholders: Vec<_> = inputs.iter().map(|input| input.node).collect();
    (state.graph.take().with_placeholders(&placeholders), inputs)
}
