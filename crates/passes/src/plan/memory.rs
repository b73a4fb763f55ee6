//! Places buffers in the workspace so that those alive at the same time do not overlap.

/// A buffer's need: bytes, and the first and last step that touches it.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    /// Size in bytes.
    pub bytes: i64,
    /// First step.
    pub first: usize,
    /// Last step, included.
    pub last: usize,
}

/// Every offset is a multiple of this: a cache line, and the widest vector.
pub const ALIGNMENT: i64 = 64;

/// Byte offsets for the needs, and the size of the workspace. Greedy by size: large buffers first, each at the lowest
/// offset where it meets no buffer that lives with it.
pub fn place(needs: &[Need]) -> (Vec<i64>, i64) {
    let mut order: Vec<usize> = (0..needs.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(needs[i].bytes), i));
    let mut offsets = vec![0; needs.len()];
    let mut placed: Vec<usize> = Vec::with_capacity(needs.len());
    let mut total = 0;
    for i in order {
        let bytes = padded(needs[i].bytes);
        let mut taken: Vec<(i64, i64)> = placed
            .iter()
            .filter(|&&j| needs[j].first <= needs[i].last && needs[i].first <= needs[j].last)
            .map(|&j| (offsets[j], offsets[j] + padded(needs[j].bytes)))
            .collect();
        taken.sort_unstable();
        let mut at = 0;
        for (start, end) in taken {
            if at + bytes <= start {
                break;
            }
            at = at.max(end);
        }
        offsets[i] = at;
        total = total.max(at + bytes);
        placed.push(i);
    }
    (offsets, total)
}

fn padded(bytes: i64) -> i64 {
    (bytes.max(1) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_never_meet_share_memory() {
        let needs = [(256, 0, 1), (256, 1, 2), (256, 2, 3)].map(|(bytes, first, last)| Need { bytes, first, last });
        let (offsets, total) = place(&needs);
        assert_eq!(total, 512);
        assert_eq!(offsets[0], offsets[2]);
        assert_ne!(offsets[0], offsets[1]);
    }

    #[test]
    fn a_small_buffer_fills_a_gap() {
        let needs = [(128, 0, 9), (640, 0, 1), (64, 2, 3)].map(|(bytes, first, last)| Need { bytes, first, last });
        let (offsets, total) = place(&needs);
        assert_eq!(total, 768);
        assert!(offsets[2] < 640);
    }
}
