//! The description of a convolution, and the schedule of its loops; [`super::cut`] chooses the schedule.
//!
//! A convolution is a product for each image and group of channels. Rows are windows' weights, one for each output channel; k runs over
//! input channels and the window; lanes are positions in the result.

use dynamlir_dialect::{
    ir::{Attr, Ctx, Op},
    ops::DynamoOp,
};

use super::{
    choose::{LOCAL, ceiling},
    cut::choose,
    plane::Plane,
    reaches_by_i32,
};

/// The maximum extent of memory addressed by lanes: offsets have 32 bits.
const REACH: i64 = 1 << 30;
/// The maximum number of floats in a copy of the images, 256 MiB.
const COPY: i64 = 1 << 26;

/// A convolution over two dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Number of images.
    pub images: i64,
    /// Number of groups of channels.
    pub groups: i64,
    /// Output channels of a group.
    pub outputs: i64,
    /// Input channels of a group.
    pub channels: i64,
    /// Height and width of an image.
    pub size: [i64; 2],
    /// Height and width of a window.
    pub window: [i64; 2],
    /// Steps from one window to the next.
    pub strides: [i64; 2],
    /// Rows and columns of padding zeros on each side.
    pub padding: [i64; 2],
    /// The distance between adjacent elements of a window.
    pub dilation: [i64; 2],
    /// Height and width of the result.
    pub result: [i64; 2],
    /// The input's strides: of images, channels, rows, columns.
    pub input: [i64; 4],
}

impl Windows {
    /// Describes a `dynamo.convolution` or `dynamo.max_pool` whose input has these strides.
    pub fn of(op: Op, input_strides: &[i64]) -> Option<Self> {
        let pair = |list: Vec<i64>| <[i64; 2]>::try_from(list).ok();
        let input = <[i64; 4]>::try_from(op.operand(0).ty().shape()).ok()?;
        let (weight, groups, [strides, padding, dilation]) = match DynamoOp::of(op)? {
            DynamoOp::MaxPool(pool) => {
                let [height, width] = pair(pool.window())?;
                ([input[1], 1, height, width], input[1], [pool.strides(), pool.padding(), pool.dilation()])
            }
            DynamoOp::Convolution(c) if c.groups() > 0 => {
                (<[i64; 4]>::try_from(c.weight().ty().shape()).ok()?, c.groups(), [c.strides(), c.padding(), c.dilation()])
            }
            _ => return None,
        };
        let (strides, padding, dilation) = (pair(strides)?, pair(padding)?, pair(dilation)?);
        if !reaches_by_i32(&input, input_strides) {
            return None;
        }
        let along = |i: usize| (input[i + 2] + 2 * padding[i] - dilation[i] * (weight[i + 2] - 1) - 1) / strides[i] + 1;
        Some(Self {
            images: input[0],
            groups,
            outputs: weight[0] / groups,
            channels: weight[1],
            size: [input[2], input[3]],
            window: [weight[2], weight[3]],
            strides,
            padding,
            dilation,
            result: [along(0), along(1)],
            input: <[i64; 4]>::try_from(input_strides).ok()?,
        })
    }

