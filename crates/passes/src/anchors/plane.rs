//! The layout of a band of one channel's rows in a thread's buffers while its windows are added up (see `planes`).

use super::{
    choose::{ceiling, parts},
    windows::{WindowSchedule, Windows},
};

/// Number of floats that stay in the innermost cache.
const INNERMOST: i64 = 7 * 1024;
/// Number of vectors of sums that hides the latency of an addition.
const VECTORS: i64 = 8;

/// The layout of a band's copy. Rows and columns are grouped by their remainder modulo the stride, which gives `strides[0] · strides[1]`
/// residue classes of `lines` rows, each `pitch` long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plane<'a> {
    windows: &'a Windows,
    /// Rows of the result.
    pub rows: i64,
    /// Stride between rows.
    pub pitch: i64,
    lines: i64,
    /// Elements of a vector, and the maximum number of vectors of sums.
    width: i64,
    vectors: i64,
}

impl<'a> Plane<'a> {
    /// The layout that the schedule specifies.
    pub fn of(windows: &'a Windows, schedule: &WindowSchedule) -> Self {
        Self::new(windows, schedule.chunk, schedule.width, schedule.vectors)
    }
    fn new(windows: &'a Windows, rows: i64, width: i64, vectors: i64) -> Self {
        let rows = rows.min(windows.result[0]);
        let pitch = ceiling(windows.size[1] + 2 * windows.padding[1], windows.strides[1]);
        let lines = ceiling(met(windows, rows), windows.strides[0]);
        Self { windows, rows, pitch, lines, width, vectors }
    }

    /// The number of input rows covered by the windows of `rows` result rows.
    pub fn met(&self, rows: i64) -> i64 {
        met(self.windows, rows)
    }
    /// The distance from one residue class of columns to the next.
    pub fn columns_apart(&self) -> i64 {
        self.lines * self.pitch
    }
    /// The distance from one residue class of rows to the next.
    pub fn rows_apart(&self) -> i64 {
        self.windows.strides[1] * self.columns_apart()
    }
    /// The offset of the first window's tap in this row of the window.
    pub fn row(&self, tap: i64) -> i64 {
        let (along, stride) = (tap * self.windows.dilation[0], self.windows.strides[0]);
        along % stride * self.rows_apart() + along / stride * self.pitch
    }
    /// The same for a column.
    pub fn column(&self, tap: i64) -> i64 {
        let (along, stride) = (tap * self.windows.dilation[1], self.windows.strides[1]);
        along % stride * self.columns_apart() + along / stride
    }
    /// The number of loop iterations along the line for `rows` result rows, and the number of vectors in each.
    pub fn rounds(&self, rows: i64) -> (i64, i64) {
        let line = (rows - 1) * self.pitch + self.windows.result[1];
        let (count, vectors, _) = parts(ceiling(line, self.width), self.vectors);
        (count, vectors)
    }
    /// The number of lanes in these iterations.
    fn lanes(&self, rows: i64) -> i64 {
        let (count, vectors) = self.rounds(rows);
        count * vectors * self.width
    }
    /// The maximum number of lanes of a band. The last band may have fewer rows and yet, due to rounding, more lanes.
    fn most_lanes(&self) -> i64 {
        let rest = self.windows.result[0] - (ceiling(self.windows.result[0], self.rows) - 1) * self.rows;
        self.lanes(self.rows).max(self.lanes(rest))
    }
    /// Lanes of a row of positions.
    fn row_lanes(&self) -> i64 {
        ceiling(self.windows.result[1], self.width) * self.width
    }
    /// Number of elements of the copy, including those read past its end.
    pub fn copy(&self) -> i64 {
        let [height, width] = self.windows.window;
        let last = |count: i64, place: &dyn Fn(i64) -> i64| (0..count).map(place).max().unwrap_or(0);
        let read = last(height, &|y| self.row(y)) + last(width, &|x| self.column(x)) + self.most_lanes();
        let all = self.windows.strides[0] * self.rows_apart();
        ceiling(all.max(read), self.width) * self.width
    }
    /// Number of elements of the line of sums.
    pub fn line(&self) -> i64 {
        self.most_lanes().max((self.rows - 1) * self.pitch + self.row_lanes())
    }
    /// Number of elements of the positions' sums, including those written past their end.
    pub fn sums(&self) -> i64 {
        (self.rows - 1) * self.windows.result[1] + self.row_lanes()
    }
    /// Total number of floats.
    pub fn local(&self) -> i64 {
        self.copy().saturating_add(self.line()).saturating_add(self.sums())
    }
}

fn met(windows: &Windows, rows: i64) -> i64 {
    (rows - 1) * windows.strides[0] + windows.dilation[0] * (windows.window[0] - 1) + 1
}

/// The schedule of a depthwise convolution: bands of rows that fit into the innermost cache, or single rows if none do.
pub fn choose(windows: &Windows, width: i64) -> WindowSchedule {
    let fits = |rows: i64| Plane::new(windows, rows, width, VECTORS).local() <= INNERMOST;
    let most = (1..=windows.result[0]).rev().find(|&rows| fits(rows)).unwrap_or(1);
    let chunk = ceiling(windows.result[0], ceiling(windows.result[0], most));
    WindowSchedule { width, vectors: VECTORS, rows: 1, group: 1, depth: 1, chunk, images: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchors::windows::tests::windows as image;

    fn windows(size: i64, window: i64, stride: i64) -> Windows {
        Windows { groups: 8, ..image(1, 1, size, window, stride) }
    }

    #[test]
    fn rows_and_columns_are_sorted() {
        let windows = windows(8, 3, 2);
        let schedule = choose(&windows, 16);
        let plane = Plane::of(&windows, &schedule);
        // The windows cover nine rows, five of them even; and ten columns.
        assert_eq!((plane.rows, plane.pitch, plane.columns_apart(), plane.rows_apart()), (4, 5, 25, 50));
        assert_eq!([0, 1, 2].map(|tap| plane.row(tap)), [0, 50, 5]);
        assert_eq!([0, 1, 2].map(|tap| plane.column(tap)), [0, 25, 1]);
        // 3 · 5 + 4 sums are two vectors; the last tap reads from 5 + 1 on, and the second residue classes start at 50 + 25.
        assert_eq!((plane.rounds(4), plane.copy()), ((1, 2), 112));
    }

    #[test]
    fn large_images_are_cut_into_bands() {
        for (size, window, stride) in [(112, 3, 1), (224, 3, 2), (56, 5, 1), (500, 7, 1), (1, 3, 1)] {
            let windows = windows(size, window, stride);
            for width in [1, 8, 16] {
                let schedule = choose(&windows, width);
                let plane = Plane::of(&windows, &schedule);
                assert!(plane.local() <= INNERMOST || plane.rows == 1, "{windows:?} {schedule:?}");
            }
        }
    }
}
