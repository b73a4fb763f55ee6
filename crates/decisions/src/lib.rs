//! The decisions of a compilation, as data: what was chosen where, from which alternatives, and why.
//!
//! A pass records a [`Decision`] for each place where it had a choice. A compilation collects them in one list, [`Decisions`], which
//! becomes a part of its report. Passes that print their decisions format them from here.
#![forbid(unsafe_code)]

use std::{borrow::Cow, collections::HashMap, fmt::Write as _};

use serde::{Serialize, Serializer};

/// Text that is often a constant.
pub type Text = Cow<'static, str>;

/// One decision.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// The name of the pass, or of the part of the compiler, that decided.
    pub pass: Text,
    /// The object of the decision.
    pub site: Site,
    /// The alternative that was taken.
    pub choice: Text,
    /// The other alternatives.
    pub alternatives: Vec<Text>,
    /// The explanation; empty if the numbers say enough.
    pub reason: Text,
    /// The ID in `reasons.toml`, if the reason has one.
    pub reason_id: Option<Text>,
    /// Measured, counted or estimated quantities by name, in the order in which they were recorded.
    #[serde(serialize_with = "as_map")]
    pub numbers: Vec<(Text, f64)>,
    /// The number of times that the same was decided about the same place.
    pub count: usize,
}

/// The object of a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Site {
    /// An operation, a kernel or a function. `%7 add` is the operation whose first result is `%7` in the text of the pass's stage.
    pub what: String,
    /// The user's line, as `file:line:column`, or as `file:line`; empty if it is not known. Columns count characters from 1.
    pub location: String,
}

impl Decision {
    /// A decision of `pass`: `choice`, and none of the alternatives.
    pub fn new(pass: impl Into<Text>, site: Site, choice: impl Into<Text>, alternatives: &[&'static str]) -> Self {
        let choice = choice.into();
        let others = alternatives.iter().filter(|&&other| other != choice).map(|&other| other.into());
        Self {
            pass: pass.into(),
            site,
            alternatives: others.collect(),
            choice,
            reason: Text::default(),
            reason_id: None,
            numbers: Vec::new(),
            count: 1,
        }
    }
    /// Sets the explanation.
    pub fn because(self, reason: impl Into<Text>) -> Self {
        Self { reason: reason.into(), ..self }
    }
    /// Adds a whole number.
    #[expect(clippy::cast_precision_loss, reason = "JSON has no integers of 64 bits either")]
    pub fn with(mut self, name: impl Into<Text>, number: i64) -> Self {
        self.numbers.push((name.into(), number as f64));
        self
    }
    /// The number of this name.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.numbers.iter().find(|(known, _)| known == name).map(|(_, number)| *number)
    }

    /// A text that is the same for decisions that differ only in the numbers of values, as those about equal layers do.
    fn key(&self) -> String {
        let Self { pass, site, choice, reason, numbers, .. } = self;
        let mut key = String::with_capacity(128);
        let mut numbered = false;
        for letter in site.what.chars() {
            numbered = letter == '%' || (numbered && letter.is_ascii_digit());
            key.extend(Some(letter).filter(|_| !numbered));
        }
        // Writing to a string does not fail.
        let _ = write!(key, "\0{pass}\0{}\0{choice}\0{reason}\0{numbers:?}", site.location);
        key
    }
}

/// Decisions in the order in which they were taken. Equal ones are one entry with a count, so that a list does not grow with the number of
/// equal layers.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Decisions {
    list: Vec<Decision>,
    #[serde(skip)]
    places: HashMap<String, usize>,
}

impl Decisions {
    /// Adds a decision.
    pub fn add(&mut self, decision: Decision) {
        match self.places.entry(decision.key()) {
            std::collections::hash_map::Entry::Occupied(known) => self.list[*known.get()].count += decision.count,
            std::collections::hash_map::Entry::Vacant(new) => {
                new.insert(self.list.len());
                self.list.push(decision);
            }
        }
    }
    /// The decisions in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Decision> {
        self.list.iter()
    }
    /// Sorts by a key; decisions with equal keys keep their order.
    pub fn sort_by_key<K: Ord>(self, key: impl FnMut(&Decision) -> K) -> Self {
        let mut list = self.list;
        list.sort_by_key(key);
        list.into_iter().collect()
    }
}

impl Extend<Decision> for Decisions {
    fn extend<I: IntoIterator<Item = Decision>>(&mut self, decisions: I) {
        decisions.into_iter().for_each(|decision| self.add(decision));
    }
}

impl FromIterator<Decision> for Decisions {
    fn from_iter<I: IntoIterator<Item = Decision>>(decisions: I) -> Self {
        let mut all = Self::default();
        all.extend(decisions);
        all
    }
}

impl IntoIterator for Decisions {
    type Item = Decision;
    type IntoIter = std::vec::IntoIter<Decision>;
    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl<'a> IntoIterator for &'a Decisions {
    type Item = &'a Decision;
    type IntoIter = std::slice::Iter<'a, Decision>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Writes pairs as a map, in their order.
///
/// # Errors
/// If the serializer fails.
pub fn as_map<K: Serialize, V: Serialize, S: Serializer>(pairs: &[(K, V)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fused(what: &str, saved: i64) -> Decision {
        let site = Site { what: what.into(), location: "m.py:3:8".into() };
        Decision::new("dynamo-fuse", site, "fused", &["fused", "apart"]).with("saved_bytes", saved)
    }

    #[test]
    fn decisions_about_equal_layers_are_one() {
        let mut all: Decisions = [fused("%2 add + %3 mul", 64), fused("%2 add + %3 mul", 32)].into_iter().collect();
        all.extend([fused("%12 add + %13 mul", 64)]);
        let counts: Vec<_> = all.iter().map(|decision| (&*decision.site.what, decision.count)).collect();
        assert_eq!(counts, [("%2 add + %3 mul", 2), ("%2 add + %3 mul", 1)]);
    }

    #[test]
    fn a_decision_is_json() {
        let all: Decisions = [fused("%2 add", 64).because("a reason").with("b", 1).with("a", 2)].into_iter().collect();
        let text = serde_json::to_string(&all).expect("is JSON");
        let expected = concat!(
            r#"[{"pass":"dynamo-fuse","site":{"what":"%2 add","location":"m.py:3:8"},"choice":"fused","alternatives":["apart"],"#,
            r#""reason":"a reason","reason_id":null,"numbers":{"saved_bytes":64.0,"b":1.0,"a":2.0},"count":1}]"#
        );
        assert_eq!(text, expected);
    }
}
