//! The guards of a capture on one object and everything reached from it, for checking them against another object and adding them there.
//!
//! A model's layers are objects of the same kind, each reached by its own path. The assumptions about one of them are all guards whose
//! sources begin with its own. They form a [`SharedGuards`]: a guard set with that object as its only root. If it passes for another
//! object, a capture of that object would have added the same guards, on sources that begin with the other object's.

use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use crate::{Checked, Guard, GuardBuilder, GuardError, GuardSet, Inputs, Relation, Roots, Source, SourceId};

/// The guards on everything reached from one source.
pub struct SharedGuards {
    root: SourceId,
    /// The sources that begin with the root, bases first, without the root itself.
    sources: Vec<(SourceId, Source)>,
    guards: Vec<(SourceId, Guard)>,
    /// Pairs that are one object; at least one of each begins with the root.
    same: Vec<(SourceId, SourceId)>,
    /// The index of each wanted source among the objects that a check returns.
    places: FxHashMap<SourceId, usize>,
    set: GuardSet,
}

impl SharedGuards {
    /// Returns true if a source begins with the root.
    #[must_use]
    pub fn contains(&self, source: SourceId) -> bool {
        source == self.root || self.sources.binary_search_by_key(&source, |(id, _)| *id).is_ok()
    }

    /// Returns the pairs of sources that must lead to one object; one of them may lie outside.
    #[must_use]
    pub fn same(&self) -> &[(SourceId, SourceId)] {
        &self.same
    }

    /// Checks all guards against another object in place of the root. If they pass, returns the objects that the wanted sources reach from
    /// there.
    ///
    /// # Errors
    /// Returns an exception raised by Python code that had to be run.
    pub fn check<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Option<FxHashMap<SourceId, Bound<'py, PyAny>>>> {
        let mut inputs = Inputs::default();
        match self.set.check(Roots { function: object, locals: &[Some(object)] }, &mut inputs) {
            Checked::Pass => {}
            Checked::Fail => return Ok(None),
            Checked::Error(error) => return Err(error),
        }
        Ok(self.places.iter().map(|(source, place)| Some((*source, inputs.values.get(*place)?.clone()?))).collect())
    }
}

impl GuardBuilder {
    /// Returns the guards so far on everything reached from `root`. A check returns the objects reached by the `wanted` sources, which
    /// begin with `root`, and by the members of relations. Returns None if there is a relation of an unsupported kind.
    ///
    /// # Errors
    /// If an object cannot be held weakly, or if Python is out of memory.
    pub fn part(&self, py: Python<'_>, root: SourceId, wanted: &[SourceId]) -> Result<Option<SharedGuards>, GuardError> {
        let state = self.state.borrow();
        let beneath = self.beneath(root);
        let sources: Vec<_> = (root.index() + 1..state.sources.len())
            .map(|number| SourceId(number as u32))
            .filter(|id| beneath(*id))
            .map(|id| (id, state.sources.get(id).clone()))
            .collect();
        let guards: Vec<_> = state.guards.iter().filter(|(id, _)| beneath(*id)).map(|(id, guard)| (*id, guard.clone_ref(py))).collect();
        let mut same = Vec::new();
        for relation in &state.relations {
            match relation {
                Relation::Same(a, b) if beneath(*a) || beneath(*b) => same.push((*a, *b)),
                Relation::Same(..) => {}
                other if crate::relation::members(other, &state.sources).iter().any(|member| beneath(*member)) => return Ok(None),
                _ => {}
            }
        }
        let alone = GuardBuilder::new();
        let mut numbers = FxHashMap::from_iter([(root, alone.local(0, "root"))]);
        for (id, source) in &sources {
            let moved = alone.source(source.moved(&numbers));
            numbers.insert(*id, moved);
        }
        for (id, guard) in &guards {
            alone.add(numbers[id], guard.clone_ref(py));
        }
        let members = same.iter().flat_map(|(a, b)| [*a, *b]).filter(|id| beneath(*id));
        let handed: Vec<_> = wanted.iter().copied().chain(members).map(|id| (id, numbers[&id])).collect();
        for (_, moved) in &handed {
            alone.collect(*moved);
        }
        drop(state);
        let set = alone.build(py)?;
        // Two sources may be one node, which is collected once.
        let places = handed.into_iter().filter_map(|(id, moved)| Some((id, set.place_of(moved)?))).collect();
        Ok(Some(SharedGuards { root, sources, guards, same, places, set }))
    }

    /// Returns a test that a source, among all that exist now, begins with `root`.
    pub fn beneath(&self, root: SourceId) -> impl Fn(SourceId) -> bool + use<> {
        let state = self.state.borrow();
        let mut within = vec![false; state.sources.len()];
        within[root.index()] = true;
        for number in root.index() + 1..within.len() {
            within[number] = state.sources.get(SourceId(number as u32)).base().is_some_and(|base| within[base.index()]);
        }
        move |source| within.get(source.index()).copied().unwrap_or(false)
    }

    /// Adds the shared guards for the object at `root`. Returns the sources that replace those of the shared guards.
    pub fn repeat(&self, py: Python<'_>, part: &SharedGuards, root: SourceId) -> FxHashMap<SourceId, SourceId> {
        let mut numbers = FxHashMap::with_capacity_and_hasher(part.sources.len() + 1, rustc_hash::FxBuildHasher);
        numbers.insert(part.root, root);
        for (id, source) in &part.sources {
            let moved = self.source(source.moved(&numbers));
            numbers.insert(*id, moved);
        }
        for (id, guard) in &part.guards {
            self.add(numbers[id], guard.clone_ref(py));
        }
        let place = |id: &SourceId| numbers.get(id).copied().unwrap_or(*id);
        for (a, b) in &part.same {
            self.relate(Relation::Same(place(a), place(b)));
        }
        numbers
    }
}
