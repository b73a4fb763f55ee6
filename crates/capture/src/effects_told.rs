//! What a call does to what existed, in words.

use dynamlir_cpython_abi::shown;
use dynamlir_graph::Line;
use pyo3::types::PyAnyMethods;

use crate::{
    state::{Capture, Tracked, Written, WrittenKind, type_name},
    written::is_set_back,
};

/// Longer text is not shown.
const LONGEST: usize = 40;

impl<'py> Capture<'py> {
    /// All that the call does once the graph has run, in order, each with the lines that ask for it.
    pub(crate) fn effects_in_words(&self) -> Vec<(String, Vec<Line>)> {
        let writes = self.writes.all();
        let done = writes.iter().filter(|written| !is_set_back(written, &writes));
        done.map(|written| (self.in_words(written), written.location.clone())).collect()
    }

    fn in_words(&self, written: &Written) -> String {
        let owner = self.guards.expression(written.source);
        let value = written.tracked(self.py).map(|value| self.value_in_words(&value));
        let place = match written.kind {
            WrittenKind::Attribute | WrittenKind::Global => self.guards.expression(written.stored),
            WrittenKind::Contents => return format!("{owner} holds what all changes have left in it"),
            WrittenKind::Call => match &written.key {
                Some(key) => format!("{owner}[{}]", self.value_in_words(&Tracked::new(key.bind(self.py).clone()))),
                None => return format!("{owner}.{}({})", written.name, value.unwrap_or_default()),
            },
        };
        match value {
            Some(value) => format!("{place} = {value}"),
            None => format!("del {place}"),
        }
    }

    /// A value: the node that computes it, the place where it was found, a constant, or else its type.
    fn value_in_words(&self, value: &Tracked<'py>) -> String {
        if let Some(node) = self.node(&value.object) {
            return self.graph.borrow().name(node).clone();
        }
        if let Some(source) = value.source.or_else(|| self.source_of(&value.object)) {
            return self.guards.expression(source);
        }
        let is_short = value.object.len().map_or(true, |length| length < LONGEST);
        if self.torch.is_primitive(&value.object) && is_short {
            return shown::repr(&value.object).map_or_else(|_| type_name(&value.object), |text| text.to_string());
        }
        format!("a {}", type_name(&value.object).trim_start_matches("builtins."))
    }
}
