//! Dominators: the blocks through which every path from the entry leads.

use super::Flow;

/// The dominator tree (Cooper, Harvey and Kennedy: "A simple, fast dominance algorithm").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dominators {
    /// The immediate dominator of each block. The entry is its own; unreachable blocks have none.
    immediate: Vec<Option<usize>>,
    /// The distance of each block from the entry, in the tree.
    depth: Vec<u32>,
}

impl Dominators {
    /// Computes the tree of a code object's graph, over edges of all kinds.
    pub fn of(flow: &Flow) -> Self {
        Self::over(&flow.reverse_postorder(), flow.blocks.len(), |block| &flow.blocks[block].predecessors)
    }

    /// Computes the tree of any graph of `count` blocks. `order` lists the blocks reachable from its first element, in reverse postorder.
    pub fn over<'a>(order: &[usize], count: usize, predecessors: impl Fn(usize) -> &'a [usize]) -> Self {
        let mut rank = vec![usize::MAX; count];
        for (position, &block) in order.iter().enumerate() {
            rank[block] = position;
        }
        let mut immediate: Vec<Option<usize>> = vec![None; count];
        if let Some(&entry) = order.first() {
            immediate[entry] = Some(entry);
        }
        let mut changed = true;
        while changed {
            changed = false;
            for &block in order.iter().skip(1) {
                let known = predecessors(block).iter().copied().filter(|&from| immediate[from].is_some());
                let new = known.reduce(|a, b| meet(&immediate, &rank, a, b));
                changed |= new != immediate[block];
                immediate[block] = new;
            }
        }
        let mut depth = vec![0; count];
        for &block in order.iter().skip(1) {
            depth[block] = immediate[block].map_or(0, |above| depth[above] + 1);
        }
        Self { immediate, depth }
    }

    /// Returns the closest strict dominator; `None` for the entry and for unreachable blocks.
    pub fn immediate(&self, block: usize) -> Option<usize> {
        self.immediate[block].filter(|&above| above != block)
    }

    /// Returns true if every path from the entry to `block` leads through `above`. A block dominates itself.
    pub fn dominates(&self, above: usize, block: usize) -> bool {
        let mut at = block;
        while self.depth[at] > self.depth[above] {
            match self.immediate(at) {
                Some(up) => at = up,
                None => return false,
            }
        }
        at == above
    }
}

/// Returns the closest block that dominates both.
fn meet(immediate: &[Option<usize>], rank: &[usize], mut a: usize, mut b: usize) -> usize {
    while a != b {
        while rank[a] > rank[b] {
            a = immediate[a].unwrap_or(a);
        }
        while rank[b] > rank[a] {
            b = immediate[b].unwrap_or(b);
        }
    }
    a
}
