//! Names for unbacked sizes in a graph that is not split where they become known: each is a node of its own.
//!
//! A number read by `item` is named by its node. A size of a tensor gets a node `.size(dim)`, right after the one that creates the tensor,
//! because a later node may change the dimensions in place. The example of such a node is the symbol, by which
//! `python/dynamlir/capture/fx.py` recognizes it.

use dynamlir_graph::{Argument, Example, Line, NodeId};
use dynamlir_shapes::Symbol;
use dynamlir_symint::{
    is_asked,
    sym_int::{as_program, is_number, is_size, node_of},
};
use pyo3::{
    prelude::*,
    types::{PyList, PyTuple},
};

use crate::{
    floors::Numbers,
    graph_break::{Outcome, reason},
};

impl<'py> Numbers<'py> {
    /// Returns the number of unbacked sizes.
    pub(crate) fn unbacked_count(&self) -> usize {
        self.sizes.sizes().map_or(0, |sizes| sizes.bind(self.py).get().unbacked_count())
    }

    /// Names the unbacked symbols that a call introduced, by means of its result. `before` is the number of such symbols before the call.
    pub(crate) fn spell(&self, result: &Bound<'py, PyAny>, node: NodeId, before: usize, location: &[Line]) -> Outcome<()> {
        if !self.sizes.uncut || self.unbacked_count() == before {
            return Ok(());
        }
        let Some(sizes) = self.sizes.sizes() else { return Ok(()) };
        let mut new: Vec<Symbol> = sizes.bind(self.py).get().unbacked_symbols().into_iter().skip(before).collect();
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

    /// Removes a size from these symbols. Returns true if it was one of them.
    fn takes_symbol(&self, symbols: &mut Vec<Symbol>, size: &Bound<'py, PyAny>) -> Outcome<bool> {
        let symbol = node_of(size)?.get().dim(self.py).as_symbol();
        let Some(at) = symbols.iter().position(|known| Some(*known) == symbol) else { return Ok(false) };
        self.recorder().note_spelled(symbols.remove(at).0)?;
        Ok(true)
    }

    /// Ends the capture if an argument of an uncut graph is an undecided comparison.
    pub(crate) fn refuse_comparison(&self, value: &Bound<'py, PyAny>) -> Outcome<()> {
        if self.sizes.uncut && is_asked(value) {
            return self.break_graph(reason::DATA_DEPENDENT, "an operation on an unbacked comparison");
        }
        Ok(())
    }

    /// Ends the capture if a size is inside a sequence of a class that the nodes of an uncut graph take for a constant.
    pub(crate) fn refuse_hidden_sizes(&self, sequence: &Bound<'py, PyAny>, item: &Bound<'py, PyAny>) -> Outcome<()> {
        if self.sizes.uncut && !self.torch.is_primitive(sequence) && crate::objects::torch_types::find(item, is_size).is_some() {
            return self.break_graph(reason::DATA_DEPENDENT, "an unbacked size in a sequence of a user-defined class");
        }
        Ok(())
    }
}
