//! An order in which what fusion has made so far can run, kept as groups join.
//!
//! A union is refused where something outside of it would have to run between its parts. Whatever that is stands between them in every order
//! in which all can run, so a search for it need not look further; and what is found to run before the later part tells how the order changes
//! when the parts become one (Pearce and Kelly 2006, with two units that become one in the place of an edge that comes).

use std::ops::Range;

/// A group, or an operation that is in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Unit {
    Op(usize),
    Group(usize),
}

/// All units, each behind what it depends on.
#[derive(Default)]
pub(super) struct Line {
    units: Vec<Unit>,
    ops: Vec<usize>,
    groups: Vec<usize>,
}

impl Line {
    /// Units in an order in which they can run.
    pub(super) fn of(units: Vec<Unit>) -> Self {
        let mut line = Self::default();
        for unit in units {
            line.put(unit, line.units.len());
            line.units.push(unit);
        }
        line
    }

    /// An operation that is in no group becomes one.
    pub(super) fn start(&mut self, number: usize, group: usize) {
        let place = self.place(Unit::Op(number));
        self.units[place] = Unit::Group(group);
        self.put(Unit::Group(group), place);
    }

    /// The places of what stands between two groups and has to run before both of them, if they are one that depends on `open`; none if
    /// that would be one of them. What a unit depends on, `dependencies` adds.
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

    /// Group `from` goes into group `into`. `before` is what [`Line::before`] tells of them: it moves before both, and what is left
    /// between them behind both, so that neither changes its order among its like.
    pub(super) fn join(&mut self, from: usize, into: usize, before: &[usize]) {
        let stretch = self.stretch(from, into);
        let mut moves = vec![false; stretch.len() + 1];
        for &place in before {
            moves[place - stretch.start] = true;
        }
        let is_left = |unit: Unit| unit != Unit::Group(from) && unit != Unit::Group(into);
        let old: Vec<(Unit, bool)> = self.units[stretch.start..=stretch.end].iter().copied().zip(moves).collect();
        let those = |moved: bool| old.iter().filter(move |&&(unit, moves)| moves == moved && is_left(unit)).map(|&(unit, _)| unit);
        // The group that is empty now has nobody who asks for it.
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

    /// Small numbers that look random (Marsaglia's xorshift, 2003).
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 >> 33).unwrap_or(0) % end
        }
    }

    /// Operations with what each depends on, and the groups so far: some operations are never in one.
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

        /// Returns true if one of the units `open` depends on one of `ends`, however far away: all of them are asked.
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
