//! A frame that is not captured from its first instruction to its last: it begins where Python has left it, and ends before an
//! instruction that Python is to run.
//!
//! Where such a frame ends, what is in it is made again from the graph's results and from what exists. What cannot be made again – an
//! iterator, a file, a lock – is to be made by Python itself: then the frame ends before the instruction that makes it.

use dynamlir_bytecode::{Flow, Liveness};
use dynamlir_cpython_abi::{Thread, kind};
use dynamlir_frame::{Recipe, Suspension};
use dynamlir_guards::{Relation, Source, SourceId};
use dynamlir_interpreter::{Activation, Instruction, Standing, Unwind, Value, abort};
use dynamlir_torch_abi::State as TorchState;
use pyo3::{
    prelude::*,
    types::{PyFloat, PyString, PyTuple},
};

use crate::{
    graph_break::{GraphBreak, reason},
    outputs::Outputs,
    state::{Capture, Halt, Left, Outcome, Slot, Tracked, type_name},
    values::number,
};

/// A frame that Python has left.
pub(crate) struct Beginning {
    /// The unit of the next instruction.
    pub unit: u32,
    /// All local slots.
    pub locals: Vec<Option<Py<PyAny>>>,
    /// The value stack.
    pub stack: Vec<Option<Py<PyAny>>>,
}

impl Beginning {
    pub(crate) fn standing<'py>(&self, py: Python<'py>) -> Standing<'py> {
        let bound = |slots: &[Option<Py<PyAny>>]| slots.iter().map(|slot| slot.as_ref().map(|slot| slot.bind(py).clone())).collect();
        Standing { unit: self.unit, locals: bound(&self.locals), stack: bound(&self.stack) }
    }
}

/// Names by which a function looks at its variables as a whole.
const SHOWS_FRAMES: [&str; 9] = ["locals", "vars", "dir", "eval", "exec", "breakpoint", "set_trace", "_getframe", "currentframe"];

impl<'py> Capture<'py> {
    /// An instruction of the captured frame is next. Leaves the frame where it is to be left.
    pub(crate) fn step_of_root(&self, frame: &Activation<'py>, instruction: &Instruction) -> Result<(), Unwind> {
        if frame.is_within_call() {
            return Ok(());
        }
        let progress = &self.progress;
        let done = progress.step.get();
        progress.step.set(done + 1);
        for value in frame.stack() {
            if let Some(object) = &value.object {
                progress.born.borrow_mut().entry(object.as_ptr() as usize).or_insert(done);
            }
        }
        let modes = self.torch.function_modes(self.py).unwrap_or(0);
        match progress.torch.get() {
            None => {
                progress.torch.set(TorchState::now().ok());
                progress.modes.set(modes);
            }
            Some(state) if state.holds() && progress.modes.get() == modes => progress.set.set(None),
            Some(_) if progress.set.get().is_none() => progress.set.set(Some(done)),
            Some(_) => {}
        }
        let handled = Thread::current(self.py).ok().and_then(Thread::handled_exception).filter(|handled| !handled.is_none());
        let handled = handled.map_or(0, |handled| handled.as_ptr() as usize);
        match progress.handled.get() {
            None => progress.handled.set(Some(handled)),
            Some(before) if before == handled => progress.raised.set(None),
            // The instruction before made it the one that is handled, and the one before that has raised it.
            Some(_) if progress.raised.get().is_none() => progress.raised.set(Some(done.saturating_sub(1))),
            Some(_) => {}
        }
        if progress.stop == Some(done + 1) {
            // Python itself is to raise what it handles, which cannot be made, and to apply what has a `backward` that may look at what the
            // rest of the frame writes.
            let raised = progress.raised.get().map(|step| (step, reason::RAISED, "an exception is being handled"));
            let applied = self.writes.closed().map(|step| (step, reason::AUTOGRAD, "what backward runs later is recorded before"));
            if let Some((earlier, reason, message)) = raised.into_iter().chain(applied).min_by_key(|(step, ..)| *step) {
                progress.step.set(earlier);
                let found = GraphBreak { reason, message: message.to_owned(), location: self.location() };
                return Err(self.unwind(Halt::Break(found)));
            }
            let left = self.leave_at(frame, instruction);
            progress.left.replace(Some(left));
            return Err(abort());
        }
        Ok(())
    }

