//! The break point: the instructions before which CPython takes over the captured frame and the frames within it, and the state of those
//! frames there.
//!
//! CPython runs the instruction that cannot be captured in the frame that contains it. This requires each frame around it to be making a
//! call of Python code, and nothing else. If a frame is doing anything else (C code sorts by a key function, say), CPython takes over
//! before that. The same applies if the callee has recorded nothing yet and has nothing to compute: logging a line, for example, is one
//! call.

use std::rc::Rc;

use dynamlir_bytecode::{Flow, Liveness};
use dynamlir_cpython_abi::{Thread, kind};
use dynamlir_guards::Source;
use dynamlir_interpreter::{Activation, CallSite, Instruction, Unwind, Value, abort, flags};
use dynamlir_torch_abi::State as TorchState;
use pyo3::{
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};

use crate::{
    floors::{Capture, Record},
    graph_break::{GraphBreak, Halt, reason},
    objects::lookup::lookup,
    state::{Entry, Left, Slot},
};

/// Names of functions that inspect their caller's variables without reading them by name.
const SHOWS_FRAMES: [&str; 10] = ["locals", "vars", "dir", "eval", "exec", "breakpoint", "set_trace", "_getframe", "currentframe", "super"];

impl<'py> Record<'py> {
    /// Notes that a frame begins within the captured one.
    pub(crate) fn note_entry(&self, frame: &Activation<'py>) {
        if let Some(outer) = frame.place().outer() {
            let place = Rc::as_ptr(frame.place()) as usize;
            let step = self.progress.at.borrow().get(&(Rc::as_ptr(outer) as usize)).copied().unwrap_or_default();
            self.progress.calls.borrow_mut().push(Entry { place, step, recorded: self.recorded() });
        }
    }

    /// Notes that a frame ends or is abandoned.
    pub(crate) fn note_exit(&self, frame: &Activation<'py>, unwind: Option<&Unwind>) {
        let progress = &self.progress;
        let place = Rc::as_ptr(frame.place()) as usize;
        if matches!(unwind, Some(Unwind::Raise(_) | Unwind::Reraise(_))) {
            self.note_met(frame);
            if progress.raising.get().is_none() {
                progress.raising.set(progress.at.borrow().get(&place).copied());
            }
        }
        progress.answers.frame_ended(place);
        if matches!(unwind, Some(Unwind::Abort)) {
            let leaves = !progress.left.borrow().is_empty();
            let done = match () {
                () if leaves => self.leave_around(frame),
                () if !progress.decided.get() => self.decide_outset(frame),
                () => Ok(()),
            };
            if let Err(error) = done {
                self.graph_break.borrow_mut().get_or_insert(GraphBreak::internal(&error));
            }
        }
        progress.at.borrow_mut().remove(&place);
        progress.held.borrow_mut().retain(|(of, _), _| *of != place);
        progress.calls.borrow_mut().pop_if(|entry| entry.place == place);
    }

    /// Returns the amount recorded so far: operations, and writes of the program.
    fn recorded(&self) -> usize {
        self.graph.borrow().nodes().len() - self.tensors.inputs.borrow().len() + self.writes.noted()
    }

    /// Called when a frame is abandoned: decides the instruction before which CPython takes over. If the frame is doing anything other than
    /// calling the inner frame, CPython takes over before that. Printing text, say, is one call for CPython, regardless of how many of its
    /// instructions cannot be captured. But a callee that computes something, or may do so later, is entered.
    fn decide_outset(&self, frame: &Activation<'py>) -> PyResult<()> {
        let progress = &self.progress;
        let place = Rc::as_ptr(frame.place()) as usize;
        let calls = progress.calls.borrow();
        if let (false, Some(outermost)) = (progress.chains, calls.first()) {
            progress.outset.set(Some(outermost.step));
            progress.decided.set(true);
            return Ok(());
        }
        if progress.within.borrow().is_none() {
            // Frames that it has called may have ended since its latest instruction began.
            progress.outset.set(progress.at.borrow().get(&place).copied());
        }
        let entry = calls.iter().rev().find(|entry| entry.place == place);
        let within = progress.within.replace(entry.map(|entry| (frame.code().clone().unbind(), entry.step)));
        if let Some((within, step)) = within
            && site_of(frame, within.bind(self.py))?.is_none()
        {
            progress.outset.set(Some(step));
            progress.busy.set(false);
        }
        // A resumed frame is already running.
        match entry.filter(|_| !progress.busy.get() && progress.entered(frame.place()).is_none()) {
            Some(entry) if entry.recorded == self.recorded() && !self.is_of_use(frame)? => progress.outset.set(Some(entry.step)),
            _ => progress.busy.set(true),
        }
        Ok(())
    }

