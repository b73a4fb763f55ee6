//! Driven frames: CPython's semantics on real objects, with a driver that decides before each instruction how the frame proceeds.
//!
//! A driver may run the instruction, move the frame elsewhere – to another unit, with other locals and another stack – or end it. Calls
//! made by the instructions go where all of this thread's frames go; driving a frame does not drive its callees.

use std::{rc::Rc, sync::Arc};

use dynamlir_bytecode::{Instruction, Opcode};
use dynamlir_cpython_abi::{Evaluated, Frame, Owner, abi, stack};
use pyo3::{prelude::*, types::PyTuple};

use crate::{
    Value,
    activation::Activation,
    concrete,
    evaluator::{Evaluator, suspended},
    ops::Flow,
    policy::{Concrete, Unwind},
    prepared::{self, Preparation},
    run::Raised,
};

/// The state of a frame: everything needed to continue from there, including NULLs.
#[derive(Debug, Default)]
pub struct FrameState {
    /// The frame's code object; `None` matches any frame's code.
    pub code: Option<Py<PyAny>>,
    /// The unit of the next instruction.
    pub unit: u32,
    /// All local slots: arguments, variables, cells, free variables.
    pub locals: Vec<Option<Py<PyAny>>>,
    /// The value stack, lowest value first.
    pub stack: Vec<Option<Py<PyAny>>>,
    /// The stack positions of iterators created for this state: no other code has a reference to them.
    pub made: Vec<usize>,
}

impl FrameState {
    /// Captures the state of a frame before an instruction.
    pub fn of(frame: &Activation<'_>, next: &Instruction) -> Self {
        let stack = frame.stack().iter().map(|value| value.object.clone().map(Bound::unbind)).collect();
        let locals = (0..frame.locals_count()).map(|slot| frame.frame.local(slot).map(Bound::unbind)).collect();
        Self { code: Some(frame.code().clone().unbind()), unit: next.start, locals, stack, made: Vec::new() }
    }

    /// Returns the number of slots: locals and stack.
    #[expect(clippy::len_without_is_empty, reason = "a frame is not a collection")]
    pub fn len(&self) -> usize {
        self.locals.len() + self.stack.len()
    }

    /// Returns the contents of its slots: locals, then the stack.
    pub fn slots<'a, 'py: 'a>(&'a self, py: Python<'py>) -> impl Iterator<Item = Option<&'a Bound<'py, PyAny>>> {
        self.locals.iter().chain(&self.stack).map(move |object| object.as_ref().map(|object| object.bind(py)))
    }

    /// Returns true if it is the state of a frame of this code.
    pub fn is_of(&self, code: &Bound<'_, PyAny>) -> bool {
        self.code.as_ref().is_none_or(|own| own.is(code))
    }
}

impl Drop for FrameState {
    fn drop(&mut self) {
        // Objects must not outlive the frame that they were taken from: objects dropped while unattached die later.
        if self.code.is_some() || self.len() > 0 {
            Python::attach(|_| drop((self.code.take(), std::mem::take(&mut self.locals), std::mem::take(&mut self.stack))));
        }
    }
}

/// The driver's decision about a frame.
#[derive(Debug)]
pub enum Turn<'py> {
    /// Run the instruction.
    Step,
    /// Continue in this state. The driver is called again before the instruction there.
    Goto(FrameState),
    /// Let CPython evaluate the rest of the frame.
    Leave,
    /// Return this value.
    Return(Bound<'py, PyAny>),
    /// Raise this exception at the current instruction.
    Raise(PyErr),
}

/// Decides how a frame proceeds.
pub trait Driver<'py> {
    /// Called before an instruction. `jumped`: the frame came here by a jump, or by handling an exception.
    fn turn(&mut self, frame: &Activation<'py>, instruction: &Instruction, jumped: bool) -> Turn<'py>;
}

