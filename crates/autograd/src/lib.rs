//! Compiled graphs on torch's tensors: what a call of one does between Python's objects and the runtime's handles.
//!
//! - [`GraphWithNodes`]: a graph that runs as [nodes of autograd's graph](Nodes) if gradients are wanted,
//! - [`BoundGraph`]: a graph with the tensors that it captured, as an entry of a cache runs it,
//! - [`GraphsBySize`]: one static graph for each combination of sizes,
//! - [`Calls`]: calls from the runtime into Python,
//! - [`torch`]: information about torch that only Python has,
//! - [`errors`]: the exceptions of a run.
//!
//! Nothing here compiles: graphs come from `dynamlir-driver`. The bindings (`crates/python`) wrap these types in
//! Python's classes.

mod backward;
mod bound_graph;
mod calls;
mod double_backward;
pub mod errors;
mod forward;
mod graph_with_nodes;
mod graphs_by_size;
mod nodes;
mod retained;
mod saved_values;
pub mod torch;

pub use bound_graph::BoundGraph;
pub use calls::Calls;
pub use graph_with_nodes::GraphWithNodes;
pub use graphs_by_size::GraphsBySize;
pub use nodes::Nodes;