    fn leave_at(&self, frame: &Activation<'py>, instruction: &Instruction) -> Left {
        let slot = |value: &Value<'py>| -> Slot {
            let object = value.object.as_ref()?;
            let tracked = self.tracked(value);
            Some((object.clone().unbind(), tracked.source))
        };
        let code = &frame.prepared().code;
        let live = Liveness::of(code, &Flow::of(code));
        let at = code.index[instruction.start as usize] as usize;
        // What looks at the frame from outside sees what Python would show it, but for tensors that only the graph has seen and that
        // nothing in the frame reads any more.
        let holds_frame = |value: &Value<'py>| value.object.as_ref().is_some_and(kind::is_frame);
        let shows = frame.prepared().names().any(|name| SHOWS_FRAMES.iter().any(|shows| name.bind(self.py) == *shows))
            || frame.stack().iter().any(holds_frame)
            || (0..frame.locals_count()).any(|slot| holds_frame(&frame.local(slot)));
        let dead = |slot: usize, value: &Value<'py>| {
            !shows
                && !live.is_live(at, slot as u32)
                && value.object.as_ref().is_some_and(|object| self.torch.is_fake(object) && self.real_of(object).is_none())
        };
        let first_free = frame.prepared().first_free();
        let local = |at: usize| {
            let value = frame.local(at);
            if let (Some(index), Some(cell)) = (at.checked_sub(first_free), &value.object) {
                // The function's, as it is when the frame is made again.
                let function = self.guards.source(Source::Function);
                return Some((cell.clone().unbind(), Some(self.guards.source(Source::ClosureCell(function, index as u32)))));
            }
            if dead(at, &value) { None } else { slot(&value) }
        };
        let locals = (0..frame.locals_count()).map(local).collect();
        Left { unit: instruction.start, locals, stack: frame.stack().iter().map(slot).collect() }
    }

    /// How to make the frame as it was left.
    pub(crate) fn suspension(&self, left: &Left, outputs: &mut Outputs<'py>) -> Outcome<Suspension> {
        let mut all = |slots: &[Slot]| {
            let recipe = |slot: &Slot| {
                let Some((object, source)) = slot else { return Ok(None) };
                self.recipe(&Tracked { object: object.bind(self.py).clone(), source: *source }, outputs).map(Some)
            };
            slots.iter().map(recipe).collect::<Outcome<Vec<Option<Recipe>>>>()
        };
        Ok(Suspension { unit: left.unit, locals: all(&left.locals)?, stack: all(&left.stack)? })
    }

    /// Before which instruction the frame can be left, where not all of these can be made: before the one that makes what cannot. Where
    /// that is not known, it is left much earlier, and goes on from there.
    pub(crate) fn step_before(&self, outputs: &Outputs<'py>) -> Option<usize> {
        let is_leaf = |fake: &Bound<'py, PyAny>| {
            let flag = |name: &str| fake.getattr(name).and_then(|flag| flag.is_truthy()).unwrap_or(false);
            dynamlir_interpreter::suspended(|| flag("requires_grad") && flag("is_leaf"))
        };
        // A graph gives no tensors without a history that require gradients.
        let leaves = outputs.fakes.iter().filter(|fake| is_leaf(fake)).map(|fake| fake.as_ptr() as usize);
        let born = outputs.failed.iter().copied().chain(leaves).find_map(|address| self.progress.born(address));
        born.or_else(|| self.progress.stop.map(|stop| stop / 2)).filter(|step| *step > 0)
    }

    /// Puts the captured frame where Python has left it, before its first instruction runs.
    pub(crate) fn go_on_from(&self, frame: &mut Activation<'py>, standing: &Standing<'py>) -> Outcome<()> {
        let count = standing.locals.len();
        self.progress.resumed.set(true);
        let name = |slot: usize| match frame.prepared().local_name(self.py, slot) {
            Some(name) => name.to_string(),
            None => format!("___stack_{}", slot - count),
        };
        let first_free = frame.prepared().first_free();
        let mut values = Vec::with_capacity(count + standing.stack.len());
        for (slot, object) in standing.locals.iter().chain(&standing.stack).enumerate() {
            let Some(object) = object else {
                values.push(Value::NULL);
                continue;
            };
            if (first_free..count).contains(&slot) {
                // Reached through the function.
                values.push(Value::new(object.clone()));
                continue;
            }
            if object.cast_exact::<PyFloat>().is_ok_and(|number| number.value().is_nan()) {
                // Containers know one by its identity, guards by its value.
                return self.break_graph(reason::UNGUARDABLE, "a variable that is not a number");
            }
            let source = self.guards.local(slot, &name(slot));
            let wrapped = self.wrap(object.clone(), source)?;
            if slot < count && kind::is_cell(object) {
                self.hand_cell(object.clone(), self.guards.source(Source::Cell(source)));
            }
            values.push(if self.torch.is_primitive(object) && wrapped.object.is(object) {
                Value::with_source(wrapped.object, number(source))
            } else {
                Value::new(wrapped.object)
            });
        }
        let stack = values.split_off(count);
        frame.fill(standing.unit, values, stack);
        Ok(())
    }

    /// Whether a function is a variable of a frame that goes on where Python has left it: most likely one that the frame has made, another
    /// one at each call.
    pub(crate) fn is_made_anew(&self, function: &Bound<'py, PyAny>, source: SourceId) -> bool {
        self.progress.resumed.get() && kind::is_function(function) && matches!(self.guards.get(source), Source::Local { .. })
    }

    /// Guards what such a function is besides its code, which is guarded as well: all else is reached through it. Of its cells, that they
    /// are those of the frame's variables where they are.
    pub(crate) fn pin_made_anew(&self, function: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        self.pin_type(function, source)?;
        let Ok(cells) = function.getattr("__closure__")?.cast_into::<PyTuple>() else { return Ok(()) };
        for (index, cell) in cells.iter().enumerate() {
            if let Some(Source::Cell(own)) = self.handed_cell(&cell).map(|content| self.guards.get(content)) {
                let at = self.guards.source(Source::ClosureCell(source, index as u32));
                self.guards.relate(Relation::Same(own.min(at), own.max(at)));
            }
        }
        Ok(())
    }

    /// Ends the capture where the frame goes on with what it was making when Python left it, an iteration or a container that a display
    /// fills: that is a real one now.
    pub(crate) fn refuse_filling(&self, object: &Bound<'py, PyAny>, verb: &str) -> Outcome<()> {
        match self.source_of(object) {
            Some(_) => self.break_graph(reason::RESUMED, format!("{verb} a {} that was made before", type_name(object))),
            None => Ok(()),
        }
    }

    /// Parts of a frame that are hardly ever returned: cells, bound methods. None if it is nothing of the kind.
    pub(crate) fn frame_part(&self, object: &Bound<'py, PyAny>, outputs: &mut Outputs<'py>) -> Outcome<Option<Recipe>> {
        if kind::is_cell(object) {
            let content = dynamlir_interpreter::semantics::cell_get(object)?;
            let content = content.map(|content| self.recipe(&Tracked::new(content), outputs)).transpose()?;
            return Ok(Some(Recipe::Cell(content.map(Box::new))));
        }
        let owner = if kind::is_method(object) || kind::is_c_function(object) { object.getattr("__self__").ok() } else { None };
        let Some(owner) = owner.filter(|owner| !owner.is_none() && !owner.is_instance_of::<pyo3::types::PyModule>()) else {
            return Ok(None);
        };
        if kind::is_method(object) {
            let function = self.recipe(&Tracked::new(object.getattr("__func__")?), outputs)?;
            let this = self.recipe(&Tracked::new(owner), outputs)?;
            return Ok(Some(Recipe::Method(Box::new([function, this]))));
        }
        let name = object.getattr("__name__")?.cast_into::<PyString>().map_err(PyErr::from)?;
        let this = self.recipe(&Tracked::new(owner), outputs)?;
        Ok(Some(Recipe::Attribute(Box::new(this), name.unbind())))
    }
}
