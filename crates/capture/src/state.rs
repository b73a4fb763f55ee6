//! What a capture knows: where existing objects came from, which fakes are which nodes, what was assumed.

mod calling;
mod checkpoint;
mod existing;
mod guarding;
mod journal;
mod layers;
mod lines;
mod own;
mod standing;
mod tensors;
mod writes;

use std::{
    cell::{Cell, RefCell},
    ops::Deref,
    rc::Rc,
    sync::Arc,
};

use dynamlir_cpython_abi::lazy;
use dynamlir_frame::Floats;
use dynamlir_graph::Graph;
use dynamlir_guards::{Facet, GuardBuilder, SourceId};
use pyo3::{
    prelude::*,
    types::{PyList, PyTuple},
};

use self::{calling::Calling, existing::Existing, layers::Layers, lines::Locations, own::Own, tensors::Tensors, writes::Writes};
use crate::{
    effects::Effects,
    entered,
    graph_break::{GraphBreak, reason},
    patched::Facts,
    places::Places,
    sizes::Varying,
    torch::Torch,
};

pub(crate) use lines::{defined_at, raised_at};
pub(crate) use standing::Entry;
pub use standing::{Instead, Progress};
pub use tensors::Input;
pub(crate) use {
    journal::{Journal, Mark},
    standing::{Held, Left, Slot},
    writes::{Kind as WrittenKind, WritesNow, Written},
};

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

/// What one capture has found out so far, by concern. Shared by all frames that it interprets.
pub struct State {
    /// `dynamlir.capture.session.Session`, entered.
    session: Py<PyAny>,
    /// The operations recorded so far.
    ops: Py<PyList>,
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
    /// What a signal handler has raised.
    pub(crate) interruption: RefCell<Option<PyErr>>,
    /// Inputs, and the nodes of fakes.
    pub tensors: Tensors,
    /// Objects that existed before the frame.
    pub(crate) existing: Existing,
    /// What was decided of the numbers in them.
    pub(crate) places: Places,
    /// Objects that the frame has made.
    pub(crate) own: Own,
    /// What it has done to what existed.
    pub(crate) writes: Writes,
    /// The call that is being made.
    pub(crate) calling: Calling,
    /// Calls of modules that may be repeated.
    pub(crate) layers: Layers,
    /// What is guarded of torch, and how the capture began.
    pub(crate) facts: Facts,
    /// How far the captured frame is.
    pub(crate) progress: Progress,
    /// Where the value that the captured frame returns came from.
    pub(crate) returned: RefCell<Option<SourceId>>,
    /// How deep a value is looked into.
    pub(crate) nesting: Rc<Cell<usize>>,
    /// Whether C code is given a copy of each container, since one is changed after it was looked at.
    pub(crate) copies_containers: bool,
    /// Whether that would help.
    pub(crate) wants_copies: Cell<bool>,
    /// What is known of floats that change; None where they are all constants.
    pub(crate) floats: Option<Arc<Floats>>,
    /// Sizes that vary.
    pub(crate) varying: Varying,
    locations: Locations,
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
    #[expect(clippy::too_many_arguments, reason = "what a capture begins with")]
    pub(crate) fn new(
        session: &Bound<'_, PyAny>,
        effects: Rc<Effects>,
        torch: Rc<Torch>,
        stepped: bool,
        floats: Option<Arc<Floats>>,
        varying: Varying,
        copies_containers: bool,
        progress: Progress,
    ) -> PyResult<Rc<Self>> {
        Ok(Rc::new(Self {
            ops: session.getattr("recording")?.getattr("ops")?.cast_into::<PyList>()?.unbind(),
            session: session.clone().unbind(),
            effects,
            torch,
            guards: GuardBuilder::new(),
            graph: RefCell::default(),
            graph_break: RefCell::default(),
            interruption: RefCell::default(),
            tensors: Tensors::default(),
            existing: Existing::default(),
            places: Places::default(),
            own: Own::begin(session.py()),
            writes: Writes::default(),
            calling: Calling::default(),
            layers: Layers::new(!stepped && session.getattr("repeats")?.is_truthy()?),
            facts: Facts::new(session.py()),
            progress,
            returned: RefCell::default(),
            nesting: Rc::default(),
            copies_containers,
            wants_copies: Cell::default(),
            floats,
            varying,
            locations: Locations::default(),
        }))
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
            let result = match &self.own.births {
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

    /// Takes in something that existed before the frame. Tensors become fakes; what has an identity is remembered. Something may stand for a
    /// number: who reads the object itself [says so](Self::take).
    pub fn wrap(&self, object: Bound<'py, PyAny>, source: SourceId) -> Outcome<Tracked<'py>> {
        if self.torch.is_fake(&object) {
            return Ok(Tracked::new(object));
        }
        if self.torch.is_tensor(&object) {
            return self.input(&object, source).map(|object| Tracked { object, source: Some(source) });
        }
        if let Some(stands) = self.stand_in(&object, source)? {
            return Ok(Tracked::new(stands));
        }
        if object.cast_exact::<PyTuple>().is_ok_and(PyTupleMethods::is_empty) {
            // There is one empty tuple: the frame's own is the same object.
            self.guards.demand(source, Facet::Shape);
            self.pin_type(&object, source)?;
            self.guards.length(source, 0);
            return Ok(Tracked::new(object));
        }
        if lazy::is_placeholder(&object) {
            // Read from a namespace as an object, not loaded by its name: the next load of that changes what is there.
            return self.break_graph(reason::UNGUARDABLE, "the placeholder of a lazy import");
        }
        self.refuse_far(&object, source)?;
        self.guards.looked_up(source);
        if !self.torch.is_primitive(&object) {
            let first = self.note_existing(&object, source);
            if first != source {
                // Reached along two paths: that it is the same object is an assumption.
                self.guards.relate(dynamlir_guards::Relation::Same(first, source));
            }
        }
        Ok(Tracked { object, source: Some(source) })
    }

    /// How many operations were recorded.
    pub(crate) fn op_count(&self) -> usize {
        self.ops.bind(self.py).len()
    }
}

/// The name of a value's type, for messages.
pub fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().fully_qualified_name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}
