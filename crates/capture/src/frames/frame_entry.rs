//! The start and resumption of frames: the sources of parameters, and the guards on a function that C code has called.

use std::rc::Rc;

use dynamlir_guards::Facet;
use dynamlir_interpreter::{Activation, FrameState, Value};
use pyo3::prelude::*;

use crate::{floors::Capture, frames::names::parameter_names, graph_break::Outcome, objects::Tracked, values::conversion::number};

impl<'py> Capture<'py> {
    /// Called before the first instruction of a frame. `from` has the states in which CPython left the captured frame and those within it.
    pub(crate) fn begin(&self, frame: &mut Activation<'py>, from: &[Rc<FrameState>]) -> Outcome<()> {
        self.note_entry(frame);
        if let Some(function) = frame.function() {
            self.refuse_dispatch(frame, &function)?;
            self.refuse_disabled(&function)?;
        }
        self.pin_class_cell(frame)?;
        if frame.place().outer().is_some() && frame.place().unit() == 0 && frame.place().prepared().takes_keywords() {
            // The garbage collector does not track an empty dict, and from CPython 3.13 on an empty dict does not have a version.
            let names = parameter_names(frame)?;
            if let Some(keywords) = names.len().checked_sub(1).and_then(|last| frame.local(last).object) {
                self.note_new(&keywords);
            }
        }
        if let Some(function) = frame.function().filter(|_| frame.place().unit() == 0) {
            for (slot, source) in self.calling.take_carried(&function) {
                frame.set_local_source(slot, number(source));
            }
        }
        if let Some(stood) = self.next_to_go_on(frame, from) {
            return self.go_on(frame, from, stood);
        }
        if frame.place().outer().is_none() {
            return self.take_parameters(frame);
        }
        let Some(function) = frame.function() else { return Ok(()) };
        if self.calling.called_back.take() == function.as_ptr() as usize {
            self.called_by_c(frame, &function)?;
        }
        self.uses(&Tracked::new(function), Facet::Code);
        Ok(())
    }

    /// Gives the parameters of the captured frame their sources, where all other sources begin.
    fn take_parameters(&self, frame: &mut Activation<'py>) -> Outcome<()> {
        for (slot, name) in parameter_names(frame)?.iter().enumerate() {
            let local = frame.local(slot);
            let Some(object) = local.object else { continue };
            let source = self.guards.local(slot, name);
            let wrapped = self.wrap(object.clone(), source)?;
            if !wrapped.object.is(&object) {
                frame.replace_local(slot, Value::new(wrapped.object));
            } else if self.torch.is_primitive(&object) {
                frame.set_local_source(slot, number(source));
            }
        }
        Ok(())
    }

    /// Guards a function that C code has found somewhere and called.
    fn called_by_c(&self, frame: &mut Activation<'py>, function: &Bound<'py, PyAny>) -> Outcome<()> {
        self.pin_called(function)?;
        let first = if frame.locals_count() > 0 { frame.local(0).object } else { None };
        let Some(first) = first else { return Ok(()) };
        self.pin_special(function, &first)?;
        if frame.place().unit() == 0 {
            // C code may have found these objects anywhere.
            for slot in 0..frame.locals_count() {
                let Some(object) = frame.local(slot).object else { continue };
                let met = self.wrap_untracked(object.clone())?;
                if !met.object.is(&object) {
                    frame.replace_local(slot, Value::new(met.object));
                }
            }
        }
        Ok(())
    }
}
