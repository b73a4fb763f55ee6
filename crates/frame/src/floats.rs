//! Which floats change from call to call, as Dynamo tells it: one that a capture took for a constant, and that is another when the
//! next entry is made, is a number of the graph from then on.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// What is known of the float at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// An entry is for this value only, by its bits: so zeros of both signs differ, and a NaN is itself.
    Value(u64),
    /// It changes, and is an input.
    Number,
    /// It changes, and Python looks at it: each value has an entry of its own.
    Constant,
}

/// What is known of the floats that the captures of one share have met, by the expressions that reach them.
#[derive(Debug, Default)]
pub struct Floats(Mutex<HashMap<String, Seen>>);

impl Floats {
    fn with<T>(&self, work: impl FnOnce(&mut HashMap<String, Seen>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the float at a place is to be an input, given what it is now.
    pub fn is_number(&self, place: &str, now: f64) -> bool {
        self.with(|known| match known.get_mut(place) {
            Some(seen @ Seen::Value(_)) if *seen != Seen::Value(now.to_bits()) => {
                *seen = Seen::Number;
                true
            }
            Some(seen) => *seen == Seen::Number,
            None => false,
        })
    }

    /// An entry is for this value of the float at a place.
    pub fn note(&self, place: String, value: f64) {
        self.with(|known| match known.get_mut(&place) {
            Some(Seen::Number | Seen::Constant) => {}
            Some(seen) => *seen = Seen::Value(value.to_bits()),
            None => {
                known.insert(place, Seen::Value(value.to_bits()));
            }
        });
    }

    /// Python looks at the float at a place.
    pub fn specialize(&self, place: String) {
        self.with(|known| known.insert(place, Seen::Constant));
    }
}

#[cfg(test)]
mod tests {
    use super::Floats;

    #[test]
    fn a_float_is_a_number_once_it_has_changed() {
        let floats = Floats::default();
        assert!(!floats.is_number("L['lr']", 0.1));
        floats.note("L['lr']".into(), 0.1);
        assert!(!floats.is_number("L['lr']", 0.1));
        assert!(floats.is_number("L['lr']", 0.2));
        assert!(floats.is_number("L['lr']", 0.1));
        assert!(!floats.is_number("L['eps']", 0.1));
    }

    #[test]
    fn one_that_python_looks_at_stays_a_constant() {
        let floats = Floats::default();
        floats.note("L['lr']".into(), 0.1);
        assert!(floats.is_number("L['lr']", 0.2));
        floats.specialize("L['lr']".into());
        floats.note("L['lr']".into(), 0.2);
        assert!(!floats.is_number("L['lr']", 0.3));
    }

    #[test]
    fn values_are_told_apart_by_their_bits() {
        let floats = Floats::default();
        floats.note("L['lr']".into(), f64::NAN);
        assert!(!floats.is_number("L['lr']", f64::NAN));
        floats.note("L['x']".into(), 0.0);
        assert!(floats.is_number("L['x']", -0.0));
    }
}
