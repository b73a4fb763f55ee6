//! What a capture knows: where existing objects came from, which fakes are which nodes, what was assumed.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, HashSet},
    ops::Deref,
    rc::Rc,
};

use dynamlir_cpython_abi::Births;
use dynamlir_graph::{Example, Graph, Line, NodeId};
use dynamlir_guards::{Guard, GuardBuilder, GuardError, Source, SourceId, TensorMatch};
use pyo3::{
    exceptions::PyException,
    prelude::*,
    types::{PyList, PyTuple},
};

use crate::{
    beneath::Native,
    effects::Effects,
    entered,
    graph_break::{GraphBreak, reason},
    patched::Facts,
    repeats::Known,
    torch::Torch,
};

/// How many frames, from the innermost on, are said to be where something happens: all of them would take quadratic time and memory
/// where functions call themselves.
const DEEPEST_LOCATION: usize = 64;

/// An object, and where it was reached if it existed before the frame.
#[derive(Clone, Debug)]
pub struct Tracked<'py> {
    /// The object; the fake where it is a tensor.
    pub object: Bound<'py, PyAny>,
    /// Where it came from; None for what the frame made.
    pub source: Option<SourceId>,
}

impl<'py> Tracked<'py> {
    /// Something the frame made.
    pub fn new(object: Bound<'py, PyAny>) -> Self {
        Self { object, source: None }
    }
}

/// Why an operation has no result.
#[derive(Debug)]
pub enum Halt {
    /// Python raised; the frame may handle it.
    Raise(PyErr),
    /// The capture ends.
    Break(GraphBreak),
}

impl From<PyErr> for Halt {
    fn from(error: PyErr) -> Self {
        Self::Raise(error)
    }
}

/// A result while capturing.
pub type Outcome<T> = Result<T, Halt>;

/// A tensor that the frame reads.
#[derive(Debug)]
pub struct Input {
    /// Its stand-in.
    pub fake: Py<PyAny>,
    /// The tensor itself.
    pub real: Py<PyAny>,
    /// Where it was first reached.
    pub source: SourceId,
    /// Its placeholder.
    pub node: NodeId,
}

/// What one capture has found out so far. Shared by all frames that it interprets.
pub struct State {
    /// `dynamlir.capture.session.Session`, entered.
    session: Py<PyAny>,
    /// The table of C functions.
    pub effects: Rc<Effects>,
    /// Torch's types.
    pub torch: Rc<Torch>,
    /// Sources and guards.
    pub guards: GuardBuilder,
    /// The torch-level graph.
    pub graph: RefCell<Graph<Py<PyAny>>>,
    /// Why it ended early; once set, everything unwinds.
    pub graph_break: RefCell<Option<GraphBreak>>,
    /// How deep a value is looked into.
    pub(crate) nesting: Rc<Cell<usize>>,
    /// What a signal handler has raised.
    pub(crate) interruption: RefCell<Option<PyErr>>,
    /// Tensors read, in order.
    pub inputs: RefCell<Vec<Input>>,
    /// Their places, by the addresses of tensors and of fakes.
    input_places: RefCell<HashMap<usize, usize>>,
    /// Objects that existed before the frame, by address, kept alive.
    existing: RefCell<HashMap<usize, (Py<PyAny>, SourceId)>>,
    /// Copies of existing containers with fakes for tensors, by address of the original.
    pub(crate) snapshots: RefCell<HashMap<usize, Py<PyAny>>>,
    /// The other way round: the container that a copy stands for, by the address of the copy, and where it was reached.
    pub(crate) originals: RefCell<HashMap<usize, (Py<PyAny>, SourceId)>>,
    /// What the frame has made; None where frames of this CPython are not known.
    pub(crate) births: Option<Births>,
    /// The node of each fake, by address, kept alive.
    nodes: RefCell<HashMap<usize, (Py<PyAny>, NodeId)>>,
    /// The operations recorded so far.
    ops: Py<PyList>,
    /// Whether calls of modules may be repeated without interpreting them.
    pub(crate) repeats: bool,
    /// Calls of modules, by all that they could be told apart by.
    pub(crate) calls: RefCell<HashMap<String, Known>>,
    /// How often something was done that running the graph's nodes again would not do.
    pub(crate) unrepeatable: Cell<usize>,
    /// Attributes of existing objects that the frame has set or deleted: the object, the name, the value. The objects
    /// themselves are not touched.
    pub(crate) written: RefCell<Vec<Written>>,
    /// Functions that the frame made, by address, kept alive; with the existing function whose globals they share, None
    /// for the one that is captured.
    made: RefCell<MadeByAddress>,
    /// Cells of existing functions that were handed to functions the frame made, by address, kept alive.
    pub(crate) cells: RefCell<HashMap<usize, (Py<PyAny>, SourceId)>>,
    /// The address of the function that a call of the frame's is about to start; 0 for none.
    pub(crate) entering: Cell<usize>,
    /// The address of the function with arguments that C code has started last, if that is not `entering`; else 0.
    pub(crate) called_back: Cell<usize>,
    /// Whether C code looks for an attribute that a module may lack.
    pub(crate) asks_a_module: Cell<bool>,
    /// The C code that runs.
    pub(crate) native: RefCell<Option<Native>>,
    /// Existing objects whose contents are guarded, by address; whether they hold tensors.
    pub(crate) looked_into: RefCell<HashMap<usize, bool>>,
    /// Where the class of existing objects is reached, by its address: through the first of them, whose
    /// guard keeps it alive.
    pub(crate) classes: RefCell<HashMap<usize, SourceId>>,
    /// Classes and functions of theirs that C code has called, which are guarded, by their addresses.
    pub(crate) specials: RefCell<HashSet<(usize, usize)>>,
    /// Existing objects that C code has compared with others by identity.
    pub(crate) compared: RefCell<HashSet<SourceId>>,
    /// First units and lines of code objects, by address, kept alive.
    lines: RefCell<LinesByCode>,
    /// What is guarded of torch, and how the capture began.
    pub(crate) facts: Facts,
    /// Where the value that the captured frame returns came from.
    pub(crate) returned: RefCell<Option<SourceId>>,
}

