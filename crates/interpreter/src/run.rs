//! The evaluation of one frame, from its current position to where it suspends or ends.

use std::{borrow::Cow, rc::Rc, sync::Arc};

use dynamlir_cpython_abi::{Evaluated, Frame, Owner, exception, kind, stack, types};
use pyo3::{
    exceptions::PyGeneratorExit,
    prelude::*,
    types::{PyDict, PyList, PyString, PyTuple},
};

use crate::{
    Value,
    activation::Activation,
    counts,
    evaluator::{self, Evaluator},
    ops::Flow,
    policy::{Outcome, Unwind, escape_each},
    prepared::{self, Preparation},
};

/// The hook's handler.
pub(crate) fn handler(frame: Frame<'_>, throw: bool) -> Evaluated<'_> {
    let from_c = !crate::concrete::take_direct();
    let Some(evaluator) = evaluator::current() else { return frame.evaluate(throw) };
    // The code below must not run with an exception set.
    let thrown = throw.then(|| PyErr::fetch(frame.py()));
    if evaluator.aborted.get() {
        frame.take_stack().for_each(drop);
        return give_up(frame, thrown);
    }
    // The check for imports comes first: `is_foreign` may itself import a module that it needs, once, and that import must not wait for it.
    let is_foreign = || evaluator.policy.is_foreign(frame.function().as_ref(), first_argument(&frame).as_ref());
    if from_c && (handles_signal(&frame) || imports(&frame) || is_foreign()) {
        return evaluator::suspended(|| {
            if let Some(error) = thrown {
                error.restore(frame.py());
            }
            frame.evaluate(throw)
        });
    }
    match admit(&frame, &evaluator, from_c) {
        Ok((code, preparation)) => {
            counts::interpreted();
            let activation = Activation::new(frame, &code, preparation, evaluator);
            drop(code);
            stack::with_room(activation.thread, || activate(activation, thrown, from_c))
        }
        Err(reason) => {
            if let Some(reason) = reason {
                counts::left(&reason);
                if !evaluator.policy.leaves(&reason) {
                    evaluator.aborted.set(true);
                    frame.take_stack().for_each(drop);
                    return give_up(frame, thrown);
                }
            }
            if let Some(error) = thrown {
                error.restore(frame.py());
            }
            frame.evaluate(throw)
        }
    }
}

/// Returns true if C code starts this frame to handle a signal: it passes the interrupted frame as a separate argument or among `*args`.
fn handles_signal(frame: &Frame<'_>) -> bool {
    frame.next_unit() == 0
        && (0..frame.locals_count().min(3)).filter_map(|slot| frame.local(slot)).any(|object| match object.cast_exact::<PyTuple>() {
            Ok(items) => items.len() == 2 && items.get_item(1).is_ok_and(|item| kind::is_frame(&item)),
            Err(_) => kind::is_frame(&object),
        })
}

/// Returns true if C code, including this crate, performs an import by this frame: `__import__` has been replaced by a Python function. C
/// code passes the same namespace twice, as globals and as locals, and an empty list of names, which no `import` statement does. The code
/// here must not need an import.
fn imports(frame: &Frame<'_>) -> bool {
    if frame.next_unit() != 0 {
        return false;
    }
    // The function may be a method, and may take its arguments as `*args`.
    let mut given = Vec::with_capacity(6);
    for object in (0..frame.locals_count().min(6)).filter_map(|slot| frame.local(slot)) {
        match object.cast_exact::<PyTuple>() {
            Ok(items) => given.extend(items.iter().take(6)),
            Err(_) => given.push(object),
        }
    }
    given.windows(4).any(|args| {
        args[0].is_exact_instance_of::<PyString>()
            && args[1].is_exact_instance_of::<PyDict>()
            && args[2].is(&args[1])
            && args[3].cast_exact::<PyList>().is_ok_and(PyListMethods::is_empty)
    })
}

/// Leaves a frame that must not run. A generator closed by C code and a finalizer of a dying object end silently: an exception there would
/// be reported to the user.
fn give_up(frame: Frame<'_>, thrown: Option<PyErr>) -> Evaluated<'_> {
    let py = frame.py();
    if let Some(thrown) = thrown {
        return frame.raise(thrown, 0, false);
    }
    if let Some(unit) = finalizer_return(&frame) {
        return frame.resume_at(unit, [Some(py.None().into_bound(py))]);
    }
    frame.raise(Evaluator::abort_error(py), 0, false)
}

/// Returns the unit of a return instruction if this is a frame of the `__del__` that its first argument's class defines.
fn finalizer_return(frame: &Frame<'_>) -> Option<u32> {
    let (function, first) = (frame.function()?, first_argument(frame)?);
    let found = types::lookup(crate::concrete::abi(frame.py()), &first.get_type(), pyo3::intern!(frame.py(), "__del__").as_any())?;
    if !found.is(&function) {
        return None;
    }
    let code = frame.code()?;
    let evaluator = evaluator::current()?;
    let preparation = prepared::prepare(evaluator.abi, evaluator.table, &code);
    let prepared = preparation.as_ref().as_ref().ok()?;
    prepared
        .code
        .instructions
        .iter()
        .find(|instruction| instruction.opcode.name().starts_with("RETURN_") && instruction.opcode.name() != "RETURN_GENERATOR")
        .map(|instruction| instruction.start)
}

fn first_argument<'py>(frame: &Frame<'py>) -> Option<Bound<'py, PyAny>> {
    if frame.locals_count() == 0 { None } else { frame.local(0) }
}

