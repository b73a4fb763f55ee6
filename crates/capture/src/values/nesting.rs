//! Limits on the depth to which values are inspected: containers may contain themselves, or be nested deeper than the C stack allows.

use std::{cell::Cell, rc::Rc};

use pyo3::prelude::*;

use crate::{
    floors::Record,
    graph_break::{Outcome, reason},
    objects::type_name,
};

/// The maximum nesting depth of a value.
pub(crate) const DEEPEST: usize = 200;

/// The maximum number of steps in the source of an existing object.
const FARTHEST: usize = 500;

/// One more nesting level, until this is dropped.
pub(crate) struct Deeper(Rc<Cell<usize>>);

impl Drop for Deeper {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl<'py> Record<'py> {
    /// Enters one more nesting level of a value.
    pub(crate) fn deeper(&self, value: &Bound<'py, PyAny>) -> Outcome<Deeper> {
        let level = self.nesting.get();
        if level >= DEEPEST {
            return self.break_graph(reason::UNGUARDABLE, format!("a {} that is nested more than {DEEPEST} deep", type_name(value)));
        }
        self.nesting.set(level + 1);
        Ok(Deeper(self.nesting.clone()))
    }

    /// Ends the capture if an object was reached in too many steps: each guard check repeats them all.
    pub(crate) fn refuse_far(&self, value: &Bound<'py, PyAny>, source: dynamlir_guards::SourceId) -> Outcome<()> {
        if self.guards.depth(source) > FARTHEST {
            return self.break_graph(reason::UNGUARDABLE, format!("a {} that is reached in more than {FARTHEST} steps", type_name(value)));
        }
        Ok(())
    }
}
