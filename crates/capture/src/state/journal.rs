//! Maps that can go back to what they were.

use std::{borrow::Borrow, hash::Hash};

use rustc_hash::FxHashMap;

/// A map whose entries are added or replaced, never taken out, and that goes [back](Journal::roll_back) to any earlier state.
#[derive(Debug)]
pub(crate) struct Journal<K, V> {
    map: FxHashMap<K, V>,
    /// Each change: the key, and what stood there before.
    changes: Vec<(K, Option<V>)>,
}

/// A state of a [`Journal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(usize);

impl<K, V> Default for Journal<K, V> {
    fn default() -> Self {
        Self { map: FxHashMap::default(), changes: Vec::new() }
    }
}

impl<K: Hash + Eq + Clone, V> Journal<K, V> {
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

    /// Whether the key is new; else its value is replaced.
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

    /// The state now.
    pub fn mark(&self) -> Mark {
        Mark(self.changes.len())
    }

    /// Undoes all changes since. What was stored is handed out: who drops it may run Python code, which may come back here.
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

    fn sorted(journal: &Journal<&'static str, u32>) -> Vec<(&'static str, u32)> {
        let mut entries: Vec<_> = journal.iter().map(|(key, value)| (*key, *value)).collect();
        entries.sort_unstable();
        entries
    }

    #[test]
    fn entries_that_were_replaced_come_back() {
        let mut journal = Journal::default();
        assert!(journal.insert("a", 1));
        let mark = journal.mark();
        assert!(journal.insert("b", 2) && !journal.insert("a", 3) && !journal.insert("b", 4));
        let inner = journal.mark();
        assert!(!journal.insert("a", 5));
        assert_eq!(journal.roll_back(inner), [5]);
        assert_eq!(sorted(&journal), [("a", 3), ("b", 4)]);
        assert_eq!(journal.roll_back(mark), [4, 3, 2]);
        assert_eq!((sorted(&journal), journal.mark()), (vec![("a", 1)], mark));
    }
}
