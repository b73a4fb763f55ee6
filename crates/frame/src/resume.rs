//! Where a graph breaks, the frame continues as a real one: its slots are filled, Python runs the instruction that broke the graph, and the
//! continuation is looked up, or compiled, from the point that the frame then reaches.
//!
//! ```text
//! act (the instruction runs) ─► slide (jumps, stores, iteration) ─► look-up among the entries for this point
//!   an entry hits: its graph runs ─► the call returns │ the frame is at the next break
//!   none hits: captured and compiled from here        │ plain: CPython evaluates the rest of the frame
//! ```
//!
//! Meanwhile this thread's frames are intercepted here: functions that the program calls between graphs are compiled as well, see
//! [`crate::callees`].

use std::{cell::RefCell, rc::Rc, sync::Arc};

use dynamlir_cpython_abi::{Evaluated, Frame, Listening, Thread, install, stack, types};
use dynamlir_interpreter::{Activation, Drive, Driver, FrameState, Instruction, Opcode, Turn, called_by_bytecode, directly};
use pyo3::{
    exceptions::{PyRecursionError, PyRuntimeError},
    prelude::*,
    types::{PyDict, PyList, PyRange, PyTuple},
};

use crate::{
    bind::CallArguments,
    callable::{Callable, Resolved},
    callees::{Called, called},
    frame_chain::{Exit, Link, Pending},
};

thread_local! {
    /// The callable whose program runs between graphs.
    static ROOT: RefCell<Option<Arc<Callable>>> = const { RefCell::new(None) };
}

/// Restores the previous root when dropped.
struct Rooted {
    former: Option<Arc<Callable>>,
    _listening: Listening,
}

impl Drop for Rooted {
    fn drop(&mut self) {
        let _ours = ROOT.replace(self.former.take());
    }
}

/// Runs Python code; functions that it calls are compiled as `root` is.
///
/// # Errors
/// Returns the exception that it raises.
pub(crate) fn listening<'py>(
    py: Python<'py>,
    root: &Arc<Callable>,
    body: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let hook = install(py).map_err(|refusal| PyRuntimeError::new_err(refusal.to_string()))?;
    let rooted = Rooted { former: ROOT.replace(Some(root.clone())), _listening: Listening::new(Some(handler)) };
    let result = body();
    drop(rooted);
    drop(hook);
    result
}

/// Calls a function whose frame is then moved to this point, with the others within it.
///
/// # Errors
/// Returns the exception that the call raises.
pub(crate) fn go_on<'py>(callable: &Arc<Callable>, function: &Bound<'py, PyAny>, frames: Vec<FrameState>) -> PyResult<Bound<'py, PyAny>> {
    let CallArguments { args, kwargs } = callable.signature().placeholders(function.py())?;
    listening(function.py(), callable, || {
        Pending { callable: callable.clone(), frames, outer: None }.wait();
        // The frame belongs to the call that the program made; no C code would be in between.
        let result = directly(true, || function.call(args, Some(&kwargs).filter(|kwargs| !kwargs.is_empty())));
        // It is still pending if CPython has not created a frame.
        Pending::give_up(None);
        result
    })
}

