//! Which operands of a kernel over rows are copied, some rows at a time, to where they lie along the rows.
//!
//! A row of a transposed matrix is one element of each cache line, and a kernel that goes over its rows several times, such as a
//! softmax, would fetch every line several times for each of them.

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

/// Rows that are copied together: as many as have their elements in the same cache lines.
pub(crate) fn rows(element: Type) -> i64 {
    (512 / i64::from(element.width())).clamp(8, 16)
}

/// Whether memory lies across the rows of a kernel, and is worth a copy.
pub(super) fn pays(kernel: &Kernel, memory: Type) -> bool {
    let innermost = kernel.domain.len() - 1;
    if !memory.is_memref() || kernel.reduced != [innermost] || memory.shape().contains(&DYNAMIC) || memory.rank() != innermost + 1 {
        return false;
    }
    let known = kernel.domain.iter().map(Dim::known).collect::<Option<Vec<_>>>();
    let access: Vec<_> = (0..=innermost).collect();
    let bytes = i64::from(memory.element().width().div_ceil(8));
    let row = memory.shape()[innermost];
    known.is_some_and(|sizes| sizes == memory.shape() && sizes.iter().product::<i64>() >= FEWEST)
        && row * bytes * rows(memory.element()) <= BYTES
        && transpose_tiles::crossed(&access, &memory.shape(), &memory.strides(), innermost).is_some()
}
