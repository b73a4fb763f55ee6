//! From a call without a matching entry to an entry for it: captured, compiled by the backend, added to the cache.

use std::{rc::Rc, sync::Arc};

use dynamlir_bytecode::Place;
use dynamlir_cpython_abi::collector;
use dynamlir_frame::{CompiledGraph, Entry, EntryBreak, Epilogue, Miss, NoGraph, Plain, Recapture, Run, Suspension, settings};
use dynamlir_graph::{Graph, Kind, Line};
use dynamlir_guards::{GuardBuilder, GuardError, GuardSet, TensorMatch, Texts};
use dynamlir_interpreter::FrameState;
use dynamlir_symint::Unbacked;
use pyo3::prelude::*;

use crate::{
    frames::{
        audit::Audit,
        run::{Before, Breaks, CaptureFailure, CaptureRequest, Captured, Ends, Tables, capture},
    },
    graph_break::{GraphBreak, reason},
    objects::interruptions::words_of,
    state::{Input, dynamic_sizes::Dynamic},
};

/// The parts of a captured frame that backends and users inspect.
pub struct CapturedPiece {
    /// The torch-level graph.
    pub graph: Graph<Py<PyAny>>,
    /// The guards, as text.
    pub guards: Arc<Texts>,
    /// The sources of the inputs, as Python expressions.
    pub sources: Vec<String>,
    /// The call's effects on existing objects once the graph has run, as text, each with the lines that cause it.
    pub effects: Vec<(String, Vec<Line>)>,
    /// The input tensors of the graph.
    pub inputs: Vec<Py<PyAny>>,
    /// The session, with the finished recording.
    pub session: Py<PyAny>,
    /// The outcome of the call, if it was requested.
    pub ends: Option<Ends>,
    /// The code of the resumed frames, outermost first, and the place where each resumes; empty for a call from its beginning.
    pub from: Vec<(Py<PyAny>, Place)>,
}

/// The parts that an entry for the frame needs besides a compiled graph.
pub struct EntryParts {
    guards: GuardSet,
    tensors: Vec<usize>,
    numbers: Vec<(usize, TensorMatch)>,
    epilogue: Epilogue,
}

/// A backend's result for a frame.
pub enum Compilation {
    /// A compiled graph.
    Graph(Box<dyn CompiledGraph>),
    /// Nothing: such calls run as plain Python.
    Plain(Plain),
}