    /// Number of elements in a window.
    pub fn taps(&self) -> i64 {
        self.window[0] * self.window[1]
    }
    /// Length of the sums.
    pub fn k(&self) -> i64 {
        self.channels * self.taps()
    }
    /// Number of positions in the result.
    pub fn positions(&self) -> i64 {
        self.result[0] * self.result[1]
    }
    /// Returns true if each output channel has its own input channel.
    pub fn is_depthwise(&self) -> bool {
        self.outputs == 1 && self.channels == 1
    }
    /// Number of multiplications.
    pub fn work(&self) -> i64 {
        [self.images, self.groups, self.outputs, self.positions()].iter().fold(self.k(), |work, &size| work.saturating_mul(size))
    }
    /// Returns true if windows are read from a copy of the images. The copy is padded with zeros, and its columns are grouped by their
    /// remainder modulo the stride, so that those read by the same tap of adjacent windows are adjacent.
    pub fn is_copied(&self) -> bool {
        self.padding != [0, 0] || (self.strides[1] > 1 && self.taps() > 1)
    }
    /// The rows of an image in the copy, and the columns of each of its `strides[1]` residue classes.
    pub fn copied(&self) -> [i64; 2] {
        let [height, width] = [0, 1].map(|i| self.size[i] + 2 * self.padding[i]);
        [height, ceiling(width, self.strides[1])]
    }
    /// Number of elements of the copy.
    pub fn copy(&self) -> i64 {
        if self.is_copied() && !self.is_depthwise() { self.images * self.source()[0] } else { 0 }
    }
    /// The strides of the memory that windows are read from: of images, channels, rows, and the columns of two adjacent windows.
    pub fn source(&self) -> [i64; 4] {
        if !self.is_copied() {
            let [image, channel, row, column] = self.input;
            return [image, channel, row, column * self.strides[1]];
        }
        let [height, width] = self.copied();
        let row = self.strides[1] * width;
        [self.groups * self.channels * height * row, height * row, row, 1]
    }
    /// The distance of a window's column from its first column.
    pub fn column(&self, tap: i64) -> i64 {
        let (along, stride) = (tap * self.dilation[1], self.strides[1]);
        if self.is_copied() { along % stride * self.copied()[1] + along / stride } else { along * self.input[3] }
    }
    /// The result's dimensions as seen by the epilogue, which omits those of size 1: images, channels, positions.
    pub fn domain(&self) -> [i64; 3] {
        [self.images, self.groups * self.outputs, self.positions()]
    }
    /// The lines of positions that are adjacent in the memory that windows are read from: their length, their number in an image, and the
    /// distance from one line to the next.
    pub fn lines(&self) -> (i64, i64, i64) {
        let [_, _, row, column] = self.source();
        let step = self.strides[0] * row;
        if column == 1 && step == self.result[1] {
            (self.positions(), 1, step * self.result[0])
        } else {
            (self.result[1], self.result[0], step)
        }
    }
    /// Returns true if adjacent positions are not adjacent in that memory, and must be read one by one.
    pub fn is_gathered(&self) -> bool {
        let (length, _, step) = self.lines();
        self.source()[3] != 1 || step < length
    }
    /// Returns true if `images` consecutive images can be treated as one.
    pub(super) fn are_joined_by(&self, images: i64) -> bool {
        let [image, _, row, _] = self.source();
        let is_forward = image >= self.result[0] * self.strides[0] * row;
        images == 1 || self.images % images == 0 && is_forward && image.saturating_mul(images) < REACH
    }
    pub(super) fn is_regular(&self) -> bool {
        let sizes = [self.images, self.outputs, self.k(), self.positions()];
        let reach = self.source()[2].saturating_mul(self.copied()[0]).saturating_add(self.source()[3].saturating_mul(self.result[1]));
        sizes.iter().all(|&size| size > 0) && self.input.iter().all(|&stride| stride >= 0) && reach < REACH && self.copy() < COPY
    }
}

/// The schedule of a convolution's loops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowSchedule {
    /// Elements of a vector.
    pub width: i64,
    /// Number of adjacent vectors in a tile.
    pub vectors: i64,
    /// The maximum number of rows in a tile.
    pub rows: i64,
    /// Output channels that are processed together.
    pub group: i64,
    /// Input channels whose windows are copied at once.
    pub depth: i64,
    /// Panels that are processed together.
    pub chunk: i64,
    /// Number of images that share panels: in the lanes, the positions of one continue where those of the previous one end. If there are
    /// several, all their panels are processed together.
    pub images: i64,
}

