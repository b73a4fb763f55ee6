//! Frames that are not captured from their first instruction to their last: they resume where a graph break left them, and end before an
//! instruction that Python must run.
//!
//! When such a frame ends, its values are rebuilt from the graph's results and from existing objects. A value that cannot be rebuilt – an
//! iterator, a file, a lock – must be created by Python itself: then the frame ends before the instruction that creates it.

use std::rc::Rc;

use dynamlir_bytecode::{Flow, Liveness};
use dynamlir_cpython_abi::{kind, types};
use dynamlir_frame::{FrameParts, Made, Recipe, Suspension};
use dynamlir_guards::{Relation, Source, SourceId};
use dynamlir_interpreter::{Activation, FrameState, Value};
use pyo3::{
    prelude::*,
    types::{PyFloat, PyString, PyTuple, PyType},
};

use crate::{
    floors::{Heap, Recipes},
    graph_break::{Outcome, reason},
    objects::{
        Tracked,
        lookup::{instance_dict, lookup},
        type_name,
    },
    state::{Instead, Left, Slot, outputs::Outputs},
    values::conversion::number,
};

impl<'py> Recipes<'py> {
    /// Returns the recipe for the frames at the graph break, innermost first.
    pub(crate) fn suspension(&self, left: &[Left], outputs: &mut Outputs<'py>) -> Outcome<Suspension> {
        let mut all = |slots: &[Slot]| {
            let recipe = |slot: &Slot| {
                let Some((object, source)) = slot else { return Ok(None) };
                self.recipe(&Tracked { object: object.bind(self.py).clone(), source: *source }, outputs).map(Some)
            };
            slots.iter().map(recipe).collect::<Outcome<Vec<Option<Recipe>>>>()
        };
        // Nothing has changed in the frames around the innermost resumed one.
        let kept = left.iter().rev().enumerate().take_while(|(level, left)| left.entered == Some(*level)).count();
        let base = kept.saturating_sub(1);
        let frames = left.iter().rev().skip(base).map(|left| {
            let (locals, stack) = (all(&left.locals)?, all(&self.stack_to_be(left)?)?);
            Ok(FrameParts { code: left.code.clone_ref(self.py), unit: left.unit, locals, stack })
        });
        Ok(Suspension { base, frames: frames.collect::<Outcome<_>>()? })
    }

    /// Returns the stack of a frame at the break, with the replacement for the called function, if any.
    fn stack_to_be(&self, left: &Left) -> Outcome<Vec<Slot>> {
        let same = |slot: &Slot| slot.as_ref().map(|(object, source)| (object.clone_ref(self.py), *source));
        let mut stack: Vec<Slot> = left.stack.iter().map(same).collect();
        let instead = self.progress.instead.borrow();
        let Some(Instead { called, own, .. }) = instead.as_ref().filter(|instead| instead.code.is(&left.code)) else { return Ok(stack) };
        // The innermost call of it: others, which wait for the result of this one, lie below.
        let Some(at) = stack.iter().rposition(|slot| slot.as_ref().is_some_and(|(object, _)| object.is(called))) else { return Ok(stack) };
        stack[at] = Some((own.clone_ref(self.py), Some(self.guarded(self.guards.hold(own.bind(self.py), "___instead"))?)));
        self.pin_given(&left.stack[at..])?;
        Ok(stack)
    }

    /// Guards the arguments of a replaced call other than tensors and data: they were inspected to choose the replacement.
    fn pin_given(&self, stack: &[Slot]) -> Outcome<()> {
        for (object, source) in stack.iter().flatten() {
            let value = Tracked { object: object.bind(self.py).clone(), source: *source };
            let Some(source) = self.source(&value) else { continue };
            if kind::is_function(&value.object) {
                self.pin_function(&value)?;
            } else if !self.torch.is_primitive(&value.object)
                && !self.torch.is_container(&value.object)
                && !self.torch.is_fake(&value.object)
            {
                self.pin(&value.object, source)?;
            }
        }
        Ok(())
    }