/// Handles this thread's frames while a program runs between graphs.
fn handler(frame: Frame<'_>, throw: bool) -> Evaluated<'_> {
    if throw {
        return frame.evaluate(true);
    }
    if let Some(Pending { callable, frames, outer }) = Pending::take(&frame) {
        // The frame has no arguments with which CPython could evaluate it.
        let Some(drive) = Drive::of(&frame) else {
            return raise(frame, PyRecursionError::new_err("maximum recursion depth exceeded"));
        };
        let (callable, outer) = match outer {
            Some(outer) if outer.is_full() => match begin_chain(&frame, callable, outer) {
                Ok(begun) => begun,
                Err(error) => return raise(frame, error),
            },
            outer => (callable, outer),
        };
        return ride(drive, frame, callable, outer, Mode::Goto(frames));
    }
    if Pending::is_any() {
        // The frame runs before the awaited one.
        return frame.evaluate(false);
    }
    let Some(root) = ROOT.with_borrow(Clone::clone) else { return frame.evaluate(false) };
    let known = {
        let _away = Listening::new(None);
        called(&root, &frame, false)
    };
    match known {
        Ok(Called::This(callable)) => begin(frame, callable),
        Ok(Called::Alone) => {
            let _away = Listening::new(None);
            plainly(frame)
        }
        Ok(Called::Plain) => {
            let _c = called_by_bytecode();
            plainly(frame)
        }
        Err(error) => raise(frame, error),
    }
}

/// Lets CPython evaluate the frame. It might have been called by C, but a call from bytecode is assumed, since that is far more likely.
fn plainly(frame: Frame<'_>) -> Evaluated<'_> {
    stack::in_place_of_bytecode(frame.thread(), || frame.evaluate(false))
}

fn raise(frame: Frame<'_>, error: PyErr) -> Evaluated<'_> {
    frame.take_stack().for_each(drop);
    frame.raise(error, 0, false)
}

/// When a chain is full, starts a new one: the frame becomes the outermost of another chain, with its own callable.
///
/// # Errors
/// Returns an exception raised while deciding this.
fn begin_chain(frame: &Frame<'_>, callable: Arc<Callable>, outer: Rc<Link>) -> PyResult<(Arc<Callable>, Option<Rc<Link>>)> {
    let _away = Listening::new(None);
    // Its arguments are not set yet.
    Ok(match called(&callable, frame, true)? {
        Called::This(own) => (own, None),
        Called::Plain | Called::Alone => (callable, Some(outer)),
    })
}

/// Handles a compiled frame, before its first instruction.
fn begin(frame: Frame<'_>, callable: Arc<Callable>) -> Evaluated<'_> {
    let py = frame.py();
    let Some(function) = frame.function() else { return frame.evaluate(false) };
    let Some(drive) = Drive::of(&frame) else { return plainly(frame) };
    // Inspected values are released before the frame runs.
    let resolved = {
        let _away = Listening::new(None);
        let values: Vec<_> = (0..callable.signature().len()).map(|slot| frame.local(slot)).collect();
        let slots: Vec<_> = values.iter().map(Option::as_ref).collect();
        callable.resolve(&function, &slots, None, || callable.signature().unbind(py, &slots))
    };
    drop(function);
    match resolved {
        Ok(Resolved::Done(value)) => ride(drive, frame, callable, None, Mode::Give(value)),
        Ok(Resolved::Suspended(suspended)) => ride(drive, frame, callable, None, Mode::Goto(suspended.frames)),
        Ok(Resolved::Walk(_) | Resolved::Plain(_) | Resolved::Now | Resolved::Failed) => plainly(frame),
        Err(error) => raise(frame, error),
    }
}

fn ride<'py>(drive: Drive, frame: Frame<'py>, callable: Arc<Callable>, outer: Option<Rc<Link>>, mode: Mode<'py>) -> Evaluated<'py> {
    let function = if outer.is_none() { frame.function().map(Bound::unbind) } else { None };
    drive.run(frame, &mut Ride { callable, mode, link: Link::new(outer, function) })
}

/// The next action of a frame.
enum Mode<'py> {
    /// It is moved to the first of these states; the others are frames within it.
    Goto(Vec<FrameState>),
    /// It returns this.
    Give(Bound<'py, PyAny>),
    /// It makes the call in which these frames run.
    Enter(Vec<FrameState>),
    /// The instruction that broke the graph runs.
    Act,
    /// Instructions run up to the one at this unit, unless there is a jump.
    Walk(u32),
    /// Instructions that compile to nothing run.
    Slide,
}

/// A frame being driven through its graphs.
struct Ride<'py> {
    callable: Arc<Callable>,
    mode: Mode<'py>,
    link: Rc<Link>,
}

impl Drop for Ride<'_> {
    fn drop(&mut self) {
        // The call may have raised before its frame was created.
        self.link.has_called();
    }
}

impl<'py> Driver<'py> for Ride<'py> {
    fn turn(&mut self, frame: &Activation<'py>, instruction: &Instruction, jumped: bool) -> Turn<'py> {
        if let Some((level, exit)) = self.link.take_exit() {
            return self.exit(frame.py(), level, exit);
        }
        match std::mem::replace(&mut self.mode, Mode::Slide) {
            Mode::Goto(frames) => self.stand(frame.py(), frames),
            Mode::Give(value) => Turn::Return(value),
            Mode::Enter(frames) => {
                self.link.calls(&self.callable, frame, instruction, frames);
                self.act(instruction)
            }
            Mode::Act => self.act(instruction),
            Mode::Walk(until) if !jumped => {
                if instruction.start != until {
                    self.mode = Mode::Walk(until);
                }
                self.step(instruction)
            }
            Mode::Walk(_) | Mode::Slide => {
                if !self.link.has_called() {
                    return Turn::Raise(PyRuntimeError::new_err("a frame that a graph has left was not made again"));
                }
                if self.link.is_handling() || slides(frame, instruction) {
                    return self.step(instruction);
                }
                self.look_up(frame, instruction)
            }
        }
    }
}

impl<'py> Ride<'py> {
    fn step(&mut self, instruction: &Instruction) -> Turn<'py> {
        let handling = &self.link.handling;
        match instruction.opcode {
            Opcode::PushExcInfo => handling.set(handling.get() + 1),
            Opcode::PopExcept => handling.set(handling.get().saturating_sub(1)),
            _ => {}
        }
        Turn::Step
    }

    /// Runs the instruction, and for a prefix also the instruction that follows.
    fn act(&mut self, instruction: &Instruction) -> Turn<'py> {
        if is_prefix(instruction.opcode) {
            self.mode = Mode::Act;
        }
        self.step(instruction)
    }

    /// Moves the frame to the first of these states.
    fn stand(&mut self, py: Python<'py>, mut frames: Vec<FrameState>) -> Turn<'py> {
        let within = frames.split_off(1);
        self.mode = if within.is_empty() { Mode::Act } else { Mode::Enter(within) };
        let Some(own) = frames.pop() else { return Turn::Leave };
        self.link.put(py, &own);
        Turn::Goto(own)
    }

    /// Carries out the continuation that the inner frames passed for the frame at a level.
    fn exit(&mut self, py: Python<'py>, level: usize, exit: Exit) -> Turn<'py> {
        self.link.has_called();
        if level < self.link.level {
            self.link.tell(level, exit);
            return Turn::Return(py.None().into_bound(py));
        }
        match exit {
            Exit::Give(value) => Turn::Return(value.into_bound(py)),
            Exit::Stand(frames) => self.stand(py, frames),
        }
    }

    /// Looks up or compiles the continuation of a frame at this point.
    fn look_up(&mut self, frame: &Activation<'py>, instruction: &Instruction) -> Turn<'py> {
        let py = frame.py();
        let Some(function) = self.link.function(py) else { return Turn::Leave };
        if Thread::current(py).is_ok_and(Thread::is_watched) {
            return Turn::Leave;
        }
        let _away = Listening::new(None);
        let Some(frames) = self.link.chain(frame, instruction) else { return Turn::Leave };
        let cache = self.callable.cache().at(&frames);
        let slots: Vec<_> = frames.iter().flat_map(|frame| frame.slots(py)).collect();
        match self.callable.resolve(&function, &slots, Some((&frames, &cache)), || self.callable.signature().placeholders(py)) {
            Ok(Resolved::Done(value)) if self.link.level == 0 => Turn::Return(value),
            Ok(Resolved::Done(value)) => self.exit_to(py, 0, Exit::Give(value.unbind())),
            Ok(Resolved::Suspended(suspended)) if suspended.base == self.link.level => self.stand(py, suspended.frames),
            Ok(Resolved::Suspended(suspended)) => self.exit_to(py, suspended.base, Exit::Stand(suspended.frames)),
            Ok(Resolved::Walk(until)) => {
                if until != instruction.start {
                    self.mode = Mode::Walk(until);
                }
                self.step(instruction)
            }
            Ok(Resolved::Plain(entry)) => match self.callable.tell_plain(py, &entry) {
                Ok(()) => Turn::Leave,
                Err(error) => Turn::Raise(error),
            },
            Ok(Resolved::Now | Resolved::Failed) => Turn::Leave,
            Err(error) => Turn::Raise(error),
        }
    }

    /// Makes the frame return, and passes the continuation of an outer frame.
    fn exit_to(&mut self, py: Python<'py>, level: usize, exit: Exit) -> Turn<'py> {
        self.link.tell(level, exit);
        Turn::Return(py.None().into_bound(py))
    }
}

/// Returns true if an instruction is a prefix of the one that follows.
fn is_prefix(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::KwNames | Opcode::Precall)
}

/// Returns true if an instruction is run rather than compiled: it only moves values, or jumps.
fn slides(frame: &Activation<'_>, instruction: &Instruction) -> bool {
    use Opcode as Op;
    match instruction.opcode {
        Op::Nop
        | Op::NotTaken
        | Op::Resume
        | Op::PopTop
        | Op::PopIter
        | Op::StoreFast
        | Op::DeleteFast
        | Op::ForIter
        | Op::EndFor
        | Op::JumpForward
        | Op::JumpBackward
        | Op::JumpBackwardNoInterrupt
        | Op::PopJumpIfTrue
        | Op::PopJumpIfFalse
        | Op::PopJumpIfNone
        | Op::PopJumpIfNotNone
        | Op::PopJumpForwardIfTrue
        | Op::PopJumpForwardIfFalse
        | Op::PopJumpForwardIfNone
        | Op::PopJumpForwardIfNotNone
        | Op::PopJumpBackwardIfTrue
        | Op::PopJumpBackwardIfFalse
        | Op::PopJumpBackwardIfNone
        | Op::PopJumpBackwardIfNotNone
        | Op::PushExcInfo
        | Op::Reraise
        | Op::ToBool
        | Op::SetFunctionAttribute
        | Op::ReturnValue
        | Op::ReturnConst => true,
        Op::GetIter => frame.stack().last().and_then(|value| value.object.as_ref()).is_some_and(is_walked),
        _ => false,
    }
}

/// Returns true if an object is iterated by C code that creates no state of its own.
fn is_walked(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyList>()
        || object.is_exact_instance_of::<PyTuple>()
        || object.is_exact_instance_of::<PyDict>()
        || object.is_exact_instance_of::<PyRange>()
        || types::has_slot(&object.get_type(), types::slots::Py_tp_iternext)
}