/// The compiler of captured frames. It is also notified about frames that could not be captured.
pub trait Backend {
    /// Returns three settings for the backend's graphs: true if they may contain numbers read from tensors, true if they may contain
    /// changing floats, and the sizes that may be dynamic.
    ///
    /// # Errors
    /// Returns the exception raised by the call.
    fn takes_numbers(&self, py: Python<'_>) -> PyResult<(bool, bool, Dynamic)>;

    /// Returns the unbacked values that the backend's graphs may contain.
    ///
    /// # Errors
    /// Returns the exception raised by the call.
    fn takes_unbacked(&self, py: Python<'_>) -> PyResult<Unbacked>;

    /// Returns true if the backend's graphs may contain torch's recurrent layers, which torch.compile keeps out of all graphs by default.
    ///
    /// # Errors
    /// Returns the exception raised by the call.
    fn takes_recurrent(&self, py: Python<'_>) -> PyResult<bool>;

    /// Compiles a frame.
    ///
    /// # Errors
    /// Returns the exception raised by the call.
    fn compile(&self, py: Python<'_>, frame: CapturedPiece) -> PyResult<Compilation>;

    /// Called when a frame cannot be captured; its calls run as plain Python. `forbidden`: the program does not allow a break here.
    ///
    /// # Errors
    /// Returns the exception raised by the call: some backends require a frame to be captured whole.
    fn capture_failed(&self, py: Python<'_>, found: GraphBreak, forbidden: bool) -> PyResult<Plain>;

    /// Called when the graph ends before the frame does: Python runs the instructions at the break, and the frame continues in another
    /// graph. Returns the report of the break.
    ///
    /// # Errors
    /// Returns the exception raised by the call: some backends require a frame to be captured whole.
    fn graph_broke(&self, py: Python<'_>, found: GraphBreak) -> PyResult<Py<PyAny>>;

    /// Returns three settings: true if a frame may be captured in pieces, true if only around regions, and the number of instructions after
    /// which each piece ends regardless.
    ///
    /// # Errors
    /// Returns the exception raised by the call.
    fn pieces(&self, py: Python<'_>) -> PyResult<(bool, bool, Option<usize>)>;

    /// Called when an entry was created and is about to be added.
    ///
    /// # Errors
    /// Returns the exception raised by the call; the entry is not added.
    fn entry_made(&self, miss: &Miss<'_, '_>, entry: &Entry) -> PyResult<()>;
}

impl Captured {
    /// Returns true if the graph does not compute anything.
    fn is_empty(&self) -> bool {
        self.graph.nodes().iter().all(|node| matches!(node.kind, Kind::Placeholder | Kind::Output))
    }

    /// Splits the capture into the parts that others inspect and those that an entry needs.
    ///
    /// # Errors
    /// If something cannot be guarded.
    pub fn take_apart(self, py: Python<'_>) -> Result<(CapturedPiece, EntryParts), GuardError> {
        let Self { graph, guards, inputs, tensors, epilogue, effects, session, ends, .. } = self;
        let sources = inputs.iter().map(|input| guards.stored_expression(input.source)).collect();
        let numbers = inputs.iter().enumerate().filter(|(_, input)| input.number);
        // A tensor whose length is given by an int has a different size at each call.
        let made = |input: &Input| {
            let mut made = TensorMatch::of(input.real.bind(py))?;
            made.meta.sizes.fill(None);
            Ok::<_, GuardError>(made)
        };
        let numbers = numbers.map(|(at, input)| Ok((at, made(input)?))).collect::<Result<_, GuardError>>()?;
        let inputs = inputs.into_iter().map(|input| input.real).collect();
        let guards = guards.build(py)?;
        let frame = CapturedPiece { graph, guards: guards.texts(), sources, effects, inputs, session, ends, from: Vec::new() };
        Ok((frame, EntryParts { guards, tensors, numbers, epilogue }))
    }
}

/// Captures a call, has it compiled and adds an entry for such calls. With `steps`, each instruction is reported.
///
/// # Errors
/// Returns an interruption, which the caller must handle, or the exception raised by the backend.
pub fn capture_and_compile(miss: &Miss<'_, '_>, steps: Option<&Py<PyAny>>, backend: &impl Backend) -> PyResult<()> {
    let py = miss.function.py();
    let _no_collection = collector::pause(py);
    let (reads, changes, sizes) = backend.takes_numbers(py)?;
    let (cache, key) = (miss.cache, miss.callable.key());
    let floats = if changes { Some(cache.history(key)) } else { None };
    let (breaks, only_regions, every) = backend.pieces(py)?;
    let request = CaptureRequest {
        steps,
        history: floats.as_ref(),
        reads,
        sizes,
        unbacked: backend.takes_unbacked(py)?,
        recurrent: backend.takes_recurrent(py)?,
        from: miss.from,
        breaks: match breaks {
            false => Breaks::Never,
            true if miss.callable.is_itself() => Breaks::Within,
            true => Breaks::Around,
        },
        before: if only_regions { Before::Regions } else { Before::Anything },
        every,
        keeps: settings::audits(),
        ..CaptureRequest::new(miss.function, &miss.given.args, Some(&miss.given.kwargs))
    };
    let outcome = capture(&Tables::of(py)?, request)?;
    let mut captured = match outcome {
        Ok(captured) => captured,
        Err(CaptureFailure { graph_break, guards, forbids, .. }) => {
            let forbidden = forbids == Some(true) || settings::breaks_are_errors(py);
            let guards = match guards.build(py) {
                Ok(guards) => Some(guards),
                Err(error) => words_of(py, &error).map(|_| None)?,
            };
            return leave(miss, backend, graph_break, forbidden, guards);
        }
    };
    let found = captured.graph_break.take();
    // Checked before other code inspects the frame: it sees the frame as it is called.
    let is_empty = captured.is_empty();
    if let Some(until) = miss.from.and_then(|from| walks(&captured, from)) {
        // Compiling it would not save any work.
        cache.skip_until(key, until, found.is_some() && !captured.allowed);
        return found.map_or(Ok(()), |found| backend.graph_broke(py, found).map(drop));
    }
    let is_idle = is_empty && captured.epilogue.suspends().is_none() && miss.from.is_none() && miss.callable.share().is_called();
    if is_idle && cache.has_idle(key) {
        // This frame seems to be one that never computes anything, such as the lookup of a module.
        cache.skip_until(key, u32::MAX, false);
        return Ok(());
    }
    let allowed = captured.allowed;
    let breaks = found.map(|found| backend.graph_broke(py, found)).transpose()?.map(|why| EntryBreak { why, allowed });
    let audit = captured.decisions.take().map(|decisions| Audit::of(py, decisions, &captured)).transpose()?;
    let (frame, EntryParts { guards, tensors, numbers, epilogue }) = match captured.take_apart(py) {
        Ok(parts) => parts,
        Err(error) => {
            let found = GraphBreak { reason: reason::UNGUARDABLE, message: words_of(py, &error)?, location: Vec::new() };
            return leave(miss, backend, found, settings::breaks_are_errors(py), None);
        }
    };
    let compilation = if is_idle || is_empty && epilogue.suspends().is_some() {
        Compilation::Graph(Box::new(NoGraph))
    } else {
        let from = miss.from.map(|from| places(miss, from)).transpose()?.unwrap_or_default();
        backend.compile(py, CapturedPiece { from, ..frame })?
    };
    let run = match compilation {
        Compilation::Graph(graph) => Run::graph(graph, tensors, &numbers, epilogue, &guards, breaks),
        Compilation::Plain(plain) => Run::Plain(plain),
    };
    let kind = miss.kind();
    let replay = audit.map(|audit| Box::new(audit.of_guards(&guards.texts())) as Box<dyn Recapture>);
    let entry = Entry::new(miss.callable.key(), kind, guards, run).with_replay(replay);
    backend.entry_made(miss, &entry)?;
    cache.add(entry);
    Ok(())
}

/// Returns the places where frames resume; each except the last is in a call.
fn places(miss: &Miss<'_, '_>, from: &[Rc<FrameState>]) -> PyResult<Vec<(Py<PyAny>, Place)>> {
    let py = miss.function.py();
    let place = |(at, frame_state): (usize, &Rc<FrameState>)| {
        let own = || miss.function.getattr("__code__").map(Bound::unbind);
        let code = frame_state.code.as_ref().map_or_else(own, |code| Ok(code.clone_ref(py)))?;
        let stack = frame_state.stack.iter().map(Option::is_some).collect();
        Ok((code, Place { unit: frame_state.unit, stack, calls: at + 1 < from.len() }))
    };
    from.iter().enumerate().map(place).collect()
}

/// Returns the unit up to which the innermost of these frames runs as plain Python because nothing is computed before it; `None` if
/// something is computed.
fn walks(captured: &Captured, from: &[Rc<FrameState>]) -> Option<u32> {
    if !captured.is_empty() || captured.epilogue.steps().len() > 1 || captured.calls_instead {
        return None;
    }
    match captured.epilogue.suspends() {
        // Until it has returned to a frame that continues.
        None => Some(u32::MAX),
        Some(Suspension { base, .. }) if base + 1 < from.len() => Some(u32::MAX),
        Some(Suspension { frames, .. }) => (frames.len() == 1).then(|| frames[0].unit),
    }
}

/// Makes calls under these guards run as plain Python. Without guards, which is correct as well, this applies to all calls without another
/// matching entry.
fn leave(miss: &Miss<'_, '_>, backend: &impl Backend, found: GraphBreak, forbidden: bool, guards: Option<GuardSet>) -> PyResult<()> {
    let py = miss.function.py();
    let guards = guards.map_or_else(|| GuardBuilder::new().build(py), Ok)?;
    let plain = backend.capture_failed(py, found, forbidden)?;
    miss.cache.add(Entry::new(miss.callable.key(), miss.kind(), guards, Run::Plain(plain)));
    Ok(())
}
