//! Steps through lists, tuples and sets.

use dynamlir_cpython_abi::offsets;
use pyo3::{
    prelude::*,
    types::{PyList, PySet, PyTuple},
};

use super::{Proof, Reached, Recorder, Spot};

impl<'py> Recorder<'py> {
    /// Records the length of a list or tuple (also of an instance of a subclass); returns false if that is not possible.
    pub fn length(&mut self, spot: &Spot<'py>) -> bool {
        let length = if let Ok(tuple) = spot.object.cast::<PyTuple>() {
            tuple.len()
        } else if let Ok(list) = spot.object.cast::<PyList>() {
            list.len()
        } else {
            return false;
        };
        // SAFETY: the type is recorded, and all lists and tuples have their length there.
        self.class(spot) && unsafe { self.word(spot, offsets::SIZE as isize, length) }
    }

    /// Records the content of a set whose elements are among `known` objects, which the caller keeps alive; returns false if that is not
    /// possible.
    pub fn set_content(&mut self, spot: &Spot<'py>, known: &[&Bound<'py, PyAny>]) -> bool {
        const FIELDS: [usize; 4] = [offsets::SET_FILL, offsets::SET_USED, offsets::SET_MASK, offsets::SET_TABLE];
        const LARGEST: usize = 1 << 10;
        if self.trail.is_none() || !spot.object.is_exact_instance_of::<PySet>() || !self.class(spot) {
            return false;
        }
        // SAFETY: all sets have these fields.
        let field = |at: usize| unsafe { spot.object.as_ptr().byte_add(at).cast::<usize>().read() };
        let [_, used, mask, table] = FIELDS.map(field);
        let small = spot.object.as_ptr() as usize + offsets::SET_SMALL_TABLE;
        let sound =
            Some(used) == spot.object.len().ok() && mask < LARGEST && (mask + 1).is_power_of_two() && (table == small) == (mask == 7);
        if !sound {
            return false;
        }
        // SAFETY: a set has a table of `mask + 1` entries.
        let key = |entry: usize| unsafe { (table as *const [usize; 2]).add(entry).cast::<usize>() };
        // SAFETY: as above.
        let is_known = |entry: &usize| known.iter().any(|object| object.as_ptr() as usize == unsafe { key(*entry).read() });
        if (0..=mask).filter(is_known).count() != used {
            return false;
        }
        // SAFETY: the class is recorded.
        FIELDS.iter().all(|&at| unsafe { self.word(spot, at as isize, field(at)) })
            // SAFETY: the set has this table as long as its fields say so.
            && (0..=mask).all(|entry| unsafe { self.record(key(entry).cast(), key(entry).read() as u64) })
    }

    /// Steps to an item of a tuple or list.
    pub fn index(&mut self, spot: &Spot<'py>, index: usize) -> Reached<'py> {
        if let Ok(tuple) = spot.object.cast::<PyTuple>() {
            let object = tuple.get_item(index).ok();
            if object.is_some() && spot.proof == Proof::Object && tuple.is_exact_instance_of::<PyTuple>() {
                // It is this very tuple, which is immutable.
                return Reached { object, proof: Proof::Object };
            }
            if object.is_none() || !self.length(spot) {
                return Reached::unproven(object);
            }
            // SAFETY: the type and the length are recorded, and items follow the length.
            let address = unsafe { self.pointer(spot, self.abi.tuple_items_offset() + 8 * index, object.as_ref()) };
            let proof = if spot.proof == Proof::Object && address != Proof::None { Proof::Object } else { address };
            return Reached { object, proof };
        }
        let Ok(list) = spot.object.cast::<PyList>() else { return Reached::unproven(None) };
        let object = list.get_item(index).ok();
        if object.is_none() || !self.length(spot) {
            return Reached::unproven(object);
        }
        // SAFETY: all lists have the address of their items there.
        let items = unsafe { spot.object.as_ptr().byte_add(offsets::LIST_ITEMS).cast::<usize>().read() };
        // SAFETY: as above.
        let same = unsafe { self.word(spot, offsets::LIST_ITEMS as isize, items) };
        let expected = object.as_ref().map_or(0, |object| object.as_ptr() as u64);
        // SAFETY: the list is alive, and has these items and at least as many as before.
        let proven = same && unsafe { self.record((items as *const u64).add(index), expected) };
        Reached { object, proof: if proven { Proof::Address } else { Proof::None } }
    }
}
