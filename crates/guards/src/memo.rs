//! What is remembered of checks that passed: the trails of their segments, and what is left to do where one holds.

use std::cell::Cell;

use dynamlir_trails::Trail;

use crate::GuardSet;

/// What is left to do where a trail holds, with the object that it exposed.
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
    /// Where the objects go, if all that is left to do is to put them among the outputs.
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

/// What is remembered of one segment: for two roots, since two models may take turns.
#[derive(Default)]
pub(crate) struct Memo {
    pub records: [Option<Record>; 2],
    /// Addresses of the latest roots without a record. One that comes back is worth a recording.
    seen: [usize; 4],
    next: usize,
    /// How many walks there were since a record held.
    pub walks: Cell<u32>,
}

/// After so many walks without a record that held, what they read is not likely to be the same again: one that is made anew at each call
/// comes back at the same address.
const MOST_RECORDINGS: u32 = 8;

/// Of the walks after these, one of so many is recorded nevertheless.
const RARELY: u32 = 64;

/// What is remembered of all segments.
pub(crate) struct Memos(pub Vec<Memo>);

impl Memos {
    pub fn new(segments: usize) -> Self {
        Self(std::iter::repeat_with(Memo::default).take(segments).collect())
    }
}

/// What is done where trails hold: how many words are compared and objects taken, and what is looked at again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Words of memory that are compared.
    pub words: usize,
    /// Objects that are taken from where the trails lead: for the graph, and for the guards that are looked at again.
    pub objects: usize,
    /// The paths to what is looked at again, as Python expressions.
    pub again: Vec<String>,
}

impl Memos {
    /// What the latest records say.
    pub fn summary(&self, set: &GuardSet) -> Remembered {
        let mut sum = Remembered::default();
        for record in self.0.iter().filter_map(|memo| memo.records[0].as_ref()) {
            sum.words += record.trail.len();
            // Another segment's root is where that one's words begin.
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
    /// Counts a walk. Whether recording it may be worth what it costs.
    pub fn may_record(&self) -> bool {
        let walks = self.walks.get().wrapping_add(1);
        self.walks.set(walks);
        walks <= MOST_RECORDINGS || walks.is_multiple_of(RARELY)
    }

    /// Whether a root came by lately; from now on it has.
    pub fn returns(&mut self, root: usize) -> bool {
        if self.seen.contains(&root) {
            return true;
        }
        self.seen[self.next] = root;
        self.next = (self.next + 1) % self.seen.len();
        false
    }
}
