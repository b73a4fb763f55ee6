//! Nodes, and the graph that owns them.

use std::{collections::HashMap, fmt};

use crate::Argument;

/// A node's position in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

impl NodeId {
    /// Position in [`Graph::nodes`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The callee or name of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Target<O> {
    /// The base of node names: `add`, `relu`.
    pub base: String,
    /// Its Python text: `torch.add`; for a method its name, for a placeholder its source.
    pub qualified: String,
    /// The object itself, if there is one.
    pub object: Option<O>,
}

impl<O> Target<O> {
    /// A target with its object.
    pub fn new(base: &str, qualified: &str, object: O) -> Self {
        Self { base: base.to_owned(), qualified: qualified.to_owned(), object: Some(object) }
    }
}

/// torch.fx's kinds of node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An input; the target is its name.
    Placeholder,
    /// A call of a function.
    CallFunction,
    /// A call of a method of the first argument.
    CallMethod,
    /// A call of a module that was not inlined.
    CallModule,
    /// A tensor that the graph owns.
    GetAttr,
    /// The results.
    Output,
}

impl Kind {
    /// torch.fx's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Placeholder => "placeholder",
            Self::CallFunction => "call_function",
            Self::CallMethod => "call_method",
            Self::CallModule => "call_module",
            Self::GetAttr => "get_attr",
            Self::Output => "output",
        }
    }
}

/// A line of the user's Python: file, line, function, and the column of the expression in characters from 1, or 0 if it is not known.
pub type Line = (String, u32, String, u32);

/// A node's value during capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Example<O> {
    /// Not represented, for example a list of tensors.
    #[default]
    Unknown,
    /// This value.
    Is(O),
    /// Not created; it would look like the value of this node.
    Like(NodeId),
}

/// A record that the program stored a node's value in a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store<O> {
    /// The node.
    pub node: NodeId,
    /// The number of nodes at that time.
    pub at: usize,
    /// The name of the variable.
    pub name: O,
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Node<O> {
    /// Its kind.
    pub kind: Kind,
    /// The callee or name.
    pub target: Target<O>,
    /// Positional arguments; for a method the object first.
    pub args: Vec<Argument<O>>,
    /// Keyword arguments.
    pub kwargs: Vec<(String, Argument<O>)>,
    /// The location in the user's Python, innermost frame first.
    pub location: Vec<Line>,
    /// Its value during capture.
    pub example: Example<O>,
    /// The number of earlier nodes with the same base name.
    pub(crate) ordinal: u32,
}

/// A state to which [`Graph::roll_back`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    nodes: usize,
    stores: usize,
}

/// The reason why a graph is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphError {
    /// A node uses one that comes after it or does not exist.
    UseBeforeDefinition(usize),
    /// A placeholder after the first operation, or a node after the output.
    OutOfOrder(usize),
    /// No output node.
    NoOutput,
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UseBeforeDefinition(at) => write!(f, "node {at} uses a node that is not defined before it"),
            Self::OutOfOrder(at) => write!(f, "node {at} comes after the output"),
            Self::NoOutput => f.write_str("the graph has no output"),
        }
    }
}

impl std::error::Error for GraphError {}

/// An ordered list of nodes.
#[derive(Clone, Debug)]
pub struct Graph<O> {
    nodes: Vec<Node<O>>,
    /// Names of variables, in the order in which the program stored into them.
    stores: Vec<Store<O>>,
    /// The number of nodes with each base name, except placeholders.
    named: HashMap<String, u32>,
}

impl<O> Default for Graph<O> {
    fn default() -> Self {
        Self { nodes: Vec::new(), stores: Vec::new(), named: HashMap::new() }
    }
}