    /// Returns the instruction before which the graph can break, if not all of these values can be rebuilt: the one that creates the value.
    /// If it is not known, the break comes much earlier, and the frame continues from there.
    pub(crate) fn step_before(&self, outputs: &Outputs<'py>) -> Option<usize> {
        let is_leaf = |fake: &Bound<'py, PyAny>| {
            let flag = |name: &str| fake.getattr(name).and_then(|flag| flag.is_truthy()).unwrap_or(false);
            dynamlir_interpreter::suspended(|| flag("requires_grad") && flag("is_leaf"))
        };
        // A graph does not return tensors that require gradients but have no history.
        let leaves = outputs.fakes.iter().filter(|fake| is_leaf(fake)).map(|fake| fake.as_ptr() as usize);
        let born = outputs.failed.iter().copied().chain(leaves).find_map(|address| self.progress.born(address));
        born.or_else(|| self.progress.stop.map(|stop| stop / 2)).filter(|step| *step > 0)
    }

    /// Returns the saved state for a frame that starts, if it is the next one to resume.
    pub(crate) fn next_to_go_on<'a>(&self, frame: &Activation<'py>, from: &'a [Rc<FrameState>]) -> Option<&'a FrameState> {
        let entered = self.progress.entered.borrow();
        let frame_state = from.get(entered.len()).filter(|frame_state| frame.place().unit() == 0 && frame_state.is_of(frame.code()))?;
        let is_within = match (entered.last(), frame.place().outer()) {
            (Some(last), Some(outer)) => Rc::ptr_eq(last, outer),
            (last, outer) => last.is_none() && outer.is_none(),
        };
        is_within.then_some(&**frame_state)
    }

    /// Restores that state in the frame, before its first instruction runs.
    pub(crate) fn go_on(&self, frame: &mut Activation<'py>, from: &[Rc<FrameState>], frame_state: &FrameState) -> Outcome<()> {
        let progress = &self.progress;
        let level = progress.entered.borrow().len();
        progress.entered.borrow_mut().push(frame.place().clone());
        progress.floor.set(progress.step.get() + 1);
        let around = from[..level].iter().map(|frame_state| frame_state.len()).sum();
        self.go_on_from(frame, frame_state, level, around)
    }

    /// Restores a frame's state. `around` is the number of slots of the frames around it.
    fn go_on_from(&self, frame: &mut Activation<'py>, frame_state: &FrameState, level: usize, around: usize) -> Outcome<()> {
        let count = frame_state.locals.len();
        let within = if level == 0 { String::new() } else { format!("___{level}_") };
        let name = |slot: usize| match frame.prepared().local_name(self.py, slot) {
            Some(name) if level == 0 => name.to_string(),
            Some(name) => format!("{within}{name}"),
            None if level == 0 => format!("___stack_{}", slot - count),
            None => format!("{within}stack_{}", slot - count),
        };
        let first_free = frame.prepared().first_free();
        let unread = self.unread(frame, frame_state.unit);
        let mut values = Vec::with_capacity(count + frame_state.stack.len());
        for (slot, object) in frame_state.slots(self.py).enumerate() {
            let Some(object) = object else {
                values.push(Value::NULL);
                continue;
            };
            if slot < first_free && !kind::is_cell(object) {
                self.note_standing(frame, slot, object, self.guards.local(around + slot, &name(slot)))?;
            }
            if slot < first_free && !kind::is_cell(object) && unread(slot as u32) {
                // Nothing about its value matters. If the frame breaks again, it is unchanged.
                let instead = self.py.get_type::<PyAny>().call0()?;
                self.note_existing(&instead, self.guards.local(around + slot, &name(slot)));
                values.push(Value::new(instead));
                continue;
            }
            if (first_free..count).contains(&slot) {
                // Reached through the function.
                values.push(Value::new(object.clone()));
                continue;
            }
            if object.cast_exact::<PyFloat>().is_ok_and(|number| number.value().is_nan()) {
                // Containers find a NaN by its identity, guards compare it by value.
                return self.break_graph(reason::UNGUARDABLE, "a variable that is not a number");
            }
            let source = self.guards.local(around + slot, &name(slot));
            if slot >= count {
                self.progress.stacked.borrow_mut().insert(source);
            }
            if slot.checked_sub(count).is_some_and(|place| frame_state.made.contains(&place)) {
                self.progress.loops.borrow_mut().insert(object.as_ptr() as usize);
            }
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
        frame.fill(frame_state.unit, values, stack);
        Ok(())
    }

    /// Returns a predicate for the variables of a frame resumed at `unit` that are never read again.
    fn unread(&self, frame: &Activation<'py>, unit: u32) -> impl Fn(u32) -> bool + use<'py> {
        let code = &frame.prepared().code;
        let live = Liveness::of(code, &Flow::of(code));
        let at = code.index[unit as usize] as usize;
        let looks = self.looks_at_variables(frame);
        move |slot| !looks && !live.is_live(at, slot)
    }

    /// Ends the capture where a resumed frame continues to build what it was building at the break, an iteration or a container that a
    /// display fills: that is a real object now.
    pub(crate) fn refuse_filling(&self, object: &Bound<'py, PyAny>, verb: &str) -> Outcome<()> {
        match self.source_of(object) {
            Some(_) => self.break_graph(reason::RESUMED, format!("{verb} a {} that was made before", type_name(object))),
            None => Ok(()),
        }
    }

    /// Returns the recipe for parts of a frame that are rarely returned: cells, bound methods. `None` for anything else.
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
        let Some(binds) = binding(object, &owner, &name)? else {
            return self.break_graph(reason::OUTPUT, format!("the method {name} of a {}", type_name(&owner)));
        };
        let this = self.recipe(&Tracked::new(owner), outputs)?;
        Ok(Some(match binds {
            Binding::Found => Recipe::Attribute(Box::new(this), name.unbind()),
            Binding::By(callable) => Made::new(callable.unbind(), vec![this]).into(),
        }))
    }
}

