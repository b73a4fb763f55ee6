//! Places buffers in the workspace so that buffers with overlapping lifetimes do not overlap.
//!
//! The workspace cannot be smaller than the total size of the buffers live at any step; whether that bound can be reached is a hard
//! question in general. Buffers are taken in several orders, each placed at the lowest offset or in the tightest gap that has room, and the
//! smallest outcome is kept. The search ends once the bound is reached, nearly always by the first order: large buffers before small ones.

use std::cmp::Reverse;

/// The need of a buffer: its bytes, and the first and last step that touches it.
#[derive(Debug, Clone, Copy)]
pub struct Need<B = i64> {
    /// Size in bytes.
    pub bytes: B,
    /// First step.
    pub first: usize,
    /// Last step, inclusive.
    pub last: usize,
}

impl<B> Need<B> {
    /// Returns true if both are live at some step.
    pub fn meets(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl Need {
    fn steps(&self) -> i64 {
        (self.last - self.first + 1) as i64
    }
}

/// Every offset is a multiple of this: the size of a cache line and of the widest vector.
pub const ALIGNMENT: i64 = 64;

/// A sort key for buffers; the smallest is placed first.
type Order = fn(&Need) -> (Reverse<i64>, usize);

/// Byte offsets for the needs, and the size of the workspace.
pub fn place(needs: &[Need]) -> (Vec<i64>, i64) {
    let bound = live(needs);
    let orders: [Order; 3] =
        [|need| (Reverse(need.bytes), 0), |need| (Reverse(need.bytes.saturating_mul(need.steps())), 0), |need| (Reverse(0), need.first)];
    let mut best: Option<(Vec<i64>, i64)> = None;
    for order in orders {
        let mut sequence: Vec<usize> = (0..needs.len()).collect();
        sequence.sort_by_key(|&i| (order(&needs[i]), i));
        for fit in [Fit::Lowest, Fit::Tightest] {
            let (offsets, total) = place_in(&sequence, needs, fit);
            if best.as_ref().is_none_or(|(_, size)| total < *size) {
                best = Some((offsets, total));
            }
            if best.as_ref().is_some_and(|(_, size)| *size <= bound) {
                return best.unwrap_or_default();
            }
        }
    }
    best.unwrap_or_default()
}

/// The maximum number of bytes live at one step: a lower bound for the workspace.
fn live(needs: &[Need]) -> i64 {
    let begin = needs.iter().map(|need| (need.first, padded(need.bytes)));
    let end = needs.iter().map(|need| (need.last + 1, -padded(need.bytes)));
    // At each step, ends come before beginnings.
    let mut changes: Vec<(usize, i64)> = begin.chain(end).collect();
    changes.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, change) in changes {
        now += change;
        most = most.max(now);
    }
    most
}

/// The choice among the gaps that have room for a buffer.
#[derive(Debug, Clone, Copy)]
enum Fit {
    Lowest,
    /// The smallest gap; the end of the workspace if no gap has room.
    Tightest,
}

/// Places the buffers in sequence.
fn place_in(sequence: &[usize], needs: &[Need], fit: Fit) -> (Vec<i64>, i64) {
    let mut offsets = vec![0; needs.len()];
    let mut total = 0;
    // The buffers that have been placed, sorted by offset.
    let mut placed: Vec<(i64, i64, Need)> = Vec::with_capacity(needs.len());
    for &i in sequence {
        let need = needs[i];
        let bytes = padded(need.bytes);
        let (mut end, mut gap) = (0, None);
        for &(start, stop, _) in placed.iter().filter(|(_, _, other)| other.meets(&need)) {
            let room = start - end;
            if room >= bytes && gap.is_none_or(|(_, smallest)| room < smallest) {
                gap = Some((end, room));
                if matches!(fit, Fit::Lowest) || room == bytes {
                    break;
                }
            }
            end = end.max(stop);
        }
        offsets[i] = gap.map_or(end, |(at, _)| at);
        let stop = offsets[i] + bytes;
        placed.insert(placed.partition_point(|&(start, other, _)| (start, other) < (offsets[i], stop)), (offsets[i], stop, need));
        total = total.max(stop);
    }
    (offsets, total)
}

fn padded(bytes: i64) -> i64 {
    (bytes.max(1) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(list: &[(i64, usize, usize)]) -> Vec<Need> {
        list.iter().map(|&(bytes, first, last)| Need { bytes, first, last }).collect()
    }

    #[test]
    fn buffers_that_never_meet_share_memory() {
        let (offsets, total) = place(&needs(&[(256, 0, 1), (256, 1, 2), (256, 2, 3)]));
        assert_eq!(total, 512);
        assert_eq!(offsets[0], offsets[2]);
        assert_ne!(offsets[0], offsets[1]);
    }

    #[test]
    fn a_small_buffer_fills_a_gap() {
        let (offsets, total) = place(&needs(&[(128, 0, 9), (640, 0, 1), (64, 2, 3)]));
        assert_eq!(total, 768);
        assert!(offsets[2] < 640);
    }

    #[test]
    fn the_bound_is_reached_where_large_before_small_misses_it() {
        // At most four lines are live. Ordered by size, the last buffer takes lines 0 to 2, the second one 2 and 3; the third, which
        // overlaps both lifetimes, is left with a fifth line.
        let lines = [(2, 2, 3), (2, 1, 3), (1, 0, 1), (3, 0, 0)];
        let all = needs(&lines.map(|(lines, first, last)| (lines * ALIGNMENT, first, last)));
        assert_eq!(place_in(&[3, 0, 1, 2], &all, Fit::Lowest).1, 5 * ALIGNMENT);
        assert_eq!(place(&all).1, 4 * ALIGNMENT);
    }

    #[test]
    fn nothing_needs_nothing() {
        assert_eq!(place(&[]), (Vec::new(), 0));
        assert_eq!(place(&needs(&[(0, 3, 3)])).1, ALIGNMENT);
    }

    /// Pseudorandom numbers below `limit`, the same in each run.
    fn numbers(mut seed: u64) -> impl FnMut(u64) -> u64 {
        move |limit| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % limit
        }
    }

    /// Marks each line of memory at each step; no line may be marked twice.
    fn check(needs: &[Need], offsets: &[i64], total: i64) {
        let mut owner = std::collections::HashMap::new();
        for (i, need) in needs.iter().enumerate() {
            assert_eq!(offsets[i] % ALIGNMENT, 0);
            assert!(offsets[i] >= 0 && offsets[i] + need.bytes <= total, "buffer {i} leaves the workspace");
            for step in need.first..=need.last {
                for line in offsets[i] / ALIGNMENT..=(offsets[i] + need.bytes.max(1) - 1) / ALIGNMENT {
                    let other = owner.insert((step, line), i);
                    assert_eq!(other, None, "buffer {i} lies on another at step {step}: {needs:?} at {offsets:?}");
                }
            }
        }
    }

    #[test]
    fn no_two_live_buffers_overlap() {
        for seed in 0..300 {
            let mut below = numbers(seed);
            let steps = 1 + below(30);
            let all: Vec<Need> = (0..below(40))
                .map(|_| {
                    let first = below(steps) as usize;
                    let last = first + below(6) as usize;
                    Need { bytes: below(2000) as i64, first, last }
                })
                .collect();
            let (offsets, total) = place(&all);
            check(&all, &offsets, total);
            let most = all.iter().map(|step| all.iter().filter(|need| need.first <= step.first && step.first <= need.last));
            assert_eq!(live(&all), most.map(|living| living.map(|need| padded(need.bytes)).sum()).max().unwrap_or(0));
            for fit in [Fit::Lowest, Fit::Tightest] {
                let (offsets, larger) = place_in(&(0..all.len()).rev().collect::<Vec<_>>(), &all, fit);
                check(&all, &offsets, larger);
            }
            assert!(total >= live(&all));
            assert!(total * 4 <= live(&all) * 5, "{total} bytes where {} live at once: {all:?}", live(&all));
        }
    }
}
