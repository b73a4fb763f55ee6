//! Back-off: after repeated failures, ever more occasions are skipped before the next try.

use std::sync::atomic::{AtomicU32, Ordering};

/// The wait until the next try doubles up to this many times.
const MOST_DOUBLINGS: u32 = 10;

/// Counts failures in a row, and the occasions still to be skipped. Threads that race for one occasion may skip one more or one less.
#[derive(Debug)]
pub struct BackOff {
    failures: AtomicU32,
    skips: AtomicU32,
    /// The number of failures in a row that are attributed to chance, without a wait.
    tolerated: u32,
}

impl BackOff {
    /// Starts without failures. Up to `tolerated` of them in a row have no consequence.
    pub const fn new(tolerated: u32) -> Self {
        Self { failures: AtomicU32::new(0), skips: AtomicU32::new(0), tolerated }
    }

    /// Returns true if this occasion is to be skipped.
    pub fn skips(&self) -> bool {
        self.skips.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Records a failure: each further one in a row doubles the number of occasions that are skipped.
    pub fn failed(&self) {
        let doublings = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1).saturating_sub(self.tolerated);
        self.skips.store((1 << doublings.min(MOST_DOUBLINGS)) - 1, Ordering::Relaxed);
    }

    /// Records a success: the next failure is the first again.
    pub fn succeeded(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of occasions that are skipped before the next try.
    fn wait(back_off: &BackOff) -> usize {
        (0..2_000).take_while(|_| back_off.skips()).count()
    }

    #[test]
    fn waits_double_up_to_a_limit() {
        let back_off = BackOff::new(0);
        let waits: Vec<_> = (0..13)
            .map(|_| {
                back_off.failed();
                wait(&back_off)
            })
            .collect();
        assert_eq!(waits, [1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 1023, 1023, 1023]);
    }

    #[test]
    fn the_first_failures_are_tolerated() {
        let back_off = BackOff::new(8);
        for _ in 0..8 {
            back_off.failed();
            assert_eq!(wait(&back_off), 0);
        }
        back_off.failed();
        assert_eq!(wait(&back_off), 1);
    }

    #[test]
    fn a_success_ends_the_row() {
        let back_off = BackOff::new(0);
        back_off.failed();
        back_off.failed();
        assert_eq!(wait(&back_off), 3);
        back_off.succeeded();
        back_off.failed();
        assert_eq!(wait(&back_off), 1);
    }
}