/// A code object that is evaluated here, and its preparation.
type Admitted<'py> = (Bound<'py, PyAny>, Arc<Preparation>);

/// Decides if a frame is evaluated here. If not, returns the reason, or none if CPython's part is not an evaluation.
fn admit<'py>(frame: &Frame<'py>, evaluator: &Evaluator, from_c: bool) -> Result<Admitted<'py>, Option<Cow<'static, str>>> {
    let thread = frame.thread();
    if thread.is_watched() {
        return Err(Some("traced or profiled".into()));
    }
    // CPython's own evaluation raises the `RecursionError`.
    if !thread.may_enter(from_c) {
        return Err(None);
    }
    if !thread.has_room(from_c) {
        return Err(Some("deep recursion".into()));
    }
    let code = frame.code().ok_or(None)?;
    let preparation = prepared::prepare(evaluator.abi, evaluator.table, &code);
    match preparation.as_ref() {
        Err(reason) => return Err(Some(reason.clone().into())),
        Ok(prepared) if prepared.makes_generator() && !prepared.iterates_first && frame.owner() == Owner::Thread => {
            counts::made_generator();
            return Err(None);
        }
        Ok(_) => {}
    }
    evaluator.policy.admit(&code).map_err(|reason| Some(reason.into()))?;
    Ok((code, preparation))
}

/// The ways in which a frame ends or suspends.
pub(crate) enum End<'py> {
    /// CPython runs the instruction that starts at this unit, with this stack: a return, a yield, a re-raise.
    Replay(u32, Vec<Value<'py>>),
    /// An exception that no handler of the frame catches, with the unit that raised it.
    Raise(PyErr, u32),
    /// The evaluation was aborted.
    Abort,
}

