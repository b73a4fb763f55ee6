//! Convolutions over two dimensions, and their gradients. `dynamo-select` decides whether generated code or the library computes them.
//!
//! Both gradients are expressed with ops for which there is generated code:
//!
//! - The gradient of the images is a convolution of the result's gradient with the reversed weights, with input and output channels
//!   swapped. With a stride `s`, every `s`-th row of the images is read by the same taps. So there is one convolution for each remainder of
//!   rows and of columns, and their results are interleaved. Nothing is multiplied with the zeros that a stride would leave between
//!   gradients.
//! - The gradient of one tap of the weights is the product of the result's gradient, `[outputs, positions]`, with the elements that the tap
//!   reads, `[positions, channels]`. Padded rows of both are given the same length. Then the elements read by a tap are one line of the
//!   images' memory for each channel, starting at the tap's own offset, and no matrix of all windows is built. Each row of gradients is
//!   followed by zeros, so that elements read across the end of a row do not count.
//!
//! With one channel per window (depthwise), the products are sums along that line. If there are more weights than windows, as in the last
//! layers of a network, the matrix of all windows is small, and both gradients are a product with it. The weights are not moved then.

use dynamlir_dialect::ir::{Attr, Type, Value};

use super::{Call, Lowering};
use crate::anchors::windows::Windows;

/// Lowerings by schema. A declined call stays an extern call.
pub const TABLE: &[(&str, Lowering)] = &[("aten.convolution.default", convolution), ("aten.convolution_backward.default", backward)];

/// With fewer input channels than this all taps form one product, since a product for each tap would be too narrow.
const NARROW: i64 = 16;
/// The maximum number of taps of a window whose gradient is generated code.
const MOST_TAPS: i64 = 64;

fn convolution(c: &Call) -> Option<Vec<Value>> {
    let (input, weight, ty) = (c.tensor(0)?, c.tensor(1)?, c.result_type(0));
    let how = How::of(c, 3).filter(|_| [input.ty(), weight.ty(), ty].into_iter().all(is_single))?;
    let sums = c.e.convolution(input, weight, [how.strides, how.padding, how.dilation], how.groups, ty);
    Windows::of(sums.def()?, &input.ty().strides())?;
    Some(vec![match c.tensor(2) {
        Some(bias) => c.e.add(sums, c.e.broadcast(bias, &ty.shape(), &[1])),
        None => sums,
    }])
}

/// Lowers a call for one of the two gradients; a call for both is declined.
fn backward(c: &Call) -> Option<Vec<Value>> {
    let (gradient, images, weights) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let how = How::of(c, 4).filter(|_| [gradient.ty(), images.ty(), weights.ty()].into_iter().all(is_single))?;
    let mask: Vec<bool> = c.arg(10)?.as_array()?.into_iter().map(Attr::as_bool).collect::<Option<_>>()?;
    let s = Sizes::of(gradient, images, weights, how)?;
    let nothing = |i: usize| c.e.full(&c.result_shape(i), c.result_type(i).element(), 0.0);
    match mask[..] {
        [true, false, false] => Some(vec![s.of_images(c, gradient, weights)?, nothing(1), nothing(2)]),
        [false, true, false] => Some(vec![nothing(0), s.of_weights(c, gradient, images)?, nothing(2)]),
        _ => None,
    }
}

fn is_single(ty: Type) -> bool {
    ty.element().is_f32() && ty.rank() == 4
}

/// The arrangement of the windows.
#[derive(Clone, Copy)]
struct How {
    strides: [i64; 2],
    padding: [i64; 2],
    dilation: [i64; 2],
    groups: i64,
}

impl How {
    /// Reads the call's arguments starting at `first`; returns None for a transposed convolution.
    fn of(c: &Call, first: usize) -> Option<Self> {
        let pair = |i: usize| match c.ints(first + i)?[..] {
            [both] => Some([both, both]),
            [first, second] => Some([first, second]),
            _ => None,
        };
        (c.bool(first + 3) == Some(false)).then_some(())?;
        Some(Self { strides: pair(0)?, padding: pair(1)?, dilation: pair(2)?, groups: c.int(first + 5)? })
    }
}

/// The sizes of a convolution.
struct Sizes {
    how: How,
    count: i64,
    /// The output channels, followed by the input channels of a group.
    outputs: i64,
    channels: i64,
    image: [i64; 2],
    window: [i64; 2],
    result: [i64; 2],
}

