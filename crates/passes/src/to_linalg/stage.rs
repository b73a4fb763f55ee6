//! Chooses the operands of a kernel over rows that are copied, a few rows at a time, to a contiguous layout along the rows.
//!
//! A row of a transposed matrix is one element of each cache line. A kernel that iterates over its rows several times, such as a softmax,
//! would fetch every line several times for each row. For rows with gaps (`x[:, ::2]`), LLVM computes about the last 64 elements one by
//! one: it reads whole vectors, including the gaps, and must not read past the last element. If the computation is an exponential, each of
//! these elements takes as long as a whole vector, while copying it is a single step. Such rows are copied one at a time.

use dynamlir_dialect::ir::{DYNAMIC, Type};
use dynamlir_shapes::Dim;

use super::kernel::Kernel;
use crate::transpose_tiles;

/// The maximum number of operands that are copied: the copies share a thread's stack.
pub(super) const MOST: usize = 2;
/// The maximum number of bytes copied of an operand at a time.
const BYTES: i64 = 128 * 1024;
/// The minimum number of elements for which a kernel copies crossing rows.
const FEWEST: i64 = 32 * 1024;

/// The largest step between elements of a row with gaps.
const GAP: i64 = 4;

/// The minimum number of columns that are copied together if columns are reduced.
const FEWEST_COLUMNS: i64 = 16;

/// The number of rows that are copied together: those whose elements share cache lines.
pub(crate) fn rows(element: Type) -> i64 {
    (512 / i64::from(element.width())).clamp(8, 16)
}

/// Returns true if memory lies across the rows of a kernel, or has gaps in them, and copying it pays for this number of phases that iterate
/// over it.
pub(super) fn pays(kernel: &Kernel, memory: Type, goes_over: usize) -> bool {
    let innermost = kernel.domain.len() - 1;
    if !memory.is_memref() || kernel.reduced.is_empty() || memory.shape().contains(&DYNAMIC) || memory.rank() != innermost + 1 {
        return false;
    }
    let (known, shape) = (kernel.domain.iter().map(Dim::known).collect::<Option<Vec<_>>>(), memory.shape());
    if known.as_ref() != Some(&shape) {
        return false;
    }
    let access: Vec<_> = (0..=innermost).collect();
    let bytes = i64::from(memory.element().width().div_ceil(8));
    let row = shape[innermost] * bytes;
    let in_rows = kernel.reduced == [innermost];
    if transpose_tiles::crossed(&access, &shape, &memory.strides(), innermost).is_some() {
        return in_rows && shape.iter().product::<i64>() >= FEWEST && row * rows(memory.element()) <= BYTES;
    }
    let column = kernel.reduced.iter().map(|&dim| shape[dim]).product::<i64>() * bytes;
    let fits = if in_rows { row <= BYTES / 2 } else { goes_over > 1 && column * FEWEST_COLUMNS <= BYTES };
    (2..=GAP).contains(&memory.strides()[innermost]) && fits
}