/// The way in which a frame ends.
enum End<'py> {
    Replay(u32, Vec<Value<'py>>),
    Return(Bound<'py, PyAny>),
    Raise(PyErr, u32),
}

/// The evaluator and the prepared code for driving a frame.
pub struct Drive {
    from_c: bool,
    evaluator: Evaluator,
    preparation: Arc<Preparation>,
}

impl Drive {
    /// Returns what is needed to drive this frame. `None` if its code is not supported, if the call only creates a generator, if CPython
    /// would raise a `RecursionError`, or if this stack is used up and the thread cannot switch to another. Must be called once for each
    /// frame.
    pub fn of(frame: &Frame<'_>) -> Option<Self> {
        let from_c = !concrete::take_direct();
        let (abi, code) = (abi(frame.py()).ok()?, frame.code()?);
        let evaluator = suspended(|| Evaluator::of(frame.py(), abi, Rc::new(Concrete))).ok()?;
        let preparation = prepared::prepare(abi, evaluator.table, &code);
        let makes_object = preparation.as_ref().as_ref().ok()?.makes_generator() && frame.owner() == Owner::Thread;
        let thread = frame.thread();
        let can = !makes_object && thread.may_enter(from_c) && thread.has_room(from_c);
        can.then_some(Self { from_c, evaluator, preparation })
    }

    /// Evaluates the frame from its current position to its end.
    pub fn run<'py>(self, frame: Frame<'py>, driver: &mut dyn Driver<'py>) -> Evaluated<'py> {
        let Self { from_c, evaluator, preparation } = self;
        let Some(code) = frame.code() else { return frame.evaluate(false) };
        let mut activation = Activation::new(frame, &code, preparation, Rc::new(evaluator));
        // Fails only if memory for an object runs out; then the loop itself fails too.
        drop(activation.restore_iterators());
        drop(code);
        stack::with_room(activation.thread, || activate(activation, driver, from_c))
    }
}

fn activate<'py>(mut activation: Activation<'py>, driver: &mut dyn Driver<'py>, from_c: bool) -> Evaluated<'py> {
    let linked = activation.frame.link();
    activation.thread.enter(from_c);
    let end = activation.driven(driver);
    activation.thread.leave(from_c);
    drop(linked);
    let Activation { frame, place, .. } = activation;
    match end {
        End::Replay(unit, stack) => frame.resume_at(unit, stack.into_iter().map(|value| value.object)),
        End::Raise(error, unit) => frame.raise(error, unit, true),
        End::Return(value) => {
            let returns = |instruction: &&Instruction| instruction.opcode == Opcode::ReturnValue;
            match place.prepared().code.instructions.iter().find(returns).map(|instruction| instruction.start) {
                Some(unit) => frame.resume_at(unit, [Some(value)]),
                None => frame.give(value),
            }
        }
    }
}

impl<'py> Activation<'py> {
    fn driven(&mut self, driver: &mut dyn Driver<'py>) -> End<'py> {
        let place = self.place.clone();
        let prepared = place.prepared();
        let mut at = prepared.code.index[self.frame.next_unit() as usize] as usize;
        let mut jumped = false;
        loop {
            let instruction = &prepared.code.instructions[at];
            self.set_unit(instruction);
            // The keyword names belong to the call that follows.
            let turn = if self.keywords.is_some() { Turn::Step } else { driver.turn(self, instruction, jumped) };
            jumped = false;
            let outcome = match turn {
                Turn::Step => (prepared.ops[at])(self, instruction),
                Turn::Goto(frame_state) => {
                    at = prepared.code.index[frame_state.unit as usize] as usize;
                    self.stand(frame_state);
                    continue;
                }
                Turn::Leave => return End::Replay(instruction.start, std::mem::take(&mut self.stack)),
                Turn::Return(value) => {
                    self.stack.clear();
                    return End::Return(value);
                }
                Turn::Raise(error) => Err(Unwind::Raise(error)),
            };
            let unwind = match outcome {
                Ok(Flow::Next) => {
                    at += 1;
                    continue;
                }
                Ok(Flow::Jump(unit)) => {
                    at = prepared.code.index[unit as usize] as usize;
                    jumped = true;
                    continue;
                }
                Ok(Flow::Return(_) | Flow::Suspend) => return End::Replay(instruction.start, std::mem::take(&mut self.stack)),
                Err(unwind) => unwind,
            };
            self.keywords = None;
            let raised = Raised { handlers: instruction.next - 1, start: instruction.start, unit: instruction.unit as i32 };
            match self.handle(unwind, &raised) {
                Ok(target) => {
                    at = prepared.code.index[target as usize] as usize;
                    jumped = true;
                }
                Err(crate::run::End::Replay(unit, stack)) => return End::Replay(unit, stack),
                Err(crate::run::End::Raise(error, unit)) => return End::Raise(error, unit),
                Err(crate::run::End::Abort) => unreachable!("nothing gives a driven frame up"),
            }
        }
    }

    /// Moves the frame to another state. The old values are dropped afterwards. Free variables without a cell take the function's.
    pub(crate) fn stand(&mut self, mut frame_state: FrameState) {
        let py = self.py();
        let bound = |object: Option<Py<PyAny>>| object.map_or(Value::NULL, |object| Value::new(object.into_bound(py)));
        let mut locals: Vec<_> = std::mem::take(&mut frame_state.locals).into_iter().map(bound).collect();
        let first_free = self.prepared().first_free;
        if let Some(free) = locals.get_mut(first_free..).filter(|free| free.iter().any(|value| value.object.is_none()))
            && let Some(cells) = self.function().and_then(|function| function.getattr("__closure__").ok())
            && let Ok(cells) = cells.cast::<PyTuple>()
        {
            free.iter_mut().zip(cells).filter(|(value, _)| value.object.is_none()).for_each(|(value, cell)| *value = Value::new(cell));
        }
        let stack = std::mem::take(&mut frame_state.stack).into_iter().map(bound).collect();
        drop(frame_state.code.take().map(|code| code.into_bound(py)));
        self.fill(frame_state.unit, locals, stack);
    }
}
