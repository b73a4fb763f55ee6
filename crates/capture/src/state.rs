//! The state of a capture: the sources of existing objects, the nodes of fakes, the assumptions made.

pub(crate) mod answers;
pub(crate) mod calling;
mod columns;
pub(crate) mod dynamic_sizes;
pub(crate) mod existing;
pub(crate) mod facts;
pub(crate) mod frames;
pub(crate) mod fresh;
pub(crate) mod guarding;
pub(crate) mod layers;
pub(crate) mod lines;
pub(crate) mod number_places;
pub(crate) mod outputs;
pub(crate) mod savepoint;
pub(crate) mod size_decisions;
pub(crate) mod tensors;
pub(crate) mod undo_map;
pub(crate) mod use_marks;
pub(crate) mod writes;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use dynamlir_cpython_abi::lazy;
use dynamlir_frame::ValueHistory;
use dynamlir_graph::Graph;
use dynamlir_guards::{Facet, GuardBuilder, SourceId};
use pyo3::{
    prelude::*,
    types::{PyList, PyTuple},
};

use crate::{
    floors::{Numbers, Record},
    graph_break::{GraphBreak, Halt, Outcome, reason},
    objects::{Tracked, effects::Effects, torch_types::Torch},
    recorder::Recorder,
    session_scope,
    state::{
        calling::Calling, dynamic_sizes::DynamicSizes, existing::Existing, facts::Facts, fresh::Own, layers::Layers, lines::Locations,
        number_places::Places, tensors::Tensors, writes::Writes,
    },
};

pub(crate) use crate::state::{
    frames::{Entry, Held, Left, Slot},
    lines::{defined_at, raised_at},
    undo_map::{Mark, UndoMap},
    writes::{WriteKind as WrittenKind, WritesNow, Written},
};

pub use crate::state::{
    frames::{Instead, Progress},
    tensors::Input,
};

/// Everything that one capture has found out so far, by concern. Shared by all frames that it interprets.
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
    /// The reason why the graph ended early; once set, everything unwinds.
    pub graph_break: RefCell<Option<GraphBreak>>,
    /// The exception raised by a signal handler.
    pub(crate) interruption: RefCell<Option<PyErr>>,
    /// Inputs, and the nodes of fakes.
    pub tensors: Tensors,
    /// Objects that existed before the frame.
    pub(crate) existing: Existing,
    /// The decisions about the numbers in them.
    pub(crate) places: Places,
    /// Objects that the frame has created.
    pub(crate) own: Own,
    /// The frame's writes to existing objects.
    pub(crate) writes: Writes,
    /// The current call.
    pub(crate) calling: Calling,
    /// Calls of modules that may be repeated.
    pub(crate) layers: Layers,
    /// The facts about torch that are guarded, and the state in which the capture began.
    pub(crate) facts: Facts,
    /// The progress of the captured frame.
    pub(crate) progress: Progress,
    /// The source of the value that the captured frame returns.
    pub(crate) returned: RefCell<Option<SourceId>>,
    /// The current depth of the value being inspected.
    pub(crate) nesting: Rc<Cell<usize>>,
    /// True if C code is given a copy of each container, because one is changed after C code has read it.
    pub(crate) copies_containers: bool,
    /// True if setting `copies_containers` would help.
    pub(crate) wants_copies: Cell<bool>,
    /// Observed values of changing floats; `None` treats every float as a constant.
    pub(crate) history: Option<Arc<ValueHistory>>,
    /// Dynamic sizes.
    pub(crate) sizes: DynamicSizes,
    locations: Locations,
}

impl State {
    /// Creates the state of a capture that uses an entered session.
    #[expect(clippy::too_many_arguments, reason = "what a capture begins with")]
    pub(crate) fn new(
        session: &Bound<'_, PyAny>,
        effects: Rc<Effects>,
        torch: Rc<Torch>,
        stepped: bool,
        floats: Option<Arc<ValueHistory>>,
        sizes: DynamicSizes,
        copies_containers: bool,
        progress: Progress,
    ) -> PyResult<Rc<Self>> {
        Ok(Rc::new(Self {
            ops: Recorder(session).ops()?.unbind(),
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
            layers: Layers::new(!stepped && Recorder(session).repeats()?),
            facts: Facts::new(session.py()),
            progress,
            returned: RefCell::default(),
            nesting: Rc::default(),
            copies_containers,
            wants_copies: Cell::default(),
            history: floats,
            sizes,
            locations: Locations::default(),
        }))
    }
}

impl<'py> Record<'py> {
    /// `dynamlir.capture.session.Session`.
    pub fn session(&self) -> &Bound<'py, PyAny> {
        self.state.session.bind(self.py)
    }

    /// Returns the requests that the session answers.
    pub(crate) fn recorder(&self) -> Recorder<'_, 'py> {
        Recorder(self.session())
    }

    /// Runs code outside the capture: Python is not interpreted, tensors are real.
    pub fn outside<T>(&self, body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        dynamlir_interpreter::suspended(|| {
            let outside = self.recorder().outside()?;
            outside.call_method0("__enter__")?;
            // Objects created there are tracked separately: they do not belong to the frame.
            let result = match &self.own.births {
                Some(births) => births.except(self.py, body),
                None => body(),
            };
            session_scope::leave(&outside)?;
            result
        })
    }

    /// Ends the capture.
    pub fn break_graph<T>(&self, reason: &'static str, message: impl Into<String>) -> Outcome<T> {
        Err(Halt::Break(GraphBreak { reason, message: message.into(), location: self.location() }))
    }

    /// Returns the number of recorded operations.
    pub(crate) fn op_count(&self) -> usize {
        self.ops.bind(self.py).len()
    }
}

impl<'py> Numbers<'py> {
    /// Takes in an object that existed before the frame. Tensors become fakes; objects with an identity are remembered. A number may get a
    /// stand-in: a reader of the object itself [requests it](Self::take).
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
            // Only one empty tuple exists: the frame's own is the same object.
            self.guards.demand(source, Facet::Shape);
            self.pin_type(&object, source)?;
            self.guards.length(source, 0);
            return Ok(Tracked::new(object));
        }
        if lazy::is_placeholder(&object) {
            // Read from a namespace as an object, not loaded by its name: the next load by name replaces it.
            return self.break_graph(reason::UNGUARDABLE, "the placeholder of a lazy import");
        }
        self.refuse_far(&object, source)?;
        self.guards.looked_up(source);
        if !self.torch.is_primitive(&object) {
            let first = self.note_existing(&object, source);
            if first != source {
                // Reached along two paths: the identity of both is an assumption.
                self.guards.relate(dynamlir_guards::Relation::Same(first, source));
            }
        }
        Ok(Tracked { object, source: Some(source) })
    }
}
