//! The captured frame and those within it: their progress, and their state at a graph break.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use dynamlir_graph::Line;
use dynamlir_guards::SourceId;
use dynamlir_interpreter::{Instruction, Opcode, Site};
use dynamlir_torch_abi::State as TorchState;
use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::state::{answers::Answers, use_marks::UseMarks};

/// The content of a frame's slot: an object with its source, or nothing.
pub(crate) type Slot = Option<(Py<PyAny>, Option<SourceId>)>;

/// A frame at a graph break.
pub(crate) struct Left {
    /// Its code.
    pub code: Py<PyAny>,
    /// Its index among the resumed frames, if it is one of these and unchanged except for the frames running within it; otherwise `None`.
    pub entered: Option<usize>,
    /// The unit of the instruction that Python runs next; for a frame around another one that breaks, the unit of its current call.
    pub unit: u32,
    /// All local slots; dead ones are empty.
    pub locals: Vec<Slot>,
    /// The value stack.
    pub stack: Vec<Slot>,
}

/// The content of a resumed frame's variable at the graph break.
pub(crate) struct Held {
    /// The object itself.
    pub object: Py<PyAny>,
    /// The variable.
    pub source: SourceId,
    /// True if its destruction can be observed.
    pub watched: bool,
}

/// The call of a frame.
pub(crate) struct Entry {
    /// The address of its place.
    pub place: usize,
    /// The instruction that has called it.
    pub step: usize,
    /// The amount recorded before the call: operations, and writes of the program.
    pub recorded: usize,
}

/// The replacement for a call at which the graph breaks.
#[derive(Debug)]
pub struct Instead {
    /// The object that the frame calls.
    pub(crate) called: Py<PyAny>,
    /// The object that Python calls instead.
    pub(crate) own: Py<PyAny>,
    /// The code of the frame.
    pub(crate) code: Py<PyAny>,
}

impl Instead {
    /// Clones the references.
    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Self {
        Self { called: self.called.clone_ref(py), own: self.own.clone_ref(py), code: self.code.clone_ref(py) }
    }
}

/// The progress of the captured frame while it runs. Its instructions, and those of all frames within it, are numbered in execution order;
/// the instructions of a single call share one number. Capturing the frame again yields the same numbers.
#[derive(Default)]
pub struct Progress {
    /// The instructions that have used each object, if that is recorded.
    pub(crate) marks: Option<UseMarks>,
    /// The number of the current instruction; 0 before the first.
    pub(crate) step: Cell<usize>,
    /// The number of frames to resume.
    pub(crate) resumed: usize,
    /// The frames resumed so far, outermost first.
    pub(crate) entered: RefCell<Vec<Rc<Site>>>,
    /// The instruction at which the innermost of them resumes; 0 if the captured frame starts at its beginning.
    pub(crate) floor: Cell<usize>,
    /// True if the loops that the frames are in are captured to their ends, where possible.
    pub(crate) unrolls: bool,
    /// Iterators created for these loops, by address.
    pub(crate) loops: RefCell<FxHashSet<usize>>,
    /// The iterators among [`Progress::loops`] that the capture advances, with the iterator advanced in their place; `None` once it is
    /// exhausted.
    pub(crate) advanced: RefCell<FxHashMap<usize, Option<Py<PyAny>>>>,
    /// The instruction before which the graph breaks.
    pub(crate) stop: Option<usize>,
    /// The number of instructions after which the graph breaks regardless.
    pub(crate) every: Option<usize>,
    /// True if the graph may break before an instruction of a frame within the captured one.
    pub(crate) chains: bool,
    /// True if the graph breaks before calls of torch's recurrent layers.
    pub(crate) leaves_recurrent: bool,
    /// The calls of frames that are running within it, outermost first.
    pub(crate) calls: RefCell<Vec<Entry>>,
    /// The preferred instruction to break before, once a graph has ended: not within calls in which nothing was recorded.
    pub(crate) outset: Cell<Option<usize>>,
    /// True if that is decided.
    pub(crate) decided: Cell<bool>,
    /// True if something was recorded in the frames abandoned so far, or may be.
    pub(crate) busy: Cell<bool>,
    /// The code of the frame abandoned last, and the instruction that has called it.
    pub(crate) within: RefCell<Option<(Py<PyAny>, usize)>>,
    /// The instruction before which the graph breaks.
    pub(crate) left_at: Cell<usize>,
    /// The frames at that point, innermost first.
    pub(crate) left: RefCell<Vec<Left>>,
    /// True if one of them inspects frames.
    pub(crate) shows: Cell<bool>,
    /// The instruction that has raised the exception that is unwinding frames.
    pub(crate) raising: Cell<Option<usize>>,
    /// The latest instruction of each running frame, by the address of its place.
    pub(crate) at: RefCell<FxHashMap<usize, usize>>,
    /// The call at the break, and its replacement.
    pub(crate) instead: RefCell<Option<Instead>>,
    /// True during a trial call of a region's function, which is rolled back.
    pub(crate) tries: Cell<bool>,
    /// The instruction after which an object was first on the stack, by the object's address.
    pub(crate) born: RefCell<FxHashMap<usize, usize>>,
    /// The thread's state before the first instruction; `set` is the instruction that has changed it.
    pub(crate) torch: Cell<Option<TorchState>>,
    /// True if the settings that choose torch's kernels differ from those at that time.
    pub(crate) chooses: Cell<bool>,
    /// The number of active `torch.func` transforms that use levels of autograd.
    pub(crate) levels: Cell<usize>,
    /// The number of function modes that were active then: `with torch.device(…)` is one.
    pub(crate) modes: Cell<usize>,
    /// See [`Progress::torch`].
    pub(crate) set: Cell<Option<usize>>,
    /// The lines that have turned off grad mode, if that is to be done after the graph.
    pub(crate) grad_left_off: RefCell<Option<Vec<Line>>>,
    /// The exception that was being handled before the first instruction, by address; `raised` is the instruction that has raised the one
    /// being handled since.
    pub(crate) handled: Cell<Option<usize>>,
    /// See [`Progress::handled`].
    pub(crate) raised: Cell<Option<usize>>,
    /// True if code of the program has run that is not traced into.
    pub(crate) opaque: Cell<bool>,
    /// The current contents of the variables of resumed frames, by the frame's place and the slot.
    pub(crate) held: RefCell<FxHashMap<(usize, usize), Held>>,
    /// The sources of the values on the stacks of these frames.
    pub(crate) stacked: RefCell<FxHashSet<SourceId>>,
    /// True if one of them has released an object that may keep other objects alive that are not inspected, as a tensor does through its
    /// history.
    pub(crate) let_go: Cell<bool>,
    /// The classes of `torch.autograd.Function` whose backward is being recorded, by address, outermost first.
    pub(crate) differentiated: RefCell<Vec<usize>>,
    /// The answers to code that queries if it is being compiled.
    pub(crate) answers: Answers,
    /// The largest effort of consecutive instructions that record no node, in units of `policy::effort`.
    pub(crate) patience: usize,
    /// The number of nodes before the latest instruction, and the effort of the instructions since the last one that recorded a node.
    pub(crate) idle: Cell<(usize, usize)>,
    /// The first instruction that has created an object which outlives the capture and runs code when it is destroyed.
    pub(crate) doomed: Cell<Option<usize>>,
}

