//! The ledger: what a capture has used of what existed, held against what its guards say.
//!
//! Whoever uses up something from outside says so: a value that becomes a constant, or what C code finds in a container. None of that is a
//! guard. When the capture is done, each of these demands has to follow from the guards alone; one that does not is *open*, and the entry
//! would answer calls that it was not made for.
//!
//! A demand is kept as a number and a facet, and what guards say of a source as a few bits in an array, so that a capture does not feel it.

use std::collections::HashMap;

use pyo3::{
    prelude::*,
    types::{PyByteArray, PyBytes, PyComplex, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet, PyString, PyTuple, PyType},
};

use crate::{DictKey, Guard, GuardBuilder, Relation, Source, SourceId, builder::State};

/// What is used of what is at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Facet {
    /// The value: it is a constant from then on, or has decided something.
    Value,
    /// Which items there are, and of those that are containers of Python's own the same; of other objects, of which class they are.
    Items,
    /// All that C code finds, in instances of subclasses as well.
    Contents,
}

/// A guard that says which one it is, of what never changes.
const EXACT: u8 = 1;
/// A guard of the type.
const TYPED: u8 = 1 << 1;
/// A guard of the length.
const COUNTED: u8 = 1 << 2;
/// A guard of the keys, or of the elements of a set.
const KEYED: u8 = 1 << 3;
/// A guard that it is a constant, and so is all that is in it.
const CONSTANT: u8 = 1 << 4;

/// What C code finds in an instance of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// Nothing that Python code does not show.
    #[default]
    Plain,
    /// The value: numbers, text.
    Value,
    /// Items by their positions.
    Sequence,
    /// Values by keys.
    Dict,
    /// Elements.
    Set,
}

/// What the guards say of one source.
#[derive(Clone, Copy, Default)]
struct Covered {
    says: u8,
    kind: Kind,
    /// Whether the class is one of Python's own.
    builtin: bool,
    length: u32,
    /// Where among all guards the one of the keys stands.
    keys: u32,
}

/// A check of the demands.
struct Check<'a> {
    state: &'a State,
    covered: Vec<Covered>,
    /// Sources that are one object, by each of them.
    twins: HashMap<SourceId, Vec<SourceId>>,
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

    /// The demands that do not follow from the guards: what is used, and the innermost place of which too little is said.
    #[must_use]
    pub fn open(&self, py: Python<'_>) -> Vec<(SourceId, Facet)> {
        let state = self.state.borrow();
        if state.demands.is_empty() {
            return Vec::new();
        }
        let mut check = Check::new(py, &state);
        let mut open = Vec::new();
        for (id, facet) in &state.demands {
            if !check.holds(*id, *facet, &mut open) {
                open.dedup();
            }
        }
        open
    }

    /// Forgets one of the guards, by its number: for tests of what notices that. False where there is none of that number.
    #[must_use]
    pub fn forget(&self, number: usize) -> bool {
        let mut state = self.state.borrow_mut();
        let known = number < state.guards.len();
        let forgotten = known.then(|| state.guards.remove(number));
        // What is dropped may run Python code, which may come back here.
        drop(state);
        drop(forgotten);
        known
    }
}

impl<'a> Check<'a> {
    fn new(py: Python<'_>, state: &'a State) -> Self {
        let count = state.sources.len();
        let mut covered = vec![Covered::default(); count];
        let mut kinds = HashMap::new();
        let mut kind = |class: &Bound<'_, PyAny>| *kinds.entry(class.as_ptr() as usize).or_insert_with(|| kind_of(class));
        for (number, (id, guard)) in state.guards.iter().enumerate() {
            let at = &mut covered[id.index()];
            match guard {
                Guard::Equals(_) => at.says |= EXACT | CONSTANT,
                Guard::Tensor(_) | Guard::Absent => at.says |= EXACT,
                Guard::Identity(object) => {
                    let object = object.bind(py);
                    (at.kind, at.builtin) = kind(object.get_type().as_any());
                    let changes =
                        matches!(at.kind, Kind::Sequence | Kind::Dict | Kind::Set) && !object.is_exact_instance_of::<PyFrozenSet>();
                    at.says |= if changes { TYPED } else { EXACT | TYPED };
                }
                Guard::Type(class) => {
                    at.says |= TYPED;
                    (at.kind, at.builtin) = kind(class.bind(py));
                }
                Guard::Length(length) => {
                    at.says |= COUNTED;
                    at.length = *length as u32;
                }
                Guard::DictKeys(_) => {
                    at.says |= KEYED;
                    at.keys = number as u32;
                }
                Guard::SetElements(_) | Guard::SetOrder(_) => at.says |= KEYED,
                Guard::Present | Guard::Code(_) | Guard::Compares(_) | Guard::Unwatched => {}
            }
        }
        Self { state, covered, twins: twins(state), known: [vec![0; count], vec![0; count]] }
    }