/// The taps that read the rows (or columns) of an image that have one remainder modulo the stride.
struct Phase {
    /// The first of the taps; each stride-th follows.
    tap: i64,
    taps: i64,
    /// The number of these rows, followed by the number of rows by which the first row's window of gradients begins before the gradients.
    rows: i64,
    before: i64,
}

impl Sizes {
    fn of(gradient: Value, images: Value, weights: Value, how: How) -> Option<Self> {
        let (g, x, w) = (gradient.ty().shape(), images.ty().shape(), weights.ty().shape());
        let sized = g.iter().chain(&x).chain(&w).all(|&size| size > 0);
        let plain = (0..2).all(|i| how.strides[i] == 1 || how.dilation[i] == 1);
        let fits = how.groups > 0 && x[1] == w[1] * how.groups && w[0] % how.groups == 0 && w[2] * w[3] <= MOST_TAPS;
        (sized && plain && fits).then_some(Self {
            how,
            count: x[0],
            outputs: w[0],
            channels: w[1],
            image: [x[2], x[3]],
            window: [w[2], w[3]],
            result: [g[2], g[3]],
        })
    }

    fn is_depthwise(&self) -> bool {
        self.channels == 1 && self.outputs == self.how.groups
    }

    fn taps(&self) -> i64 {
        self.window[0] * self.window[1]
    }

    /// Returns the gradient of the images.
    fn of_images(&self, c: &Call, gradient: Value, weights: Value) -> Option<Value> {
        if self.has_small_columns() {
            return Some(self.of_images_by_columns(c, gradient, weights));
        }
        let ([down, across], e) = (self.how.strides, &c.e);
        let element = gradient.ty().element();
        let all = self.channels * self.how.groups;
        let mut parts = Vec::new();
        let mut rows = [0; 2];
        for (first, second) in (0..down).flat_map(|first| (0..across).map(move |second| (first, second))) {
            let phases = [self.phase(0, first), self.phase(1, second)];
            rows = [phases[0].rows, phases[1].rows];
            let shape = [self.count, all, rows[0], rows[1]];
            let part = if phases.iter().any(|phase| phase.taps == 0) {
                e.full(&shape, element, 0.0)
            } else {
                self.phase_of_images(c, gradient, weights, &phases, Type::tensor(&shape, element))?
            };
            parts.push(e.reshape(part, &[&[1], &shape[..]].concat()));
        }
        let together = e.reshape(e.concat(&parts, 0), &[down, across, self.count, all, rows[0], rows[1]]);
        let whole = e.reshape(e.permute(together, &[2, 3, 4, 0, 5, 1]), &[self.count, all, rows[0] * down, rows[1] * across]);
        Some(e.slice(whole, &[0; 4], &[1; 4], &[self.count, all, self.image[0], self.image[1]]))
    }

    /// Returns true if the matrix of all windows is smaller than the weights or is the images themselves. Then building it is cheaper than
    /// moving the weights.
    fn has_small_columns(&self) -> bool {
        let positions = self.count * self.result[0] * self.result[1];
        let is_all = self.taps() == 1 && self.how.strides == [1, 1];
        self.how.groups == 1 && (self.outputs > positions || is_all)
    }

    /// Returns the row and the column of the images that a tap reads in the first window; negative in the padding.
    fn met(&self, tap: i64) -> [i64; 2] {
        let taps = [tap / self.window[1], tap % self.window[1]];
        [0, 1].map(|dim| taps[dim] * self.how.dilation[dim] - self.how.padding[dim])
    }

    /// The gradient of the elements that each tap reads is a product. It is added up where several taps read the same element.
    fn of_images_by_columns(&self, c: &Call, gradient: Value, weights: Value) -> Value {
        let (e, [count, rows, columns]) = (&c.e, [self.count, self.result[0], self.result[1]]);
        let turned = e.permute(e.reshape(weights, &[self.outputs, self.channels * self.taps()]), &[1, 0]);
        let lines = e.reshape(e.permute(gradient, &[1, 0, 2, 3]), &[self.outputs, count * rows * columns]);
        let products = e.reshape(e.matmul(turned, lines, 0), &[self.channels, self.taps(), count, rows, columns]);
        let each = (0..self.taps()).map(|tap| {
            let own = e.reshape(e.slice_dim(products, 1, tap, 1, 1), &[self.channels, count, rows, columns]);
            self.spread(c, e.permute(own, &[1, 0, 2, 3]), self.met(tap))
        });
        each.reduce(|sum, own| e.add(sum, own)).unwrap_or(gradient)
    }

