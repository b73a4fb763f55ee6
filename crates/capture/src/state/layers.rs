//! Module calls seen so far, so that equal ones need not be interpreted; see [`crate::recipes::repeated_layers`].

use std::{
    cell::{Cell, OnceCell, RefCell},
    rc::Rc,
};

use dynamlir_graph::NodeId;
use dynamlir_guards::{SharedGuards, SourceId};
use dynamlir_torch_abi::State as TorchState;
use pyo3::{prelude::*, types::PyList};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::state::{
    WritesNow,
    undo_map::{Mark, UndoMap},
};

/// The history of calls that cannot be distinguished.
#[derive(Clone)]
pub(crate) enum SeenCalls {
    /// There was one call.
    Once,
    /// There were two calls, and the second is a pattern.
    Twice(Rc<RecordedCall>),
    /// None of the calls is a pattern.
    Never,
}

/// A call that was captured and may be repeated.
pub(crate) struct RecordedCall {
    /// The source of its module.
    pub(crate) root: SourceId,
    /// The nodes that it created: from, to.
    pub(crate) nodes: (usize, usize),
    /// Its stores to variables, among all stores: from, to.
    pub(crate) stores: (usize, usize),
    /// The operations that it recorded: from, to.
    pub(crate) ops: (usize, usize),
    /// The nodes of its arguments.
    pub(crate) arguments: Vec<NodeId>,
    /// The first sources of the arguments that are existing objects.
    pub(crate) existing: Vec<SourceId>,
    pub(crate) result: Made,
    /// The writes to existing objects at that time. The call has read none of them.
    pub(crate) written: WritesNow,
    pub(crate) state: TorchState,
    pub(crate) template: OnceCell<Option<Template>>,
    /// True if an attempt to repeat it has failed.
    pub(crate) fails: Cell<bool>,
}

/// The data needed to repeat a region.
pub(crate) struct Template {
    pub(crate) part: SharedGuards,
    /// The first sources of existing objects.
    pub(crate) objects: Vec<SourceId>,
    /// The sources of the tensors that are placeholders of the region, by node.
    pub(crate) inputs: FxHashMap<usize, SourceId>,
    /// Nodes outside the region that are the same for all calls.
    pub(crate) outside: FxHashSet<usize>,
    /// True if one of these, or an argument, is a tensor or an object of the module itself that was read before: another module has a
    /// different one.
    pub(crate) reads_known: bool,
    /// The Python lines of each node, as Python objects.
    pub(crate) lines: Vec<Option<Py<PyList>>>,
    /// True if each node's value is a tensor, or is taken apart into tensors by other nodes.
    pub(crate) is_whole: bool,
    /// The nodes that it creates and returns: of its values, the frame sees only these and the inputs.
    pub(crate) results: Vec<usize>,
    /// Its operations in the form that the session repeats; `None` if it cannot.
    pub(crate) span: OnceCell<Option<Span>>,
}

/// A value that a call returns.
pub(crate) enum Made {
    Node(NodeId),
    Constant(Py<PyAny>),
    Tuple(Vec<Made>),
}

impl Made {
    pub(crate) fn nodes(&self) -> Vec<usize> {
        match self {
            Self::Node(node) => vec![node.index()],
            Self::Constant(_) => Vec::new(),
            Self::Tuple(items) => items.iter().flat_map(Self::nodes).collect(),
        }
    }
}

/// Operations that the session can record again.
pub(crate) struct Span {
    /// The session's representation of them.
    pub(crate) operations: Py<PyAny>,
    /// Nodes whose values are inputs of the region, arguments or outside tensors, with their positions among these: `x.to(x.dtype)`.
    pub(crate) same: Vec<(usize, usize)>,
}

/// The module calls of a capture.
#[derive(Default)]
pub struct Layers {
    /// True if calls may be repeated without interpreting them.
    pub(crate) repeat: bool,
    /// Calls, by everything that distinguishes them.
    pub(crate) calls: RefCell<UndoMap<String, SeenCalls>>,
    /// The number of actions that running the graph's nodes again would not repeat.
    unrepeatable: Cell<usize>,
}

/// A savepoint of [`Layers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayersMark {
    calls: Mark,
    unrepeatable: usize,
}

impl Layers {
    pub(crate) fn new(repeat: bool) -> Self {
        Self { repeat, ..Self::default() }
    }

    /// Records an action that running the graph's nodes again would not repeat.
    pub(crate) fn note_unrepeatable(&self) {
        self.unrepeatable.set(self.unrepeatable.get() + 1);
    }

    /// Returns the number of recorded actions.
    pub(crate) fn unrepeatable(&self) -> usize {
        self.unrepeatable.get()
    }

    pub(crate) fn mark(&self) -> LayersMark {
        LayersMark { calls: self.calls.borrow().mark(), unrepeatable: self.unrepeatable.get() }
    }

    pub(crate) fn roll_back(&self, to: LayersMark) {
        let calls = self.calls.borrow_mut().roll_back(to.calls);
        self.unrepeatable.set(to.unrepeatable);
        drop(calls);
    }
}
