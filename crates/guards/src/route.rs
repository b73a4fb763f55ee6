//! The route to a value that a passing check collects, step by step, for writing it as code.

use pyo3::prelude::*;

use crate::{
    GuardSet,
    tree::{FUNCTION, Node, PreparedGuard, Step},
};

/// One step of a route. The classes are those that the guards compare; no object is inspected.
pub enum Hop<'py> {
    /// The parameter in this slot of the frame.
    Local(usize),
    /// The function of the frame.
    Function,
    /// This object, which the guards hold directly.
    Object(Bound<'py, PyAny>),
    /// The value that the instance stores under the name.
    Stored(String),
    /// The value in the instance's slot of that name.
    Slot(String),
    /// The raw attribute of a class.
    Raw(String),
    /// An attribute as Python looks it up.
    Attribute(String),
    /// `type(base)`
    Type,
    /// The value of a dict under the key.
    Key(Bound<'py, PyAny>),
    /// An item of a tuple or list.
    Index(usize),
    /// The key at a position of a dict.
    DictKey(usize),
    /// The value at a position of a dict.
    DictValue(usize),
    /// The result of calling it with these arguments.
    Answer(Bound<'py, PyAny>),
    /// The result of calling its method of that name.
    Method(&'static str),
    /// The result of calling it.
    Called,
    /// A step that cannot be written in Python.
    Unwritable(&'static str),
}

impl GuardSet {
    /// Returns the route from a root to the object that a passing check collects at a place: each step with the class that its result is
    /// guarded to have. Returns None if no object is collected there, or if an object on the route has died.
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
        // A held object is a root; the steps before it do not matter.
        let first = route.iter().rposition(|(hop, _)| matches!(hop, Hop::Object(_))).unwrap_or(0);
        Some(route.split_off(first))
    }

    fn class_at<'py>(&self, py: Python<'py>, node: &Node) -> Option<Bound<'py, PyAny>> {
        node.checks.iter().find_map(|&check| match &self.tree.checks[check].1 {
            PreparedGuard::Type(held) => held.get(py),
            PreparedGuard::Identity(held) => held.get(py).map(|object| object.get_type().into_any()),
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
