//! What is known of a convolution, and what there is to say about its loops; [`super::cut`] decides.
//!
//! It is a product for each image and group of channels: rows are windows' weights, one for each output channel, k runs
//! over input channels and the window, lanes are positions in the result.

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

/// Largest memory that lanes may be far apart in: distances are 32 bits.
const REACH: i64 = 1 << 30;
/// Most floats of a copy of the images, 256 MiB.
const COPY: i64 = 1 << 26;

/// A convolution over two dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Number of images.
    pub images: i64,
    /// Groups of channels.
    pub groups: i64,
    /// Output channels of a group.
    pub outputs: i64,
    /// Input channels of a group.
    pub channels: i64,
    /// Height and width of an image.
    pub size: [i64; 2],
    /// The same of a window.
    pub window: [i64; 2],
    /// Steps from one window to the next.
    pub strides: [i64; 2],
    /// Rows and columns of zeros on each side.
    pub padding: [i64; 2],
    /// Distance of a window's elements.
    pub dilation: [i64; 2],
    /// Height and width of the result.
    pub result: [i64; 2],
    /// Distances in the input's memory: of images, channels, rows, columns.
    pub input: [i64; 4],
}

impl Windows {
    /// Of a `dynamo.convolution`, or `dynamo.max_pool`, whose input lies in memory at these distances.
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

    /// Elements of a window.
    pub fn taps(&self) -> i64 {
        self.window[0] * self.window[1]
    }
    /// Length of the sums.
    pub fn k(&self) -> i64 {
        self.channels * self.taps()
    }
    /// Positions in the result.
    pub fn positions(&self) -> i64 {
        self.result[0] * self.result[1]
    }
    /// Whether each output channel has an input channel of its own.
    pub fn is_depthwise(&self) -> bool {
        self.outputs == 1 && self.channels == 1
    }
    /// Multiplications.
    pub fn work(&self) -> i64 {
        [self.images, self.groups, self.outputs, self.positions()].iter().fold(self.k(), |work, &size| work.saturating_mul(size))
    }
    /// Whether windows are read from a copy of the images: with zeros round them, or with columns sorted so that those which
    /// the same tap of neighbouring windows meets lie side by side.
    pub fn is_copied(&self) -> bool {
        self.padding != [0, 0] || (self.strides[1] > 1 && self.taps() > 1)
    }
    /// Rows of an image in the copy, and columns of each of its `strides[1]` sorts.
    pub fn copied(&self) -> [i64; 2] {
        let [height, width] = [0, 1].map(|i| self.size[i] + 2 * self.padding[i]);
        [height, ceiling(width, self.strides[1])]
    }
    /// Elements of the copy.
    pub fn copy(&self) -> i64 {
        if self.is_copied() && !self.is_depthwise() { self.images * self.source()[0] } else { 0 }
    }
    /// Distances in the memory that windows are read from: of images, channels, rows, and the columns of two neighbouring
    /// windows.
    pub fn source(&self) -> [i64; 4] {
        if !self.is_copied() {
            let [image, channel, row, column] = self.input;
            return [image, channel, row, column * self.strides[1]];
        }
        let [height, width] = self.copied();
        let row = self.strides[1] * width;
        [self.groups * self.channels * height * row, height * row, row, 1]
    }
    /// How far a column of a window is from its first one.
    pub fn column(&self, tap: i64) -> i64 {
        let (along, stride) = (tap * self.dilation[1], self.strides[1]);
        if self.is_copied() { along % stride * self.copied()[1] + along / stride } else { along * self.input[3] }
    }
    /// The result's dimensions as the epilogue sees them, those of size 1 left out: images, channels, positions.
    pub fn domain(&self) -> [i64; 3] {
        [self.images, self.groups * self.outputs, self.positions()]
    }
    /// Positions that are neighbours in the memory that windows are read from: how many, how often in an image, how far from one
    /// such line to the next.
    pub fn lines(&self) -> (i64, i64, i64) {
        let [_, _, row, column] = self.source();
        let step = self.strides[0] * row;
        if column == 1 && step == self.result[1] {
            (self.positions(), 1, step * self.result[0])
        } else {
            (self.result[1], self.result[0], step)
        }
    }
    /// Whether neighbouring positions are not neighbours there, and are read one by one.
    pub fn is_gathered(&self) -> bool {
        let (length, _, step) = self.lines();
        self.source()[3] != 1 || step < length
    }
    /// Whether that number of images in order can be seen as one.
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

/// How a convolution's loops are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowSchedule {
    /// Elements of a vector.
    pub width: i64,
    /// Vectors beside each other in a tile.
    pub vectors: i64,
    /// Most rows of a tile.
    pub rows: i64,
    /// Output channels that are worked on together.
    pub group: i64,
    /// Input channels whose windows are copied at once.
    pub depth: i64,
    /// Panels that are worked on together.
    pub chunk: i64,
    /// Images whose positions go on in the lanes where those of the one before end. Where there are several, all their panels are
    /// worked on together.
    pub images: i64,
}