    /// Returns true if a frame is compiled when it is called between graphs.
    fn is_of_use(&self, frame: &Activation<'py>) -> PyResult<bool> {
        let concerns = |object: &Bound<'py, PyAny>| self.torch.is_fake(object) || self.torch.is_module(object);
        let any = |object: &Bound<'py, PyAny>| {
            concerns(object)
                || object.cast_exact::<PyTuple>().is_ok_and(|items| items.iter().any(|item| concerns(&item)))
                || object.cast_exact::<PyDict>().is_ok_and(|items| items.values().iter().any(|item| concerns(&item)))
        };
        if !(0..frame.locals_count()).any(|slot| frame.local(slot).object.is_some_and(|object| any(&object))) {
            return Ok(false);
        }
        let is_compiled = dynamlir_cpython_abi::import(self.py, "dynamlir.capture.api")?.getattr("is_compiled_when_called")?;
        dynamlir_interpreter::suspended(|| is_compiled.call1((frame.code(),)))?.is_truthy()
    }

    /// Called when a frame around others is abandoned. If CPython takes over the inner frames, it takes over this one as well, before the
    /// call that it is making. If the frame is doing anything else, CPython takes over before that.
    fn leave_around(&self, frame: &Activation<'py>) -> PyResult<()> {
        let progress = &self.progress;
        let at = progress.at.borrow().get(&(Rc::as_ptr(frame.place()) as usize)).copied();
        let Some(within) = progress.left.borrow().last().map(|left| left.code.clone_ref(self.py)) else { return Ok(()) };
        let is_innermost = progress.left.borrow().len() == 1 && at == Some(progress.left_at.get());
        if is_innermost {
            return Ok(());
        }
        let site = if progress.chains { site_of(frame, within.bind(self.py))? } else { None };
        let stack = site.as_ref().map(|site| self.without_arguments(frame, site)).transpose()?.flatten();
        let (Some(site), Some(stack)) = (site, stack) else {
            let _left = progress.left.take();
            progress.decided.set(true);
            // Another capture attempts it.
            let outermost = progress.calls.borrow().first().filter(|_| !progress.chains).map(|entry| entry.step);
            if let (Some(at), None) = (outermost.or(at), self.graph_break.borrow().as_ref()) {
                progress.step.set(at);
            }
            let message = "the call of a frame that is not Python's alone".to_owned();
            let found = GraphBreak { reason: reason::RESUMED, message, location: self.location() };
            self.graph_break.borrow_mut().get_or_insert(found);
            return Ok(());
        };
        let left = Left { stack, ..self.leave_at(frame, site.start) };
        progress.left.borrow_mut().push(left);
        Ok(())
    }

    /// Returns the stack of a frame that is making a call, with placeholders for the arguments: those belong to a frame that began long
    /// ago. None if an unpacked argument may be any object.
    fn without_arguments(&self, frame: &Activation<'py>, site: &CallSite<'_, 'py>) -> PyResult<Option<Vec<Slot>>> {
        let nones = |count: usize| PyTuple::new(self.py, (0..count).map(|_| self.py.None())).map(Bound::into_any);
        let last = frame.stack().len() - site.others;
        let mut stack = Vec::with_capacity(frame.stack().len());
        for (place, value) in frame.stack().iter().enumerate() {
            let Some(object) = &value.object else {
                stack.push(None);
                continue;
            };
            let (object, source) = match place {
                _ if place <= site.place => (object.clone(), self.tracked(value).source),
                _ if place < last => (self.py.None().into_bound(self.py), None),
                _ if !site.spreads => (object.clone(), None),
                _ => match (object.cast_exact::<PyTuple>(), object.cast_exact::<PyList>(), object.cast_exact::<PyDict>()) {
                    (Ok(items), ..) => (nones(items.len())?, None),
                    (_, Ok(items), _) => (nones(items.len())?, None),
                    (.., Ok(items)) => {
                        let dict = PyDict::new(self.py);
                        items.keys().iter().try_for_each(|key| dict.set_item(key, self.py.None()))?;
                        (dict.into_any(), None)
                    }
                    _ => return Ok(None),
                },
            };
            stack.push(Some((object.unbind(), source)));
        }
        Ok(Some(stack))
    }

    /// Returns true if a function's names include a function that inspects its variables without reading them by name.
    pub(crate) fn looks_at_variables(&self, frame: &Activation<'py>) -> bool {
        frame.prepared().names().any(|name| SHOWS_FRAMES.iter().any(|shows| name.bind(self.py) == *shows))
    }

    fn leave_at(&self, frame: &Activation<'py>, unit: u32) -> Left {
        let slot = |value: &Value<'py>| -> Slot {
            let object = value.object.as_ref()?;
            let tracked = self.tracked(value);
            Some((object.clone().unbind(), tracked.source))
        };
        let code = &frame.prepared().code;
        let live = Liveness::of(code, &Flow::of(code));
        let at = code.index[unit as usize] as usize;
        // Code that inspects the frame from outside sees what CPython would show, except tensors that exist only in the graph and that
        // nothing in the frame reads any more.
        let holds_frame = |value: &Value<'py>| value.object.as_ref().is_some_and(kind::is_frame);
        let looks = |value: &Value<'py>| value.object.as_ref().is_some_and(looks_at_frames);
        let shows = self.looks_at_variables(frame)
            || frame.stack().iter().any(|value| holds_frame(value) || looks(value))
            || (0..frame.locals_count()).any(|slot| holds_frame(&frame.local(slot)));
        // The same applies to the frames around it.
        let shows = shows || self.progress.shows.get();
        self.progress.shows.set(shows);
        let is_unreal = |object: &Bound<'py, PyAny>| self.torch.is_fake(object) && self.real_of(object).is_none();
        let holds_unreal = |object: &Bound<'py, PyAny>| {
            is_unreal(object)
                || object.cast_exact::<PyTuple>().is_ok_and(|items| items.iter().any(|item| is_unreal(&item)))
                || object.cast_exact::<PyDict>().is_ok_and(|items| items.values().iter().any(|item| is_unreal(&item)))
        };
        let dead =
            |slot: usize, value: &Value<'py>| !shows && !live.is_live(at, slot as u32) && value.object.as_ref().is_some_and(holds_unreal);
        let first_free = frame.prepared().first_free();
        let is_within = frame.place().outer().is_some();
        let local = |at: usize| {
            let value = frame.local(at);
            if let (Some(index), Some(cell)) = (at.checked_sub(first_free), &value.object) {
                // The cell is the function's own, as it is when the frame is created again. An inner frame gets it from its function.
                let function = self.guards.source(Source::Function);
                let cell = cell.clone().unbind();
                return (!is_within).then(|| (cell, Some(self.guards.source(Source::ClosureCell(function, index as u32)))));
            }
            if dead(at, &value) { None } else { slot(&value) }
        };
        let locals = (0..frame.locals_count()).map(local).collect();
        Left {
            code: frame.code().clone().unbind(),
            entered: self.progress.entered(frame.place()),
            unit,
            locals,
            stack: frame.stack().iter().map(slot).collect(),
        }
    }
}

