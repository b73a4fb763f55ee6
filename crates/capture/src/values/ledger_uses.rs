//! Notes in the ledger which facets of their operands operations use. The interpreter's entry points do this, regardless of the guards that
//! the code of each operation adds.

use dynamlir_guards::Facet;
use dynamlir_interpreter::Value;
use pyo3::{
    prelude::*,
    types::{PyCFunction, PyFunction, PyModule, PyType},
};

use crate::{
    floors::Record,
    graph_break::{Halt, Outcome},
    objects::{Tracked, callables::receiver},
};

impl<'py> Record<'py> {
    /// Notes that a facet of an existing object is used; for a number or text, its value.
    pub(crate) fn uses(&self, value: &Tracked<'py>, facet: Facet) {
        let object = &value.object;
        if self.torch.is_fake(object) {
            return;
        }
        if self.torch.is_primitive(object) {
            if let Some(source) = value.source {
                let asked = matches!(facet, Facet::Outcome | Facet::Class);
                self.guards.demand(source, if asked { facet } else { Facet::Value });
            }
        } else if let Some(source) = self.source_of(object) {
            let facet = match facet {
                Facet::Code if object.is_exact_instance_of::<PyFunction>() => Facet::Code,
                // A named object matters by identity, any other object by its class.
                Facet::Code | Facet::Itself | Facet::Outcome | Facet::Value if has_name(object) => Facet::Itself,
                Facet::Code | Facet::Itself | Facet::Outcome | Facet::Value => Facet::Class,
                facet => facet,
            };
            self.guards.demand(source, facet);
        }
    }

    /// Runs an operation that uses a facet of its operand. An operation that breaks the graph has not used it.
    pub(crate) fn using<T>(&self, value: &Value<'py>, facet: Facet, operation: impl FnOnce(&Tracked<'py>) -> Outcome<T>) -> Outcome<T> {
        let tracked = self.tracked(value);
        let outcome = operation(&tracked);
        if !matches!(outcome, Err(Halt::Break(_))) {
            self.uses(&tracked, facet);
        }
        outcome
    }

    /// Runs an operation whose outcome depends on two values.
    pub(crate) fn with<T>(&self, values: [&Value<'py>; 2], operation: impl FnOnce([&Tracked<'py>; 2]) -> Outcome<T>) -> Outcome<T> {
        let [left, right] = values.map(|value| self.tracked(value));
        let outcome = operation([&left, &right]);
        if !matches!(outcome, Err(Halt::Break(_))) {
            for value in [&left, &right] {
                self.uses(value, Facet::Outcome);
            }
        }
        outcome
    }

    /// The same for an operator. If its result carries a source, nothing was used yet.
    pub(crate) fn computing<const N: usize>(
        &self,
        operands: [&Value<'py>; N],
        operation: impl FnOnce([&Tracked<'py>; N]) -> Outcome<Tracked<'py>>,
    ) -> Outcome<Tracked<'py>> {
        let operands = operands.map(|operand| self.tracked(operand));
        let outcome = operation(operands.each_ref());
        let is_carried = outcome.as_ref().is_ok_and(|made| made.source.is_some());
        if !is_carried && !matches!(outcome, Err(Halt::Break(_))) {
            for operand in &operands {
                self.uses(operand, Facet::Outcome);
            }
        }
        outcome
    }

    /// Notes that two values were found to be one object or two. If the other value is a number or an object that the frame created, a
    /// value's class matters; if the other existed before, its identity does.
    pub(crate) fn uses_sameness(&self, [left, right]: [&Tracked<'py>; 2]) {
        // The same sources as in `is_same`, which relates the two.
        let source = |value: &Tracked<'py>| self.source_of(&value.object).or_else(|| self.input_source(&value.object));
        let is_known = |value: &Tracked<'py>| !self.torch.is_primitive(&value.object) && source(value).is_some();
        if is_known(left) && is_known(right) {
            if left.object.is(&right.object) && has_name(&left.object) {
                self.uses(left, Facet::Itself);
            }
            return;
        }
        for (value, other) in [(left, right), (right, left)] {
            let is_apart = self.torch.is_primitive(&other.object) || self.is_young(&other.object);
            let facet = match () {
                () if self.torch.is_primitive(&value.object) => Facet::Value,
                () if is_apart || !has_name(&other.object) => Facet::Class,
                () => Facet::Itself,
            };
            self.uses(value, facet);
        }
    }
}

/// Returns true for objects that matter by identity, not by their contents.
pub(crate) fn has_name(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyFunction>()
        || object.is_exact_instance_of::<PyCFunction>() && receiver(object).is_none()
        || object.is_instance_of::<PyType>()
        || object.is_instance_of::<PyModule>()
}