/// An attribute of an existing object as the frame has left it.
pub(crate) struct Written {
    pub owner: Py<PyAny>,
    pub source: SourceId,
    pub name: String,
    /// None for a deleted one.
    pub value: Option<Py<PyAny>>,
    /// What the object itself stores under the name.
    pub before: Option<Py<PyAny>>,
    /// The Python lines of the latest write.
    pub location: Vec<Line>,
    /// Whether it was deleted in between: set again it is the last of all.
    pub deleted: bool,
}

/// By the address of a function, which is kept alive.
type MadeByAddress = HashMap<usize, (Py<PyAny>, Option<SourceId>)>;

/// By the address of a code object, which is kept alive.
type LinesByCode = HashMap<usize, (Py<PyAny>, Rc<Lines>)>;

/// File, function name, and the lines of a code object's units.
struct Lines {
    file: String,
    function: String,
    ranges: Vec<(u32, u32)>,
}

/// A capture under the lock.
pub struct Capture<'py> {
    /// The interpreter.
    pub py: Python<'py>,
    state: Rc<State>,
}

impl Deref for Capture<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl State {
    /// A capture that uses an entered session.
    pub fn new(session: &Bound<'_, PyAny>, effects: Rc<Effects>, torch: Rc<Torch>, stepped: bool) -> PyResult<Rc<Self>> {
        Ok(Rc::new(Self {
            repeats: !stepped && session.getattr("repeats")?.is_truthy()?,
            ops: session.getattr("recording")?.getattr("ops")?.cast_into::<PyList>()?.unbind(),
            calls: RefCell::default(),
            unrepeatable: Cell::new(0),
            input_places: RefCell::default(),
            session: session.clone().unbind(),
            effects,
            torch,
            guards: GuardBuilder::new(),
            graph: RefCell::default(),
            graph_break: RefCell::default(),
            interruption: RefCell::default(),
            nesting: Rc::default(),
            inputs: RefCell::default(),
            existing: RefCell::default(),
            snapshots: RefCell::default(),
            originals: RefCell::default(),
            births: dynamlir_cpython_abi::abi(session.py()).ok().map(|abi| Births::begin(session.py(), abi)),
            nodes: RefCell::default(),
            written: RefCell::default(),
            made: RefCell::default(),
            cells: RefCell::default(),
            looked_into: RefCell::default(),
            classes: RefCell::default(),
            compared: RefCell::default(),
            specials: RefCell::default(),
            entering: Cell::new(0),
            called_back: Cell::new(0),
            asks_a_module: Cell::new(false),
            native: RefCell::default(),
            lines: RefCell::default(),
            facts: Facts::new(session.py()),
            returned: RefCell::default(),
        }))
    }
}