impl<'py> Capture<'py> {
    /// Called before each instruction of the captured frame and of the frames within it. Abandons the frames at the instruction where they
    /// are to stop.
    pub(crate) fn next_step(&self, frame: &Activation<'py>, instruction: &Instruction) -> Result<(), Unwind> {
        let progress = &self.progress;
        let done = progress.step.get();
        for value in frame.stack() {
            if let Some(object) = &value.object {
                progress.born.borrow_mut().entry(object.as_ptr() as usize).or_insert(done - 1);
            }
        }
        let modes = self.torch.function_modes(self.py).unwrap_or(0);
        match progress.torch.get() {
            None => {
                progress.torch.set(TorchState::now().ok());
                progress.modes.set(modes);
            }
            Some(state) if state.holds() && progress.modes.get() == modes && !progress.chooses.get() && progress.levels.get() == 0 => {
                progress.set.set(None);
            }
            Some(_) if progress.set.get().is_none() => progress.set.set(Some(done - 1)),
            Some(_) => {}
        }
        let handled = Thread::current(self.py).ok().and_then(Thread::handled_exception).filter(|handled| !handled.is_none());
        let handled = handled.map_or(0, |handled| handled.as_ptr() as usize);
        match progress.handled.get() {
            None => progress.handled.set(Some(handled)),
            Some(before) if before == handled => progress.raised.set(None),
            // The previous instruction made it the handled exception, and the one before that raised it.
            Some(_) if progress.raised.get().is_none() => progress.raised.set(Some(done.saturating_sub(2))),
            Some(_) => {}
        }
        if progress.stops_at(done) {
            // CPython itself must raise the exception that it handles, since that state cannot be recreated. It must also apply a Function
            // whose `backward` may read what the rest of the frame writes.
            let raised = progress.raised.get().map(|step| (step, reason::RAISED, "an exception is being handled"));
            let applied = self.writes.closed().map(|step| (step, reason::AUTOGRAD, "what backward runs later is recorded before"));
            if let Some((earlier, reason, message)) = raised.into_iter().chain(applied).min_by_key(|(step, ..)| *step) {
                progress.step.set(earlier);
                progress.decided.set(true);
                let found = GraphBreak { reason, message: message.to_owned(), location: self.location() };
                return Err(self.unwind(Halt::Break(found)));
            }
            let left = self.leave_at(frame, instruction.start);
            self.guard_import(frame, instruction).map_err(|halt| self.unwind(halt))?;
            progress.left.borrow_mut().push(left);
            progress.left_at.set(done);
            return Err(abort());
        }
        Ok(())
    }
}

