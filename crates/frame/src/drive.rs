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

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

use dynamlir_cpython_abi::{Evaluated, Frame, Listening, Thread, install, types};
use dynamlir_interpreter::{Activation, Driver, Instruction, Opcode, Standing, Turn, called_by_bytecode, drive};
use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    types::{PyDict, PyList, PyRange, PyTuple},
};

use crate::{
    bind::Given,
    cache::Point,
    call::{Callable, Resolved, Stand},
    called::{Called, called},
};

thread_local! {
    /// A frame that is about to be made.
    static PENDING: Cell<Option<Pending>> = const { Cell::new(None) };
    /// Whose program runs between graphs.
    static ROOT: RefCell<Option<Arc<Callable>>> = const { RefCell::new(None) };
}

/// A frame that is about to be made, and where it is to stand.
struct Pending {
    callable: Arc<Callable>,
    unit: u32,
    locals: Vec<Option<Py<PyAny>>>,
    stack: Vec<Option<Py<PyAny>>>,
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

/// Calls a function whose frame then stands there.
///
/// # Errors
/// What the call raises.
pub(crate) fn go_on<'py>(callable: &Arc<Callable>, function: &Bound<'py, PyAny>, standing: Standing<'py>) -> PyResult<Bound<'py, PyAny>> {
    let Given { args, kwargs } = callable.signature().placeholders(function.py())?;
    let unbound = |objects: Vec<Option<Bound<'py, PyAny>>>| objects.into_iter().map(|object| object.map(Bound::unbind)).collect();
    let pending =
        Pending { callable: callable.clone(), unit: standing.unit, locals: unbound(standing.locals), stack: unbound(standing.stack) };
    listening(function.py(), callable, || {
        drop(PENDING.replace(Some(pending)));
        let result = function.call(args, Some(&kwargs));
        // It is still there where CPython has made no frame.
        drop(PENDING.take());
        result
    })
}

/// What this thread's frames come to while a program runs between graphs.
fn handler(frame: Frame<'_>, throw: bool) -> Evaluated<'_> {
    let py = frame.py();
    if throw {
        return frame.evaluate(true);
    }
    if let Some(pending) = PENDING.take() {
        let Pending { callable, unit, locals, stack } = pending;
        let bound =
            |objects: Vec<Option<Py<PyAny>>>| objects.into_iter().map(|object| object.map(|object| object.into_bound(py))).collect();
        let standing = Standing { unit, locals: bound(locals), stack: bound(stack) };
        return ride(frame, callable, Mode::Goto(standing));
    }
    let Some(root) = ROOT.with_borrow(Clone::clone) else { return frame.evaluate(false) };
    let known = {
        let _away = Listening::new(None);
        called(&root, &frame)
    };
    match known {
        Ok(Called::This(callable)) => begin(frame, callable),
        Ok(Called::Alone) => {
            let _away = Listening::new(None);
            frame.evaluate(false)
        }
        Ok(Called::Plain) => {
            let _c = called_by_bytecode();
            frame.evaluate(false)
        }
        Err(error) => raise(frame, error),
    }
}

fn raise(frame: Frame<'_>, error: PyErr) -> Evaluated<'_> {
    frame.take_stack().for_each(drop);
    frame.raise(error, 0, false)
}

/// A frame that is compiled, before its first instruction.
fn begin(frame: Frame<'_>, callable: Arc<Callable>) -> Evaluated<'_> {
    let py = frame.py();
    let Some(function) = frame.function() else { return frame.evaluate(false) };
    // What is looked at is let go before the frame runs.
    let resolved = {
        let _away = Listening::new(None);
        let values: Vec<_> = (0..callable.signature().len()).map(|slot| frame.local(slot)).collect();
        let slots: Vec<_> = values.iter().map(Option::as_ref).collect();
        callable.resolve(&function, &slots, None, || callable.signature().unbind(py, &slots))
    };
    drop(function);
    match resolved {
        Ok(Resolved::Done(value)) => ride(frame, callable, Mode::Give(value)),
        Ok(Resolved::Suspended(standing)) => ride(frame, callable, Mode::Goto(standing)),
        Ok(Resolved::Walk(_) | Resolved::Plain(_) | Resolved::Now | Resolved::Failed) => frame.evaluate(false),
        Err(error) => raise(frame, error),
    }
}

fn ride<'py>(frame: Frame<'py>, callable: Arc<Callable>, mode: Mode<'py>) -> Evaluated<'py> {
    drive(frame, &mut Ride { callable, mode, handling: 0 })
}

/// What a frame does next.
enum Mode<'py> {
    /// It is put there.
    Goto(Standing<'py>),
    /// It returns this.
    Give(Bound<'py, PyAny>),
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
    /// How many exceptions it is handling: what is in handlers is not compiled.
    handling: usize,
}

impl<'py> Driver<'py> for Ride<'py> {
    fn turn(&mut self, frame: &Activation<'py>, instruction: &Instruction, jumped: bool) -> Turn<'py> {
        match std::mem::replace(&mut self.mode, Mode::Slide) {
            Mode::Goto(standing) => {
                self.mode = Mode::Act;
                Turn::Goto(standing)
            }
            Mode::Give(value) => Turn::Return(value),
            Mode::Act => {
                if is_prefix(instruction.opcode) {
                    self.mode = Mode::Act;
                }
                self.step(instruction)
            }
            Mode::Walk(until) if !jumped => {
                if instruction.start != until {
                    self.mode = Mode::Walk(until);
                }
                self.step(instruction)
            }
            Mode::Walk(_) | Mode::Slide => {
                if self.handling > 0 || slides(frame, instruction) {
                    return self.step(instruction);
                }
                self.look_up(frame, instruction)
            }
        }
    }
}

impl<'py> Ride<'py> {
    fn step(&mut self, instruction: &Instruction) -> Turn<'py> {
        match instruction.opcode {
            Opcode::PushExcInfo => self.handling += 1,
            Opcode::PopExcept => self.handling = self.handling.saturating_sub(1),
            _ => {}
        }
        Turn::Step
    }

    /// What is compiled for a frame that stands here.
    fn look_up(&mut self, frame: &Activation<'py>, instruction: &Instruction) -> Turn<'py> {
        let Some(function) = frame.function() else { return Turn::Leave };
        if Thread::current(frame.py()).is_ok_and(Thread::is_watched) {
            return Turn::Leave;
        }
        let _away = Listening::new(None);
        let standing = Standing::of(frame, instruction);
        let cache = self.callable.cache().at(Point::of(&standing));
        let slots: Vec<_> = standing.locals.iter().chain(&standing.stack).map(Option::as_ref).collect();
        let from = Stand { unit: standing.unit, locals: standing.locals.len() };
        match self.callable.resolve(&function, &slots, Some((from, &cache)), || self.callable.signature().placeholders(frame.py())) {
            Ok(Resolved::Done(value)) => Turn::Return(value),
            Ok(Resolved::Suspended(next)) => {
                self.mode = Mode::Act;
                Turn::Goto(next)
            }
            Ok(Resolved::Walk(until)) => {
                if until != instruction.start {
                    self.mode = Mode::Walk(until);
                }
                self.step(instruction)
            }
            Ok(Resolved::Plain(entry)) => match self.callable.tell_plain(frame.py(), &entry) {
                Ok(()) => Turn::Leave,
                Err(error) => Turn::Raise(error),
            },
            Ok(Resolved::Now | Resolved::Failed) => Turn::Leave,
            Err(error) => Turn::Raise(error),
        }
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
        | Op::Resume
        | Op::PopTop
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
