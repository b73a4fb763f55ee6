//! Combines consecutive steps into blocks.

use crate::{
    graph::{Edge, Next, Node, NodeId, StepGraph},
    op::Op,
    regions::{Kind, RegionId, Regions},
    unwind::{predecessors, reachable},
};

pub(crate) type BlockId = usize;

/// Consecutive steps in one region. Edges lead to blocks.
#[derive(Clone, Debug)]
pub(crate) struct Block<'a> {
    pub ops: Vec<Op<'a>>,
    pub next: Next,
    pub region: Option<RegionId>,
    /// The stack's depth before it.
    pub depth: u32,
    /// True if it ends by dropping a loop's iterator: the code that follows is after the loop.
    pub breaks: bool,
    /// Its first and its last code unit.
    pub at: u32,
    pub last: u32,
}

/// The blocks of a code object.
#[derive(Clone, Debug)]
pub(crate) struct Blocks<'a> {
    pub all: Vec<Block<'a>>,
    pub entry: BlockId,
    pub regions: Regions,
    /// The first block of each region's handler, if the region is reachable.
    pub handlers: Vec<Option<BlockId>>,
    /// The number of values that a `with` block, and that a loop, keep on the stack.
    pub with_places: u32,
    pub iterator_places: u32,
}

impl<'a> Blocks<'a> {
    /// Cuts the graph into blocks.
    pub fn of(graph: StepGraph<'a>) -> Self {
        let reachable = reachable(&graph);
        let before = predecessors(&graph);
        let drops = iterators_dropped(&graph, &before);
        let mut leads = vec![false; graph.nodes.len()];
        leads[graph.entry] = true;
        for id in 0..graph.nodes.len() {
            if !reachable[id] {
                continue;
            }
            let node = &graph.nodes[id];
            // A loop's head is a separate block, even if nothing loops.
            leads[id] |= matches!(node.next, Next::For { .. });
            for region in graph.regions.chain(node.region) {
                leads[graph.handlers[region]] = true;
            }
            let single = node.next.one().filter(|&next| {
                let next = &graph.nodes[next];
                // The end of a handler is a separate block, so that paths to it visibly meet there.
                next.region == node.region && next.op != Op::Reraise && node.op != Op::Reraise && !drops[id]
            });
            for edge in node.next.edges() {
                leads[edge.to] |= single.is_none() || before[edge.to].iter().filter(|&&from| reachable[from]).count() > 1;
            }
        }
        let mut block_of = vec![None; graph.nodes.len()];
        let firsts: Vec<NodeId> = (0..graph.nodes.len()).filter(|&id| leads[id] && reachable[id]).collect();
        for (block, &first) in firsts.iter().enumerate() {
            block_of[first] = Some(block);
        }
        let all = firsts.iter().map(|&first| block(&graph, &block_of, &drops, first)).collect();
        let handlers = graph.handlers.iter().map(|&handler| block_of[handler]).collect();
        let StepGraph { with_places, iterator_places, entry, regions, .. } = graph;
        Self { all, entry: block_of[entry].unwrap_or(0), regions, handlers, with_places, iterator_places }
    }

    /// Returns true if the loop at a block keeps a second value on the stack, above its iterator.
    pub fn has_place(&self, header: BlockId) -> bool {
        self.iterator_places == 2 && matches!(self.all[header].next, Next::For { is_async: false, .. })
    }

    /// Returns the number of edges to each reachable block, including the entry and handlers.
    pub fn incoming(&self) -> Vec<usize> {
        let mut count = vec![0; self.all.len()];
        count[self.entry] += 1;
        for handler in self.handlers.iter().flatten() {
            count[*handler] += 1;
        }
        for block in self.order() {
            for edge in self.all[block].next.edges() {
                count[edge.to] += 1;
            }
        }
        count
    }

    /// Returns the possible successors of a block: its edges, then the handlers of the regions that it is in.
    pub fn successors(&self, block: BlockId) -> Vec<BlockId> {
        let mut found: Vec<BlockId> = self.all[block].next.edges().map(|edge| edge.to).collect();
        let handled = self.regions.chain(self.all[block].region).filter(|&region| self.regions.0[region].kind != Kind::Handling);
        found.extend(handled.filter_map(|region| self.handlers[region]));
        found
    }

    /// Returns the reachable blocks, each before its successors except for loops.
    pub fn order(&self) -> Vec<BlockId> {
        let mut seen = vec![false; self.all.len()];
        let mut order = Vec::new();
        seen[self.entry] = true;
        let mut open = vec![(self.entry, self.successors(self.entry), 0)];
        while let Some((block, successors, visited)) = open.last_mut() {
            if let Some(&next) = successors.get(*visited) {
                *visited += 1;
                if !std::mem::replace(&mut seen[next], true) {
                    let after = self.successors(next);
                    open.push((next, after, 0));
                }
            } else {
                order.push(*block);
                open.pop();
            }
        }
        order.reverse();
        order
    }
}

fn block<'a>(graph: &StepGraph<'a>, block_of: &[Option<BlockId>], drops: &[bool], first: NodeId) -> Block<'a> {
    let node = &graph.nodes[first];
    let mut block =
        Block { ops: Vec::new(), next: Next::End, region: node.region, depth: node.depth, breaks: false, at: node.unit, last: node.unit };
    let mut at = first;
    loop {
        let node = &graph.nodes[at];
        block.last = block.last.max(node.unit);
        if node.op != Op::Branch {
            block.ops.push(node.op.clone());
        }
        match node.next.one() {
            Some(next) if block_of[next].is_none() => at = next,
            _ => break,
        }
    }
    block.breaks = drops[at];
    block.next = graph.nodes[at].next.clone();
    for Edge { to, .. } in block.next.edges_mut() {
        *to = block_of[*to].unwrap_or(0);
    }
    block
}

/// Returns the steps that drop a loop's iterator for `break`: no step before them leaves a value that they could drop.
fn iterators_dropped(graph: &StepGraph<'_>, before: &[Vec<NodeId>]) -> Vec<bool> {
    // The last of the loop's slots is the iterator itself.
    let depth = |node: &Node<'_>| match node.next {
        Next::For { is_async: false, .. } => Some(node.depth.saturating_sub(graph.iterator_places - 1)),
        Next::For { .. } => Some(node.depth),
        _ => None,
    };
    let depths: Vec<u32> = graph.nodes.iter().filter_map(depth).collect();
    let leaves_value = |id: &NodeId| graph.nodes[*id].op.effect().1 > 0 && graph.nodes[*id].op != Op::Branch;
    let drops = |(id, node): (usize, &Node<'_>)| node.op == Op::Pop && depths.contains(&node.depth) && !before[id].iter().any(leaves_value);
    graph.nodes.iter().enumerate().map(drops).collect()
}
