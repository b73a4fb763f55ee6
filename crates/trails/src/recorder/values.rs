//! Steps to values that instances store inline: the dict of such an instance shares the values, and has no version that reflects them.
//!
//! The recorded words are the class of the instance, the address of its dict, the fact that the dict still shares the values in the
//! instance, and the value. The name of each value follows from the class, whose table of names only grows.

use dynamlir_cpython_abi::{SharedValues, offsets};
use pyo3::{
    prelude::*,
    types::{PyDict, PyString},
};

use super::{Proof, Reached, Recorder, Spot, dicts::get_item};

impl<'py> Recorder<'py> {
    /// If a dict, already recorded as that of an instance, shares the values in it, records that.
    pub(super) fn shares_values(&mut self, instance: &Spot<'py>, dict: &Bound<'py, PyAny>) {
        let Ok(dict) = dict.cast::<PyDict>() else { return };
        let Some(shared) = SharedValues::of(self.abi, &instance.object, dict) else { return };
        let spot = Spot { object: dict.clone().into_any(), proof: Proof::Address };
        // SAFETY: the dict field of an instance points to a dict, and all dicts store the address of shared values there.
        if unsafe { self.word(&spot, offsets::DICT_VALUES as isize, shared.address()) } {
            self.shared.insert(dict.as_ptr() as usize, shared);
        }
    }

    /// Returns the values that a dict is recorded to share, if it still does: Python code may have run since.
    fn shared_by(&self, dict: &Spot<'py>) -> Option<SharedValues> {
        let shared = self.shared.get(&(dict.object.as_ptr() as usize)).filter(|_| dict.proof != Proof::None)?;
        shared.are_of(dict.object.cast::<PyDict>().ok()?).then_some(*shared)
    }

    /// Looks a name up in the inline values of an instance, given its dict. Returns None if the dict is not recorded to share values.
    ///
    /// # Errors
    /// If Python is out of memory.
    pub(super) fn shared_value(&mut self, dict: &Spot<'py>, name: &Bound<'py, PyString>) -> PyResult<Option<Reached<'py>>> {
        let Some(shared) = self.shared_by(dict) else { return Ok(None) };
        let object = get_item(dict.object.cast::<PyDict>()?, name)?;
        let expected = object.as_ref().map_or(0, |object| object.as_ptr() as u64);
        // SAFETY: as long as the words recorded so far hold, the dict shares the values, which are stored in the instance; its class, which
        // is recorded too, has the table of names.
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

    /// Records the content, not the order, of a dict that shares the values of an instance; returns false if that is not possible.
    pub(super) fn shared_content(&mut self, dict: &Spot<'py>) -> bool {
        let Some(shared) = self.shared_by(dict) else { return false };
        // SAFETY: as in `shared_value`.
        let places = unsafe { shared.places() };
        // SAFETY: all dicts have the number of their items there.
        let count = unsafe { dict.object.as_ptr().byte_add(offsets::DICT_ITEMS).cast::<usize>().read() };
        // SAFETY: as above; a name added later can only have a value if the dict has one item more.
        unsafe { self.word(dict, offsets::DICT_ITEMS as isize, count) && places.into_iter().all(|place| self.record(place, place.read())) }
    }
}