    /// Places gradients at the elements of the images that a tap reads, and zeros elsewhere.
    fn spread(&self, c: &Call, own: Value, first: [i64; 2]) -> Value {
        let (e, strides) = (&c.e, self.how.strides);
        let shape = own.ty().shape();
        let wide = [shape[0], shape[1], shape[2] * strides[0], shape[3] * strides[1]];
        let apart = if strides == [1, 1] {
            own
        } else {
            let single = e.reshape(own, &[shape[0], shape[1], shape[2], 1, shape[3], 1]);
            e.reshape(e.pad(single, &[0; 6], &[0, 0, 0, strides[0] - 1, 0, strides[1] - 1], 0.0), &wide)
        };
        framed(c, apart, first, [0, 1].map(|dim| self.image[dim] - first[dim] - wide[dim + 2]))
    }

    /// Returns the rows (dimension 0) or columns of an image with the remainder `rest` modulo the stride: row `y` is read by the taps `t`
    /// for which `y + padding - t` is a multiple of the stride.
    fn phase(&self, dim: usize, rest: i64) -> Phase {
        let (stride, padding, window) = (self.how.strides[dim], self.how.padding[dim], self.window[dim]);
        let tap = (rest + padding) % stride;
        let taps = if tap < window { (window - tap + stride - 1) / stride } else { 0 };
        let rows = (self.image[dim] + stride - 1) / stride;
        Phase { tap, taps, rows, before: (taps - 1) * self.how.dilation[dim] - (rest + padding - tap) / stride }
    }

    fn phase_of_images(&self, c: &Call, gradient: Value, weights: Value, phases: &[Phase; 2], result: Type) -> Option<Value> {
        let (e, groups) = (&c.e, self.how.groups);
        let taps = [phases[0].taps, phases[1].taps];
        // With a single tap there is no next tap, so its step is irrelevant.
        let step = |dim: usize| if taps[dim] == 1 { 1 } else { self.how.strides[dim] };
        let own = e.slice(
            weights,
            &[0, 0, phases[0].tap, phases[1].tap],
            &[1, 1, step(0), step(1)],
            &[self.outputs, self.channels, taps[0], taps[1]],
        );
        let outputs = self.outputs / groups;
        let turned = e.permute(e.reshape(own, &[groups, outputs, self.channels, taps[0], taps[1]]), &[0, 2, 1, 3, 4]);
        let turned = e.reshape(turned, &[groups * self.channels, outputs, taps[0], taps[1]]);
        let over: Vec<i64> = (0..2).filter(|&dim| taps[dim] > 1).map(|dim| dim as i64 + 2).collect();
        let turned = e.reverse(turned, &over);
        // The number of rows past the end of the gradients that the last windows reach.
        let behind = |dim: usize| {
            let reach = phases[dim].rows + (taps[dim] - 1) * self.how.dilation[dim];
            reach - phases[dim].before - self.result[dim]
        };
        let (before, behind) = ([phases[0].before, phases[1].before], [behind(0), behind(1)]);
        let (given, padding) = if before == behind && before.iter().all(|&rows| rows >= 0) {
            (gradient, before)
        } else {
            (framed(c, gradient, before, behind), [0, 0])
        };
        let sums = e.convolution(given, turned, [[1, 1], padding, self.how.dilation], groups, result);
        Windows::of(sums.def()?, &given.ty().strides())?;
        Some(sums)
    }

