//! Maxima of windows on targets without sufficiently wide vectors: a strided slice of the padded images for each tap of the windows, and a
//! running maximum over the slices, which is one pointwise kernel.

use dynamlir_dialect::{ir::Builder, ops::MaxPoolOp};

use crate::emit::Emit;

/// Replaces the primitive by slices; NaN remains larger than any number.
pub(super) fn expand(pool: MaxPoolOp) {
    let e = Emit::new(Builder::before(pool.op()));
    let (image, result) = (pool.input(), pool.result().ty());
    let (shape, window, strides, dilation) = (image.ty().shape(), pool.window(), pool.strides(), pool.dilation());
    let padding = pool.padding();
    let reach = |i: usize| dilation[i] * (window[i] - 1) + 1;
    let along = |i: usize| (shape[i + 2] + 2 * padding[i] - reach(i)) / strides[i] + 1;
    let sizes = [shape[0], shape[1], along(0), along(1)];
    // The padding after the images extends only to the end of the last windows.
    let behind = |i: usize| ((along(i) - 1) * strides[i] + reach(i) - shape[i + 2] - padding[i]).max(0);
    let padded = e.pad(image, &[0, 0, padding[0], padding[1]], &[0, 0, behind(0), behind(1)], f64::NEG_INFINITY);
    let tap =
        |row: i64, column: i64| e.slice(padded, &[0, 0, row * dilation[0], column * dilation[1]], &[1, 1, strides[0], strides[1]], &sizes);
    let taps = (0..window[0]).flat_map(|row| (0..window[1]).map(move |column| (row, column)));
    let largest = taps.map(|(row, column)| tap(row, column)).reduce(|a, b| e.max(a, b));
    if let Some(largest) = largest {
        pool.result().replace_all_uses_with(e.reshape(largest, &result.shape()));
        pool.op().erase();
    }
}
