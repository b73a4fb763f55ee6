//! An order in which the units formed by fusion so far can run, maintained as groups join.
//!
//! A union is refused if a unit outside of it would have to run between its parts. Any such unit is between them in every valid order, so
//! the search is limited to the units between them. The units found to run before the later part determine how the order changes when the
//! parts become one (Pearce and Kelly 2006, with the merging of two units instead of the insertion of an edge).

use std::ops::Range;

/// A group, or an operation that is not in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Unit {
    Op(usize),
    Group(usize),
}

/// All units, each after its dependencies.
#[derive(Default)]
pub(super) struct Line {
    units: Vec<Unit>,
    ops: Vec<usize>,
    groups: Vec<usize>,
}

impl Line {
    /// Takes units in an order in which they can run.
    pub(super) fn of(units: Vec<Unit>) -> Self {
        let mut line = Self::default();
        for unit in units {
            line.put(unit, line.units.len());
            line.units.push(unit);
        }
        line
    }

    /// Turns an operation without a group into a group.
    pub(super) fn start(&mut self, number: usize, group: usize) {
        let place = self.place(Unit::Op(number));
        self.units[place] = Unit::Group(group);
        self.put(Unit::Group(group), place);
    }

    /// The places of the units between two groups that have to run before both, if these become one unit that depends on `open`. `None` if
    /// that includes one of the groups. `dependencies` appends the dependencies of a unit.
    pub(super) fn before(
        &self,
        (a, b): (usize, usize),
        open: impl Iterator<Item = Unit>,
        dependencies: impl Fn(Unit, &mut Vec<Unit>),
    ) -> Option<Vec<usize>> {
        let stretch = self.stretch(a, b);
        let mut seen = vec![false; stretch.len()];
        let (mut open, mut found) = (open.collect::<Vec<_>>(), Vec::new());
        while let Some(unit) = open.pop() {
            if unit == Unit::Group(a) || unit == Unit::Group(b) {
                return None;
            }
            let place = self.place(unit);
            if place > stretch.start && !std::mem::replace(&mut seen[place - stretch.start], true) {
                found.push(place);
                dependencies(unit, &mut open);
            }
        }
        Some(found)
    }

    /// Merges group `from` into group `into`. `before` is the result of [`Line::before`] for them: those units move before both, and the
    /// remaining units between them move after both, each in their present order.
    pub(super) fn join(&mut self, from: usize, into: usize, before: &[usize]) {
        let stretch = self.stretch(from, into);
        let mut moves = vec![false; stretch.len() + 1];
        for &place in before {
            moves[place - stretch.start] = true;
        }
        let is_left = |unit: Unit| unit != Unit::Group(from) && unit != Unit::Group(into);
        let old: Vec<(Unit, bool)> = self.units[stretch.start..=stretch.end].iter().copied().zip(moves).collect();
        let those = |moved: bool| old.iter().filter(move |&&(unit, moves)| moves == moved && is_left(unit)).map(|&(unit, _)| unit);
        // The group that is empty now is never queried again.
        let new: Vec<Unit> = those(true).chain([Unit::Group(into)]).chain(those(false)).chain([Unit::Group(from)]).collect();
        for (place, unit) in (stretch.start..).zip(new) {
            self.units[place] = unit;
            self.put(unit, place);
        }
    }

    /// The places from the earlier one of two groups to the later one.
    fn stretch(&self, a: usize, b: usize) -> Range<usize> {
        let (a, b) = (self.groups[a], self.groups[b]);
        a.min(b)..a.max(b)
    }

    fn place(&self, unit: Unit) -> usize {
        match unit {
            Unit::Op(number) => self.ops[number],
            Unit::Group(group) => self.groups[group],
        }
    }

    fn put(&mut self, unit: Unit, place: usize) {
        let (places, at) = match unit {
            Unit::Op(number) => (&mut self.ops, number),
            Unit::Group(group) => (&mut self.groups, group),
        };
        if places.len() <= at {
            places.resize(at + 1, usize::MAX);
        }
        places[at] = place;
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, Unit};

    /// Small pseudorandom numbers (Marsaglia's xorshift, 2003).
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 >> 33).unwrap_or(0) % end
        }
    }

    /// Operations with their dependencies, and the groups so far; some operations are never in a group.
    struct Graph {
        after: Vec<Vec<usize>>,
        group_of: Vec<Option<usize>>,
    }

    impl Graph {
        fn unit(&self, number: usize) -> Unit {
            self.group_of[number].map_or(Unit::Op(number), Unit::Group)
        }

        fn dependencies(&self, unit: Unit) -> Vec<Unit> {
            let members = (0..self.after.len()).filter(|&number| self.unit(number) == unit);
            members.flat_map(|member| &self.after[member]).map(|&number| self.unit(number)).filter(|&other| other != unit).collect()
        }

        /// Returns true if one of the units `open` depends on one of `ends`, even indirectly: the search is exhaustive.
        fn reaches(&self, mut open: Vec<Unit>, ends: [Unit; 2]) -> bool {
            let mut seen = std::collections::HashSet::new();
            while let Some(unit) = open.pop() {
                if ends.contains(&unit) {
                    return true;
                }
                if seen.insert(unit) {
                    open.extend(self.dependencies(unit));
                }
            }
            false
        }
    }

    #[test]
    fn unions_are_refused_where_a_search_of_the_whole_graph_finds_a_circle() {
        let (mut joined, mut refused) = (0, 0);
        for seed in 1..=60_u64 {
            let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed);
            let count = 5 + random.below(40);
            let after = (0..count).map(|number| (0..random.below(4).min(number)).map(|_| random.below(number)).collect()).collect();
            let mut graph = Graph { after, group_of: vec![None; count] };
            let mut line = Line::of((0..count).map(Unit::Op).collect());
            for number in (0..count).filter(|number| number % 5 != 3) {
                line.start(number, number);
                graph.group_of[number] = Some(number);
            }
            for _ in 0..4 * count {
                let pick = |at: usize| graph.group_of[at];
                let (Some(from), Some(into)) = (pick(random.below(count)), pick(random.below(count))) else { continue };
                if from == into {
                    continue;
                }
                let ends = [Unit::Group(from), Unit::Group(into)];
                let open: Vec<Unit> = ends.iter().flat_map(|&end| graph.dependencies(end)).filter(|unit| !ends.contains(unit)).collect();
                let before = line.before((from, into), open.iter().copied(), |unit, open| open.extend(graph.dependencies(unit)));
                assert_eq!(before.is_none(), graph.reaches(open, ends), "seed {seed}, {from} and {into} of {:?}", graph.after);
                let Some(before) = before else {
                    refused += 1;
                    continue;
                };
                joined += 1;
                line.join(from, into, &before);
                graph.group_of.iter_mut().filter(|group| **group == Some(from)).for_each(|group| *group = Some(into));
                for unit in (0..count).map(|number| graph.unit(number)) {
                    let is_behind = |&other: &Unit| line.place(other) < line.place(unit);
                    assert!(graph.dependencies(unit).iter().all(is_behind), "seed {seed}: {unit:?} stands before what it depends on");
                }
            }
        }
        assert!(joined > 500 && refused > 500, "{joined} joined, {refused} refused");
    }
}
