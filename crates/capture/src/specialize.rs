//! From a call that no entry fits to an entry for it: captured, compiled by somebody else, added to the cache.

use std::{rc::Rc, sync::Arc};

use dynamlir_bytecode::Place;
use dynamlir_cpython_abi::collector;
use dynamlir_frame::{Broke, CompiledGraph, Entry, Epilogue, Miss, NoGraph, Plain, Replay, Run, Suspension, settings};
use dynamlir_graph::{Graph, Kind, Line};
use dynamlir_guards::{GuardBuilder, GuardError, GuardSet, TensorMatch, Texts};
use dynamlir_interpreter::Standing;
use pyo3::prelude::*;

use crate::{
    audit::Audit,
    graph_break::{GraphBreak, reason},
    refusals::words_of,
    run::{Before, Breaks, Broken, Captured, Ends, Subject, Tables, capture},
    sizes::{Dynamic, Unbacked},
    state::Input,
};

/// What backends and people look at of a frame that was captured whole.
pub struct WholeFrame {
    /// The torch-level graph.
    pub graph: Graph<Py<PyAny>>,
    /// The guards, in words.
    pub guards: Arc<Texts>,
    /// Where the inputs come from, as Python expressions.
    pub sources: Vec<String>,
    /// What the call does to what existed once the graph has run, in words, each with the lines that ask for it.
    pub effects: Vec<(String, Vec<Line>)>,
    /// The tensors that the graph is given.
    pub inputs: Vec<Py<PyAny>>,
    /// The session, with the finished recording.
    pub session: Py<PyAny>,
    /// What the call came to, where somebody wants to see it.
    pub ends: Option<Ends>,
    /// The code of the frames that it goes on with, the outermost first, and where each stands; none where it begins.
    pub from: Vec<(Py<PyAny>, Place)>,
}

/// What an entry for it needs besides a compiled graph.
pub struct EntryParts {
    guards: GuardSet,
    tensors: Vec<usize>,
    numbers: Vec<(usize, TensorMatch)>,
    epilogue: Epilogue,
}

/// What a backend makes of a frame.
pub enum Compilation {
    /// A compiled graph.
    Graph(Box<dyn CompiledGraph>),
    /// Nothing: such calls are plain Python.
    Plain(Plain),
}

