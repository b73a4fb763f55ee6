//! The captured graph: the operations that a frame requested from torch, as an ordered list of nodes.
//!
//! The six kinds of node are torch.fx's. A node's target and arguments may be any Python object: the graph holds them as an opaque type
//! `O`, so that this crate does not need Python and its tests use strings.
//!
//! ```
//! use dynamlir_graph::{Argument, Graph, Target};
//! let mut graph: Graph<&str> = Graph::default();
//! let x = graph.placeholder("x", "L['x']");
//! let add = graph.call_function(Target::new("add", "torch.add", "add"), vec![Argument::Node(x), Argument::Int(1)], vec![], None);
//! graph.output(Argument::Node(add));
//! assert_eq!(graph.to_string(), "Graph:\n    x = placeholder\n    add_0 = torch.add(x, 1)\n    return add_0\n");
//! ```
#![forbid(unsafe_code)]

mod argument;
mod node;
mod print;
mod source;

pub use crate::{
    argument::Argument,
    node::{Example, Graph, GraphError, Kind, Line, Node, NodeId, Savepoint, Store, Target},
    source::PythonSource,
};