impl Progress {
    /// Returns the instruction at which Python takes over when the capture stops. `raises`: it stops because of an exception.
    pub(crate) fn stopping_step(&self, raises: bool) -> Option<usize> {
        self.before_asking(self.outset.get().unwrap_or(self.step.get()), raises)
    }

    /// Like [`Self::stopping_step`], for an exception that leaves the captured frame.
    pub(crate) fn raising_step(&self) -> Option<usize> {
        self.before_asking(self.raising.get().unwrap_or(self.step.get()), true)
    }

    /// Moves a step before the first query for compilation: its answer may be the reason for an exception, and Python answers differently.
    fn before_asking(&self, step: usize, raises: bool) -> Option<usize> {
        let asked = self.answers.asked().filter(|_| raises);
        Some(asked.map_or(step, |asked| asked.min(step))).filter(|step| *step > 0)
    }

    /// Counts an instruction. `nodes` is the number of nodes before it. Returns true if too many instructions in a row have recorded
    /// nothing: pure Python computation runs much faster in Python than in a capture.
    pub(crate) fn is_idling(&self, nodes: usize, instruction: &Instruction) -> bool {
        let (before, done) = self.idle.get();
        let done = if before == nodes { done + effort(instruction) } else { 0 };
        self.idle.set((nodes, done));
        done > self.patience
    }

    /// Returns true if the frame is in a loop that is captured to its end.
    pub(crate) fn is_unrolling(&self) -> bool {
        self.advanced.borrow().values().any(Option::is_some)
    }

    /// Returns true if frames are to resume after a graph break.
    pub(crate) fn is_resumed(&self) -> bool {
        self.resumed > 0
    }

    /// Returns true if all of them have resumed.
    pub(crate) fn has_resumed(&self) -> bool {
        self.entered.borrow().len() == self.resumed
    }

    /// Returns true if the graph is to break before the frame ends.
    pub(crate) fn is_to_be_left(&self) -> bool {
        self.stop.is_some() || self.every.is_some()
    }

    /// Returns true if the graph is to break before this instruction.
    pub(crate) fn stops_at(&self, step: usize) -> bool {
        self.stop == Some(step) || self.every.is_some_and(|every| step == self.floor.get().max(1) + every && self.has_resumed())
    }

    /// Returns the instruction that has created an object, if known.
    pub(crate) fn born(&self, address: usize) -> Option<usize> {
        self.born.borrow().get(&address).copied()
    }

    /// Returns the index of this frame among the resumed ones.
    pub(crate) fn entered(&self, place: &Rc<Site>) -> Option<usize> {
        self.entered.borrow().iter().position(|entered| Rc::ptr_eq(entered, place))
    }
}

/// Returns the cost of capturing an instruction, in units of an instruction that only moves or adds values.
fn effort(instruction: &Instruction) -> usize {
    use Opcode as Op;
    /// The argument with which `BINARY_OP` looks up an item, from CPython 3.14 on.
    const ITEM: u32 = 26;
    match instruction.opcode {
        Op::LoadAttr
        | Op::LoadMethod
        | Op::StoreAttr
        | Op::LoadGlobal
        | Op::Call
        | Op::CallKw
        | Op::CallFunctionEx
        | Op::BinarySubscr
        | Op::StoreSubscr
        | Op::CompareOp
        | Op::ContainsOp => 20,
        Op::BinaryOp if instruction.arg == ITEM => 20,
        _ => 1,
    }
}
