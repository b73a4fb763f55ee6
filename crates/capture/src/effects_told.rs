//! What a call does to what existed, as Python statements, for people.

use dynamlir_cpython_abi::shown;
use dynamlir_graph::Line;

use crate::state::{Capture, Tracked, Written, WrittenKind, type_name};

impl<'py> Capture<'py> {
    /// All that the call does once the graph has run, in order, each with the lines that ask for it.
    pub(crate) fn effects_in_words(&self) -> Vec<(String, Vec<Line>)> {
        self.writes.all(self.py).iter().map(|written| (self.in_words(written), written.location.clone())).collect()
    }

    fn in_words(&self, written: &Written) -> String {
        let owner = self.guards.expression(written.source);
        let value = written.tracked(self.py).map(|value| self.value_in_words(&value));
        let place = match written.kind {
            WrittenKind::Attribute | WrittenKind::Global => self.guards.expression(written.stored),
            WrittenKind::Contents => return format!("{owner}[:] = what it holds after all changes"),
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
        if self.torch.is_primitive(&value.object) {
            return shown::repr(&value.object).map_or_else(|_| type_name(&value.object), |text| text.to_string());
        }
        format!("a new {}", type_name(&value.object).trim_start_matches("builtins."))
    }
}