impl<'py> Heap<'py> {
    /// Returns true if a function is a variable of a resumed frame: most likely the frame created it, a new one at each call.
    pub(crate) fn is_made_anew(&self, function: &Bound<'py, PyAny>, source: SourceId) -> bool {
        self.progress.is_resumed() && kind::is_function(function) && matches!(self.guards.get(source), Source::Local { .. })
    }

    /// Guards such a function besides its code, which is guarded as well: everything else is reached through it. Cells that belong to
    /// variables of the frame are guarded to be those.
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
}

/// The way to obtain a C method that is bound to an object again.
enum Binding<'py> {
    /// Look up the method's name on the object.
    Found,
    /// Call this with the object to bind it: `super()` has skipped the object's own method of that name.
    By(Bound<'py, PyAny>),
}

/// Returns the way to bind a method again; `None` if its origin is not known.
fn binding<'py>(method: &Bound<'py, PyAny>, owner: &Bound<'py, PyAny>, name: &Bound<'py, PyString>) -> PyResult<Option<Binding<'py>>> {
    let class = owner.get_type();
    if owner.is_instance_of::<PyType>() {
        let of_types = |class: &Bound<'py, PyType>| types::slot(class, types::slots::Py_tp_getattro);
        let is_found = of_types(&class) == of_types(&class.py().get_type::<PyType>()) && owner.getattr(name)?.eq(method)?;
        return Ok(is_found.then_some(Binding::Found));
    }
    for base in types::mro(&class)? {
        let Ok(raw) = types::dict(&base)?.get_item(name) else { continue };
        if kind::is_class_member(&raw) && raw.call_method1("__get__", (owner,))?.eq(method)? {
            let is_first = lookup(&class, name.to_str()?)?.is_some_and(|found| found.is(&raw));
            let is_shown =
                types::has_generic_attributes(&class) && !instance_dict(owner).is_some_and(|own| own.contains(name).unwrap_or(true));
            return Ok(Some(if is_first && is_shown { Binding::Found } else { Binding::By(raw.getattr("__get__")?) }));
        }
    }
    Ok(None)
}