/// Returns true if an object is a C function with one of these names, regardless of the name used here.
fn looks_at_frames(object: &Bound<'_, PyAny>) -> bool {
    let is_one = |name: Bound<'_, PyAny>| SHOWS_FRAMES.iter().any(|shows| name.eq(*shows).unwrap_or(false));
    kind::is_c_function(object) && object.getattr("__name__").is_ok_and(is_one)
}

/// Returns the call that a frame is making, if the call only begins a frame of this code.
fn site_of<'a, 'py>(frame: &'a Activation<'py>, within: &Bound<'py, PyAny>) -> PyResult<Option<CallSite<'a, 'py>>> {
    let Some(site) = frame.call_site() else { return Ok(None) };
    Ok((!makes_generator(frame.code())? && calls(site.callable.get(), within)?).then_some(site))
}

/// Returns true if calling an object only begins a frame of that code.
fn calls(callable: &Bound<'_, PyAny>, code: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is_of = |function: &Bound<'_, PyAny>| -> PyResult<bool> {
        Ok(kind::is_function(function) && function.getattr("__code__")?.is(code) && !makes_generator(code)?)
    };
    if kind::is_function(callable) {
        return is_of(callable);
    }
    if kind::is_method(callable) {
        return is_of(&callable.getattr("__func__")?);
    }
    match lookup(&callable.get_type(), "__call__")? {
        Some(function) => is_of(&function),
        None => Ok(false),
    }
}

fn makes_generator(code: &Bound<'_, PyAny>) -> PyResult<bool> {
    let flags: u32 = code.getattr("co_flags")?.extract()?;
    Ok(flags & (flags::GENERATOR | flags::COROUTINE | flags::ASYNC_GENERATOR) != 0)
}
