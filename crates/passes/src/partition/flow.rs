//! The most that flows through a network, and where it is held up (Dinic 1970).
//!
//! A partition's network has an edge from the source to each value, so levels are counted from the sink: a way that begins at the source
//! never enters what leads nowhere.

use std::collections::VecDeque;

/// Nodes are numbers from 0; edges carry no more than their capacity.
pub struct Network {
    /// The edges that leave each node.
    edges: Vec<Vec<usize>>,
    /// Edge `e` and the way back, `e ^ 1`, stand side by side: where each leads, and how much more it can carry.
    target: Vec<usize>,
    left: Vec<u64>,
}

/// The level of a node from which nothing leads to the sink.
const NOWHERE: usize = usize::MAX;

impl Network {
    /// So many nodes, and no edges.
    pub fn new(nodes: usize) -> Self {
        Self { edges: vec![Vec::new(); nodes], target: Vec::new(), left: Vec::new() }
    }

    /// Adds an edge of this capacity.
    pub fn add(&mut self, from: usize, to: usize, capacity: u64) {
        for (from, to, left) in [(from, to, capacity), (to, from, 0)] {
            self.edges[from].push(self.target.len());
            self.target.push(to);
            self.left.push(left);
        }
    }

    /// Sends as much as possible, and returns for each node whether the source can still reach it. These are the same nodes, the fewest that
    /// a minimum cut leaves on the source's side, whatever ways are taken.
    pub fn cut(mut self, source: usize, sink: usize) -> Vec<bool> {
        loop {
            let levels = self.levels(source, sink);
            if levels[source] == NOWHERE {
                return self.reached(source);
            }
            self.fill(source, sink, &levels);
        }
    }

    /// How many edges lead from each node to the sink, where that is fewer than from the source, and of the source itself.
    fn levels(&self, source: usize, sink: usize) -> Vec<usize> {
        let mut levels = vec![NOWHERE; self.edges.len()];
        levels[sink] = 0;
        let mut queue = VecDeque::from([sink]);
        while let Some(node) = queue.pop_front().filter(|_| levels[source] == NOWHERE) {
            for &edge in &self.edges[node] {
                let from = self.target[edge];
                if levels[from] == NOWHERE && self.left[edge ^ 1] > 0 {
                    levels[from] = levels[node] + 1;
                    queue.push_back(from);
                }
            }
        }
        levels
    }

    /// Sends along ways that go down level by level, until there is none.
    fn fill(&mut self, source: usize, sink: usize, levels: &[usize]) {
        // The edges of each node before this one are full, or lead to such.
        let mut next = vec![0; self.edges.len()];
        let mut way: Vec<usize> = Vec::new();
        loop {
            let node = way.last().map_or(source, |&edge| self.target[edge]);
            if node == sink {
                let most = way.iter().map(|&edge| self.left[edge]).min().unwrap_or(0);
                for &edge in &way {
                    self.left[edge] -= most;
                    self.left[edge ^ 1] += most;
                }
                let full = way.iter().position(|&edge| self.left[edge] == 0).unwrap_or(0);
                way.truncate(full);
                continue;
            }
            let goes_on =
                |edge: usize| self.left[edge] > 0 && levels[self.target[edge]] != NOWHERE && levels[self.target[edge]] + 1 == levels[node];
            match self.edges[node][next[node]..].iter().position(|&edge| goes_on(edge)) {
                Some(at) => {
                    next[node] += at;
                    way.push(self.edges[node][next[node]]);
                }
                None => match way.pop() {
                    Some(edge) => next[self.target[edge ^ 1]] += 1,
                    None => return,
                },
            }
        }
    }

    fn reached(&self, source: usize) -> Vec<bool> {
        let mut reached = vec![false; self.edges.len()];
        reached[source] = true;
        let mut open = vec![source];
        while let Some(node) = open.pop() {
            for &edge in self.edges[node].iter().filter(|&&edge| self.left[edge] > 0) {
                if !std::mem::replace(&mut reached[self.target[edge]], true) {
                    open.push(self.target[edge]);
                }
            }
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::Network;

    /// The cheapest of all cuts of a small network, and the nodes that are on the source's side in each of these.
    fn cheapest(nodes: usize, edges: &[(usize, usize, u64)]) -> (u64, Vec<bool>) {
        let cost = |side: usize| -> u64 {
            let is_cut = |&&(from, to, _): &&(usize, usize, u64)| side >> from & 1 == 1 && side >> to & 1 == 0;
            edges.iter().filter(is_cut).map(|&(_, _, capacity)| capacity).sum()
        };
        let sides: Vec<usize> = (0..1 << nodes).filter(|side| side & 3 == 1).collect();
        let least = sides.iter().map(|&side| cost(side)).min().unwrap_or(0);
        let common = sides.into_iter().filter(|&side| cost(side) == least).fold(usize::MAX, |common, side| common & side);
        (least, (0..nodes).map(|node| common >> node & 1 == 1).collect())
    }

    #[test]
    fn cuts_are_the_cheapest_and_leave_the_source_the_fewest_nodes() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |end: u64| {
            // Marsaglia's xorshift (2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) % end
        };
        let mut flows = 0;
        for case in 0..400 {
            let nodes = 2 + below(8);
            let mut node = || usize::try_from(below(nodes)).unwrap_or(0);
            let ends: Vec<(usize, usize)> = (0..3 * nodes).map(|_| (node(), node())).collect();
            let edges: Vec<(usize, usize, u64)> =
                ends.into_iter().map(|(from, to)| (from, to, [0, 1, 1, 2, 5, 1 << 60][below(6) as usize])).collect();
            let count = usize::try_from(nodes).unwrap_or(0);
            let mut network = Network::new(count);
            edges.iter().for_each(|&(from, to, capacity)| network.add(from, to, capacity));
            let (least, side) = cheapest(count, &edges);
            assert_eq!(network.cut(0, 1), side, "case {case}: {edges:?}");
            flows += usize::from(least > 0);
        }
        assert!(flows > 100, "{flows}");
    }
}
