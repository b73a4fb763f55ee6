//! The effects of a call on existing objects, as text and as objects for programs.

use dynamlir_cpython_abi::shown;
use dynamlir_graph::Line;
use dynamlir_symint::{is_size, node_of};
use pyo3::{
    prelude::*,
    types::{PyString, PyTuple},
};

use crate::{
    floors::Writes,
    objects::{Tracked, type_name},
    state::{Written, WrittenKind},
};

/// The length from which text is not shown.
const LONGEST: usize = 40;

/// An effect, by its parts.
pub struct SeenEffect {
    /// The object that is written, a dict of globals, or the container whose method is called.
    pub owner: Py<PyAny>,
    /// For a container, the method that is called, or `holds` for its final contents after all changes. Otherwise `=` or `del`, if a value
    /// is stored or deleted under a name.
    pub action: String,
    /// The name, or the method's argument before the value.
    pub key: Option<Py<PyAny>>,
    /// The stored value, or the method's last argument. For `holds`, a container with the same contents.
    pub value: Option<Py<PyAny>>,
    /// The whole effect as text.
    pub told: String,
    /// The lines that cause it, innermost first.
    pub location: Vec<Line>,
}

impl<'py> Writes<'py> {
    /// Like [`crate::floors::Writes::effects_in_words`], with the objects concerned.
    pub(crate) fn effects_seen(&self) -> Vec<SeenEffect> {
        let writes = self.writes.all();
        let done = writes.iter().filter(|written| !self.leaves_nothing(written, &writes));
        done.map(|written| {
            let named = written.kind.is_named();
            let name = || PyString::new(self.py, &written.name).into_any().unbind();
            let holds = written.kind == WrittenKind::Contents;
            SeenEffect {
                owner: written.owner.clone_ref(self.py),
                action: match (named, &written.value) {
                    (true, Some(_)) => "=".to_owned(),
                    (true, None) => "del".to_owned(),
                    (false, _) if holds => "holds".to_owned(),
                    (false, _) => written.name.clone(),
                },
                key: if named { Some(name()) } else { written.key.as_ref().map(|key| key.clone_ref(self.py)) },
                value: match &written.value {
                    Some((value, _)) => Some(value.clone_ref(self.py)),
                    None => self.existing.changed.borrow().get(&written.storage).filter(|_| holds).map(|copy| copy.clone_ref(self.py)),
                },
                told: self.in_words(written),
                location: written.location.clone(),
            }
        })
        .collect()
    }

    /// Returns everything that the call does after the graph has run, in order, each with the lines that cause it.
    pub(crate) fn effects_in_words(&self) -> Vec<(String, Vec<Line>)> {
        let writes = self.writes.all();
        let done = writes.iter().filter(|written| !self.leaves_nothing(written, &writes));
        done.map(|written| (self.in_words(written), written.location.clone())).collect()
    }

    fn in_words(&self, written: &Written) -> String {
        let owner = self.guards.expression(written.source);
        let value = written.tracked(self.py).map(|value| self.value_in_words(&value));
        let place = match written.kind {
            WrittenKind::Attribute | WrittenKind::Global | WrittenKind::Context => self.guards.expression(written.stored),
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

    /// Describes a value: the node that computes it, its source expression, a constant, or else its type.
    fn value_in_words(&self, value: &Tracked<'py>) -> String {
        if let Some(node) = self.node(&value.object) {
            return self.graph.borrow().name(node).clone();
        }
        if let Some(source) = value.source.or_else(|| self.source_of(&value.object)) {
            return self.guards.expression(source);
        }
        if is_size(&value.object) {
            // Taking the text of a size as that of a number would make it a constant.
            return node_of(&value.object).map_or_else(|_| type_name(&value.object), |node| node.get().dim(self.py).to_string());
        }
        if let Ok(items) = value.object.cast::<PyTuple>()
            && items.iter().any(|item| is_size(&item))
        {
            let items: Vec<String> = items.iter().map(|item| self.value_in_words(&Tracked::new(item))).collect();
            return format!("({})", items.join(", "));
        }
        let is_short = value.object.len().map_or(true, |length| length < LONGEST);
        if self.torch.is_primitive(&value.object) && is_short {
            return shown::repr(&value.object).map_or_else(|_| type_name(&value.object), |text| text.to_string());
        }
        format!("a {}", type_name(&value.object).trim_start_matches("builtins."))
    }
}