    /// Whether a demand follows from the guards; else what is open is added.
    fn holds(&mut self, id: SourceId, facet: Facet, open: &mut Vec<(SourceId, Facet)>) -> bool {
        if let Source::Computed(computed) = self.state.sources.get(id) {
            let reached: Vec<_> = computed.reached().map(|(source, _)| source).collect();
            let mut holds = true;
            for source in reached {
                // Each is asked, so that all that is open is listed.
                holds &= self.holds(source, facet, open);
            }
            return holds;
        }
        let memo = match facet {
            Facet::Value => {
                let holds = self.is_exact(id);
                if !holds {
                    open.push((id, facet));
                }
                return holds;
            }
            Facet::Items => 0,
            Facet::Contents => 1,
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

    fn holds_within(&mut self, id: SourceId, facet: Facet, open: &mut Vec<(SourceId, Facet)>) -> bool {
        let twins = self.twins.get(&id).cloned().unwrap_or_else(|| vec![id]);
        let says = twins.iter().fold(0, |says, twin| says | self.covered[twin.index()].says);
        let find = |wanted: u8| twins.iter().map(|twin| self.covered[twin.index()]).find(|at| at.says & wanted != 0).unwrap_or_default();
        let (typed, counted, keyed) = (find(TYPED), find(COUNTED), find(KEYED));
        let is_open = match typed.kind {
            _ if says & TYPED == 0 => true,
            Kind::Plain => false,
            Kind::Value => !self.is_asked(&twins),
            // As an element it is of a class, and no more is said.
            _ if facet == Facet::Items && !typed.builtin => false,
            Kind::Sequence => says & COUNTED == 0,
            Kind::Dict | Kind::Set => says & KEYED == 0,
        };
        if is_open {
            open.push((id, facet));
            return false;
        }
        let shallow = facet == Facet::Items && !typed.builtin;
        let items: Vec<Vec<Source>> = match typed.kind {
            _ if shallow => Vec::new(),
            Kind::Sequence => (0..counted.length).map(|at| twins.iter().map(|twin| Source::Index(*twin, at)).collect()).collect(),
            Kind::Dict => match &self.state.guards[keyed.keys as usize].1 {
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

    /// Whether guards say which value is at a source: there, or of a constant that it is a part of.
    fn is_exact(&self, id: SourceId) -> bool {
        let says = |id: SourceId| self.covered[id.index()].says;
        let twins = self.twins.get(&id).map_or(&[][..], Vec::as_slice);
        if says(id) & EXACT != 0 || twins.iter().any(|twin| says(*twin) & EXACT != 0) {
            return true;
        }
        let mut at = id;
        while let Source::Index(base, _) | Source::GetAttr(base, _) = self.state.sources.get(at) {
            if says(*base) & CONSTANT != 0 {
                return true;
            }
            at = *base;
        }
        false
    }

    /// Whether the value of an instance of a class of its own is guarded by what says it: text by what its `encode` answers, a member of an
    /// enumeration by its name.
    fn is_asked(&self, twins: &[SourceId]) -> bool {
        let known = |source: Source| self.state.sources.find(&source);
        let asked = |twin: &SourceId| {
            let named = known(Source::Attr(*twin, "_name_".into())).is_some_and(|name| self.is_exact(name));
            named || known(Source::GetAttr(*twin, "encode".into())).is_some()
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

/// The sources that guards say are one object, by each of them.
fn twins(state: &State) -> HashMap<SourceId, Vec<SourceId>> {
    let mut found: HashMap<SourceId, Vec<SourceId>> = HashMap::new();
    for relation in &state.relations {
        let Relation::Same(a, b) = relation else { continue };
        let mut all = found.get(a).cloned().unwrap_or_else(|| vec![*a]);
        all.extend(found.get(b).cloned().unwrap_or_else(|| vec![*b]));
        all.sort_unstable();
        all.dedup();
        for twin in all.clone() {
            found.insert(twin, all.clone());
        }
    }
    found
}

/// What C code finds in instances of a class, and whether that is exactly one of Python's own.
fn kind_of(class: &Bound<'_, PyAny>) -> (Kind, bool) {
    let py = class.py();
    let Ok(class) = class.cast::<PyType>() else { return (Kind::Plain, false) };
    let of = |bases: &[Bound<'_, PyType>]| {
        let exact = bases.iter().any(|base| base.is(class));
        (exact || bases.iter().any(|base| class.is_subclass(base).unwrap_or(false)), exact)
    };
    let deque = dynamlir_cpython_abi::import(py, "collections").and_then(|module| Ok(module.getattr("deque")?.cast_into::<PyType>()?));
    let sequences = [py.get_type::<PyTuple>(), py.get_type::<PyList>()].into_iter().chain(deque).collect();
    let kinds = [
        (Kind::Sequence, sequences),
        (Kind::Dict, vec![py.get_type::<PyDict>()]),
        (Kind::Set, vec![py.get_type::<PySet>(), py.get_type::<PyFrozenSet>()]),
        (
            Kind::Value,
            vec![
                py.get_type::<PyInt>(),
                py.get_type::<PyFloat>(),
                py.get_type::<PyString>(),
                py.get_type::<PyBytes>(),
                py.get_type::<PyComplex>(),
                py.get_type::<PyByteArray>(),
            ],
        ),
    ];
    kinds.into_iter().find_map(|(kind, bases)| Some(of(&bases)).filter(|(is, _)| *is).map(|(_, exact)| (kind, exact))).unwrap_or_default()
}