impl<O> Graph<O> {
    /// A savepoint of the current state.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint { nodes: self.nodes.len(), stores: self.stores.len() }
    }

    /// Removes the nodes and the stores that were added since. The remaining nodes keep their latest example values.
    pub fn roll_back(&mut self, to: Savepoint) {
        for node in self.nodes.drain(to.nodes..) {
            if node.kind != Kind::Placeholder
                && let Some(count) = self.named.get_mut(&node.target.base)
            {
                *count -= 1;
            }
        }
        self.stores.truncate(to.stores);
    }

    /// The nodes in order.
    pub fn nodes(&self) -> &[Node<O>] {
        &self.nodes
    }

    /// The node with this id.
    pub fn node(&self, id: NodeId) -> &Node<O> {
        &self.nodes[id.index()]
    }

    /// The program's stores into variables, in order.
    pub fn stores(&self) -> &[Store<O>] {
        &self.stores
    }

    /// Records that the program stores a node's value in a variable.
    pub fn store(&mut self, node: NodeId, name: O) {
        self.stores.push(Store { node, at: self.nodes.len(), name });
    }

    /// Adds stores that came with other nodes. They must be in order, and not before the latest one.
    pub fn add_stores(&mut self, stores: impl IntoIterator<Item = Store<O>>) {
        self.stores.extend(stores);
    }

    /// Sets a node's value during capture.
    pub fn set_example(&mut self, node: NodeId, example: Example<O>) {
        self.nodes[node.index()].example = example;
    }

    /// A node's value during capture, and true if it is the node's own; otherwise it is the value of another node that looks the same.
    pub fn example(&self, node: NodeId) -> Option<(&O, bool)> {
        match &self.node(node).example {
            Example::Unknown => None,
            Example::Is(value) => Some((value, true)),
            Example::Like(other) => match &self.nodes.get(other.index())?.example {
                Example::Is(value) => Some((value, false)),
                _ => None,
            },
        }
    }

    /// The id of the node at a position.
    pub fn id_at(&self, place: usize) -> Option<NodeId> {
        (place < self.nodes.len()).then_some(NodeId(place as u32))
    }

    /// All ids, in order.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<O> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// The placeholders, in order.
    pub fn placeholders(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.ids().filter(|id| self.node(*id).kind == Kind::Placeholder)
    }

    /// The number of nodes that compute something.
    pub fn len_ops(&self) -> usize {
        self.nodes.iter().filter(|node| !matches!(node.kind, Kind::Placeholder | Kind::Output | Kind::GetAttr)).count()
    }

    /// Adds an input with this `name` that comes from `source`, a Python expression.
    pub fn placeholder(&mut self, name: &str, source: &str) -> NodeId {
        self.push(Kind::Placeholder, Target { base: name.to_owned(), qualified: source.to_owned(), object: None }, vec![], vec![], None)
    }

    /// Adds a call of a function.
    pub fn call_function(
        &mut self,
        target: Target<O>,
        args: Vec<Argument<O>>,
        kwargs: Vec<(String, Argument<O>)>,
        location: Option<Vec<Line>>,
    ) -> NodeId {
        self.push(Kind::CallFunction, target, args, kwargs, location)
    }

    /// Adds a call of the method `name` of `args[0]`.
    pub fn call_method(
        &mut self,
        name: &str,
        args: Vec<Argument<O>>,
        kwargs: Vec<(String, Argument<O>)>,
        location: Option<Vec<Line>>,
    ) -> NodeId {
        let target = Target { base: name.to_owned(), qualified: name.to_owned(), object: None };
        self.push(Kind::CallMethod, target, args, kwargs, location)
    }

    /// Adds the results.
    pub fn output(&mut self, value: Argument<O>) -> NodeId {
        let target = Target { base: "output".to_owned(), qualified: "output".to_owned(), object: None };
        self.push(Kind::Output, target, vec![value], vec![], None)
    }

    /// The graph with these placeholders in front, in this order, and without the others.
    ///
    /// A capture encounters its inputs one by one, and uses some only for their shape.
    #[must_use]
    pub fn with_placeholders(self, placeholders: &[NodeId]) -> Self {
        let mut order: Vec<usize> = placeholders.iter().map(|id| id.index()).collect();
        order.extend((0..self.nodes.len()).filter(|at| self.nodes[*at].kind != Kind::Placeholder));
        let mut places = vec![NodeId(u32::MAX); self.nodes.len()];
        for (place, at) in order.iter().enumerate() {
            places[*at] = NodeId(place as u32);
        }
        // A store stays before the operations that follow it.
        let mut stores = self.stores;
        let mut passed = (0, placeholders.len());
        for store in &mut stores {
            passed.1 += self.nodes[passed.0..store.at].iter().filter(|node| node.kind != Kind::Placeholder).count();
            passed.0 = store.at;
            (store.node, store.at) = (places[store.node.index()], passed.1);
        }
        stores.retain(|store| store.node.0 != u32::MAX);
        let mut nodes: Vec<Option<Node<O>>> = self.nodes.into_iter().map(Some).collect();
        let mut made = Self { nodes: Vec::with_capacity(order.len()), stores, named: self.named };
        for at in order {
            let Some(mut node) = nodes[at].take() else { continue };
            for argument in node.args.iter_mut().chain(node.kwargs.iter_mut().map(|(_, value)| value)) {
                argument.renumber(&places);
            }
            if let Example::Like(other) = &mut node.example {
                *other = places[other.index()];
            }
            made.nodes.push(node);
        }
        made
    }

    /// Checks that every use follows its definition and the output is last.
    pub fn verify(&self) -> Result<(), GraphError> {
        for (at, node) in self.nodes.iter().enumerate() {
            let mut bad = false;
            for argument in node.args.iter().chain(node.kwargs.iter().map(|(_, value)| value)) {
                argument.nodes(&mut |used| bad |= used.index() >= at);
            }
            if bad {
                return Err(GraphError::UseBeforeDefinition(at));
            }
            if node.kind == Kind::Output && at + 1 != self.nodes.len() {
                return Err(GraphError::OutOfOrder(at + 1));
            }
        }
        match self.nodes.last() {
            Some(node) if node.kind == Kind::Output => Ok(()),
            _ => Err(GraphError::NoOutput),
        }
    }

    fn push(
        &mut self,
        kind: Kind,
        target: Target<O>,
        args: Vec<Argument<O>>,
        kwargs: Vec<(String, Argument<O>)>,
        location: Option<Vec<Line>>,
    ) -> NodeId {
        let ordinal = match self.named.get_mut(&target.base) {
            Some(count) if kind == Kind::Placeholder => *count,
            Some(count) => {
                *count += 1;
                *count - 1
            }
            None => {
                self.named.insert(target.base.clone(), u32::from(kind != Kind::Placeholder));
                0
            }
        };
        let location = location.unwrap_or_default();
        self.nodes.push(Node { kind, target, args, kwargs, location, example: Example::Unknown, ordinal });
        NodeId(self.nodes.len() as u32 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_without_output_is_refused() {
        let mut graph: Graph<()> = Graph::default();
        assert_eq!(graph.verify(), Err(GraphError::NoOutput));
        let x = graph.placeholder("x", "L['x']");
        graph.output(Argument::Node(x));
        assert_eq!(graph.verify(), Ok(()));
        graph.call_method("sum", vec![Argument::Node(x)], vec![], None);
        assert_eq!(graph.verify(), Err(GraphError::OutOfOrder(2)));
    }

    #[test]
    fn unused_placeholders_go_and_the_others_come_first() {
        let mut graph: Graph<()> = Graph::default();
        let x = graph.placeholder("x", "L['x']");
        graph.placeholder("unused", "L['unused']");
        let sum = graph.call_method("sum", vec![Argument::Node(x)], vec![], None);
        let w = graph.placeholder("w", "L['w']");
        let mul = graph.call_method("mul", vec![Argument::List(vec![Argument::Node(sum), Argument::Node(w)])], vec![], None);
        graph.output(Argument::Node(mul));
        let graph = graph.with_placeholders(&[x, w]);
        assert_eq!(graph.verify(), Ok(()));
        assert_eq!(
            graph.to_string(),
            "Graph:\n    x = placeholder\n    w = placeholder\n    sum_0 = x.sum()\n    mul_0 = [sum_0, w].mul()\n    return mul_0\n"
        );
    }

    #[test]
    fn stores_and_examples_stay_with_their_nodes() {
        let mut graph: Graph<&str> = Graph::default();
        graph.placeholder("unused", "L['unused']");
        let x = graph.placeholder("x", "L['x']");
        let sum = graph.call_method("sum", vec![Argument::Node(x)], vec![], None);
        graph.store(sum, "total");
        let w = graph.placeholder("w", "L['w']");
        let mul = graph.call_method("mul", vec![Argument::Node(sum), Argument::Node(w)], vec![], None);
        graph.store(mul, "scaled");
        graph.set_example(sum, Example::Is("a number"));
        graph.set_example(mul, Example::Like(sum));
        graph.output(Argument::Node(mul));
        let graph = graph.with_placeholders(&[x, w]);
        let stores: Vec<_> = graph.stores().iter().map(|store| (store.node.index(), store.at, store.name)).collect();
        assert_eq!(stores, [(2, 3, "total"), (3, 4, "scaled")]);
        let examples: Vec<_> = graph.ids().map(|id| graph.example(id)).collect();
        assert_eq!(examples, [None, None, Some((&"a number", true)), Some((&"a number", false)), None]);
    }

    #[test]
    fn a_graph_that_was_rolled_back_goes_on_as_if_nothing_had_been() {
        let begin = || {
            let mut graph: Graph<&str> = Graph::default();
            let x = graph.placeholder("x", "L['x']");
            let sum = graph.call_method("sum", vec![Argument::Node(x)], vec![], None);
            graph.store(sum, "total");
            (graph, x, sum)
        };
        let go_on = |graph: &mut Graph<&str>, x, sum| {
            let more = graph.call_method("sum", vec![Argument::Node(sum)], vec![], None);
            let w = graph.placeholder("w", "L['w']");
            graph.store(more, "more");
            graph.call_method("mul", vec![Argument::Node(x), Argument::Node(w)], vec![], None);
            graph.output(Argument::Node(more));
        };
        let (mut plain, x, sum) = begin();
        go_on(&mut plain, x, sum);
        let (mut tried, x, sum) = begin();
        let savepoint = tried.savepoint();
        go_on(&mut tried, x, sum);
        tried.call_method("relu", vec![Argument::Node(sum)], vec![], None);
        tried.roll_back(savepoint);
        assert_eq!(tried.savepoint(), savepoint);
        go_on(&mut tried, x, sum);
        assert_eq!(tried.to_string(), plain.to_string());
        assert_eq!((tried.nodes(), tried.stores()), (plain.nodes(), plain.stores()));
    }

    #[test]
    fn a_use_before_its_definition_is_refused() {
        let mut graph: Graph<()> = Graph::default();
        graph.call_method("sum", vec![Argument::Node(NodeId(1))], vec![], None);
        assert_eq!(graph.verify(), Err(GraphError::UseBeforeDefinition(0)));
    }
}