impl WindowSchedule {
    const FIELDS: [&'static str; 7] = ["chunk", "depth", "group", "images", "rows", "vectors", "width"];

    /// Number of positions in a panel.
    pub fn lanes(&self) -> i64 {
        self.width * self.vectors
    }
    /// Number of panels of the images that share them.
    pub fn panels(&self, windows: &Windows) -> i64 {
        ceiling(self.images * windows.positions(), self.lanes())
    }
    /// Number of panels of all images.
    pub fn all_panels(&self, windows: &Windows) -> i64 {
        windows.images / self.images * self.panels(windows)
    }
    /// Returns the schedule as an attribute of the kernel.
    pub fn to_attr(&self, ctx: Ctx) -> Attr {
        let values = [self.chunk, self.depth, self.group, self.images, self.rows, self.vectors, self.width];
        let fields: Vec<_> = Self::FIELDS.into_iter().zip(values).map(|(name, value)| (name, Attr::i64(ctx, value))).collect();
        Attr::dict(ctx, &fields)
    }
    /// Reads the attribute, which may contain anything, and checks it against the convolution.
    pub fn from_attr(attr: Attr, windows: &Windows) -> Option<Self> {
        let mut values = [0; 7];
        for (value, name) in values.iter_mut().zip(Self::FIELDS) {
            *value = attr.get(name)?.as_i64().filter(|&value| value > 0 && value <= 1 << 24)?;
        }
        let [chunk, depth, group, images, rows, vectors, width] = values;
        let schedule = Self { width, vectors, rows, group, depth, chunk, images };
        let tile = width.count_ones() == 1 && width <= 64 && vectors <= 8 && rows <= 32;
        (tile && schedule.joins(windows) && schedule.local(windows) <= LOCAL).then_some(schedule)
    }
    /// Returns true if this schedule's `images` can share panels.
    fn joins(&self, windows: &Windows) -> bool {
        self.images == 1 || (windows.are_joined_by(self.images) && self.chunk == self.panels(windows))
    }
    /// Floats in a thread's buffers.
    pub(super) fn local(&self, windows: &Windows) -> i64 {
        if windows.is_depthwise() {
            return Plane::of(windows, self).local();
        }
        let steps = self.depth.min(windows.channels).saturating_mul(windows.taps());
        let each = self.group.min(windows.outputs).saturating_add(steps);
        self.chunk.saturating_mul(self.lanes()).saturating_mul(each)
    }
}

/// The minimum number of output channels in a group: with fewer, copying windows takes as long as multiplying them.
const FEWEST_OUTPUTS: i64 = 16;
/// The minimum percentage of lanes in use.
const FULLEST: i64 = 80;
/// The number of input channels from which windows of one element are not worthwhile: their weights evict each other from the cache.
const MOST_CHANNELS: i64 = 1024;
/// The shortest sum.
const SHORTEST: i64 = 8;

/// Returns true if code is expected to be at least as fast as the library's call.
///
/// Speedups measured on one core with AVX-512 against torch 2.15's `oneDNN`, with bias and `relu`: windows of 3 by 3 1.1 to 1.4, 7 by 7
/// 1.2, single elements 0.9 to 1.65; with four images 0.85 to 1.5. Depthwise 1.5 to 4.
pub fn is_worth_generating_windows(windows: &Windows, vector_bits: i64) -> bool {
    let is_wide = windows.outputs >= FEWEST_OUTPUTS && windows.k() >= SHORTEST;
    let is_deep = windows.taps() == 1 && windows.channels >= MOST_CHANNELS;
    let fills = |schedule: WindowSchedule| {
        // For a single image, the library does not fill its vectors either.
        let lanes = schedule.all_panels(windows) * schedule.lanes();
        windows.images == 1 || windows.images * windows.positions() * 100 >= lanes * FULLEST
    };
    let suits = |schedule| windows.is_depthwise() || (is_wide && !is_deep && fills(schedule));
    vector_bits >= 256 && choose(windows, vector_bits).is_ok_and(suits)
}

/// Returns true if code may be tried at all: it might be competitive.
pub fn is_possible_windows(windows: &Windows, vector_bits: i64) -> bool {
    let is_wide = windows.outputs * 2 >= FEWEST_OUTPUTS && windows.k() >= SHORTEST;
    vector_bits >= 256 && (is_wide || windows.is_depthwise()) && choose(windows, vector_bits).is_ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A convolution of one image, padded so that the result keeps its size.
    pub(in super::super) fn windows(channels: i64, outputs: i64, size: i64, window: i64, stride: i64) -> Windows {
        let padding = window / 2;
        let along = (size + 2 * padding - window) / stride + 1;
        Windows {
            images: 1,
            groups: 1,
            outputs,
            channels,
            size: [size; 2],
            window: [window; 2],
            strides: [stride; 2],
            padding: [padding; 2],
            dilation: [1; 2],
            result: [along; 2],
            input: [channels * size * size, size * size, size, 1],
        }
    }

    #[test]
    fn what_is_chosen_fits_the_cache() {
        for (channels, outputs, size) in [(3, 64, 224), (64, 64, 56), (512, 512, 7), (2048, 2048, 7), (8, 8, 1)] {
            for (window, stride) in [(1, 1), (3, 1), (3, 2), (7, 2)] {
                let windows = windows(channels, outputs, size, window, stride);
                for bits in [0, 256, 512] {
                    let schedule = choose(&windows, bits).expect("regular");
                    assert!(schedule.local(&windows) <= LOCAL && schedule.chunk >= 1, "{windows:?} {schedule:?}");
                }
            }
        }
    }

    #[test]
    fn small_images_share_panels() {
        let one = windows(512, 512, 7, 3, 1);
        let four = Windows { images: 4, ..one.clone() };
        let schedule = choose(&four, 512).expect("regular");
        // 196 positions in 224 lanes; image by image, they would need 256.
        assert_eq!((choose(&one, 512).expect("regular").images, schedule.images), (1, 4));
        assert_eq!((schedule.chunk, schedule.all_panels(&four) * schedule.lanes()), (schedule.panels(&four), 224));
        assert!(schedule.local(&four) <= LOCAL && schedule.joins(&four));
        // An image repeated with stride 0 cannot be treated as one larger image.
        let repeated = Windows { input: [0, 49, 7, 1], window: [1; 2], padding: [0; 2], ..four };
        assert_eq!(choose(&repeated, 512).expect("regular").images, 1);
    }

    #[test]
    fn padding_is_a_copy() {
        let windows = windows(8, 8, 7, 3, 1);
        assert_eq!((windows.copied(), windows.copy(), windows.source()), ([9, 9], 8 * 81, [8 * 81, 81, 9, 1]));
    }

    #[test]
    fn columns_are_sorted_where_windows_skip_some() {
        let windows = windows(1, 8, 8, 3, 2);
        // Ten columns with padding: five even ones, then five odd ones.
        assert_eq!((windows.copied(), windows.source()), ([10, 5], [100, 100, 10, 1]));
        assert_eq!([0, 1, 2].map(|tap| windows.column(tap)), [0, 5, 1]);
    }
}
