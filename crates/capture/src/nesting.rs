//! How deep values are looked into: containers may hold themselves, or be nested deeper than the stack of C.

use std::{cell::Cell, rc::Rc};

use pyo3::prelude::*;

use crate::{
    graph_break::reason,
    state::{Capture, Outcome, type_name},
};

/// How deep a value may be nested.
pub(crate) const DEEPEST: usize = 200;
/// In how many steps an existing object may be reached.
const FARTHEST: usize = 500;

/// One level deeper, until this is dropped.
pub(crate) struct Deeper(Rc<Cell<usize>>);

impl Drop for Deeper {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl<'py> Capture<'py> {
    /// Goes one level deeper into a value.
    pub(crate) fn deeper(&self, value: &Bound<'py, PyAny>) -> Outcome<Deeper> {
        let level = self.nesting.get();
        if level >= DEEPEST {
            return self.break_graph(reason::UNGUARDABLE, format!("a {} that is nested more than {DEEPEST} deep", type_name(value)));
        }
        self.nesting.set(level + 1);
        Ok(Deeper(self.nesting.clone()))
    }

    /// Ends the capture where an object was reached in too many steps for a guard: each takes as many.
    pub(crate) fn refuse_far(&self, value: &Bound<'py, PyAny>, source: dynamlir_guards::SourceId) -> Outcome<()> {
        if self.guards.depth(source) > FARTHEST {
            return self.break_graph(reason::UNGUARDABLE, format!("a {} that is reached in more than {FARTHEST} steps", type_name(value)));
        }
        Ok(())
    }
}
