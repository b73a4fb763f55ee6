//! A frame that is not captured from its first instruction to its last: it begins where Python has left it, and ends before an
//! instruction that Python is to run.
//!
//! Where such a frame ends, what is in it is made again from the graph's results and from what exists. What cannot be made again – an
//! iterator, a file, a lock – is to be made by Python itself: then the frame ends before the instruction that makes it.

use std::rc::Rc;

use dynamlir_bytecode::{Flow, Liveness};
use dynamlir_cpython_abi::{kind, types};
use dynamlir_frame::{FrameParts, Made, Recipe, Suspension};
use dynamlir_guards::{Relation, Source, SourceId};
use dynamlir_interpreter::{Activation, Standing, Value};
use pyo3::{
    prelude::*,
    types::{PyFloat, PyString, PyTuple, PyType},
};

use crate::{
    attributes::{instance_dict, lookup},
    graph_break::reason,
    outputs::Outputs,
    state::{Capture, Instead, Left, Outcome, Slot, Tracked, type_name},
    values::number,
};

impl<'py> Capture<'py> {
    /// How to make the frames as they were left, the innermost first.
    pub(crate) fn suspension(&self, left: &[Left], outputs: &mut Outputs<'py>) -> Outcome<Suspension> {
        let mut all = |slots: &[Slot]| {
            let recipe = |slot: &Slot| {
                let Some((object, source)) = slot else { return Ok(None) };
                self.recipe(&Tracked { object: object.bind(self.py).clone(), source: *source }, outputs).map(Some)
            };
            slots.iter().map(recipe).collect::<Outcome<Vec<Option<Recipe>>>>()
        };
        // Around the innermost one that goes on, nothing has changed.
        let kept = left.iter().rev().enumerate().take_while(|(level, left)| left.entered == Some(*level)).count();
        let base = kept.saturating_sub(1);
        let frames = left.iter().rev().skip(base).map(|left| {
            let (locals, stack) = (all(&left.locals)?, all(&self.stack_to_be(left)?)?);
            Ok(FrameParts { code: left.code.clone_ref(self.py), unit: left.unit, locals, stack })
        });
        Ok(Suspension { base, frames: frames.collect::<Outcome<_>>()? })
    }

    /// The stack of a frame that is left, with what is called instead where something is.
    fn stack_to_be(&self, left: &Left) -> Outcome<Vec<Slot>> {
        let same = |slot: &Slot| slot.as_ref().map(|(object, source)| (object.clone_ref(self.py), *source));
        let mut stack: Vec<Slot> = left.stack.iter().map(same).collect();
        let instead = self.progress.instead.borrow();
        let Some(Instead { called, own, .. }) = instead.as_ref().filter(|instead| instead.code.is(&left.code)) else { return Ok(stack) };
        // The innermost call of it: others, that wait for what this one returns, lie below.
        let Some(at) = stack.iter().rposition(|slot| slot.as_ref().is_some_and(|(object, _)| object.is(called))) else { return Ok(stack) };
        stack[at] = Some((own.clone_ref(self.py), Some(self.guarded(self.guards.hold(own.bind(self.py), "___instead"))?)));
        self.pin_given(&left.stack[at..])?;
        Ok(stack)
    }

    /// Guards what a call is given besides tensors and data: it was looked into, to call something else with it.
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

    /// Where Python has left a frame that begins, if it is the next one of those that it has left.
    pub(crate) fn next_to_go_on<'a>(&self, frame: &Activation<'py>, from: &'a [Rc<Standing>]) -> Option<&'a Standing> {
        let entered = self.progress.entered.borrow();
        let standing = from.get(entered.len()).filter(|standing| frame.place().unit() == 0 && standing.is_of(frame.code()))?;
        let is_within = match (entered.last(), frame.place().outer()) {
            (Some(last), Some(outer)) => Rc::ptr_eq(last, outer),
            (last, outer) => last.is_none() && outer.is_none(),
        };
        is_within.then_some(&**standing)
    }

    /// Puts that frame there, before its first instruction runs.
    pub(crate) fn go_on(&self, frame: &mut Activation<'py>, from: &[Rc<Standing>], standing: &Standing) -> Outcome<()> {
        let progress = &self.progress;
        let level = progress.entered.borrow().len();
        progress.entered.borrow_mut().push(frame.place().clone());
        progress.floor.set(progress.step.get() + 1);
        let around = from[..level].iter().map(|standing| standing.len()).sum();
        self.go_on_from(frame, standing, level, around)
    }

    /// `around` is how many slots the frames around it have.
    fn go_on_from(&self, frame: &mut Activation<'py>, standing: &Standing, level: usize, around: usize) -> Outcome<()> {
        let count = standing.locals.len();
        let within = if level == 0 { String::new() } else { format!("___{level}_") };
        let name = |slot: usize| match frame.prepared().local_name(self.py, slot) {
            Some(name) if level == 0 => name.to_string(),
            Some(name) => format!("{within}{name}"),
            None if level == 0 => format!("___stack_{}", slot - count),
            None => format!("{within}stack_{}", slot - count),
        };
        let first_free = frame.prepared().first_free();
        let unread = self.unread(frame, standing.unit);
        let mut values = Vec::with_capacity(count + standing.stack.len());
        for (slot, object) in standing.slots(self.py).enumerate() {
            let Some(object) = object else {
                values.push(Value::NULL);
                continue;
            };
            if slot < first_free && !kind::is_cell(object) {
                self.note_standing(frame, slot, object, self.guards.local(around + slot, &name(slot)))?;
            }
            if slot < first_free && !kind::is_cell(object) && unread(slot as u32) {
                // Nothing has to be known of it. Where the frame is left again, it is the same.
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
                // Containers know one by its identity, guards by its value.
                return self.break_graph(reason::UNGUARDABLE, "a variable that is not a number");
            }
            let source = self.guards.local(around + slot, &name(slot));
            if slot >= count {
                self.progress.stacked.borrow_mut().insert(source);
            }
            if slot.checked_sub(count).is_some_and(|place| standing.made.contains(&place)) {
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
        frame.fill(standing.unit, values, stack);
        Ok(())
    }

    /// Which variables of a frame that goes on there nothing reads any more.
    fn unread(&self, frame: &Activation<'py>, unit: u32) -> impl Fn(u32) -> bool + use<'py> {
        let code = &frame.prepared().code;
        let live = Liveness::of(code, &Flow::of(code));
        let at = code.index[unit as usize] as usize;
        let looks = self.looks_at_variables(frame);
        move |slot| !looks && !live.is_live(at, slot)
    }

    /// Whether a function is a variable of a frame that goes on where Python has left it: most likely one that the frame has made, another
    /// one at each call.
    pub(crate) fn is_made_anew(&self, function: &Bound<'py, PyAny>, source: SourceId) -> bool {
        self.progress.is_resumed() && kind::is_function(function) && matches!(self.guards.get(source), Source::Local { .. })
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

/// How a method of C code that is bound to an object is had again.
enum Binding<'py> {
    /// It is what the object has under the method's name.
    Found,
    /// This, called with the object, binds it: `super()` has looked past what the object has under that name.
    By(Bound<'py, PyAny>),
}

/// None where it is not known where a method is from.
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
