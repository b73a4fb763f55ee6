//! The captured frame itself, and those within it: how far they are, and how they stand where they are left to Python.

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

use crate::{denied::Answers, unproven::Marks};

/// What stands in a slot of the frame: an object with where it came from, or nothing.
pub(crate) type Slot = Option<(Py<PyAny>, Option<SourceId>)>;

/// A frame where it is left to Python.
pub(crate) struct Left {
    /// Its code.
    pub code: Py<PyAny>,
    /// Which frame it is of those that Python had left and that are as they were but for what runs within them; None if it is another.
    pub entered: Option<usize>,
    /// The unit of the instruction that Python runs; of a frame in which another one is left, of the call that it is making.
    pub unit: u32,
    /// All local slots; dead ones are empty.
    pub locals: Vec<Slot>,
    /// The value stack.
    pub stack: Vec<Slot>,
}

/// What a variable of a frame holds where Python has left it.
pub(crate) struct Held {
    /// The object itself.
    pub object: Py<PyAny>,
    /// The variable.
    pub source: SourceId,
    /// Whether somebody notices when it is gone.
    pub watched: bool,
}

/// The call of a frame.
pub(crate) struct Entry {
    /// The address of its place.
    pub place: usize,
    /// The instruction that has called it.
    pub step: usize,
    /// How much was recorded before: [`Capture::recorded`](super::Capture::recorded).
    pub recorded: usize,
}

/// What is called in the place of something else, where a frame is left to Python.
#[derive(Debug)]
pub struct Instead {
    /// What the frame calls.
    pub(crate) called: Py<PyAny>,
    /// What Python is to call.
    pub(crate) own: Py<PyAny>,
    /// The code of the frame.
    pub(crate) code: Py<PyAny>,
}

impl Instead {
    /// The same once more.
    pub(crate) fn again(&self, py: Python<'_>) -> Self {
        Self { called: self.called.clone_ref(py), own: self.own.clone_ref(py), code: self.code.clone_ref(py) }
    }
}

/// What is known of the captured frame while it runs. Its instructions, and those of all frames within it, are numbered in the order in
/// which they run, those that make one call together: a frame that is captured again comes to the same ones.
#[derive(Default)]
pub struct Progress {
    /// Which instruction has used what, if that is noted.
    pub(crate) marks: Option<Marks>,
    /// The number of the instruction that runs; 0 before the first.
    pub(crate) step: Cell<usize>,
    /// How many frames go on where Python has left them.
    pub(crate) resumed: usize,
    /// Those of them that go on so far, the outermost first.
    pub(crate) entered: RefCell<Vec<Rc<Site>>>,
    /// The instruction with which the innermost of them goes on; 0 where the captured frame begins.
    pub(crate) floor: Cell<usize>,
    /// Whether the loops in which they stand are captured to their ends, where that is possible.
    pub(crate) unrolls: bool,
    /// Iterators that were made for these loops, by address.
    pub(crate) loops: RefCell<FxHashSet<usize>>,
    /// Those of them that the capture advances, and what it advances in their place; None once that has ended.
    pub(crate) advanced: RefCell<FxHashMap<usize, Option<Py<PyAny>>>>,
    /// Before which one the frame is left to Python.
    pub(crate) stop: Option<usize>,
    /// After how many instructions it is left in any case.
    pub(crate) every: Option<usize>,
    /// Whether it may be left before one of a frame within it.
    pub(crate) chains: bool,
    /// Whether it is left before calls of torch's recurrent layers.
    pub(crate) leaves_recurrent: bool,
    /// The calls of frames that are running within it, the outermost first.
    pub(crate) calls: RefCell<Vec<Entry>>,
    /// Before which instruction it had better be left, once a graph has ended: not within calls in which nothing was recorded.
    pub(crate) outset: Cell<Option<usize>>,
    /// Whether that is decided.
    pub(crate) decided: Cell<bool>,
    /// Whether something was recorded in the frames that were given up so far, or may be.
    pub(crate) busy: Cell<bool>,
    /// The code of the frame that was given up last, and the instruction that has called it.
    pub(crate) within: RefCell<Option<(Py<PyAny>, usize)>>,
    /// The instruction before which it was left.
    pub(crate) left_at: Cell<usize>,
    /// How the frames stood there, the innermost first.
    pub(crate) left: RefCell<Vec<Left>>,
    /// Whether one of them looks at frames.
    pub(crate) shows: Cell<bool>,
    /// The instruction that has raised the exception with which frames are being left.
    pub(crate) raising: Cell<Option<usize>>,
    /// The latest instruction of each frame that is running, by the address of its place.
    pub(crate) at: RefCell<FxHashMap<usize, usize>>,
    /// What the instruction there calls, and what it is to call in the place of that.
    pub(crate) instead: RefCell<Option<Instead>>,
    /// Whether what a region calls is being tried, of which everything is forgotten.
    pub(crate) tries: Cell<bool>,
    /// After which instruction an object was first on the stack, by address.
    pub(crate) born: RefCell<FxHashMap<usize, usize>>,
    /// The thread's state before the first instruction, and the one that has changed it.
    pub(crate) torch: Cell<Option<TorchState>>,
    /// Whether what chooses torch's kernels is set otherwise than then.
    pub(crate) chooses: Cell<bool>,
    /// How many transforms of `torch.func` by levels of autograd are under way.
    pub(crate) levels: Cell<usize>,
    /// How many function modes were active then: `with torch.device(…)` is one.
    pub(crate) modes: Cell<usize>,
    /// See [`Progress::torch`].
    pub(crate) set: Cell<Option<usize>>,
    /// The lines that have turned grad mode off, where that is to be done after the graph.
    pub(crate) grad_left_off: RefCell<Option<Vec<Line>>>,
    /// The exception that was being handled before the first instruction, by address, and the instruction that has raised the one that
    /// is being handled since.
    pub(crate) handled: Cell<Option<usize>>,
    /// See [`Progress::handled`].
    pub(crate) raised: Cell<Option<usize>>,
    /// Whether code of the program's has run that is not looked into.
    pub(crate) opaque: Cell<bool>,
    /// What variables of frames that go on have held since, by the frame's place and the slot.
    pub(crate) standing: RefCell<FxHashMap<(usize, usize), Held>>,
    /// The sources of the values on the stacks of these frames.
    pub(crate) stacked: RefCell<FxHashSet<SourceId>>,
    /// True if one of them has released an object that may keep others alive which are not looked into, as a tensor does through its history.
    pub(crate) let_go: Cell<bool>,
    /// The classes of `torch.autograd.Function` whose backward is being recorded, by address, the outermost first.
    pub(crate) differentiated: RefCell<Vec<usize>>,
    /// The answers to code that asks whether it is compiled.
    pub(crate) answers: Answers,
    /// The largest effort of consecutive instructions that record no node, in units of `policy::effort`.
    pub(crate) patience: usize,
    /// The number of nodes before the latest instruction, and the effort of the instructions since the last one that recorded a node.
    pub(crate) idle: Cell<(usize, usize)>,
    /// The first instruction that has made something which runs code when it dies, and has outlived the capture.
    pub(crate) doomed: Cell<Option<usize>>,
}

