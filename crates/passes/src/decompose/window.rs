//! The windows of a pooling: their arguments, their taps as slices of the image, and their positions.

use dynamlir_dialect::ir::{Type, Value};

use super::{Call, view::cut};
use crate::emit::Scalar;

/// The maximum number of taps of a window. Larger windows are left to the library: each tap is an operand of the kernel.
const MOST_TAPS: i64 = 36;

/// One dimension of the windows.
#[derive(Clone, Copy)]
pub(super) struct Axis {
    /// The number of elements of the image.
    pub size: i64,
    /// The number of windows.
    pub count: i64,
    /// The number of taps of one window.
    pub kernel: i64,
    /// The distance between windows.
    pub stride: i64,
    /// The padding before the image. The padding after it is the same, except that it ends where the last window ends.
    pub padding: i64,
    /// The distance between taps.
    pub dilation: i64,
}

/// Windows over the last dimensions.
pub(super) struct Windows {
    /// The dimensions of the windows.
    pub axes: Vec<Axis>,
    /// The number of dimensions before them.
    pub front: usize,
}

/// Reads `rank` numbers; a single one applies to all dimensions.
fn numbers(call: &Call, arg: usize, rank: usize) -> Option<Vec<i64>> {
    let list = call.ints(arg)?;
    match *list {
        [one] => Some(vec![one; rank]),
        _ => (list.len() == rank).then_some(list),
    }
}

/// Returns all positions in a box of these sizes, in row-major order.
pub(super) fn places(sizes: &[i64]) -> Vec<Vec<i64>> {
    sizes.iter().fold(vec![Vec::new()], |outer, &size| {
        outer.iter().flat_map(|place: &Vec<i64>| (0..size).map(move |k| [place.as_slice(), &[k]].concat())).collect()
    })
}

impl Windows {
    /// Reads kernel, stride and padding from arguments 1 to 3, and dilation from argument `dilation` if there is one. Returns None if there
    /// are too many taps or the result is empty.
    pub fn read(call: &Call, rank: usize, dilation: Option<usize>) -> Option<Self> {
        let shape = call.tensor(0)?.ty().shape();
        let counts = call.result_shape(0);
        let front = shape.len().checked_sub(rank).filter(|_| counts.len() == shape.len())?;
        let kernel = numbers(call, 1, rank)?;
        let stride = if call.ints(2).is_none_or(|s| s.is_empty()) { kernel.clone() } else { numbers(call, 2, rank)? };
        let padding = numbers(call, 3, rank)?;
        let dilation = dilation.map_or_else(|| Some(vec![1; rank]), |arg| numbers(call, arg, rank))?;
        let axis = |i: usize| Axis {
            size: shape[front + i],
            count: counts[front + i],
            kernel: kernel[i],
            stride: stride[i],
            padding: padding[i],
            dilation: dilation[i],
        };
        let axes: Vec<Axis> = (0..rank).map(axis).collect();
        let taps: i64 = kernel.iter().product();
        ((1..=MOST_TAPS).contains(&taps) && !counts.contains(&0)).then_some(Self { axes, front })
    }

    /// Returns the image padded as far as the windows reach.
    pub fn padded(&self, call: &Call, x: Value, value: impl Into<Scalar>) -> Value {
        let (mut low, mut high) = (vec![0; self.front], vec![0; self.front]);
        for axis in &self.axes {
            let reach = (axis.count - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1;
            low.push(axis.padding);
            high.push((reach - axis.size - axis.padding).max(0));
        }
        call.e.pad(x, &low, &high, value)
    }

    /// Returns the taps in row-major order.
    pub fn taps(&self) -> Vec<Vec<i64>> {
        places(&self.axes.iter().map(|axis| axis.kernel).collect::<Vec<_>>())
    }

    /// Returns one tap of all windows of the padded image.
    pub fn tap(&self, call: &Call, padded: Value, tap: &[i64]) -> Value {
        self.axes
            .iter()
            .zip(tap)
            .enumerate()
            .fold(padded, |x, (i, (axis, &k))| cut(call, x, (self.front + i) as i64, k * axis.dilation, axis.stride, axis.count))
    }

    /// Returns the start of each window along an axis, relative to the image without padding, as `i64`.
    pub fn starts(&self, call: &Call, i: usize) -> Value {
        let axis = self.axes[i];
        let index = call.e.iota(&call.result_shape(0), self.front + i);
        let start = call.e.mul(index, call.e.full_like(index, axis.stride));
        call.e.sub(start, call.e.full_like(start, axis.padding))
    }

    /// Returns the position of each window's first tap inside the image.
    pub fn first_inside(&self, call: &Call, i: usize) -> Value {
        let (axis, start) = (self.axes[i], self.starts(call, i));
        let e = &call.e;
        let zero = e.full_like(start, 0i64);
        // Every window has a tap inside the image, so only taps before the image are skipped.
        (0..axis.kernel)
            .filter(|k| k * axis.dilation < axis.padding)
            .fold(start, |at, _| e.select(e.lt(at, zero), e.add(at, e.full_like(at, axis.dilation)), at))
    }

    /// Returns the row-major index in the image of each window's tap or start, whose positions are given for each axis.
    pub fn flat(&self, call: &Call, places: &[Value]) -> Option<Value> {
        let e = &call.e;
        let sum = places.iter().zip(&self.axes).map(|(&at, axis)| (at, axis.size));
        sum.reduce(|(outer, _), (at, size)| (e.add(e.mul(outer, e.full_like(outer, size)), at), size)).map(|(at, _)| at)
    }

    /// Returns the number of elements that each window averages, as a float; a constant if it is the same for all windows.
    pub fn divisor(&self, call: &Call, element: Type, include_padding: bool) -> Value {
        let e = &call.e;
        let shape = call.result_shape(0);
        let mut product: Option<Value> = None;
        let mut constant = 1;
        for (i, axis) in self.axes.iter().enumerate() {
            let end = axis.size + if include_padding { axis.padding } else { 0 };
            let reach = (axis.count - 1) * axis.stride - axis.padding + axis.kernel;
            if reach <= end && (include_padding || axis.padding == 0) {
                constant *= axis.kernel;
                continue;
            }
            let start = self.starts(call, i);
            let last = e.min(e.add(start, e.full_like(start, axis.kernel)), e.full_like(start, end));
            let first = if include_padding { start } else { e.max(start, e.full_like(start, 0i64)) };
            let count = e.convert(e.sub(last, first), element);
            product = Some(product.map_or(count, |p| e.mul(p, count)));
        }
        let constant = e.full(&shape, element, constant);
        product.map_or(constant, |p| e.mul(p, constant))
    }
}
