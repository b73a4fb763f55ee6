//! Undoes the compiler's copying: steps with the same source position and equal successors become one.
//!
//! The compiler emits the test of a `while` twice, copies short exits to their uses, and ends every branch of a function with a separate
//! `return`. This finds the coarsest partition in which equal steps lead to equal steps, by refinement: start with each step's kind and
//! source position, and split until nothing changes.

use std::collections::HashMap;

use dynamlir_bytecode::{Const, Opcode, Position};

use crate::{
    ast::Expr,
    graph::{Next, NodeId, StepGraph},
    lift::NONE,
    op::Op,
    regions::Kind,
    unwind::predecessors,
};

/// The properties that equal steps share before their successors are considered.
type Looks = ((Opcode, u32, u8), Position, u32, u8);

/// Merges equal steps.
pub(crate) fn merge(graph: &mut StepGraph<'_>) {
    let classes = classes(graph);
    // The first step of each class represents it.
    let mut first: HashMap<usize, NodeId> = HashMap::new();
    for (node, &class) in classes.iter().enumerate() {
        first.entry(class).or_insert(node);
    }
    let one = |node: NodeId| first[&classes[node]];
    for node in &mut graph.nodes {
        for edge in node.next.edges_mut() {
            edge.to = one(edge.to);
        }
    }
    graph.entry = one(graph.entry);
    // Regions whose handlers were merged are merged too.
    let regions = &graph.regions.0;
    let mut same: HashMap<_, usize> = HashMap::new();
    let mut renamed: Vec<usize> = Vec::new();
    for (id, region) in regions.iter().enumerate() {
        let key = (one(graph.handlers[id]), region.handler.depth, region.handler.lasti);
        renamed.push(if region.kind == Kind::Handling { id } else { *same.entry(key).or_insert(id) });
    }
    for handler in &mut graph.handlers {
        *handler = one(*handler);
    }
    for region in &mut graph.regions.0 {
        region.parent = region.parent.map(|parent| renamed[parent]);
    }
    for node in &mut graph.nodes {
        node.region = node.region.map(|region| renamed[region]);
    }
}

/// Returns the class of each node.
fn classes(graph: &StepGraph<'_>) -> Vec<usize> {
    let before = predecessors(graph);
    let mut class = number((0..graph.nodes.len()).map(|id| looks(graph, &before, id)));
    loop {
        let refined = number(graph.nodes.iter().enumerate().map(|(id, node)| {
            let mut ways = node.next.edges().map(|edge| class[edge.to]);
            // Two handlers are never merged, even if their ends look alike.
            let handler = node.region.map(|region| match graph.regions.0[region].kind {
                Kind::Handling => (region, None),
                _ => (class[graph.handlers[region]], Some(graph.regions.0[region].handler.depth)),
            });
            (class[id], ways.next(), ways.next(), handler)
        }));
        let count = |classes: &[usize]| classes.iter().max().copied();
        if count(&refined) == count(&class) {
            return class;
        }
        class = refined;
    }
}

/// Assigns equal items the same number.
fn number<T: std::hash::Hash + Eq>(things: impl Iterator<Item = T>) -> Vec<usize> {
    let mut numbers = HashMap::new();
    things
        .map(|thing| {
            let next = numbers.len();
            *numbers.entry(thing).or_insert(next)
        })
        .collect()
}

fn looks(graph: &StepGraph<'_>, before: &[Vec<NodeId>], id: NodeId) -> Looks {
    let node = &graph.nodes[id];
    let kind = match node.next {
        Next::End => 0,
        Next::One(_) => 1,
        Next::Branch { .. } => 2,
        Next::OrPop { keep_if, .. } => 3 + u8::from(keep_if),
        Next::For { is_async, .. } => 5 + u8::from(is_async),
    };
    // Code that the compiler adds has the position of the code before it: at the end of a class, of a handler, of a function.
    let added = |op: &Op<'_>| matches!(op, Op::Store(_, "__static_attributes__" | "__classdictcell__"));
    let added = added(&node.op) || node.next.one().is_some_and(|next| added(&graph.nodes[next].op));
    let returns = node.next.one().is_some_and(|next| graph.nodes[next].op == Op::Return);
    let placeless = added || matches!(node.op, Op::Reraise | Op::PopException);
    let (key, placeless) = match node.op {
        Op::Push(Expr::Const(value)) if *value == NONE && returns => ((Opcode::LoadConst, 0, 0), true),
        // `return` of a constant is treated as a unit: two of them are not merged at their ends.
        Op::Return => match returned(graph, &before[id]) {
            Some(value) if *value == NONE => ((Opcode::ReturnConst, 0, 0), true),
            Some(_) => ((Opcode::ReturnConst, graph.nodes[before[id][0]].key.1, 1), placeless),
            None => (node.key, placeless),
        },
        _ => (node.key, placeless),
    };
    (key, if placeless { Position::default() } else { node.position }, node.depth, kind)
}

/// Returns the constant that is pushed on all paths to a return.
fn returned<'a>(graph: &StepGraph<'a>, before: &[NodeId]) -> Option<&'a Const> {
    let constant = |id: &NodeId| if let Op::Push(Expr::Const(value)) = graph.nodes[*id].op { Some(value) } else { None };
    let first = constant(before.first()?)?;
    before.iter().all(|id| constant(id).is_some_and(|value| std::ptr::eq(value, first) || value == first)).then_some(first)
}