impl WindowSchedule {
    const FIELDS: [&'static str; 7] = ["chunk", "depth", "group", "images", "rows", "vectors", "width"];

    /// Positions in a panel.
    pub fn lanes(&self) -> i64 {
        self.width * self.vectors
    }
    /// Panels of the images that share them.
    pub fn panels(&self, windows: &Windows) -> i64 {
        ceiling(self.images * windows.positions(), self.lanes())
    }
    /// The same of all images.
    pub fn all_panels(&self, windows: &Windows) -> i64 {
        windows.images / self.images * self.panels(windows)
    }
    /// As an attribute of the kernel.
    pub fn to_attr(&self, ctx: Ctx) -> Attr {
        let values = [self.chunk, self.depth, self.group, self.images, self.rows, self.vectors, self.width];
        let fields: Vec<_> = Self::FIELDS.into_iter().zip(values).map(|(name, value)| (name, Attr::i64(ctx, value))).collect();
        Attr::dict(ctx, &fields)
    }
    /// Reads the attribute, which may be anything, and holds it against the convolution.
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
    /// Whether that number of images can share panels.
    fn joins(&self, windows: &Windows) -> bool {
        self.images == 1 || (windows.are_joined_by(self.images) && self.chunk == self.panels(windows))
    }
    /// Floats of a thread's buffers.
    pub(super) fn local(&self, windows: &Windows) -> i64 {
        if windows.is_depthwise() {
            return Plane::of(windows, self).local();
        }
        let steps = self.depth.min(windows.channels).saturating_mul(windows.taps());
        let each = self.group.min(windows.outputs).saturating_add(steps);
        self.chunk.saturating_mul(self.lanes()).saturating_mul(each)
    }
}

/// Fewest output channels of a group: below, copying windows takes as long as multiplying them.
const FEWEST_OUTPUTS: i64 = 16;
/// Percent of the lanes that must be there.
const FULLEST: i64 = 80;
/// Fewest input channels that are too many for windows of one element: their weights push each other out of the cache.
const MOST_CHANNELS: i64 = 1024;
/// Shortest sum.
const SHORTEST: i64 = 8;

/// Whether code is expected to be at least as fast as the library's call.
///
/// Measured on one core with AVX-512 against torch 2.15's `oneDNN`, with bias and `relu`: windows of 3 by 3 1.1 to 1.4 times as
/// fast, 7 by 7 1.2, single elements 0.9 to 1.65; of four images 0.85 to 1.5. A window for each channel 1.5 to 4 times.
pub fn is_worth_generating_windows(windows: &Windows, vector_bits: i64) -> bool {
    let is_wide = windows.outputs >= FEWEST_OUTPUTS && windows.k() >= SHORTEST;
    let is_deep = windows.taps() == 1 && windows.channels >= MOST_CHANNELS;
    let fills = |schedule: WindowSchedule| {
        // Of one image the library does not fill its vectors either.
        let lanes = schedule.all_panels(windows) * schedule.lanes();
        windows.images == 1 || windows.images * windows.positions() * 100 >= lanes * FULLEST
    };
    let suits = |schedule| windows.is_depthwise() || (is_wide && !is_deep && fills(schedule));
    vector_bits >= 256 && choose(windows, vector_bits).is_ok_and(suits)
}

/// Whether code may be tried at all: it is not hopeless.
pub fn is_possible_windows(windows: &Windows, vector_bits: i64) -> bool {
    let is_wide = windows.outputs * 2 >= FEWEST_OUTPUTS && windows.k() >= SHORTEST;
    vector_bits >= 256 && (is_wide || windows.is_depthwise()) && choose(windows, vector_bits).is_ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Of one image, with as much padding as leaves it its size.
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
        // 196 positions in 224 lanes; image by image there would be 256.
        assert_eq!((choose(&one, 512).expect("regular").images, schedule.images), (1, 4));
        assert_eq!((schedule.chunk, schedule.all_panels(&four) * schedule.lanes()), (schedule.panels(&four), 224));
        assert!(schedule.local(&four) <= LOCAL && schedule.joins(&four));
        // The same image over and over is not a larger one.
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