impl Progress {
    /// The instruction that Python is to go on with where the capture stops, or because it `raises`.
    pub(crate) fn stopping_step(&self, raises: bool) -> Option<usize> {
        self.before_asking(self.outset.get().unwrap_or(self.step.get()), raises)
    }

    /// The same where an exception leaves the captured frame.
    pub(crate) fn raising_step(&self) -> Option<usize> {
        self.before_asking(self.raising.get().unwrap_or(self.step.get()), true)
    }

    /// What was told before that it is compiled may raise for that reason alone, and Python tells it otherwise.
    fn before_asking(&self, step: usize, raises: bool) -> Option<usize> {
        let asked = self.answers.asked().filter(|_| raises);
        Some(asked.map_or(step, |asked| asked.min(step))).filter(|step| *step > 0)
    }

    /// Counts an instruction before which there are so many nodes. Returns true if too many in a row have recorded nothing: what only Python
    /// computes takes it far less time than a capture.
    pub(crate) fn is_idling(&self, nodes: usize, instruction: &Instruction) -> bool {
        let (before, done) = self.idle.get();
        let done = if before == nodes { done + effort(instruction) } else { 0 };
        self.idle.set((nodes, done));
        done > self.patience
    }

    /// Whether the frame is in a loop that is captured to its end.
    pub(crate) fn is_unrolling(&self) -> bool {
        self.advanced.borrow().values().any(Option::is_some)
    }

    /// Whether frames go on where Python has left them.
    pub(crate) fn is_resumed(&self) -> bool {
        self.resumed > 0
    }

    /// Whether all of them go on.
    pub(crate) fn has_resumed(&self) -> bool {
        self.entered.borrow().len() == self.resumed
    }

    /// Whether the frame is to be left before it ends.
    pub(crate) fn is_to_be_left(&self) -> bool {
        self.stop.is_some() || self.every.is_some()
    }

    /// Whether it is to be left before this instruction.
    pub(crate) fn stops_at(&self, step: usize) -> bool {
        self.stop == Some(step) || self.every.is_some_and(|every| step == self.floor.get().max(1) + every && self.has_resumed())
    }

    /// The instruction that has made an object, as far as is known.
    pub(crate) fn born(&self, address: usize) -> Option<usize> {
        self.born.borrow().get(&address).copied()
    }

    /// Which of the frames that go on this is.
    pub(crate) fn entered(&self, place: &Rc<Site>) -> Option<usize> {
        self.entered.borrow().iter().position(|entered| Rc::ptr_eq(entered, place))
    }
}

/// The cost of capturing an instruction, in units of an instruction that only moves or adds values.
fn effort(instruction: &Instruction) -> usize {
    use Opcode as Op;
    /// The argument by which `BINARY_OP` looks an item up, from CPython 3.14 on.
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
