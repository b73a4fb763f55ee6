//! The ledger: what a capture has used of existing objects, checked against what its guards establish.
//!
//! Code that uses up something from outside records a *demand*: a value that becomes a constant or decides something, the contents that C
//! code finds in a container, the function that is called. A demand is not a guard. When the capture is done, each demand must follow from
//! the guards alone, and so must the requirements of the paths to all used objects ([`steps`]). A demand that does not is *open*: the entry
//! would answer calls for which it was not created.
//!
//! A demand is stored as a number and a facet, and the facts about a source as a few bits in an array, so that the cost to a capture is
//! negligible.

mod facts;
mod implied;
mod steps;

use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use self::facts::{Covered, Kind, says};
pub use self::implied::Forgotten;
use crate::{DictKey, Guard, GuardBuilder, Source, SourceId, builder::State};

/// The aspect of an object that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Facet {
    /// The value: it is a constant from then on.
    Value,
    /// The answer to a question about the value: its truth, or its order relative to another value.
    Outcome,
    /// The items of a container, and recursively those of builtin containers in it; for other objects in it, their classes.
    Items,
    /// Everything that C code finds, also in instances of subclasses.
    Contents,
    /// The number of items, or the keys.
    Shape,
    /// The class.
    Class,
    /// The identity of an object with a name: a class, a module, a function.
    Itself,
    /// The code of a function, which was run.
    Code,
    /// The metadata of a tensor, for which the graph was compiled.
    Metadata,
    /// The object that a lookup has found, or that it has found nothing.
    Found,
    /// Its death is unobserved.
    Unwatched,
    /// Nothing: the place is only written, regardless of its former value; or it belongs to torch, in a part that is never patched.
    Nothing,
}

impl Facet {
    /// Returns the facet as text.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Value => "the value of",
            Self::Outcome => "the answer of",
            Self::Items | Self::Contents => "the contents of",
            Self::Shape => "the number of items in",
            Self::Class => "the class of",
            Self::Itself => "the identity of",
            Self::Code => "the code of",
            Self::Metadata => "the metadata of",
            Self::Unwatched => "the finalizers and weak references of",
            Self::Found | Self::Nothing => "the result of looking up",
        }
    }
}

/// A demand that does not follow from the guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// The innermost place with insufficient guards.
    pub place: SourceId,
    /// The aspect of it that is used.
    pub facet: Facet,
    /// The index of the demand; None for a requirement of a path.
    pub demand: Option<usize>,
}

/// A check of the demands.
struct LedgerProof<'a> {
    state: &'a State,
    covered: Vec<Covered>,
    /// The sources that are one object, by each of them.
    twins: FxHashMap<SourceId, Vec<SourceId>>,
    /// The results known so far, by facet: 0 unknown, 1 covered, 2 not covered.
    known: [Vec<u8>; 2],
}

impl GuardBuilder {
    /// Records that an aspect of the object at a source is used.
    pub fn demand(&self, id: SourceId, facet: Facet) {
        let mut state = self.state.borrow_mut();
        if state.demands.last() != Some(&(id, facet)) {
            state.demands.push((id, facet));
        }
    }

    /// Returns the number of recorded demands; equal ones in a row count once.
    #[must_use]
    pub fn demands(&self) -> usize {
        self.state.borrow().demands.len()
    }

    /// Returns the number of known sources.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.state.borrow().sources.len()
    }

    /// Returns the demands that do not follow from the guards.
    #[must_use]
    pub fn open(&self, py: Python<'_>) -> Vec<Open> {
        let state = self.state.borrow();
        let mut check = LedgerProof::new(py, &state);
        let mut open = Vec::new();
        for (number, (id, facet)) in state.demands.iter().enumerate() {
            let mut found = Vec::new();
            if !check.holds(*id, *facet, &mut found) {
                open.extend(found.into_iter().map(|(place, facet)| Open { place, facet, demand: Some(number) }));
            }
        }
        check.check_paths(&mut open);
        open
    }
}

impl<'a> LedgerProof<'a> {
    fn new(py: Python<'_>, state: &'a State) -> Self {
        let (covered, twins) = facts::covered(py, state);
        let count = covered.len();
        Self { state, covered, twins, known: [vec![0; count], vec![0; count]] }
    }

    /// Returns true if a demand follows from the guards; otherwise adds the open demands.
    fn holds(&mut self, id: SourceId, facet: Facet, open: &mut Vec<(SourceId, Facet)>) -> bool {
        if let Source::Computed(computed) = self.state.sources.get(id) {
            let reached: Vec<_> = computed.reached().map(|(source, _)| source).collect();
            let mut holds = self.covered[id.index()].says & says::ASKED != 0 && facet == Facet::Outcome;
            if !holds {
                holds = true;
                for source in reached {
                    // All operands are checked, so that all open demands are listed.
                    holds &= self.holds(source, facet, open);
                }
            }
            return holds;
        }
        let memo = match facet {
            Facet::Items => 0,
            Facet::Contents => 1,
            _ => {
                let holds = self.holds_here(id, facet);
                if !holds {
                    open.push((id, facet));
                }
                return holds;
            }
        };
        match self.known[memo][id.index()] {
            1 => return true,
            2 => return false,
            _ => {}
        }
        // An object that contains itself is as well covered as the rest of it.
        self.known[memo][id.index()] = 1;
        let holds = self.is_exact(id) || self.holds_within(id, facet, open);
        if !holds {
            self.known[memo][id.index()] = 2;
        }
        holds
    }

