//! Static loop schedules: the iterations that each thread of a team runs.
//!
//! The arithmetic wraps on purpose: an empty loop arrives with an upper bound one below zero, and must remain empty.

use std::ffi::c_void;

use super::TEAM;

/// Chunks of a given size, assigned round-robin. Every other schedule is treated as one block per thread.
const STATIC_CHUNKED: i32 = 33;

macro_rules! static_init {
    ($name:ident, $t:ty, $unsigned:ty) => {
        /// `__kmpc_for_static_init_*`: narrows the inclusive bounds to this thread's share. All pointers are borrowed, `last` may be null.
        pub(super) unsafe extern "C" fn $name(
            _location: *const c_void,
            _thread: i32,
            schedule: i32,
            last: *mut i32,
            lower: *mut $t,
            upper: *mut $t,
            stride: *mut $t,
            increment: $t,
            chunk: $t,
        ) {
            let team = TEAM.get();
            // SAFETY: generated code passes addresses of its own variables.
            unsafe {
                let (bounds, step) = (*lower as $unsigned, *upper as $unsigned);
                let share = share::$name(schedule, (bounds, step), increment as $unsigned, chunk as $unsigned, team.thread, team.threads);
                *lower = share.lower as $t;
                *upper = share.upper as $t;
                *stride = share.stride as $t;
                if !last.is_null() {
                    *last = i32::from(share.last);
                }
            }
        }
    };
}

static_init!(init_i32, i32, u32);
static_init!(init_u32, u32, u32);
static_init!(init_i64, i64, u64);
static_init!(init_u64, u64, u64);

/// A thread's part of a loop.
#[derive(Debug, PartialEq, Eq)]
struct Share<T> {
    lower: T,
    upper: T,
    stride: T,
    last: bool,
}

mod share {
    //! The arithmetic, once per width and signedness.

    use super::{STATIC_CHUNKED, Share};

    macro_rules! share {
        ($name:ident, $u:ty, $i:ty, $signed:literal) => {
            pub(super) fn $name(schedule: i32, bounds: ($u, $u), increment: $u, chunk: $u, thread: u32, threads: u32) -> Share<$u> {
                let (lower, upper) = bounds;
                let (thread, threads) = (<$u>::from(thread), <$u>::from(threads));
                let down = $signed && (increment as $i) < 0;
                let before = |a: $u, b: $u| {
                    if $signed { (a as $i) < (b as $i) } else { a < b }
                };
                if if down { before(lower, upper) } else { before(upper, lower) } {
                    return Share { lower, upper, stride: increment, last: false };
                }
                let span = if down { lower.wrapping_sub(upper) } else { upper.wrapping_sub(lower) };
                let magnitude = if down { increment.wrapping_neg() } else { increment }.max(1);
                let trips = (span / magnitude).wrapping_add(1);
                if schedule == STATIC_CHUNKED {
                    let chunk = chunk.max(1);
                    let reach = chunk.wrapping_mul(increment);
                    let lower = lower.wrapping_add(reach.wrapping_mul(thread));
                    return Share {
                        lower,
                        upper: lower.wrapping_add(reach).wrapping_sub(increment),
                        stride: reach.wrapping_mul(threads),
                        last: thread == (trips.wrapping_sub(1) / chunk) % threads,
                    };
                }
                // Blocks differ by at most one iteration; the first `extra` threads have the longer ones.
                let (small, extra) = (trips / threads, trips % threads);
                let start = thread * small + thread.min(extra);
                let length = small + <$u>::from(thread < extra);
                let lower = lower.wrapping_add(increment.wrapping_mul(start));
                Share {
                    lower,
                    upper: lower.wrapping_add(increment.wrapping_mul(length)).wrapping_sub(increment),
                    stride: increment.wrapping_mul(trips),
                    last: length > 0 && start + length == trips,
                }
            }
        };
    }

    share!(init_i32, u32, i32, true);
    share!(init_u32, u32, i32, false);
    share!(init_i64, u64, i64, true);
    share!(init_u64, u64, i64, false);
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATIC: i32 = 34;

    #[test]
    fn blocks_cover_a_loop_exactly_once() {
        for trips in 1..40_u64 {
            for threads in 1..9_u32 {
                let mut seen = Vec::new();
                let mut lasts = 0;
                for thread in 0..threads {
                    let s = share::init_u64(STATIC, (0, trips - 1), 1, 0, thread, threads);
                    let count = s.upper.wrapping_sub(s.lower).wrapping_add(1);
                    seen.extend((0..count).map(|i| s.lower + i));
                    lasts += u32::from(s.last);
                }
                assert_eq!(seen, (0..trips).collect::<Vec<_>>());
                assert_eq!(lasts, 1);
            }
        }
    }

    #[test]
    fn chunks_cover_a_loop_exactly_once() {
        for (trips, chunk, threads) in [(10_i32, 3, 2), (17, 4, 3), (5, 8, 4), (12, 1, 5)] {
            let mut seen = Vec::new();
            let mut last = Vec::new();
            for thread in 0..threads {
                let s = share::init_i32(STATIC_CHUNKED, (0, trips as u32 - 1), 1, chunk as u32, thread, threads);
                let (mut lower, mut upper) = (s.lower as i32, s.upper as i32);
                while lower < trips {
                    let mine: Vec<_> = (lower..=upper.min(trips - 1)).collect();
                    if s.last && mine.contains(&(trips - 1)) {
                        last.push(thread);
                    }
                    seen.extend(mine);
                    lower += s.stride as i32;
                    upper += s.stride as i32;
                }
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..trips).collect::<Vec<_>>());
            assert_eq!(last.len(), 1);
        }
    }

    #[test]
    fn empty_loops_stay_empty() {
        // Zero trips: the compiler passes 0..=-1, and computes the count as upper - lower + 1 afterwards.
        for thread in 0..3 {
            let s = share::init_u64(STATIC, (0, u64::MAX), 1, 1, thread, 3);
            assert_eq!(s.upper.wrapping_sub(s.lower).wrapping_add(1), 0, "thread {thread}");
        }
        let s = share::init_i32(STATIC, (0, u32::MAX), 1, 1, 0, 2);
        assert!((s.upper as i32) < (s.lower as i32));
    }

    #[test]
    fn loops_run_downwards_too() {
        let s: Vec<_> = (0..2).map(|t| share::init_i64(STATIC, (9, 0), -1_i64 as u64, 0, t, 2)).collect();
        assert_eq!((s[0].lower, s[0].upper, s[1].lower, s[1].upper), (9, 5, 4, 0));
        assert!(s[1].last && !s[0].last);
    }

    #[test]
    fn the_entry_point_writes_through_its_pointers() {
        let (mut last, mut lower, mut upper, mut stride) = (7, 0_u64, 99_u64, 0_u64);
        // SAFETY: all pointers are to locals.
        unsafe {
            init_u64(std::ptr::null(), 0, STATIC, &raw mut last, &raw mut lower, &raw mut upper, &raw mut stride, 1, 0);
        };
        assert_eq!((last, lower, upper, stride), (1, 0, 99, 100));
    }
}
