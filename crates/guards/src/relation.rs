//! How values relate: the same object or different ones, shared memory or none.

use dynamlir_cpython_abi::objects::TensorClass;
use dynamlir_torch_abi::{Place, TensorRef};
use pyo3::prelude::*;

use crate::{Relation, SourceId, StorageMember, tree::Tree};

/// The sources that a relation is about.
pub(crate) fn members(relation: &Relation) -> Vec<SourceId> {
    match relation {
        Relation::Same(a, b) => vec![*a, *b],
        Relation::Distinct(sources) => sources.clone(),
        Relation::Storage(list) => list.iter().map(|member| member.source).collect(),
    }
}

/// A relation between outputs of a check.
pub(crate) enum Related {
    Same(usize, usize),
    Distinct(Vec<usize>),
    Storage(Vec<Member>),
}

pub(crate) struct Member {
    output: usize,
    group: u32,
    offset: i64,
}

impl Related {
    /// A relation by the places where a check puts the values.
    pub fn new(relation: &Relation, tree: &Tree) -> Self {
        let place = |source: &SourceId| tree.nodes[tree.of_source[source]].output.unwrap_or_default();
        match relation {
            Relation::Same(a, b) => Self::Same(place(a), place(b)),
            Relation::Distinct(sources) => Self::Distinct(sources.iter().map(place).collect()),
            Relation::Storage(list) => {
                let member = |m: &StorageMember| Member { output: place(&m.source), group: m.group, offset: m.offset };
                Self::Storage(list.iter().map(member).collect())
            }
        }
    }

    /// Whether it holds.
    ///
    /// # Errors
    /// When torch cannot be imported.
    pub fn holds(&self, values: &[Option<Bound<'_, PyAny>>]) -> PyResult<bool> {
        let address = |i: usize| values[i].as_ref().map(|value| value.as_ptr() as usize);
        match self {
            Self::Same(a, b) => Ok(address(*a) == address(*b)),
            Self::Distinct(list) => Ok(distinct(list.iter().map(|&i| address(i).unwrap_or(0)))),
            Self::Storage(list) => storage(list, values),
        }
    }
}

/// Whether no address occurs twice.
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

/// What is compared of one tensor.
struct Located {
    place: Place,
    /// Addresses from its first byte to behind its last one.
    low: usize,
    high: usize,
}

fn locate(tensor: TensorRef<'_>) -> Option<Located> {
    let (low, high) = tensor.extent().ok()?;
    Some(Located { place: tensor.place().ok()?, low, high })
}

/// Same group: same storage, same distance. Other groups: no byte in common.
fn storage(list: &[Member], values: &[Option<Bound<'_, PyAny>>]) -> PyResult<bool> {
    let mut located = Vec::with_capacity(list.len());
    for member in list {
        let Some(value) = &values[member.output] else { return Ok(false) };
        let Some(class) = TensorClass::of(value)? else { return Ok(false) };
        let Some(place) = class.tensor(value).and_then(locate) else { return Ok(false) };
        located.push(place);
    }
    // The first member of each group speaks for its storage.
    for (i, member) in list.iter().enumerate() {
        let leader = list.iter().position(|other| other.group == member.group).unwrap_or(i);
        let (mine, theirs) = (&located[i].place, &located[leader].place);
        if mine.storage != theirs.storage || mine.offset - theirs.offset != member.offset - list[leader].offset {
            return Ok(false);
        }
    }
    // Memory ranges in order: neighbours of different groups must not touch.
    let mut order: Vec<usize> = (0..list.len()).filter(|&i| located[i].low < located[i].high).collect();
    order.sort_by_key(|&i| located[i].low);
    let mut reach: Vec<(u32, usize)> = Vec::new();
    for &i in &order {
        if reach.iter().any(|&(group, high)| group != list[i].group && high > located[i].low) {
            return Ok(false);
        }
        reach.retain(|&(_, high)| high > located[i].low);
        reach.push((list[i].group, located[i].high));
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
