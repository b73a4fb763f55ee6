//! Which operands of a kernel over rows are copied, some rows at a time, to where they lie along the rows.
//!
//! A row of a transposed matrix is one element of each cache line, and a kernel that goes over its rows several times, such as a
//! softmax, would fetch every line several times for each of them. Of rows with gaps (`x[:, ::2]`) LLVM computes the last 64 elements or
//! so one by one, since it reads whole vectors, gaps and all, and nothing may lie behind the last one: where that is an exponential, each
//! takes as long as a vector of them, and to copy it one step. Such rows are copied one at a time.

use dynamlir_dialect::ir::{DYNAMIC, Type};
use dynamlir_shapes::Dim;

use super::kernel::Kernel;
use crate::transpose_tiles;

/// Most operands that are copied: copies share the stack of a thread.
pub(super) const MOST: usize = 2;
/// Bytes of some rows of an operand.
const BYTES: i64 = 128 * 1024;
/// Fewest elements of a kernel that does so.
const FEWEST: i64 = 32 * 1024;

/// The largest step between elements of a row with gaps.
const GAP: i64 = 4;

/// Columns that are copied together at least, where columns are reduced.
const FEWEST_COLUMNS: i64 = 16;

/// Rows that are copied together: as many as have their elements in the same cache lines.
pub(crate) fn rows(element: Type) -> i64 {
    (512 / i64::from(element.width())).clamp(8, 16)
}

/// Returns true if memory lies across the rows of a kernel, or has gaps in them, and is worth a copy where so many phases go over it.
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
