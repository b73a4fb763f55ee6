//! The variables in which the program stores tensors: an exported graph names its nodes after them, as Dynamo does.

use dynamlir_graph::{Kind, NodeId, Store};
use dynamlir_interpreter::{Activation, Value};
use pyo3::prelude::*;

use crate::{
    floors::Record,
    state::{State, layers::RecordedCall},
};

impl State {
    /// Records that a frame stores a value in a variable, if the value is a tensor computed by the graph.
    pub(crate) fn note_store<'py>(&self, frame: &Activation<'py>, slot: usize, value: &Value<'py>) {
        let Some(object) = value.object.as_ref().filter(|object| self.torch.is_fake(object)) else { return };
        let Some(node) = self.node_at(object.as_ptr() as usize) else { return };
        let mut graph = self.graph.borrow_mut();
        if graph.node(node).kind == Kind::Placeholder {
            return;
        }
        if let Some(name) = frame.prepared().local_name(frame.py(), slot) {
            graph.store(node, name.clone().into_any().unbind());
        }
    }
}

impl Record<'_> {
    /// Returns the number of recorded stores.
    pub(crate) fn store_count(&self) -> usize {
        self.graph.borrow().stores().len()
    }

    /// Repeats the stores of a region, for the nodes from `first` on and for the previous nodes of other arguments.
    pub(crate) fn repeat_stores(&self, region: &RecordedCall, first: usize, arguments: &[Option<NodeId>]) {
        let mut graph = self.graph.borrow_mut();
        let shifted = |at: usize| first + (at - region.nodes.0);
        let node = |node: NodeId| match region.arguments.iter().position(|argument| *argument == node) {
            Some(at) => arguments[at],
            None if node.index() >= region.nodes.0 => graph.id_at(shifted(node.index())),
            None => None,
        };
        let copy =
            |store: &Store<Py<PyAny>>| Some(Store { node: node(store.node)?, at: shifted(store.at), name: store.name.clone_ref(self.py) });
        let copies: Vec<_> = graph.stores()[region.stores.0..region.stores.1].iter().filter_map(copy).collect();
        graph.add_stores(copies);
    }
}