impl State {
    /// The node of the fake at an address.
    pub(crate) fn node_at(&self, fake: usize) -> Option<NodeId> {
        self.nodes.borrow().get(&fake).map(|(_, node)| *node)
    }
}

impl<'py> Capture<'py> {
    /// The capture, while the lock is held.
    pub fn new(py: Python<'py>, state: Rc<State>) -> Self {
        Self { py, state }
    }

    /// `dynamlir.capture.session.Session`.
    pub fn session(&self) -> &Bound<'py, PyAny> {
        self.state.session.bind(self.py)
    }

    /// Calls a method of the session, outside of what is captured.
    pub fn ask(&self, method: &str, args: impl pyo3::call::PyCallArgs<'py>) -> PyResult<Bound<'py, PyAny>> {
        dynamlir_interpreter::suspended(|| self.session().call_method1(method, args))
    }

    /// Runs something outside of what is captured: Python is not interpreted, tensors are real.
    pub fn outside<T>(&self, body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        dynamlir_interpreter::suspended(|| {
            let outside = self.session().call_method0("outside")?;
            outside.call_method0("__enter__")?;
            // What is made in there is kept elsewhere: it is not the frame's.
            let result = match &self.births {
                Some(births) => births.except(self.py, body),
                None => body(),
            };
            entered::leave(&outside)?;
            result
        })
    }

    /// Ends the capture.
    pub fn break_graph<T>(&self, reason: &'static str, message: impl Into<String>) -> Outcome<T> {
        Err(Halt::Break(GraphBreak { reason, message: message.into(), location: self.location() }))
    }

    /// The Python lines being run, innermost first.
    pub fn location(&self) -> Vec<Line> {
        let mut found = Vec::new();
        let mut place = dynamlir_interpreter::here();
        while let Some(at) = place.filter(|_| found.len() < DEEPEST_LOCATION) {
            let lines = self.lines_of(at.code(self.py));
            let before = lines.ranges.partition_point(|(unit, _)| *unit <= at.unit());
            let line = before.checked_sub(1).map_or(0, |index| lines.ranges[index].1);
            found.push((lines.file.clone(), line, lines.function.clone()));
            place = at.outer().cloned();
        }
        found
    }

    fn lines_of(&self, code: &Bound<'py, PyAny>) -> Rc<Lines> {
        if let Some((_, known)) = self.lines.borrow().get(&(code.as_ptr() as usize)) {
            return known.clone();
        }
        let text = |name: &str| code.getattr(name).and_then(|value| value.extract()).unwrap_or_default();
        let ranges = code.call_method0("co_lines").and_then(|lines| {
            let mut ranges = Vec::new();
            for entry in lines.try_iter()? {
                let (start, _, line): (u32, u32, Option<u32>) = entry?.extract()?;
                if let Some(line) = line {
                    ranges.push((start / 2, line));
                }
            }
            Ok(ranges)
        });
        let made = Rc::new(Lines { file: text("co_filename"), function: text("co_name"), ranges: ranges.unwrap_or_default() });
        self.lines.borrow_mut().insert(code.as_ptr() as usize, (code.clone().unbind(), made.clone()));
        made
    }

    /// Says that the frame made this function, beneath the existing function at `owner`.
    pub fn note_made(&self, function: &Bound<'py, PyAny>, owner: Option<SourceId>) {
        self.made.borrow_mut().insert(function.as_ptr() as usize, (function.clone().unbind(), owner));
    }

    /// The existing function whose globals a function that the frame made shares; None for the one that is captured.
    pub fn made_beneath(&self, function: &Bound<'py, PyAny>) -> Option<SourceId> {
        self.made.borrow().get(&(function.as_ptr() as usize)).and_then(|(_, owner)| *owner)
    }

    /// Whether the frame made this function.
    pub fn is_made(&self, function: &Bound<'py, PyAny>) -> bool {
        self.made.borrow().contains_key(&(function.as_ptr() as usize))
    }

    /// Where an object was reached, if it existed before the frame.
    pub fn source_of(&self, object: &Bound<'py, PyAny>) -> Option<SourceId> {
        self.existing.borrow().get(&(object.as_ptr() as usize)).map(|(_, source)| *source)
    }

    /// Where a value was reached: noted on the value itself, or for its object.
    pub fn source(&self, value: &Tracked<'py>) -> Option<SourceId> {
        value.source.or_else(|| self.source_of(&value.object))
    }

    /// Takes in something that existed before the frame. Tensors become fakes; what has an identity is remembered.
    pub fn wrap(&self, object: Bound<'py, PyAny>, source: SourceId) -> Outcome<Tracked<'py>> {
        if self.torch.is_fake(&object) {
            return Ok(Tracked::new(object));
        }
        if self.torch.is_tensor(&object) {
            return self.input(&object, source).map(|object| Tracked { object, source: Some(source) });
        }
        if object.cast_exact::<PyTuple>().is_ok_and(PyTupleMethods::is_empty) {
            // There is one empty tuple: the frame's own is the same object.
            self.pin_type(&object, source)?;
            self.guards.length(source, 0);
            return Ok(Tracked::new(object));
        }
        self.refuse_far(&object, source)?;
        self.guards.looked_up(source);
        if !self.torch.is_primitive(&object) {
            let key = object.as_ptr() as usize;
            let first = {
                let mut existing = self.existing.borrow_mut();
                existing.entry(key).or_insert_with(|| (object.clone().unbind(), source)).1
            };
            if first != source {
                // Reached on two ways: that it is the same object is an assumption.
                self.guards.relate(dynamlir_guards::Relation::Same(first, source));
            }
            return Ok(Tracked { object, source: Some(source) });
        }
        Ok(Tracked { object, source: Some(source) })
    }

    /// The fake of a tensor reached at `source`.
    pub(crate) fn input(&self, real: &Bound<'py, PyAny>, source: SourceId) -> Outcome<Bound<'py, PyAny>> {
        self.refuse_dynamic(real, source)?;
        let expression = self.guards.expression(source);
        let fake = self.ask("input", (real, &expression)).or_else(|error| self.refused_input(error))?;
        self.note_input(&fake, real, source)?;
        Ok(fake)
    }

    /// Why a tensor cannot be an input.
    pub(crate) fn refused_input<T>(&self, error: PyErr) -> Outcome<T> {
        Err(match self.session_error(error) {
            // Of ours: no handler of the frame's may see it.
            Halt::Raise(error) if error.is_instance_of::<PyException>(self.py) => {
                Halt::Break(GraphBreak { location: self.location(), ..GraphBreak::internal(&error) })
            }
            halt => halt,
        })
    }

    /// Says which tensor a fake stands for, and where it was reached; the first time it is a placeholder.
    pub(crate) fn note_input(&self, fake: &Bound<'py, PyAny>, real: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        match self.input_source(fake) {
            Some(first) if first != source => {
                self.guards.relate(dynamlir_guards::Relation::Same(first, source));
            }
            Some(_) => {}
            None => {
                let matched = self.guarded(TensorMatch::of(real))?;
                self.guards.tensor(source, matched);
                let expression = self.guards.expression(source);
                let node = self.graph.borrow_mut().placeholder(&placeholder_name(&expression), &expression);
                self.bind(fake, node);
                let mut inputs = self.inputs.borrow_mut();
                for object in [fake, real] {
                    self.input_places.borrow_mut().insert(object.as_ptr() as usize, inputs.len());
                }
                inputs.push(Input { fake: fake.clone().unbind(), real: real.clone().unbind(), source, node });
            }
        }
        Ok(())
    }

    /// Says which node a fake is the value of.
    pub fn bind(&self, fake: &Bound<'py, PyAny>, node: NodeId) {
        self.nodes.borrow_mut().insert(fake.as_ptr() as usize, (fake.clone().unbind(), node));
        self.graph.borrow_mut().set_example(node, Example::Is(fake.clone().unbind()));
    }

    /// The fake that is the value of the node at a place.
    pub(crate) fn fake_of(&self, place: usize) -> Option<Bound<'py, PyAny>> {
        match &self.graph.borrow().nodes().get(place)?.example {
            Example::Is(fake) => Some(fake.bind(self.py).clone()),
            _ => None,
        }
    }

    /// How many operations were recorded.
    pub(crate) fn op_count(&self) -> usize {
        self.ops.bind(self.py).len()
    }

    /// How many classes of existing objects were met.
    pub(crate) fn class_count(&self) -> usize {
        self.classes.borrow().len()
    }

    /// Where the existing objects were first reached.
    pub(crate) fn existing_sources(&self) -> Vec<SourceId> {
        self.existing.borrow().values().map(|(_, source)| *source).collect()
    }

    /// Says where an existing object was reached, which is new.
    pub(crate) fn note_existing(&self, object: &Bound<'py, PyAny>, source: SourceId) {
        self.existing.borrow_mut().entry(object.as_ptr() as usize).or_insert_with(|| (object.clone().unbind(), source));
    }

    /// Where a tensor was first reached, by itself or by its fake.
    pub(crate) fn input_source(&self, tensor: &Bound<'py, PyAny>) -> Option<SourceId> {
        let place = *self.input_places.borrow().get(&(tensor.as_ptr() as usize))?;
        Some(self.inputs.borrow()[place].source)
    }

    /// The fake of a tensor that was read.
    pub(crate) fn fake_of_real(&self, real: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        let place = *self.input_places.borrow().get(&(real.as_ptr() as usize))?;
        let inputs = self.inputs.borrow();
        inputs[place].real.is(real).then(|| inputs[place].fake.bind(self.py).clone())
    }

    /// The node of a fake.
    pub fn node(&self, fake: &Bound<'py, PyAny>) -> Option<NodeId> {
        self.node_at(fake.as_ptr() as usize)
    }

    /// The tensor that a fake stands for, where the frame did not compute it.
    pub fn real_of(&self, fake: &Bound<'py, PyAny>) -> Option<(Bound<'py, PyAny>, SourceId)> {
        let place = *self.input_places.borrow().get(&(fake.as_ptr() as usize))?;
        let inputs = self.inputs.borrow();
        inputs[place].fake.is(fake).then(|| (inputs[place].real.bind(self.py).clone(), inputs[place].source))
    }

    /// Guards a primitive's value, because it decides something or goes where its source is not followed.
    pub fn settle(&self, value: &Tracked<'py>) -> Outcome<()> {
        let Some(source) = value.source else { return Ok(()) };
        if self.torch.is_fake(&value.object) || self.source_of(&value.object).is_some() {
            return Ok(());
        }
        if !self.guarded(self.guards.equals(source, &value.object))? {
            if value.object.is(self.py.NotImplemented()) {
                return self.pin_type(&value.object, source);
            }
            return self.break_graph(reason::UNGUARDABLE, format!("{} at {}", type_name(&value.object), self.guards.expression(source)));
        }
        Ok(())
    }

    /// What comes of noting a guard; where none can be, the capture ends: it is no exception of the frame's.
    pub fn guarded<T>(&self, outcome: Result<T, GuardError>) -> Outcome<T> {
        outcome.map_err(|error| self.unguardable(&error, error.to_string()))
    }

    fn unguardable(&self, error: &GuardError, message: String) -> Halt {
        let interrupted = if let GuardError::Python(error) = error { self.interruption(error) } else { None };
        interrupted.unwrap_or_else(|| Halt::Break(GraphBreak { reason: reason::UNGUARDABLE, message, location: self.location() }))
    }

    /// Guards that an existing object is this very one: functions, classes, modules.
    pub fn pin(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        match self.guards.identity(source, object) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.unguardable(&error, format!("{} at {}", type_name(object), self.guards.expression(source)))),
        }
    }

    /// Guards the type of an existing object.
    pub fn pin_type(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        self.guards.add(source, Guard::Type(object.get_type().into_any().unbind()));
        Ok(())
    }

    /// Where the class of an existing object is reached; guards the type. All objects of a class share one source for it, so that
    /// what the class holds is guarded once.
    pub fn class_source(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<SourceId> {
        self.pin_type(object, source)?;
        let class = object.get_type_ptr() as usize;
        Ok(*self.classes.borrow_mut().entry(class).or_insert_with(|| self.guards.source(Source::Type(source))))
    }
}

/// The name of a value's type, for messages.
pub fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().fully_qualified_name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}

/// `L['x']` → `x`; `L['self']._modules['fc'].weight` → `self_modules_fc_weight`.
fn placeholder_name(expression: &str) -> String {
    let plain = expression.strip_prefix("L['").and_then(|rest| rest.strip_suffix("']")).filter(|name| !name.contains('['));
    if let Some(name) = plain {
        return name.to_owned();
    }
    let mut out = String::new();
    for c in expression.strip_prefix("L").unwrap_or(expression).chars() {
        if c.is_alphanumeric() || c == '_' {
            out.push(c);
        } else if !out.is_empty() && !out.ends_with('_') {
            out.push('_');
        }
    }
    out.trim_end_matches('_').to_owned()
}
