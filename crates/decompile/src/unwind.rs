//! Exits of `except`, `with` and `finally`: the code that the compiler copies to each exit becomes one step, inside the region that it
//! leaves.

use std::collections::{HashMap, HashSet};

use dynamlir_bytecode::Opcode;

use crate::{
    Problem,
    ast::Expr,
    graph::{Edge, Next, Node, NodeId, StepGraph},
    lift::NONE,
    op::Op,
    regions::{Kind, RegionId},
};

/// Returns the predecessors of each node.
pub(crate) fn predecessors(graph: &StepGraph<'_>) -> Vec<Vec<NodeId>> {
    let mut found = vec![Vec::new(); graph.nodes.len()];
    for (id, node) in graph.nodes.iter().enumerate() {
        for edge in node.next.edges() {
            if !found[edge.to].contains(&id) {
                found[edge.to].push(id);
            }
        }
    }
    found
}

/// Folds the exits of `except` clauses and `with` bodies.
pub(crate) fn unwind(graph: &mut StepGraph<'_>) {
    // Folding one may reveal the exit of the next region.
    let mut done = vec![false; graph.nodes.len()];
    loop {
        let before = predecessors(graph);
        let mut changed = false;
        for (id, done) in done.iter_mut().enumerate() {
            if !*done && (leave_handler(graph, &before, id) || leave_with(graph, &before, id)) {
                *done = true;
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}

/// Returns the first node before `id` that is not a SWAP, and the SWAPs in between: they move a return value out of the way.
fn before_swaps(graph: &StepGraph<'_>, before: &[Vec<NodeId>], id: NodeId) -> Option<(NodeId, Vec<NodeId>)> {
    let mut swaps = Vec::new();
    let mut at = *before[id].first()?;
    while matches!(graph.nodes[at].op, Op::Swap(_)) && graph.nodes[at].region == graph.nodes[id].region && swaps.len() < 4 {
        swaps.push(at);
        at = *before[at].first()?;
    }
    Some((at, swaps))
}

/// Assigns `POP_EXCEPT` to the clause that it ends; with `as`, the name is unbound after it.
fn leave_handler(graph: &mut StepGraph<'_>, before: &[Vec<NodeId>], id: NodeId) -> bool {
    if graph.nodes[id].op != Op::PopException {
        return false;
    }
    let Some((last, swaps)) = before_swaps(graph, before, id) else { return false };
    let region = graph.regions.towards(graph.nodes[id].region, graph.nodes[last].region);
    let Some(region) = region.filter(|&region| graph.regions.0[region].kind == Kind::Handling) else { return false };
    for node in swaps.into_iter().chain([id]) {
        graph.nodes[node].region = Some(region);
    }
    let bound = match graph.nodes[last].op {
        Op::Store(_, name) => Some(name),
        _ => None,
    };
    // A `with` that swallows the exception drops its values from the stack.
    let of_with = |with: &RegionId| {
        let handler = &graph.nodes[graph.handlers[*with]];
        graph.regions.0[*with].kind == Kind::With && handler.region == Some(region)
    };
    if (0..graph.handlers.len()).any(|id| of_with(&id)) {
        let drops = |id: NodeId| graph.nodes[id].next.one().filter(|&next| graph.nodes[next].op == Op::Pop);
        // Drops the values kept by the `with` block, and the unit that raised.
        if let Some(end) = (0..=graph.with_places).try_fold(id, |at, _| drops(at)) {
            graph.nodes[id].next = graph.nodes[end].next.clone();
        }
        return true;
    }
    let named = |name: &str| {
        let in_clause = |node: &Node<'_>| node.bound == Some(name) && graph.regions.within(node.region, region);
        bound == Some(name) || graph.nodes.iter().any(in_clause)
    };
    if let Some((end, name)) = unbinding(graph, id)
        && named(name)
    {
        graph.nodes[id].next = graph.nodes[end].next.clone();
    }
    true
}

/// Matches `name = None; del name` after a node; returns its last node, and the name.
fn unbinding<'a>(graph: &StepGraph<'a>, id: NodeId) -> Option<(NodeId, &'a str)> {
    let load = graph.nodes[id].next.one()?;
    let store = graph.nodes[load].next.one()?;
    let delete = graph.nodes[store].next.one()?;
    match (&graph.nodes[store].op, &graph.nodes[delete].op) {
        (Op::Store(_, stored), Op::Delete(_, deleted)) if is_none(&graph.nodes[load]) && stored == deleted => Some((delete, stored)),
        _ => None,
    }
}

fn is_none(node: &Node<'_>) -> bool {
    matches!(node.op, Op::Push(Expr::Const(value)) if *value == NONE)
}

/// `__exit__(None, None, None)` becomes [`Op::EndWith`], inside the `with`.
fn leave_with(graph: &mut StepGraph<'_>, before: &[Vec<NodeId>], id: NodeId) -> bool {
    let Some(end) = exit_call(graph, id) else { return false };
    let Some((last, swaps)) = before_swaps(graph, before, id) else { return false };
    let region = graph.regions.towards(graph.nodes[id].region, graph.nodes[last].region);
    let fits = |region: &RegionId| {
        let region = &graph.regions.0[*region];
        // Each SWAP has moved a return value below.
        region.kind == Kind::With && region.handler.depth + swaps.len() as u32 == graph.nodes[id].depth
    };
    let Some(region) = region.filter(fits) else { return false };
    for node in swaps.into_iter().chain([id]) {
        graph.nodes[node].region = Some(region);
    }
    graph.nodes[id].op = Op::EndWith;
    graph.nodes[id].key = (Opcode::WithExceptStart, 0, 1);
    graph.nodes[id].next = graph.nodes[end].next.clone();
    true
}

/// Returns the `POP_TOP` at the end of a call with three Nones.
fn exit_call(graph: &StepGraph<'_>, id: NodeId) -> Option<NodeId> {
    let mut at = id;
    for _ in 0..3 {
        if !is_none(&graph.nodes[at]) {
            return None;
        }
        at = graph.nodes[at].next.one()?;
    }
    // The first None takes the slot of the method's object, in versions without a separate slot for it.
    if graph.nodes[at].op != Op::Call(1 + graph.with_places as usize) {
        return None;
    }
    at = graph.nodes[at].next.one()?;
    if graph.nodes[at].op == Op::Await {
        at = graph.nodes[at].next.one()?;
    }
    (graph.nodes[at].op == Op::Pop).then_some(at)
}

/// Replaces the copies of `finally` bodies at the exits of their regions with [`Op::EndFinally`].
pub(crate) fn fold_finally(graph: &mut StepGraph<'_>) -> Result<(), Problem> {
    let mut regions: Vec<RegionId> = (0..graph.regions.0.len()).filter(|&id| graph.regions.0[id].kind == Kind::Finally).collect();
    // Innermost first.
    regions.sort_by_key(|&id| std::cmp::Reverse(graph.regions.chain(Some(id)).count()));
    // A copy may contain a `try` with its own `finally`, which must be folded first.
    while !regions.is_empty() {
        let mut failed = Ok(());
        let before = regions.len();
        regions.retain(|&region| {
            fold(graph, region).is_err_and(|problem| {
                failed = Err(problem);
                true
            })
        });
        if regions.len() == before {
            return failed;
        }
    }
    Ok(())
}

/// Replaces the copies at the exits of one region.
fn fold(graph: &mut StepGraph<'_>, region: RegionId) -> Result<(), Problem> {
    let reachable = reachable(graph);
    let inside = |node: &Node<'_>| graph.regions.within(node.region, region);
    let mut exits: Vec<NodeId> = Vec::new();
    for (node, reachable) in graph.nodes.iter().zip(reachable) {
        if reachable && inside(node) {
            exits.extend(node.next.edges().map(|edge| edge.to).filter(|&to| !inside(&graph.nodes[to])));
        }
    }
    exits.sort_unstable();
    exits.dedup();
    let follow = |start: NodeId| {
        let copies = Copies { graph, region, pairs: HashSet::new(), regions: HashMap::new(), ends: Vec::new() };
        Ok((start, copies.follow(start)?))
    };
    let ways: Vec<(NodeId, Option<NodeId>)> = exits.into_iter().map(follow).collect::<Result<_, Problem>>()?;
    let within: Vec<NodeId> = (0..graph.nodes.len()).filter(|&id| graph.regions.within(graph.nodes[id].region, region)).collect();
    for (start, to) in ways {
        let next = to.map_or(Next::End, |to| Next::One(Edge { to, at: graph.nodes[to].unit }));
        let Node { position, unit, depth, .. } = graph.nodes[start];
        let end = graph.nodes.len();
        let key = (Opcode::EndFor, 0, 1);
        graph.nodes.push(Node { op: Op::EndFinally, key, unit, position, depth, region: Some(region), bound: None, next });
        for &id in &within {
            graph.nodes[id].next.edges_mut().filter(|edge| edge.to == start).for_each(|edge| edge.to = end);
        }
    }
    Ok(())
}

/// Walks a copy of a `finally` body in parallel with the original, which handles exceptions.
struct Copies<'g, 'a> {
    graph: &'g StepGraph<'a>,
    region: RegionId,
    pairs: HashSet<(NodeId, NodeId)>,
    /// The regions of the copy, with those of the original.
    regions: HashMap<Option<RegionId>, Option<RegionId>>,
    /// The nodes where the copy continues when the original re-raises its exception.
    ends: Vec<NodeId>,
}

impl Copies<'_, '_> {
    /// Returns the node after the copy that starts at `start`; `None` if there is none.
    fn follow(mut self, start: NodeId) -> Result<Option<NodeId>, Problem> {
        let graph = self.graph;
        let different = Problem::Unstructured("a way out of `try` that does not run its `finally`", graph.nodes[start].unit);
        let push = graph.handlers[self.region];
        let original = graph.nodes[push].next.one().ok_or(Problem::Malformed)?;
        let base = graph.nodes[original].depth;
        let around = graph.regions.0[self.region].parent;
        self.regions.insert(around, graph.nodes[push].region);
        let mut open = vec![(start, original)];
        while let Some((copy, original)) = open.pop() {
            if !self.pairs.insert((copy, original)) {
                continue;
            }
            let (a, b) = (&graph.nodes[copy], &graph.nodes[original]);
            if b.op == Op::Reraise && b.depth == base {
                self.ends.push(copy);
                continue;
            }
            let known = *self.regions.entry(a.region).or_insert(b.region);
            let kind = std::mem::discriminant(&a.next) == std::mem::discriminant(&b.next);
            if a.key != b.key || a.position != b.position || !kind || known != b.region {
                return Err(different);
            }
            open.extend(a.next.edges().zip(b.next.edges()).map(|(a, b)| (a.to, b.to)));
            if let (Some(inner), Some(other)) = (a.region, b.region)
                && a.region != around
            {
                open.push((graph.handlers[inner], graph.handlers[other]));
            }
        }
        self.ends.sort_unstable();
        self.ends.dedup();
        match self.ends[..] {
            [] => Ok(None),
            [end] => Ok(Some(end)),
            [first, ..] if self.ends.iter().all(|&end| self.returns_alike(first, end)) => Ok(Some(first)),
            _ => Err(different),
        }
    }

    /// Returns true if two paths do the same and return: the compiler copies short exits together with their source positions.
    fn returns_alike(&self, a: NodeId, b: NodeId) -> bool {
        let (mut a, mut b) = (&self.graph.nodes[a], &self.graph.nodes[b]);
        for _ in 0..8 {
            if a.key.0 != b.key.0 || a.op != b.op || a.region != b.region {
                return false;
            }
            match (a.next.one(), b.next.one()) {
                (Some(next), Some(other)) => (a, b) = (&self.graph.nodes[next], &self.graph.nodes[other]),
                _ => return a.op == Op::Return,
            }
        }
        false
    }
}

/// Returns the nodes that are reachable from the entry and from the handlers of reachable regions.
pub(crate) fn reachable(graph: &StepGraph<'_>) -> Vec<bool> {
    let mut seen = vec![false; graph.nodes.len()];
    let mut open = vec![graph.entry];
    while let Some(at) = open.pop() {
        if std::mem::replace(&mut seen[at], true) {
            continue;
        }
        open.extend(graph.nodes[at].next.edges().map(|edge| edge.to));
        open.extend(graph.regions.chain(graph.nodes[at].region).map(|region| graph.handlers[region]));
    }
    seen
}