/// Who compiles what was captured, and is told what could not be.
pub trait Backend {
    /// Whether its graphs may have numbers that are read from tensors, and those that are floats which change; which sizes may vary.
    ///
    /// # Errors
    /// What the call raises.
    fn takes_numbers(&self, py: Python<'_>) -> PyResult<(bool, bool, Dynamic)>;

    /// What its graphs may have that only running tells.
    ///
    /// # Errors
    /// What the call raises.
    fn takes_unbacked(&self, py: Python<'_>) -> PyResult<Unbacked>;

    /// Whether its graphs may have torch's recurrent layers, which torch.compile leaves out of all graphs by default.
    ///
    /// # Errors
    /// What the call raises.
    fn takes_recurrent(&self, py: Python<'_>) -> PyResult<bool>;

    /// Compiles a frame.
    ///
    /// # Errors
    /// What the call raises.
    fn compile(&self, py: Python<'_>, frame: WholeFrame) -> PyResult<Compilation>;

    /// Such calls are plain Python, since the graph breaks; `forbidden` says that it does where the program does not want that.
    ///
    /// # Errors
    /// What the call raises: some want all or nothing.
    fn broken(&self, py: Python<'_>, found: GraphBreak, forbidden: bool) -> PyResult<Plain>;

    /// The graph of such calls ends before the frame does: Python runs what comes there, and the frame goes on in another graph. Returns
    /// what is told of that.
    ///
    /// # Errors
    /// What the call raises: some want all or nothing.
    fn broke(&self, py: Python<'_>, found: GraphBreak) -> PyResult<Py<PyAny>>;

    /// Whether a frame may be captured in pieces, whether only around regions, and after how many instructions each of them ends in
    /// any case.
    ///
    /// # Errors
    /// What the call raises.
    fn pieces(&self, py: Python<'_>) -> PyResult<(bool, bool, Option<usize>)>;

    /// An entry was made, and is about to be added.
    ///
    /// # Errors
    /// What the call raises; the entry is not added.
    fn made(&self, miss: &Miss<'_, '_>, entry: &Entry) -> PyResult<()>;
}

impl Captured {
    /// Whether there is nothing to compute.
    fn is_empty(&self) -> bool {
        self.graph.nodes().iter().all(|node| matches!(node.kind, Kind::Placeholder | Kind::Output))
    }

    /// What others look at, and what an entry needs.
    ///
    /// # Errors
    /// When something cannot be guarded.
    pub fn take_apart(self, py: Python<'_>) -> Result<(WholeFrame, EntryParts), GuardError> {
        let Self { graph, guards, inputs, tensors, epilogue, effects, session, ends, .. } = self;
        let sources = inputs.iter().map(|input| guards.stored_expression(input.source)).collect();
        let numbers = inputs.iter().enumerate().filter(|(_, input)| input.number);
        // What is as long as an int says has another size at each call.
        let made = |input: &Input| {
            let mut made = TensorMatch::of(input.real.bind(py))?;
            made.meta.sizes.fill(None);
            Ok::<_, GuardError>(made)
        };
        let numbers = numbers.map(|(at, input)| Ok((at, made(input)?))).collect::<Result<_, GuardError>>()?;
        let inputs = inputs.into_iter().map(|input| input.real).collect();
        let guards = guards.build(py)?;
        let frame = WholeFrame { graph, guards: guards.texts(), sources, effects, inputs, session, ends, from: Vec::new() };
        Ok((frame, EntryParts { guards, tensors, numbers, epilogue }))
    }
}

/// Captures a call, has it compiled and adds an entry: there is one for such calls afterwards. With `steps`, each instruction is shown.
///
/// # Errors
/// An interruption, which is the caller's, or what the backend raises.
pub fn specialize(miss: &Miss<'_, '_>, steps: Option<&Py<PyAny>>, backend: &impl Backend) -> PyResult<()> {
    let py = miss.function.py();
    let _no_collection = collector::pause(py);
    let (reads, changes, sizes) = backend.takes_numbers(py)?;
    let (cache, key) = (miss.cache, miss.callable.key());
    let floats = if changes { Some(cache.floats(key)) } else { None };
    let (breaks, only_regions, every) = backend.pieces(py)?;
    let subject = Subject {
        steps,
        floats: floats.as_ref(),
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
        ..Subject::new(miss.function, &miss.given.args, Some(&miss.given.kwargs))
    };
    let outcome = capture(&Tables::of(py)?, subject)?;
    let mut captured = match outcome {
        Ok(captured) => captured,
        Err(Broken { graph_break, guards, forbids, .. }) => {
            let forbidden = forbids == Some(true) || settings::breaks_are_errors(py);
            let guards = match guards.build(py) {
                Ok(guards) => Some(guards),
                Err(error) => words_of(py, &error).map(|_| None)?,
            };
            return leave(miss, backend, graph_break, forbidden, guards);
        }
    };
    let found = captured.graph_break.take();
    // Before others look at it: they see the frame as it is called.
    let is_empty = captured.is_empty();
    if let Some(until) = miss.from.and_then(|from| walks(&captured, from)) {
        // What is compiled of it would be no less work.
        cache.walk(key, until, found.is_some() && !captured.allowed);
        return found.map_or(Ok(()), |found| backend.broke(py, found).map(drop));
    }
    let is_idle = is_empty && captured.epilogue.suspends().is_none() && miss.from.is_none() && miss.callable.share().is_called();
    if is_idle && cache.has_idle(key) {
        // It seems to be one that never computes anything, such as the lookup of a module.
        cache.walk(key, u32::MAX, false);
        return Ok(());
    }
    let allowed = captured.allowed;
    let breaks = found.map(|found| backend.broke(py, found)).transpose()?.map(|why| Broke { why, allowed });
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
        backend.compile(py, WholeFrame { from, ..frame })?
    };
    let run = match compilation {
        Compilation::Graph(graph) => Run::graph(graph, tensors, &numbers, epilogue, &guards, breaks),
        Compilation::Plain(plain) => Run::Plain(plain),
    };
    let kind = miss.kind();
    let replay = audit.map(|audit| Box::new(audit.of_guards(&guards.texts())) as Box<dyn Replay>);
    let entry = Entry::new(miss.callable.key(), kind, guards, run).with_replay(replay);
    backend.made(miss, &entry)?;
    cache.add(entry);
    Ok(())
}

/// Where frames stand, each but the last in a call.
fn places(miss: &Miss<'_, '_>, from: &[Rc<Standing>]) -> PyResult<Vec<(Py<PyAny>, Place)>> {
    let py = miss.function.py();
    let place = |(at, standing): (usize, &Rc<Standing>)| {
        let own = || miss.function.getattr("__code__").map(Bound::unbind);
        let code = standing.code.as_ref().map_or_else(own, |code| Ok(code.clone_ref(py)))?;
        let stack = standing.stack.iter().map(Option::is_some).collect();
        Ok((code, Place { unit: standing.unit, stack, calls: at + 1 < from.len() }))
    };
    from.iter().enumerate().map(place).collect()
}

/// Up to which unit the innermost of these frames is Python's because nothing is computed before; None if something is.
fn walks(captured: &Captured, from: &[Rc<Standing>]) -> Option<u32> {
    if !captured.is_empty() || captured.epilogue.steps().len() > 1 || captured.calls_instead {
        return None;
    }
    match captured.epilogue.suspends() {
        // Until it has returned to one that goes on.
        None => Some(u32::MAX),
        Some(Suspension { base, .. }) if base + 1 < from.len() => Some(u32::MAX),
        Some(Suspension { frames, .. }) => (frames.len() == 1).then(|| frames[0].unit),
    }
}

/// Leaves calls under these guards to plain Python; without guards, which is right as well, all that no other entry fits.
fn leave(miss: &Miss<'_, '_>, backend: &impl Backend, found: GraphBreak, forbidden: bool, guards: Option<GuardSet>) -> PyResult<()> {
    let py = miss.function.py();
    let guards = guards.map_or_else(|| GuardBuilder::new().build(py), Ok)?;
    let plain = backend.broken(py, found, forbidden)?;
    miss.cache.add(Entry::new(miss.callable.key(), miss.kind(), guards, Run::Plain(plain)));
    Ok(())
}
