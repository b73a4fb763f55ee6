//! The description of a matrix product: its sizes, and the memory layout of its operands.

/// One operand: `size` lines along k.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// Number of lines.
    pub size: i64,
    /// Stride between adjacent lines, in elements.
    pub stride: i64,
    /// Stride along k.
    pub along_k: i64,
    /// Stride along each outer dimension; 0 if the operand is shared along it.
    pub outer: Vec<i64>,
}

impl Side {
    /// Returns true if no stride is negative, so that memory can be viewed as one line from element 0 on.
    fn is_forward(&self) -> bool {
        self.stride >= 0 && self.along_k >= 0 && self.outer.iter().all(|&stride| stride >= 0)
    }
    /// The number of elements spanned, from the first to the last.
    pub fn extent(&self, outer: &[i64], k: i64) -> i64 {
        let reach: i64 = outer.iter().zip(&self.outer).map(|(size, stride)| (size - 1) * stride).sum();
        1 + reach + (self.size - 1) * self.stride + (k - 1) * self.along_k
    }
    /// Returns true if the operand is the same for all outer indices.
    pub fn is_shared(&self) -> bool {
        self.outer.iter().all(|&stride| stride == 0)
    }
}

/// A product: `result[o…, l, r] = Σ_k lhs[o…, l, k] · rhs[o…, r, k]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Sizes of the dimensions along which the product is repeated.
    pub outer: Vec<i64>,
    /// Length of the sums.
    pub k: i64,
    /// Lines of the left operand.
    pub lhs: Side,
    /// Lines of the right operand, its columns.
    pub rhs: Side,
}

impl Problem {
    /// Builds the problem from the operands' sizes and strides: `lhs[batch…, m…, k]`, `rhs[batch…, k, n…]`. The last m and the last n are
    /// the matrix dimensions; earlier ones are outer dimensions.
    pub fn of(batch: usize, lhs: (&[i64], &[i64]), rhs: (&[i64], &[i64])) -> Option<Self> {
        let ((left, left_strides), (right, right_strides)) = (lhs, rhs);
        let lines = left.len().checked_sub(1)?;
        let has_line = lines > batch;
        let mut outer = left[..lines - usize::from(has_line)].to_vec();
        let mut right_outer = right_strides.get(..batch)?.to_vec();
        right_outer.resize(outer.len(), 0);
        let mut left_outer = left_strides[..outer.len()].to_vec();
        let more = batch + 1..right.len().max(batch + 2) - 1;
        outer.extend(right.get(more.clone())?);
        right_outer.extend(right_strides.get(more)?);
        left_outer.resize(outer.len(), 0);
        let (size, stride) = if has_line { (left[lines - 1], left_strides[lines - 1]) } else { (1, 0) };
        let lhs = Side { size, stride, along_k: left_strides[lines], outer: left_outer };
        let (size, stride) = match right.len() - batch {
            1 => (1, 0),
            _ => (right[right.len() - 1], right_strides[right.len() - 1]),
        };
        let rhs = Side { size, stride, along_k: *right_strides.get(batch)?, outer: right_outer };
        Some(Self { outer, k: left[lines], lhs, rhs })
    }

    /// Returns the operand that provides the result's columns (`right`), or the one that provides its rows.
    pub fn side(&self, right: bool) -> &Side {
        if right { &self.rhs } else { &self.lhs }
    }
    /// Number of repetitions.
    pub fn repeats(&self) -> i64 {
        self.outer.iter().product()
    }
    /// Number of multiplications.
    pub fn work(&self) -> i64 {
        [self.lhs.size, self.rhs.size, self.k].iter().fold(self.repeats(), |work, &size| work.saturating_mul(size))
    }
    /// Returns true if code can be generated at all: the sums are not empty, and memory runs forward.
    pub fn is_regular(&self) -> bool {
        let sizes = [self.k, self.lhs.size, self.rhs.size];
        sizes.iter().chain(&self.outer).all(|&size| size > 0) && self.lhs.is_forward() && self.rhs.is_forward()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_layer_has_its_weights_as_columns() {
        let problem = Problem::of(0, (&[128, 768], &[768, 1]), (&[768, 3072], &[1, 768])).expect("fits");
        assert_eq!(problem.rhs, Side { size: 3072, stride: 768, along_k: 1, outer: vec![] });
        assert_eq!((problem.lhs.size, problem.k, problem.work()), (128, 768, 128 * 768 * 3072));
    }

    #[test]
    fn dimensions_of_lhs_alone_repeat_rhs() {
        let problem = Problem::of(1, (&[4, 2, 8, 16], &[256, 128, 16, 1]), (&[4, 16, 3], &[48, 3, 1])).expect("fits");
        assert_eq!((problem.outer.as_slice(), problem.rhs.outer.as_slice()), ([4, 2].as_slice(), [48, 0].as_slice()));
        assert!(!problem.rhs.is_shared());
    }

    #[test]
    fn vectors_are_single_lines() {
        let problem = Problem::of(0, (&[16], &[1]), (&[16], &[1])).expect("fits");
        assert_eq!((problem.lhs.size, problem.rhs.size, problem.repeats()), (1, 1, 1));
    }
}
