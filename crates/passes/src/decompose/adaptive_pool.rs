//! Adaptive pooling to sizes that do not divide the image's: window lengths differ by one element and windows overlap.
//!
//! Window `o` of `count` begins at ⌊o·size/count⌋ and ends at ⌈(o + 1)·size/count⌉. Its taps are gathered. A window shorter than the
//! longest one repeats its last element, which cannot change a maximum and is left out of sums.

use dynamlir_dialect::ir::Value;

use super::{Call, promote::wide, window::places};

/// The maximum number of taps of the longest window; with more, the call is left to the library.
const MOST_TAPS: i64 = 64;

/// The windows along one dimension.
struct Axis {
    start: Value,
    last: Value,
    taps: i64,
    size: i64,
}

/// The image and its windows.
pub(super) struct Adaptive<'a> {
    c: &'a Call,
    x: Value,
    axes: Vec<Axis>,
    outer: Vec<Value>,
}

impl<'a> Adaptive<'a> {
    /// Returns the windows over the last dimensions that produce the call's result.
    pub fn new(c: &'a Call, x: Value, rank: usize) -> Option<Self> {
        let (shape, counts) = (x.ty().shape(), c.result_shape(0));
        let front = shape.len().checked_sub(rank).filter(|_| counts.len() == shape.len())?;
        if counts.contains(&0) || shape.contains(&0) {
            return None;
        }
        let e = &c.e;
        let mut axes = Vec::new();
        for dim in front..shape.len() {
            let (size, count) = (shape[dim], counts[dim]);
            let taps = (0..count).map(|o| ((o + 1) * size + count - 1) / count - o * size / count).max()?;
            let index = e.iota(&counts, dim);
            let number = |value: i64| e.full_like(index, value);
            let (start, last) = if size % count == 0 {
                let start = e.mul(index, number(size / count));
                (start, e.add(start, number(size / count - 1)))
            } else {
                let scaled = e.mul(index, number(size));
                (e.div(scaled, number(count)), e.div(e.add(scaled, number(size - 1)), number(count)))
            };
            axes.push(Axis { start, last, taps, size });
        }
        let all: i64 = axes.iter().map(|axis| axis.taps).product();
        let outer = (0..front).map(|dim| e.iota(&counts, dim)).collect();
        (all <= MOST_TAPS).then_some(Self { c, x, axes, outer })
    }

    /// The taps in row-major order.
    fn taps(&self) -> Vec<Vec<i64>> {
        places(&self.axes.iter().map(|axis| axis.taps).collect::<Vec<_>>())
    }

    /// Returns the coordinates of a tap in the image, and for each dimension whether the tap is inside the window.
    fn place(&self, tap: &[i64]) -> (Vec<Value>, Vec<Value>) {
        let e = &self.c.e;
        let at = |(axis, &k): (&Axis, &i64)| {
            let at = e.add(axis.start, e.full_like(axis.start, k));
            (e.min(at, axis.last), e.le(at, axis.last))
        };
        self.axes.iter().zip(tap).map(at).unzip()
    }

    fn value(&self, place: &[Value]) -> Value {
        self.c.e.gather(self.x, &[self.outer.as_slice(), place].concat())
    }

    /// Returns the row-major index of a place.
    fn flat(&self, place: &[Value]) -> Option<Value> {
        let e = &self.c.e;
        let sized = place.iter().zip(&self.axes).map(|(&at, axis)| (at, axis.size));
        sized.reduce(|(outer, _), (at, size)| (e.add(e.mul(outer, e.full_like(outer, size)), at), size)).map(|(at, _)| at)
    }

    /// The mean of each window.
    pub fn mean(&self) -> Option<Value> {
        let e = &self.c.e;
        let element = self.x.ty().element();
        let mut sum: Option<Value> = None;
        for tap in self.taps() {
            let (place, inside) = self.place(&tap);
            let value = e.convert(self.value(&place), wide(element));
            let whole = inside.into_iter().reduce(|a, b| e.and(a, b))?;
            let value = e.select(whole, value, e.full_like(value, 0.0));
            sum = Some(sum.map_or(value, |sum| e.add(sum, value)));
        }
        let mut mean = sum?;
        for axis in &self.axes {
            let count = e.add(e.sub(axis.last, axis.start), e.full_like(axis.start, 1i64));
            mean = e.div(mean, e.convert(count, wide(element)));
        }
        Some(e.convert(mean, element))
    }

    /// Returns the index of the first tap, and for each tap its value and, if `indexed`, its own index.
    pub fn candidates(&self, indexed: bool) -> Option<(Value, Vec<(Value, Value)>)> {
        let starts: Vec<Value> = self.axes.iter().map(|axis| axis.start).collect();
        let first = self.flat(&starts)?;
        let each = |tap: Vec<i64>| {
            let (place, _) = self.place(&tap);
            Some((self.value(&place), if indexed { self.flat(&place)? } else { first }))
        };
        Some((first, self.taps().into_iter().map(each).collect::<Option<_>>()?))
    }
}
