//! Values as the interpreter carries them, and as the capture sees them.

use dynamlir_guards::SourceId as Origin;
use dynamlir_interpreter::{Outcome as Run, SourceId, Value};

use crate::state::{Capture, Halt, Tracked};

/// A source as the interpreter carries it, whose 0 is none.
pub(crate) fn number(source: Origin) -> SourceId {
    SourceId(source.index() as u32 + 1)
}

impl<'py> Capture<'py> {
    /// A value of the interpreter's as the capture sees it.
    pub(crate) fn tracked(&self, value: &Value<'py>) -> Tracked<'py> {
        let source = value.source.0.checked_sub(1).and_then(|number| self.guards.source_at(number as usize));
        Tracked { object: value.get().clone(), source }
    }

    /// The other way round. Only primitives carry their source on the stack.
    pub(crate) fn value(&self, tracked: Tracked<'py>) -> Value<'py> {
        match tracked.source {
            Some(source) if self.torch.is_primitive(&tracked.object) => Value::with_source(tracked.object, number(source)),
            _ => Value::new(tracked.object),
        }
    }

    /// What an operation comes to, for the interpreter.
    pub(crate) fn run<T>(&self, outcome: Result<T, Halt>) -> Run<T> {
        outcome.map_err(|halt| self.unwind(halt))
    }

    /// A value that an operation comes to, for the interpreter.
    pub(crate) fn give(&self, outcome: Result<Tracked<'py>, Halt>) -> Run<Value<'py>> {
        self.run(outcome).map(|tracked| self.value(tracked))
    }

    /// Whether an operand needs the capture's care: it existed before, has a source, or is a tensor.
    pub(crate) fn concerns(&self, value: &Value<'py>) -> bool {
        value.source.is_some() || self.torch.is_fake(value.get()) || self.source_of(value.get()).is_some()
    }
}
