//! Steps to what instances keep in themselves: the dict of such an instance shares the values, and has no version that tells of them.
//!
//! The words are the class of the instance, the address of its dict, that the dict still shares the values in the instance, and the
//! value. Which name a value has follows from the class, whose table of names only grows.

use dynamlir_cpython_abi::{SharedValues, offsets};
use pyo3::{
    prelude::*,
    types::{PyDict, PyString},
};

use super::{Proof, Reached, Recorder, Spot, dicts::get_item};

impl<'py> Recorder<'py> {
    /// Records that a dict, which is recorded as that of an instance, shares the values in it, if it does.
    pub(super) fn shares_values(&mut self, instance: &Spot<'py>, dict: &Bound<'py, PyAny>) {
        let Ok(dict) = dict.cast::<PyDict>() else { return };
        let Some(shared) = SharedValues::of(self.abi, &instance.object, dict) else { return };
        let spot = Spot { object: dict.clone().into_any(), proof: Proof::Address };
        // SAFETY: what an instance has in the place of its dict is one, and all dicts have the address of shared values there.
        if unsafe { self.word(&spot, offsets::DICT_VALUES as isize, shared.address()) } {
            self.shared.insert(dict.as_ptr() as usize, shared);
        }
    }

    /// The values that a dict is recorded to share, and shares still: Python code may have run since.
    fn shared_by(&self, dict: &Spot<'py>) -> Option<SharedValues> {
        let shared = self.shared.get(&(dict.object.as_ptr() as usize)).filter(|_| dict.proof != Proof::None)?;
        shared.are_of(dict.object.cast::<PyDict>().ok()?).then_some(*shared)
    }

    /// Looks a name up in the inline values of an instance, given its dict. None if the dict is not recorded to share values.
    ///
    /// # Errors
    /// When Python is out of memory.
    pub(super) fn shared_value(&mut self, dict: &Spot<'py>, name: &Bound<'py, PyString>) -> PyResult<Option<Reached<'py>>> {
        let Some(shared) = self.shared_by(dict) else { return Ok(None) };
        let object = get_item(dict.object.cast::<PyDict>()?, name)?;
        let expected = object.as_ref().map_or(0, |object| object.as_ptr() as u64);
        // SAFETY: as long as the words recorded so far hold, the dict shares the values, which lie in the instance; its class, which is
        // recorded too, has the table of names.
        let proven = unsafe {
            match shared.place(name) {
                Some(place) => self.record(place, expected),
                None => object.is_none() && self.record(shared.names(), shared.names().read()),
            }
        };
        let proof = match (proven, &object) {
            (false, _) => Proof::None,
            (true, Some(_)) => Proof::Address,
            (true, None) => Proof::Object,
        };
        Ok(Some(Reached { object, proof }))
    }

    /// Records what a dict that shares the values of an instance holds, not its order; false where that is not possible.
    pub(super) fn shared_content(&mut self, dict: &Spot<'py>) -> bool {
        let Some(shared) = self.shared_by(dict) else { return false };
        // SAFETY: as in `shared_value`.
        let places = unsafe { shared.places() };
        // SAFETY: all dicts have the number of their items there.
        let count = unsafe { dict.object.as_ptr().byte_add(offsets::DICT_ITEMS).cast::<usize>().read() };
        // SAFETY: as above; a name that comes later has a value only where the dict has one item more.
        unsafe { self.word(dict, offsets::DICT_ITEMS as isize, count) && places.into_iter().all(|place| self.record(place, place.read())) }
    }
}
