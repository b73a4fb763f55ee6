//! Relations between values: the same object or different ones, shared memory or none.

use dynamlir_torch_abi::{StoragePosition, TensorRef};
use dynamlir_trails::TensorClass;
use pyo3::prelude::*;

use crate::{Predicate, Relation, SourceId, Sources, StorageMember, computed::Computations, sizes::SizeCheck, tree::Tree};

/// Returns the sources that a relation refers to.
pub(crate) fn members(relation: &Relation, sources: &Sources) -> Vec<SourceId> {
    match relation {
        Relation::Same(a, b) => vec![*a, *b],
        Relation::Distinct(sources) => sources.clone(),
        Relation::Storage(list) => list.iter().map(|member| member.source).collect(),
        Relation::Compares(predicate) => predicate.leaves(sources),
        Relation::Sizes(sizes) => sizes.extents.iter().map(|(source, ..)| *source).collect(),
    }
}

/// A relation between nodes of a tree.
pub(crate) struct Related {
    kind: Kind,
    /// The members, by node.
    pub nodes: Vec<usize>,
    /// Their output slots in a check; None if the members' own guards imply the relation.
    outputs: Option<Vec<usize>>,
}

enum Kind {
    Same,
    Distinct,
    /// Group and storage offset of each member.
    Storage(Vec<(u32, i64)>),
    Compares(Box<Predicate>, Computations),
    Sizes(Box<SizeCheck>),
}

impl Related {
    /// Translates a relation to the nodes of its members.
    pub fn new(relation: &Relation, tree: &Tree, sources: &Sources) -> Self {
        let nodes: Vec<_> = members(relation, sources).iter().map(|source| tree.of_source[source]).collect();
        let kind = match relation {
            Relation::Same(..) => Kind::Same,
            Relation::Distinct(_) => Kind::Distinct,
            Relation::Storage(list) => Kind::Storage(list.iter().map(|member: &StorageMember| (member.group, member.offset)).collect()),
            Relation::Compares(predicate) => Kind::Compares(Box::new(predicate.clone()), Computations::of(predicate, sources)),
            Relation::Sizes(sizes) => Kind::Sizes(Box::new(SizeCheck::new(sizes))),
        };
        let outputs = nodes.iter().map(|&node| tree.nodes[node].output);
        let outputs = if tree.implied.contains(relation) { None } else { outputs.collect() };
        Self { kind, nodes, outputs }
    }

    /// Returns true if it holds for the objects that a check has collected.
    ///
    /// # Errors
    /// If torch cannot be imported.
    pub fn holds(&self, py: Python<'_>, values: &[Option<Bound<'_, PyAny>>]) -> PyResult<bool> {
        let Some(outputs) = &self.outputs else { return Ok(true) };
        self.holds_for(py, &|member| values[outputs[member]].as_ref())
    }

    /// Returns true if it holds for these members.
    ///
    /// # Errors
    /// See `holds`.
    pub fn holds_for<'a, 'py: 'a>(&self, py: Python<'_>, value: &dyn Fn(usize) -> Option<&'a Bound<'py, PyAny>>) -> PyResult<bool> {
        let address = |member: usize| value(member).map_or(0, |value| value.as_ptr() as usize);
        match &self.kind {
            Kind::Same => Ok(address(0) == address(1)),
            Kind::Distinct => Ok(distinct((0..self.nodes.len()).map(address))),
            Kind::Storage(list) => storage(list, value),
            Kind::Sizes(check) => check.holds(value),
            Kind::Compares(predicate, computed) => {
                let mut members = 0..self.nodes.len();
                predicate.holds(py, computed, &mut || value(members.next()?))
            }
        }
    }
}

