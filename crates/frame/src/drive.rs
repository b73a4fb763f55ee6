//! Where a graph breaks, the frame goes on as a real one: its slots are filled, Python runs the instruction that broke the graph, and the
//! next piece of the frame is looked up, or compiled, from where it then stands.
//!
//! ```text
//! act (the instruction runs) ─► slide (jumps, stores, iteration) ─► look-up among the entries for this point
//!   an entry fits: its graph runs ─► the call returns │ the frame stands at the next break
//!   none fits: captured and compiled from here        │ plain: CPython evaluates what is left of the frame
//! ```
//!
//! Meanwhile this thread's frames come here: what the program calls between graphs is compiled as well, see [`crate::called`].

use std::{cell::RefCell, rc::Rc, sync::Arc};

use dynamlir_cpython_abi::{Evaluated, Frame, Listening, Thread, install, stack, types};
use dynamlir_interpreter::{Activation, Drive, Driver, Instruction, Opcode, Standing, Turn, called_by_bytecode, directly};
use pyo3::{
    exceptions::{PyRecursionError, PyRuntimeError},
    prelude::*,
    types::{PyDict, PyList, PyRange, PyTuple},
};

use crate::{
    bind::Given,
    call::{Callable, Resolved},
    called::{Called, called},
    chain::{Exit, Link, Pending},
};

thread_local! {
    /// Whose program runs between graphs.
    static ROOT: RefCell<Option<Arc<Callable>>> = const { RefCell::new(None) };
}

/// Puts back who was listened to before.
struct Rooted {
    former: Option<Arc<Callable>>,
    _listening: Listening,
}

impl Drop for Rooted {
    fn drop(&mut self) {
        let _ours = ROOT.replace(self.former.take());
    }
}

/// Runs Python code of which the functions that it calls are compiled as `root` is.
///
/// # Errors
/// What it raises.
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

/// Calls a function whose frame then stands there, and the others within it.
///
/// # Errors
/// What the call raises.
pub(crate) fn go_on<'py>(callable: &Arc<Callable>, function: &Bound<'py, PyAny>, frames: Vec<Standing>) -> PyResult<Bound<'py, PyAny>> {
    let Given { args, kwargs } = callable.signature().placeholders(function.py())?;
    listening(function.py(), callable, || {
        Pending { callable: callable.clone(), frames, outer: None }.wait();
        // The frame is that of the call that the program has made; there would be no C between.
        let result = directly(true, || function.call(args, Some(&kwargs).filter(|kwargs| !kwargs.is_empty())));
        // It is still there where CPython has made no frame.
        Pending::give_up(None);
        result
    })
}

/// What this thread's frames come to while a program runs between graphs.
fn handler(frame: Frame<'_>, throw: bool) -> Evaluated<'_> {
    if throw {
        return frame.evaluate(true);
    }
    if let Some(Pending { callable, frames, outer }) = Pending::take(&frame) {
        // It has no arguments by which CPython could evaluate it.
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
        // On the way to it.
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

/// CPython evaluates the frame, which might as well be called by C; that it most likely is not counts more.
fn plainly(frame: Frame<'_>) -> Evaluated<'_> {
    stack::in_place_of_bytecode(frame.thread(), || frame.evaluate(false))
}

fn raise(frame: Frame<'_>, error: PyErr) -> Evaluated<'_> {
    frame.take_stack().for_each(drop);
    frame.raise(error, 0, false)
}

/// The frame of a full chain is the outermost of another one, as the callable that it is by itself.
///
/// # Errors
/// What finding that out raised.
fn begin_chain(frame: &Frame<'_>, callable: Arc<Callable>, outer: Rc<Link>) -> PyResult<(Arc<Callable>, Option<Rc<Link>>)> {
    let _away = Listening::new(None);
    // Its arguments are not there yet.
    Ok(match called(&callable, frame, true)? {
        Called::This(own) => (own, None),
        Called::Plain | Called::Alone => (callable, Some(outer)),
    })
}

/// A frame that is compiled, before its first instruction.
fn begin(frame: Frame<'_>, callable: Arc<Callable>) -> Evaluated<'_> {
    let py = frame.py();
    let Some(function) = frame.function() else { return frame.evaluate(false) };
    let Some(drive) = Drive::of(&frame) else { return plainly(frame) };
    // What is looked at is let go before the frame runs.
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

/// What a frame does next.
enum Mode<'py> {
    /// It is put where the first of these stands; the others stand within it.
    Goto(Vec<Standing>),
    /// It returns this.
    Give(Bound<'py, PyAny>),
    /// It makes the call in which these stand.
    Enter(Vec<Standing>),
    /// The instruction that broke the graph runs.
    Act,
    /// Instructions run up to the one at this unit, unless there is a jump.
    Walk(u32),
    /// What compiles to nothing runs.
    Slide,
}

/// A frame on its way through its graphs.
struct Ride<'py> {
    callable: Arc<Callable>,
    mode: Mode<'py>,
    link: Rc<Link>,
}

impl Drop for Ride<'_> {
    fn drop(&mut self) {
        // The call may have raised before its frame was made.
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

    /// The instruction runs, and what it only begins.
    fn act(&mut self, instruction: &Instruction) -> Turn<'py> {
        if is_prefix(instruction.opcode) {
            self.mode = Mode::Act;
        }
        self.step(instruction)
    }

    /// The frame is put where the first of these stands.
    fn stand(&mut self, py: Python<'py>, mut frames: Vec<Standing>) -> Turn<'py> {
        let within = frames.split_off(1);
        self.mode = if within.is_empty() { Mode::Act } else { Mode::Enter(within) };
        let Some(own) = frames.pop() else { return Turn::Leave };
        self.link.put(py, &own);
        Turn::Goto(own)
    }

    /// What those within have said that becomes of the frame at a level.
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

    /// What is compiled for a frame that stands here.
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

    /// The frame returns: what becomes of one further out is decided.
    fn exit_to(&mut self, py: Python<'py>, level: usize, exit: Exit) -> Turn<'py> {
        self.link.tell(level, exit);
        Turn::Return(py.None().into_bound(py))
    }
}

/// Whether an instruction belongs to the one that follows.
fn is_prefix(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::KwNames | Opcode::Precall)
}

/// Whether an instruction is run rather than compiled: it moves what is there, or goes elsewhere.
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

/// Whether an object is iterated by C code that makes nothing of its own.
fn is_walked(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyList>()
        || object.is_exact_instance_of::<PyTuple>()
        || object.is_exact_instance_of::<PyDict>()
        || object.is_exact_instance_of::<PyRange>()
        || types::has_slot(&object.get_type(), types::slots::Py_tp_iternext)
}