/// Keeps track of the frame while it runs.
fn activate(mut activation: Activation<'_>, thrown: Option<PyErr>, from_c: bool) -> Evaluated<'_> {
    let py = activation.py();
    let closing = thrown.as_ref().filter(|error| error.is_instance_of::<PyGeneratorExit>(py)).map(|error| error.clone_ref(py));
    let linked = activation.frame.link();
    activation.thread.enter(from_c);
    let outer = activation.evaluator.set_place(Some(activation.place.clone()));
    let end = activation.evaluate(thrown);
    activation.evaluator.set_place(outer);
    activation.thread.leave(from_c);
    drop(linked);
    let Activation { frame, place, .. } = activation;
    match end {
        End::Replay(unit, stack) => frame.resume_at(unit, stack.into_iter().map(|value| value.object)),
        End::Raise(error, unit) => {
            // A generator that has not started is shown with its whole frame.
            let is_shown = frame.owner() == Owner::Generator || unit >= place.prepared().first_shown;
            frame.raise(error, unit, is_shown)
        }
        End::Abort => give_up(frame, closing),
    }
}

/// The place where an exception was raised.
pub(crate) struct Raised {
    /// The unit that determines the handler.
    pub handlers: u32,
    /// The unit that CPython runs to re-raise it.
    pub start: u32,
    /// The unit that the traceback shows.
    pub unit: i32,
}

impl<'py> Activation<'py> {
    fn evaluate(&mut self, thrown: Option<PyErr>) -> End<'py> {
        let evaluator: Rc<Evaluator> = self.evaluator.clone();
        let place = self.place.clone();
        let prepared = place.prepared();
        let entered = evaluator.policy.enter(self).and_then(|()| self.restore_iterators());
        let mut pending = match (entered, thrown) {
            (Err(Unwind::Abort), _) => Some((Unwind::Abort, self.frame_state())),
            (_, Some(error)) | (Err(Unwind::Raise(error) | Unwind::Reraise(error)), None) => {
                Some((Unwind::Raise(error), self.frame_state()))
            }
            (Ok(()), None) => None,
        };
        // The policy may have moved the frame.
        let mut at = prepared.code.index[self.frame.next_unit() as usize] as usize;
        let steps = evaluator.policy.wants_steps(self);
        loop {
            let (unwind, raised) = if let Some(pending) = pending.take() {
                pending
            } else {
                let instruction = &prepared.code.instructions[at];
                self.set_unit(instruction);
                let stepped = if steps { evaluator.policy.step(self, instruction) } else { Ok(()) };
                let outcome = stepped.and_then(|()| (prepared.ops[at])(self, instruction));
                let unwind = match outcome {
                    _ if evaluator.aborted.get() => Unwind::Abort,
                    Ok(Flow::Next) => {
                        at += 1;
                        continue;
                    }
                    Ok(Flow::Jump(unit)) => {
                        at = prepared.code.index[unit as usize] as usize;
                        continue;
                    }
                    Ok(Flow::Return(value)) => match self.finish(&value) {
                        Ok(()) => return End::Replay(instruction.start, std::mem::take(&mut self.stack)),
                        Err(unwind) => unwind,
                    },
                    Ok(Flow::Suspend) => match self.suspend() {
                        Ok(()) => return End::Replay(instruction.start, std::mem::take(&mut self.stack)),
                        Err(unwind) => unwind,
                    },
                    Err(unwind) => unwind,
                };
                (unwind, Raised { handlers: instruction.next - 1, start: instruction.start, unit: instruction.unit as i32 })
            };
            self.keywords = None;
            match self.handle(unwind, &raised) {
                Ok(target) => at = prepared.code.index[target as usize] as usize,
                Err(end) => return end,
            }
        }
    }

    /// Returns the place where an exception thrown into the frame is raised.
    fn frame_state(&self) -> Raised {
        let unit = self.frame.throwing_unit();
        Raised { handlers: unit, start: unit, unit: self.frame.unit() }
    }

    fn finish(&self, value: &Value<'py>) -> Outcome<()> {
        escape_each(self.policy(), [value])?;
        self.policy().leave(self, Ok(value));
        Ok(())
    }

    fn suspend(&self) -> Outcome<()> {
        self.escape_all()?;
        // Where a generator is created, the stack is empty or has a NULL slot above its iterator.
        let none = Value::new(self.py().None().into_bound(self.py()));
        let yielded = self.stack.last().filter(|value| !value.is_null()).unwrap_or(&none);
        self.policy().leave(self, Ok(yielded));
        Ok(())
    }

    /// Finds the handler of an exception and prepares the stack for it, or returns how the frame ends.
    pub(crate) fn handle(&mut self, unwind: Unwind, raised: &Raised) -> Result<u32, End<'py>> {
        let handler = self.prepared().code.handler_for(raised.handlers);
        let error = match (unwind, handler) {
            (Unwind::Abort, _) => {
                self.evaluator.aborted.set(true);
                self.policy().leave(self, Err(&Unwind::Abort));
                self.stack.clear();
                // An exception being handled references the frame, which references the exception: without this, the locals would never be
                // dropped.
                self.clear_locals();
                return Err(End::Abort);
            }
            (Unwind::Raise(error), Some(_)) => self.thread.traceback_here(error),
            (Unwind::Reraise(error), Some(_)) => error,
            (Unwind::Raise(error), None) => {
                let unwind = Unwind::Raise(error);
                self.policy().leave(self, Err(&unwind));
                self.stack.clear();
                let Unwind::Raise(error) = unwind else { unreachable!("made above") };
                return Err(End::Raise(error, raised.unit.max(0) as u32));
            }
            (unwind @ Unwind::Reraise(_), None) => {
                self.policy().leave(self, Err(&unwind));
                return Err(End::Replay(raised.start, std::mem::take(&mut self.stack)));
            }
        };
        let Some(handler) = handler else { unreachable!("matched above") };
        self.policy().catches(self);
        let above = self.stack.len() - handler.depth as usize;
        self.drop_top(above);
        if handler.lasti {
            // If memory for it ran out, the handler could not be entered. The value is only read when the handler re-raises.
            let unit = self.frame.unit_object(self.frame.unit()).unwrap_or_else(|_| self.py().None().into_bound(self.py()));
            self.push(unit);
        }
        let value = exception::value(self.py(), error);
        self.push(value.into_any());
        Ok(handler.target)
    }
}
