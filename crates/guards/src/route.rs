//! How a value that a passing check collects was reached, step by step, for those who write that as code.

use pyo3::prelude::*;

use crate::{
    GuardSet,
    tree::{Check, FUNCTION, Node, Step},
};

/// One step of a route. What it says of classes is what the guards compare: nothing is looked at.
pub enum Hop<'py> {
    /// The parameter in this slot of the frame.
    Local(usize),
    /// The function of the frame.
    Function,
    /// This object, which guards know by themselves.
    Object(Bound<'py, PyAny>),
    /// What the instance stores under the name.
    Stored(String),
    /// What the instance stores in the slot of that name.
    Slot(String),
    /// The raw attribute of a class.
    Raw(String),
    /// An attribute as Python looks it up.
    Attribute(String),
    /// `type(base)`
    Type,
    /// What a dict has under the key.
    Key(Bound<'py, PyAny>),
    /// An item of a tuple or list.
    Index(usize),
    /// The key at a position of a dict.
    DictKey(usize),
    /// The value at a position of a dict.
    DictValue(usize),
    /// What it answers to these arguments.
    Answer(Bound<'py, PyAny>),
    /// What calling a method of that name gives.
    Method(&'static str),
    /// What calling it gives.
    Called,
    /// A step that has no Python to be written in.
    Unwritable(&'static str),
}

impl GuardSet {
    /// From a root to what a passing check collects at a place: each step with the class that its result is guarded to have. None
    /// where nothing is collected there, or something on the way has died.
    #[must_use]
    pub fn route<'py>(&self, py: Python<'py>, place: usize) -> Option<Vec<(Hop<'py>, Option<Bound<'py, PyAny>>)>> {
        let mut at = self.tree.nodes.iter().position(|node| node.output == Some(place))?;
        let mut route = Vec::new();
        loop {
            let node = &self.tree.nodes[at];
            route.push((self.hop(py, at, node)?, self.class_at(py, node)));
            match node.parent {
                Some(parent) => at = parent,
                None => break,
            }
        }
        route.reverse();
        // What is held is reached from nowhere.
        let first = route.iter().rposition(|(hop, _)| matches!(hop, Hop::Object(_))).unwrap_or(0);
        Some(route.split_off(first))
    }

    fn class_at<'py>(&self, py: Python<'py>, node: &Node) -> Option<Bound<'py, PyAny>> {
        node.checks.iter().find_map(|&check| match &self.tree.checks[check].1 {
            Check::Type(held) => held.get(py),
            Check::Identity(held) => held.get(py).map(|object| object.get_type().into_any()),
            _ => None,
        })
    }

    fn hop<'py>(&self, py: Python<'py>, at: usize, node: &Node) -> Option<Hop<'py>> {
        let text = |name: &Py<pyo3::types::PyString>| name.bind(py).to_string();
        let attribute = |name: &str| Hop::Attribute(name.to_owned());
        Some(match &node.step {
            Step::Root if at == FUNCTION => Hop::Function,
            Step::Root => Hop::Local(self.tree.locals.iter().find(|(_, local)| *local == at)?.0),
            Step::Pinned(pin) => Hop::Object(pin.get(py)?),
            Step::Attr(name) => Hop::Stored(text(name)),
            Step::Slot(name) => Hop::Slot(text(name)),
            Step::TypeAttr(name) => Hop::Raw(text(name)),
            Step::GetAttr(name) => Hop::Attribute(text(name)),
            Step::Type => Hop::Type,
            Step::Item(key) => Hop::Key(key.bind(py).clone()),
            Step::Index(index) => Hop::Index(*index),
            Step::DictKey(index) => Hop::DictKey(*index),
            Step::DictValue(index) => Hop::DictValue(*index),
            Step::Globals => attribute("__globals__"),
            Step::Builtins => attribute("__builtins__"),
            Step::Defaults => attribute("__defaults__"),
            Step::KwDefaults => attribute("__kwdefaults__"),
            Step::Mro => attribute("__mro__"),
            Step::Closure => attribute("__closure__"),
            Step::Cell => attribute("cell_contents"),
            Step::Code => attribute("__code__"),
            Step::MethodFunction => attribute("__func__"),
            Step::MethodSelf => attribute("__self__"),
            Step::Answer(arguments) => Hop::Answer(arguments.bind(py).clone().into_any()),
            Step::Remembers(_) | Step::Remembered(_) => Hop::Unwritable("what functools.lru_cache remembers"),
            Step::ContextVar | Step::ContextValue => Hop::Method("get"),
            Step::Referent => Hop::Called,
            Step::Viewed => Hop::Unwritable("what a view of a dict shows"),
        })
    }
}
