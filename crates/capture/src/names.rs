//! Where the global names and the free variables of a frame are reached.
//!
//! A function that existed has its own globals and cells. One that the frame makes (a comprehension, a lambda) shares the
//! globals of the function that makes it, and the cells that it is handed.

use std::rc::Rc;

use dynamlir_guards::{Source, SourceId};
use dynamlir_interpreter::Activation;
use pyo3::{
    prelude::*,
    types::{PyString, PyTuple},
};

use crate::state::{Capture, Outcome};

impl<'py> Capture<'py> {
    /// Where a global of a frame is reached; None for code that is run without a function.
    pub(crate) fn global_source(&self, frame: &Activation<'py>, name: &Bound<'py, PyString>) -> Outcome<Option<SourceId>> {
        let key: Rc<str> = name.to_str()?.into();
        let is_global = frame.globals().contains(name)?;
        if frame.place().outer().is_some() && frame.function().is_none() {
            return Ok(None);
        }
        let Some(owner) = self.globals_owner(frame)? else {
            return Ok(Some(if is_global { self.guards.global(&key) } else { self.guards.builtin(&key) }));
        };
        let global = self.guards.source(Source::GlobalOf(owner, (&*key).into()));
        if is_global {
            return Ok(Some(global));
        }
        self.guards.absent(global);
        Ok(Some(self.guards.source(Source::BuiltinOf(owner, (&*key).into()))))
    }

    /// The existing function that a frame's globals are reached through; None for the one that is captured.
    pub(crate) fn globals_owner(&self, frame: &Activation<'py>) -> Outcome<Option<SourceId>> {
        let Some(function) = frame.function().filter(|_| frame.place().outer().is_some()) else { return Ok(None) };
        if let Some(source) = self.source_of(&function) {
            return Ok(Some(source));
        }
        if self.is_made(&function) {
            return Ok(self.made_beneath(&function));
        }
        self.held(&function).map(Some)
    }

    /// A function that C code has called, which is kept alive to be looked at by the guards.
    fn held(&self, function: &Bound<'py, PyAny>) -> Outcome<SourceId> {
        let label: String = function.getattr("__qualname__")?.extract()?;
        self.guarded(self.guards.hold(function, &label))
    }

    /// Where a free variable of a frame is reached; None for cells that the capture made.
    pub(crate) fn cell_source(&self, frame: &Activation<'py>, slot: usize, cell: &Bound<'py, PyAny>) -> Outcome<Option<SourceId>> {
        let first_free = frame.prepared().first_free();
        if slot < first_free {
            return Ok(None);
        }
        if let Some((_, source)) = self.cells.borrow().get(&(cell.as_ptr() as usize)) {
            return Ok(Some(*source));
        }
        self.free_source(frame, slot - first_free)
    }

    /// Notes where the cells are reached that a frame hands to a function it makes of `code`.
    pub(crate) fn note_cells(&self, frame: &Activation<'py>, code: &Bound<'py, PyAny>) -> Outcome<()> {
        let Some(function) = frame.function() else { return Ok(()) };
        let Ok(own) = function.getattr("__closure__")?.cast_into::<PyTuple>() else { return Ok(()) };
        let wanted = code.getattr("co_freevars")?;
        for (index, name) in frame.code().getattr("co_freevars")?.try_iter()?.enumerate() {
            if !wanted.contains(name?)? {
                continue;
            }
            let cell = own.get_item(index)?;
            let known = self.cells.borrow().contains_key(&(cell.as_ptr() as usize));
            if !known && let Some(source) = self.free_source(frame, index)? {
                self.cells.borrow_mut().insert(cell.as_ptr() as usize, (cell.unbind(), source));
            }
        }
        Ok(())
    }

    fn free_source(&self, frame: &Activation<'py>, index: usize) -> Outcome<Option<SourceId>> {
        let Some(function) = frame.function() else { return Ok(None) };
        let name: String = frame.code().getattr("co_freevars")?.get_item(index)?.extract()?;
        if frame.place().outer().is_none() {
            return Ok(Some(self.guards.free(index, &name)));
        }
        let base = match self.source_of(&function) {
            Some(source) => source,
            None if self.is_made(&function) => return Ok(None),
            None => self.held(&function)?,
        };
        Ok(Some(self.guards.source(Source::Closure { base, index: index as u32, name: name.as_str().into() })))
    }
}
