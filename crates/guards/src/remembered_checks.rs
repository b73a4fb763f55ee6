//! The memory of passing checks: the trails of their segments, and the work that remains when a trail holds.

use std::cell::Cell;

use dynamlir_trails::Trail;

use crate::GuardSet;

/// Work that remains when a trail holds, on an object that the trail exposed.
#[derive(Clone, Copy)]
pub(crate) enum Leaf {
    /// Compare a tensor.
    Tensor { expected: usize, output: Option<usize> },
    /// Put the object among the outputs.
    Output(usize),
    /// Check a node's guards on the object.
    Recheck(usize),
    /// Walk a subtree from its parent, which is the object.
    Subtree(usize),
    /// The root of a segment.
    Portal(usize),
}

pub(crate) struct Record {
    pub trail: Trail,
    pub leaves: Vec<Leaf>,
    /// The output slots of the objects, if the only remaining work is to store them.
    pub outputs: Option<Vec<usize>>,
}

impl Record {
    pub fn new(trail: Trail, leaves: Vec<Leaf>) -> Self {
        let output = |leaf: &Leaf| match leaf {
            Leaf::Output(output) => Some(*output),
            _ => None,
        };
        Self { trail, outputs: leaves.iter().map(output).collect(), leaves }
    }
}

/// The records of one segment: for two roots, since two models may alternate.
#[derive(Default)]
pub(crate) struct Memo {
    pub records: [Option<Record>; 2],
    /// Addresses of the latest roots without a record. One that comes back is worth a recording.
    seen: [usize; 4],
    next: usize,
    /// The number of walks since a record held.
    pub walks: Cell<u32>,
}

/// After this many walks without a record that held, the storage read is unlikely to be the same again. That a root returns proves little:
/// one created anew at each call may come back at the same address.
const MOST_RECORDINGS: u32 = 8;

/// After that, one in this many walks is still recorded.
const RARELY: u32 = 64;

/// The records of all segments.
pub(crate) struct Memos(pub Vec<Memo>);

impl Memos {
    pub fn new(segments: usize) -> Self {
        Self(std::iter::repeat_with(Memo::default).take(segments).collect())
    }
}

/// The work done when trails hold: the number of compared words and taken objects, and what is rechecked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Words of memory that are compared.
    pub words: usize,
    /// Objects that are taken from the trails' ends: for the graph, and for rechecked guards.
    pub objects: usize,
    /// The paths to rechecked values, as Python expressions.
    pub again: Vec<String>,
}

impl Memos {
    /// Summarizes the latest records.
    pub fn summary(&self, set: &GuardSet) -> Remembered {
        let mut sum = Remembered::default();
        for record in self.0.iter().filter_map(|memo| memo.records[0].as_ref()) {
            sum.words += record.trail.len();
            // The root of another segment counts with that segment's words.
            sum.objects += record.leaves.iter().filter(|leaf| !matches!(leaf, Leaf::Portal(_))).count();
            let again = record.leaves.iter().filter_map(|leaf| match leaf {
                Leaf::Recheck(node) | Leaf::Subtree(node) => Some(*node),
                Leaf::Tensor { .. } | Leaf::Output(_) | Leaf::Portal(_) => None,
            });
            sum.again.extend(again.map(|node| set.path_to(node)));
        }
        sum
    }
}

impl Memo {
    /// Counts a walk. Returns true if recording it may be worth its cost.
    pub fn may_record(&self) -> bool {
        let walks = self.walks.get().wrapping_add(1);
        self.walks.set(walks);
        walks <= MOST_RECORDINGS || walks.is_multiple_of(RARELY)
    }

    /// Returns true if a root was seen lately; records that it was seen.
    pub fn returns(&mut self, root: usize) -> bool {
        if self.seen.contains(&root) {
            return true;
        }
        self.seen[self.next] = root;
        self.next = (self.next + 1) % self.seen.len();
        false
    }
}
