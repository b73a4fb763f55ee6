//! What sizes that only running tells are called in a graph that is not cut where they come to be known: nodes of their own.
//!
//! The number that `item` reads is its node. Of a tensor there is a node for the size, `.size(dim)`, right after the one that makes the
//! tensor, as a later one may change its dimensions in place. The example of such a node is the symbol, by which
//! `python/dynamlir/capture/fx.py` knows it.

use dynamlir_graph::{Argument, Example, Line, NodeId};
use dynamlir_shapes::Symbol;
use pyo3::{
    prelude::*,
    types::{PyList, PyTuple},
};

use super::{
    asked::is_asked,
    class::{as_program, is_number, is_size, node_of},
};
use crate::{
    graph_break::reason,
    state::{Capture, Outcome},
};

impl<'py> Capture<'py> {
    /// How many sizes there are that only running tells.
    pub(crate) fn unbacked_count(&self) -> usize {
        self.varying.sizes().map_or(0, |sizes| sizes.bind(self.py).get().unbacked_count())
    }

    /// Spells the symbols that came with a call, by its result, given how many there were before.
    pub(crate) fn spell(&self, result: &Bound<'py, PyAny>, node: NodeId, before: usize, location: &[Line]) -> Outcome<()> {
        if !self.varying.uncut || self.unbacked_count() == before {
            return Ok(());
        }
        let Some(sizes) = self.varying.sizes() else { return Ok(()) };
        let mut new: Vec<Symbol> = sizes.bind(self.py).get().with(|known| known.unbacked.symbols.iter().skip(before).copied().collect());
        let mut waiting = vec![(result.clone(), Some(node))];
        while let Some((value, node)) = waiting.pop() {
            if let Some(node) = node.filter(|_| is_number(&value)) {
                if self.takes_symbol(&mut new, &value)? {
                    self.graph.borrow_mut().set_example(node, Example::Is(value.unbind()));
                }
            } else if self.torch.is_fake(&value) {
                let Some(node) = self.node(&value) else { continue };
                let shape = dynamlir_interpreter::suspended(|| as_program(&value.getattr("shape")?))?;
                for (d, size) in shape.try_iter()?.enumerate() {
                    let size = size?;
                    if is_number(&size) && self.takes_symbol(&mut new, &size)? {
                        let arguments = vec![Argument::Node(node), Argument::Int(d as i64)];
                        let mut graph = self.graph.borrow_mut();
                        let told = graph.call_method("size", arguments, Vec::new(), Some(location.to_vec()));
                        graph.set_example(told, Example::Is(size.unbind()));
                    }
                }
            } else if value.is_instance_of::<PyTuple>() || value.is_exact_instance_of::<PyList>() {
                let items = value.try_iter()?.map(|item| item.map(|item| (item, None))).collect::<PyResult<Vec<_>>>()?;
                waiting.extend(items.into_iter().rev());
            }
        }
        Ok(())
    }

    /// Whether a size is one of these symbols, which it is no longer then.
    fn takes_symbol(&self, symbols: &mut Vec<Symbol>, size: &Bound<'py, PyAny>) -> Outcome<bool> {
        let symbol = node_of(size)?.get().dim(self.py).as_symbol();
        let Some(at) = symbols.iter().position(|known| Some(*known) == symbol) else { return Ok(false) };
        self.ask("note_spelled", (symbols.remove(at).0,))?;
        Ok(true)
    }

    /// Ends the capture where an argument of an uncut graph is a comparison that only running tells.
    pub(crate) fn refuse_comparison(&self, value: &Bound<'py, PyAny>) -> Outcome<()> {
        if self.varying.uncut && is_asked(value) {
            return self.break_graph(reason::DATA_DEPENDENT, "an operation on a comparison that only running tells");
        }
        Ok(())
    }

    /// Ends the capture where a size is in a sequence of a class that the nodes of an uncut graph take for a constant.
    pub(crate) fn refuse_hidden_sizes(&self, sequence: &Bound<'py, PyAny>, item: &Bound<'py, PyAny>) -> Outcome<()> {
        if self.varying.uncut && !self.torch.is_primitive(sequence) && crate::torch::find(item, is_size).is_some() {
            return self.break_graph(reason::DATA_DEPENDENT, "a size that only running tells, in a sequence of a class of its own");
        }
        Ok(())
    }
}
