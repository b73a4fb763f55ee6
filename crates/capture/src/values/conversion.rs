//! Conversion between the interpreter's values and those of the capture.

use dynamlir_guards::SourceId as Origin;
use dynamlir_interpreter::{Outcome as Run, SourceId, Value};

use crate::{floors::Record, graph_break::Halt, objects::Tracked};

/// Converts a source to the interpreter's representation, in which 0 means none.
pub(crate) fn number(source: Origin) -> SourceId {
    SourceId(source.index() as u32 + 1)
}

impl<'py> Record<'py> {
    /// Converts a value of the interpreter to a tracked value.
    pub(crate) fn tracked(&self, value: &Value<'py>) -> Tracked<'py> {
        let source = value.source.0.checked_sub(1).and_then(|number| self.guards.source_at(number as usize));
        Tracked { object: value.get().clone(), source }
    }

    /// The inverse of [`Self::tracked`]. Only primitives carry their source on the stack.
    pub(crate) fn value(&self, tracked: Tracked<'py>) -> Value<'py> {
        match tracked.source {
            Some(source) if self.torch.is_primitive(&tracked.object) => Value::with_source(tracked.object, number(source)),
            _ => Value::new(tracked.object),
        }
    }

    /// Converts the outcome of an operation for the interpreter.
    pub(crate) fn run<T>(&self, outcome: Result<T, Halt>) -> Run<T> {
        outcome.map_err(|halt| self.unwind(halt))
    }

    /// Converts the value that an operation yields for the interpreter.
    pub(crate) fn give(&self, outcome: Result<Tracked<'py>, Halt>) -> Run<Value<'py>> {
        self.run(outcome).map(|tracked| self.value(tracked))
    }

    /// Returns true if the capture must handle an operand: it existed before, has a source, or is a tensor.
    pub(crate) fn concerns(&self, value: &Value<'py>) -> bool {
        value.source.is_some() || self.torch.is_fake(value.get()) || self.source_of(value.get()).is_some()
    }
}