    /// Returns true if guards at a place establish the aspect used.
    fn holds_here(&self, id: SourceId, facet: Facet) -> bool {
        let at = self.covered[id.index()];
        match facet {
            Facet::Value => self.is_exact(id),
            Facet::Outcome => self.is_exact(id) || at.says & says::ASKED != 0,
            Facet::Shape => {
                self.is_exact(id)
                    || match at.kind {
                        _ if !self.says(id, Facet::Class) => false,
                        Kind::Sequence => at.says & says::COUNTED != 0,
                        Kind::Dict | Kind::Set => at.says & (says::KEYED | says::COUNTED) != 0,
                        Kind::Plain | Kind::Value => true,
                    }
            }
            Facet::Code => at.says & says::CODE != 0,
            Facet::Metadata => at.says & says::TENSOR != 0,
            Facet::Found => at.says != 0,
            Facet::Unwatched => self.is_exact(id) || at.says & says::UNWATCHED != 0,
            Facet::Nothing => true,
            Facet::Class | Facet::Itself | Facet::Items | Facet::Contents => self.says(id, facet),
        }
    }

    fn holds_within(&mut self, id: SourceId, facet: Facet, open: &mut Vec<(SourceId, Facet)>) -> bool {
        let twins = self.twins.get(&id).cloned().unwrap_or_else(|| vec![id]);
        let at = self.covered[id.index()];
        let is_open = match at.kind {
            _ if at.says & says::TYPED == 0 => true,
            Kind::Plain => false,
            Kind::Value => !self.is_asked(&twins),
            // For an element, its class is required, and nothing more.
            _ if facet == Facet::Items && !at.builtin => false,
            Kind::Sequence => at.says & says::COUNTED == 0,
            Kind::Dict | Kind::Set => at.says & says::KEYED == 0,
        };
        if is_open {
            open.push((id, facet));
            return false;
        }
        let shallow = facet == Facet::Items && !at.builtin;
        let items: Vec<Vec<Source>> = match at.kind {
            _ if shallow => Vec::new(),
            Kind::Sequence => (0..at.length).map(|at| twins.iter().map(|twin| Source::Index(*twin, at)).collect()).collect(),
            Kind::Dict => match &self.state.guards[at.keys as usize].1 {
                Guard::DictKeys(keys) => keys.iter().enumerate().map(|(at, key)| values_at(&twins, at as u32, key)).collect(),
                _ => Vec::new(),
            },
            Kind::Plain | Kind::Value | Kind::Set => Vec::new(),
        };
        let mut holds = true;
        for places in items {
            let known: Vec<_> = places.iter().filter_map(|place| self.state.sources.find(place)).collect();
            // It suffices that one of its places is covered.
            let mut found = Vec::new();
            if !known.into_iter().any(|place| self.holds(place, facet, &mut found)) {
                if found.is_empty() {
                    found.push((id, facet));
                }
                open.append(&mut found);
                holds = false;
            }
        }
        holds
    }

    /// Returns true if guards establish the value at a source: either there, or for a constant of which it is a part.
    fn is_exact(&self, id: SourceId) -> bool {
        self.covered[id.index()].says & says::EXACT != 0 || self.is_constant(id)
    }

    /// Returns true if a source is a part of a constant.
    fn is_constant(&self, id: SourceId) -> bool {
        let mut at = id;
        while let Source::Index(base, _) | Source::GetAttr(base, _) = self.state.sources.get(at) {
            if self.covered[base.index()].says & says::CONSTANT != 0 {
                return true;
            }
            at = *base;
        }
        false
    }

    /// Returns true if the value of an instance of a subclass is guarded through an equivalent: a string through the result of its
    /// `encode`, a number through its plain value, an enumeration member through its name.
    fn is_asked(&self, twins: &[SourceId]) -> bool {
        let known = |source: Source| self.state.sources.find(&source);
        let asked = |twin: &SourceId| {
            let named = known(Source::Attr(*twin, "_name_".into())).is_some_and(|name| self.is_exact(name));
            named || ["encode", "__index__", "__float__"].iter().any(|method| known(Source::GetAttr(*twin, (*method).into())).is_some())
        };
        twins.iter().any(asked)
    }
}

fn values_at(twins: &[SourceId], at: u32, key: &DictKey) -> Vec<Source> {
    let by_key = |twin: &SourceId| match key {
        DictKey::Constant(key) => Some(Source::Item(*twin, key.clone())),
        DictKey::Any => None,
    };
    twins.iter().filter_map(by_key).chain(twins.iter().map(|twin| Source::DictValue(*twin, at))).collect()
}
