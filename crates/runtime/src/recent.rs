//! The most recently used values by key: graphs and executables for the sizes seen last.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A few values by key, most recently used first. They are found by a linear search, which for so few is faster than hashing.
#[derive(Debug)]
pub struct Recent<K, V> {
    values: Mutex<Vec<(K, V)>>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { values: Mutex::default() }
    }
}

impl<K, V> Recent<K, V> {
    /// The number of values that are kept; the least recently used one is dropped first.
    pub const MOST: usize = 16;

    fn values(&self) -> MutexGuard<'_, Vec<(K, V)>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the keys, most recently used first.
    pub fn keys(&self) -> Vec<K>
    where
        K: Clone,
    {
        self.values().iter().map(|(key, _)| key.clone()).collect()
    }

    /// Returns the value of a key, which is the most recently used one from now on.
    pub fn get<Q: ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: PartialEq<Q>,
        V: Clone,
    {
        let mut values = self.values();
        let at = values.iter().position(|(known, _)| known == key)?;
        values[..=at].rotate_right(1);
        Some(values[0].1.clone())
    }

    /// Makes room for one more value: removes and returns the least recently used one if there is none.
    pub fn make_room(&self) -> Option<(K, V)> {
        let mut values = self.values();
        if values.len() < Self::MOST { None } else { values.pop() }
    }

    /// Adds a value, and returns those that are dropped for it. They are returned so that what runs when they die does not run under the lock.
    pub fn insert(&self, key: K, value: V) -> Vec<(K, V)> {
        let mut values = self.values();
        values.insert(0, (key, value));
        let most = values.len().min(Self::MOST);
        values.split_off(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_is_dropped() {
        let recent: Recent<Vec<i64>, usize> = Recent::default();
        for at in 0..Recent::<Vec<i64>, usize>::MOST {
            assert!(recent.insert(vec![at as i64], at).is_empty());
        }
        assert_eq!(recent.get([0].as_slice()), Some(0));
        assert_eq!(recent.keys()[..2], [vec![0], vec![15]]);
        assert_eq!(recent.insert(vec![99], 99), [(vec![1], 1)]);
        assert_eq!(recent.get([1].as_slice()), None);
        assert_eq!(recent.make_room(), Some((vec![2], 2)));
        assert_eq!(recent.make_room(), None);
    }
}
