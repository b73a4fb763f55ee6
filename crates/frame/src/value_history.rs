//! Numbers that change from call to call, following Dynamo's rule: if a capture treated a float as a constant, and the float has changed
//! when the next entry is created, it is an input of the graph from then on. For an integer, only the program's questions about it are
//! guarded from then on.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// The observations of the number at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// An entry is for this value only, by its bits: zeros of different signs differ, and a NaN equals itself.
    Value(u64),
    /// It changes, and is an input.
    Number,
    /// It changes, and Python inspects it: each value has an entry of its own.
    Constant,
}

/// The numbers seen by the captures of one share, by the expressions that reach them.
#[derive(Debug, Default)]
pub struct ValueHistory {
    known: Mutex<HashMap<String, Seen>>,
    /// True if it gives the same answers regardless of the numbers' current values.
    frozen: bool,
}

impl ValueHistory {
    fn with<T>(&self, work: impl FnOnce(&mut HashMap<String, Seen>) -> T) -> T {
        work(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a copy of the present state that learns nothing more: a capture that queries it treats the same numbers as inputs as the
    /// latest one did.
    #[must_use]
    pub fn frozen(&self) -> Self {
        Self { known: Mutex::new(self.with(|known| known.clone())), frozen: true }
    }

    /// Returns true if the number at a place changes, given its current bits: a float must then be an input. An integer that does not fit
    /// into 64 bits has none, and differs from any that was noted.
    pub fn is_number(&self, place: &str, now: impl Into<Option<u64>>) -> bool {
        let now = now.into().map(Seen::Value);
        self.with(|known| match known.get_mut(place) {
            Some(seen @ Seen::Value(_)) if Some(*seen) != now && !self.frozen => {
                *seen = Seen::Number;
                true
            }
            Some(seen) => *seen == Seen::Number,
            None => false,
        })
    }

    /// Returns true if the number at a place may be an input, as far as is known.
    pub fn may_be_number(&self, place: &str) -> bool {
        self.with(|known| known.get(place) != Some(&Seen::Constant))
    }

    /// Records that an entry is for a number with these bits at a place.
    pub fn note(&self, place: String, value: u64) {
        if self.frozen {
            return;
        }
        self.with(|known| match known.get_mut(&place) {
            Some(Seen::Number | Seen::Constant) => {}
            Some(seen) => *seen = Seen::Value(value),
            None => {
                known.insert(place, Seen::Value(value));
            }
        });
    }

    /// Records that the number at a place is known to change.
    pub fn expect_change(&self, place: String) {
        self.with(|known| {
            known.entry(place).or_insert(Seen::Number);
        });
    }

    /// Records that Python inspects the float at a place.
    pub fn specialize(&self, place: String) {
        if !self.frozen {
            self.with(|known| known.insert(place, Seen::Constant));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ValueHistory;

    #[test]
    fn a_float_is_a_number_once_it_has_changed() {
        let floats = ValueHistory::default();
        assert!(!floats.is_number("L['lr']", f64::to_bits(0.1)));
        floats.note("L['lr']".into(), f64::to_bits(0.1));
        assert!(!floats.is_number("L['lr']", f64::to_bits(0.1)));
        assert!(floats.is_number("L['lr']", f64::to_bits(0.2)));
        assert!(floats.is_number("L['lr']", f64::to_bits(0.1)));
        assert!(!floats.is_number("L['eps']", f64::to_bits(0.1)));
    }

    #[test]
    fn an_integer_without_bits_is_another_one() {
        let floats = ValueHistory::default();
        floats.note("L['n']".into(), 3);
        assert!(!floats.is_number("L['m']", None) && floats.is_number("L['n']", None) && floats.is_number("L['n']", 3));
    }

    #[test]
    fn one_that_python_looks_at_stays_a_constant() {
        let floats = ValueHistory::default();
        floats.note("L['lr']".into(), f64::to_bits(0.1));
        assert!(floats.is_number("L['lr']", f64::to_bits(0.2)));
        floats.specialize("L['lr']".into());
        floats.note("L['lr']".into(), f64::to_bits(0.2));
        assert!(!floats.is_number("L['lr']", f64::to_bits(0.3)));
    }

    #[test]
    fn one_that_is_expected_to_change_is_a_number_at_once() {
        let floats = ValueHistory::default();
        floats.expect_change("L['lr']".into());
        floats.note("L['lr']".into(), f64::to_bits(0.1));
        assert!(floats.is_number("L['lr']", f64::to_bits(0.1)));
    }

    #[test]
    fn what_is_frozen_answers_as_it_did() {
        let floats = ValueHistory::default();
        floats.note("L['lr']".into(), f64::to_bits(0.1));
        floats.expect_change("L['eps']".into());
        let frozen = floats.frozen();
        assert!(!frozen.is_number("L['lr']", f64::to_bits(0.2)) && frozen.is_number("L['eps']", f64::to_bits(0.2)));
        frozen.note("L['new']".into(), f64::to_bits(0.1));
        frozen.specialize("L['eps']".into());
        assert!(!frozen.is_number("L['new']", f64::to_bits(0.2)) && frozen.may_be_number("L['eps']"));
        assert!(floats.is_number("L['lr']", f64::to_bits(0.2)));
    }

    #[test]
    fn values_are_told_apart_by_their_bits() {
        let floats = ValueHistory::default();
        floats.note("L['lr']".into(), f64::to_bits(f64::NAN));
        assert!(!floats.is_number("L['lr']", f64::to_bits(f64::NAN)));
        floats.note("L['x']".into(), f64::to_bits(0.0));
        assert!(floats.is_number("L['x']", f64::to_bits(-0.0)));
    }
}
