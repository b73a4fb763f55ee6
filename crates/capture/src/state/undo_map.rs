//! Maps that can roll back to an earlier state.

use std::{borrow::Borrow, hash::Hash};

use rustc_hash::FxHashMap;

/// A map whose entries are added or replaced, never removed, and that can roll [back](UndoMap::roll_back) to any earlier state.
#[derive(Debug)]
pub(crate) struct UndoMap<K, V> {
    map: FxHashMap<K, V>,
    /// The undo log: the key of each change, and its previous value.
    changes: Vec<(K, Option<V>)>,
}

/// A state of a [`UndoMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(usize);

impl<K, V> Default for UndoMap<K, V> {
    fn default() -> Self {
        Self { map: FxHashMap::default(), changes: Vec::new() }
    }
}

impl<K: Hash + Eq + Clone, V> UndoMap<K, V> {
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.map.get(key)
    }

    pub fn contains<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.map.contains_key(key)
    }

    /// Inserts a value, or replaces the value of a known key. Returns true if the key is new.
    pub fn insert(&mut self, key: K, value: V) -> bool {
        let before = self.map.insert(key.clone(), value);
        let is_new = before.is_none();
        self.changes.push((key, before));
        is_new
    }

    pub fn len(&self) -> usize {
        self.map.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.map.iter()
    }

    /// Returns a savepoint of the current state.
    pub fn mark(&self) -> Mark {
        Mark(self.changes.len())
    }

    /// Undoes all changes since the savepoint. Returns the removed values: dropping them may run Python code that accesses this map.
    #[must_use]
    pub fn roll_back(&mut self, to: Mark) -> Vec<V> {
        let mut dropped = Vec::new();
        for (key, before) in self.changes.drain(to.0..).rev() {
            let undone = match before {
                Some(before) => self.map.insert(key, before),
                None => self.map.remove(&key),
            };
            dropped.extend(undone);
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(map: &UndoMap<&'static str, u32>) -> Vec<(&'static str, u32)> {
        let mut entries: Vec<_> = map.iter().map(|(key, value)| (*key, *value)).collect();
        entries.sort_unstable();
        entries
    }

    #[test]
    fn entries_that_were_replaced_come_back() {
        let mut map = UndoMap::default();
        assert!(map.insert("a", 1));
        let mark = map.mark();
        assert!(map.insert("b", 2) && !map.insert("a", 3) && !map.insert("b", 4));
        let inner = map.mark();
        assert!(!map.insert("a", 5));
        assert_eq!(map.roll_back(inner), [5]);
        assert_eq!(sorted(&map), [("a", 3), ("b", 4)]);
        assert_eq!(map.roll_back(mark), [4, 3, 2]);
        assert_eq!((sorted(&map), map.mark()), (vec![("a", 1)], mark));
    }
}