    /// Returns the gradient of the weights.
    fn of_weights(&self, c: &Call, gradient: Value, images: Value) -> Option<Value> {
        let e = &c.e;
        if self.has_small_columns() {
            return Some(self.of_weights_by_columns(c, gradient, images));
        }
        let ([down, across], all) = (self.how.strides, self.channels * self.how.groups);
        // The row (or column) of a phase at which a tap begins, and the phase, which is the tap's remainder modulo the stride.
        let offset = |dim: usize, tap: i64| tap * self.how.dilation[dim] / self.how.strides[dim];
        let rest = |dim: usize, tap: i64| tap * self.how.dilation[dim] % self.how.strides[dim];
        let most = [offset(0, self.window[0] - 1), offset(1, self.window[1] - 1)];
        let [rows, columns] = [self.result[0] + most[0], self.result[1] + most[1]];
        let behind = |dim: usize, size: i64| self.how.strides[dim] * size - self.image[dim] - self.how.padding[dim];
        let padded = framed(c, images, self.how.padding, [behind(0, rows), behind(1, columns)]);
        let line = |value: Value, channels: i64| e.reshape(e.permute(value, &[1, 0, 2, 3]), &[channels, self.count * rows * columns]);
        let gradients = line(framed(c, gradient, [0, 0], most), self.outputs);
        let length = self.count * rows * columns - most[0] * columns - most[1];
        let gradients = e.slice_dim(gradients, 1, 0, 1, length);
        let phases: Vec<Value> = (0..down * across)
            .map(|phase| {
                let starts = [0, 0, phase / across, phase % across];
                line(e.slice(padded, &starts, &[1, 1, down, across], &[self.count, all, rows, columns]), all)
            })
            .collect();
        let met = |tap: i64| {
            let (row, column) = (tap / self.window[1], tap % self.window[1]);
            let phase = rest(0, row) * across + rest(1, column);
            e.slice_dim(phases[usize::try_from(phase).unwrap_or_default()], 1, offset(0, row) * columns + offset(1, column), 1, length)
        };
        let taps = self.taps();
        let shape = [self.outputs, self.channels, self.window[0], self.window[1]];
        let found = if self.is_depthwise() {
            let sums = (0..taps).map(|tap| e.sum(e.mul(gradients, met(tap)), &[1], true)).collect::<Vec<_>>();
            e.concat(&sums, 1)
        } else if self.how.groups != 1 {
            return None;
        } else if self.channels < NARROW && taps > 1 {
            let columns = e.concat(&(0..taps).map(met).collect::<Vec<_>>(), 0);
            let product = e.matmul(gradients, e.permute(columns, &[1, 0]), 0);
            e.permute(e.reshape(product, &[self.outputs, taps, self.channels]), &[0, 2, 1])
        } else {
            let product = |tap: i64| e.matmul(gradients, e.permute(met(tap), &[1, 0]), 0);
            let each: Vec<Value> = (0..taps).map(|tap| e.reshape(product(tap), &[1, self.outputs, self.channels])).collect();
            e.permute(e.concat(&each, 0), &[1, 2, 0])
        };
        Some(e.reshape(found, &shape))
    }

    /// Returns the product of the result's gradient with the matrix of all windows.
    fn of_weights_by_columns(&self, c: &Call, gradient: Value, images: Value) -> Value {
        let (e, [rows, columns]) = (&c.e, self.result);
        let positions = self.count * rows * columns;
        let each = (0..self.taps()).map(|tap| {
            let first = self.met(tap);
            let last = [0, 1].map(|dim| first[dim] + (self.result[dim] - 1) * self.how.strides[dim] + 1 - self.image[dim]);
            let reached = framed(c, images, first.map(|row| -row), last);
            let met =
                e.slice(reached, &[0; 4], &[1, 1, self.how.strides[0], self.how.strides[1]], &[self.count, self.channels, rows, columns]);
            e.reshape(e.permute(met, &[1, 0, 2, 3]), &[self.channels, 1, positions])
        });
        let windows = e.reshape(e.concat(&each.collect::<Vec<_>>(), 1), &[self.channels * self.taps(), positions]);
        let lines = e.reshape(e.permute(gradient, &[1, 0, 2, 3]), &[self.outputs, positions]);
        let shape = [self.outputs, self.channels, self.window[0], self.window[1]];
        e.reshape(e.matmul(lines, e.permute(windows, &[1, 0]), 0), &shape)
    }
}

/// Returns the images padded with this many rows and columns of zeros; a negative number crops instead.
fn framed(c: &Call, images: Value, before: [i64; 2], behind: [i64; 2]) -> Value {
    let mut sizes = images.ty().shape();
    let mut starts = vec![0; 4];
    for dim in 0..2 {
        starts[dim + 2] = (-before[dim]).max(0);
        sizes[dim + 2] -= starts[dim + 2] + (-behind[dim]).max(0);
    }
    let part = c.e.slice(images, &starts, &[1; 4], &sizes);
    let zeros = |rows: [i64; 2]| [0, 0, rows[0].max(0), rows[1].max(0)];
    c.e.pad(part, &zeros(before), &zeros(behind), 0.0)
}
