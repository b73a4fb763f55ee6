//! Detects writes to one input that reach another: a sweep over byte ranges.

/// The bytes of one input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub low: usize,
    pub high: usize,
    /// Equal for inputs that are known to share a storage.
    pub group: usize,
    pub mutated: bool,
    pub input: usize,
}

/// The two farthest ends seen so far that belong to different groups.
#[derive(Default, Clone, Copy)]
struct Farthest {
    first: Option<Range>,
    second: Option<Range>,
}

impl Farthest {
    fn add(&mut self, r: Range) {
        match self.first {
            Some(f) if f.group == r.group => {
                if r.high > f.high {
                    self.first = Some(r);
                }
            }
            Some(f) if r.high > f.high => {
                self.second = Some(f);
                self.first = Some(r);
            }
            Some(_) => {
                if self.second.is_none_or(|s| r.high > s.high) {
                    self.second = Some(r);
                }
            }
            None => self.first = Some(r),
        }
    }

    /// Returns a range of another group that reaches into `r`, given that none starts after it.
    fn reaching(&self, r: Range) -> Option<Range> {
        let other = if self.first.is_some_and(|f| f.group != r.group) { self.first } else { self.second };
        other.filter(|o| o.high > r.low)
    }
}

/// Returns a mutated range and a range of another group with a common byte, if there are any. Sorts `ranges`; empty ranges must be absent.
pub(crate) fn conflict(ranges: &mut [Range]) -> Option<(Range, Range)> {
    ranges.sort_unstable_by_key(|r| r.low);
    let (mut all, mut written) = (Farthest::default(), Farthest::default());
    for &r in ranges.iter() {
        let seen = if r.mutated { all.reaching(r) } else { written.reaching(r) };
        if let Some(other) = seen {
            return Some(if r.mutated { (r, other) } else { (other, r) });
        }
        all.add(r);
        if r.mutated {
            written.add(r);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brute(ranges: &[Range]) -> bool {
        ranges.iter().any(|a| a.mutated && ranges.iter().any(|b| a.group != b.group && a.low < b.high && b.low < a.high))
    }

    #[test]
    fn agrees_with_comparing_every_pair() {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut next = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % n) as usize
        };
        let mut found = 0;
        for _ in 0..20_000 {
            let n = 1 + next(6);
            let mut ranges: Vec<Range> = (0..n)
                .map(|input| {
                    let low = next(40);
                    Range { low, high: low + 1 + next(12), group: next(4), mutated: next(3) == 0, input }
                })
                .collect();
            let expected = brute(&ranges);
            let got = conflict(&mut ranges);
            assert_eq!(got.is_some(), expected, "{ranges:?}");
            if let Some((a, b)) = got {
                assert!(a.mutated && a.group != b.group && a.low < b.high && b.low < a.high);
                found += 1;
            }
        }
        assert!(found > 1000 && found < 19_000);
    }
}
