//! The ledger: what a capture has used of what existed, held against what its guards say.
//!
//! Whoever uses up something from outside says so: a value that becomes a constant or decides something, what C code finds in a container,
//! the function that is called. None of that is a guard. When the capture is done, each of these demands has to follow from the guards
//! alone, and so has what the paths to all that was used take for granted ([`steps`]); one that does not is *open*, and the entry would
//! answer calls that it was not made for.
//!
//! A demand is kept as a number and a facet, and what guards say of a source as a few bits in an array, so that a capture does not feel it.

mod covered;
mod implied;
mod steps;

use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use self::covered::{Covered, Kind, says};
pub use self::implied::Forgotten;
use crate::{DictKey, Guard, GuardBuilder, Source, SourceId, builder::State};

/// What is used of what is at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Facet {
    /// The value: it is a constant from then on.
    Value,
    /// What asking for the value came to: whether it is true, less than another one.
    Outcome,
    /// Which items there are, and of those that are containers of Python's own the same; of other objects, of which class they are.
    Items,
    /// All that C code finds, in instances of subclasses as well.
    Contents,
    /// How many items there are, or which keys.
    Shape,
    /// Of which class it is.
    Class,
    /// Which object it is, of what has a name: a class, a module, a function.
    Itself,
    /// The code of a function, which was run.
    Code,
    /// The metadata of a tensor, which the graph was made for.
    Metadata,
    /// What a lookup has found there, or that it has found nothing.
    Found,
    /// That nobody notices when it is gone.
    Unwatched,
    /// Nothing: it is only written there, whatever was there before; or it is torch's own, of what nobody patches.
    Nothing,
}

impl Facet {
    /// In words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Value => "the value of",
            Self::Outcome => "what is asked of",
            Self::Items | Self::Contents => "what is in",
            Self::Shape => "how much is in",
            Self::Class => "the class of",
            Self::Itself => "which object is at",
            Self::Code => "the code of",
            Self::Metadata => "the metadata of",
            Self::Unwatched => "who watches",
            Self::Found | Self::Nothing => "what is found at",
        }
    }
}

/// What was used, and does not follow from the guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// The innermost place of which too little is said.
    pub place: SourceId,
    /// What is used of it.
    pub facet: Facet,
    /// Which of the demands it is; None of what a path takes for granted.
    pub demand: Option<usize>,
}

/// A check of the demands.
struct Check<'a> {
    state: &'a State,
    covered: Vec<Covered>,
    /// Sources that are one object, by each of them.
    twins: FxHashMap<SourceId, Vec<SourceId>>,
    /// What is known already, by facet: 0 nothing, 1 that it is covered, 2 that it is not.
    known: [Vec<u8>; 2],
}

impl GuardBuilder {
    /// Says that something is used of what is at a source.
    pub fn demand(&self, id: SourceId, facet: Facet) {
        let mut state = self.state.borrow_mut();
        if state.demands.last() != Some(&(id, facet)) {
            state.demands.push((id, facet));
        }
    }

    /// How often something was used, once each time that another thing was.
    #[must_use]
    pub fn demands(&self) -> usize {
        self.state.borrow().demands.len()
    }

    /// How many sources are known.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.state.borrow().sources.len()
    }

    /// What was used and does not follow from the guards.
    #[must_use]
    pub fn open(&self, py: Python<'_>) -> Vec<Open> {
        let state = self.state.borrow();
        let mut check = Check::new(py, &state);
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

impl<'a> Check<'a> {
    fn new(py: Python<'_>, state: &'a State) -> Self {
        let (covered, twins) = covered::covered(py, state);
        let count = covered.len();
        Self { state, covered, twins, known: [vec![0; count], vec![0; count]] }
    }

    /// Returns true if a demand follows from the guards; else what is open is added.
    fn holds(&mut self, id: SourceId, facet: Facet, open: &mut Vec<(SourceId, Facet)>) -> bool {
        if let Source::Computed(computed) = self.state.sources.get(id) {
            let reached: Vec<_> = computed.reached().map(|(source, _)| source).collect();
            let mut holds = self.covered[id.index()].says & says::ASKED != 0 && facet == Facet::Outcome;
            if !holds {
                holds = true;
                for source in reached {
                    // Each is asked, so that all that is open is listed.
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
        // What holds itself is as well covered as the rest of it.
        self.known[memo][id.index()] = 1;
        let holds = self.is_exact(id) || self.holds_within(id, facet, open);
        if !holds {
            self.known[memo][id.index()] = 2;
        }
        holds
    }

    /// Returns true if guards at a place say what is used of it.
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
            // As an element it is of a class, and no more is said.
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
            // That one of its places is covered is enough.
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

    /// Returns true if guards say which value is at a source: there, or of a constant that it is a part of.
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

    /// Returns true if the value of an instance of a class of its own is guarded by what says it: text by what its `encode` answers, a number
    /// by what it is as a plain one, a member of an enumeration by its name.
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