/// Returns true if the addresses are pairwise distinct.
fn distinct(addresses: impl ExactSizeIterator<Item = usize>) -> bool {
    // Open addressing in a table twice as large; the addresses are multiples of 16.
    let size = (addresses.len() * 2).next_power_of_two().max(8);
    let mut small = [0_usize; 64];
    let mut large = Vec::new();
    let table: &mut [usize] = if size <= small.len() {
        &mut small[..size]
    } else {
        large.resize(size, 0);
        &mut large
    };
    for address in addresses {
        let mut at = (address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - size.trailing_zeros());
        while table[at] != 0 {
            if table[at] == address {
                return false;
            }
            at = (at + 1) % size;
        }
        table[at] = address;
    }
    true
}

/// The compared properties of one tensor.
struct Located {
    place: StoragePosition,
    /// The address of its first byte, and the address past its last one.
    low: usize,
    high: usize,
}

fn locate(tensor: TensorRef<'_>) -> Option<Located> {
    let (low, high) = tensor.extent().ok()?;
    Some(Located { place: tensor.place().ok()?, low, high })
}

/// Returns how tensors share memory: for each, the first one with the same storage, and the distance between them in it. Other objects
/// share none.
///
/// # Errors
/// If torch cannot be imported.
pub fn sharing(tensors: &[Bound<'_, PyAny>]) -> PyResult<Vec<(usize, i64)>> {
    let mut places: Vec<Option<StoragePosition>> = Vec::with_capacity(tensors.len());
    let mut found = Vec::with_capacity(tensors.len());
    for (at, tensor) in tensors.iter().enumerate() {
        let place = TensorClass::of(tensor)?.and_then(|class| class.tensor(tensor)?.place().ok());
        let storage = place.as_ref().map(|place| place.storage);
        let first = places.iter().position(|other| other.as_ref().is_some_and(|other| Some(other.storage) == storage));
        found.push(match (first, &place) {
            (Some(first), Some(place)) => (first, places[first].as_ref().map_or(0, |leader| place.offset - leader.offset)),
            _ => (at, 0),
        });
        places.push(place);
    }
    Ok(found)
}

/// Same group: same storage, same distance. Other groups: no byte in common.
fn storage<'a, 'py: 'a>(list: &[(u32, i64)], value: &dyn Fn(usize) -> Option<&'a Bound<'py, PyAny>>) -> PyResult<bool> {
    let mut located = Vec::with_capacity(list.len());
    for member in 0..list.len() {
        let Some(value) = value(member) else { return Ok(false) };
        let Some(class) = TensorClass::of(value)? else { return Ok(false) };
        let Some(place) = class.tensor(value).and_then(locate) else { return Ok(false) };
        located.push(place);
    }
    // The first member of each group represents its storage.
    for (i, (group, offset)) in list.iter().enumerate() {
        let leader = list.iter().position(|(other, _)| other == group).unwrap_or(i);
        let (mine, theirs) = (&located[i].place, &located[leader].place);
        if mine.storage != theirs.storage || mine.offset - theirs.offset != offset - list[leader].1 {
            return Ok(false);
        }
    }
    // Memory ranges in order: neighbors of different groups must not overlap.
    let mut order: Vec<usize> = (0..list.len()).filter(|&i| located[i].low < located[i].high).collect();
    order.sort_by_key(|&i| located[i].low);
    let mut reach: Vec<(u32, usize)> = Vec::new();
    for &i in &order {
        if reach.iter().any(|&(group, high)| group != list[i].0 && high > located[i].low) {
            return Ok(false);
        }
        reach.retain(|&(_, high)| high > located[i].low);
        reach.push((list[i].0, located[i].high));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::distinct;

    #[test]
    fn equal_addresses_are_found_in_tables_of_any_size() {
        for n in [1_usize, 2, 5, 31, 32, 33, 200] {
            let addresses: Vec<usize> = (1..=n).map(|i| 0x7f00_0000_0000 + 16 * i * i).collect();
            assert!(distinct(addresses.iter().copied()));
            for repeated in 0..n {
                let again = addresses.iter().copied().chain([addresses[repeated]]).collect::<Vec<_>>();
                assert!(!distinct(again.into_iter()));
            }
        }
    }
}
