//! Volumes sampled at the places of a grid: the nearest voxel, or the weighted mean of the eight around the place.

use dynamlir_dialect::ir::{Type, Value};

use super::{Call, Lowering};
use crate::emit::Emit;

/// Lowerings by schema.
pub const TABLE: &[(&str, Lowering)] = &[("aten.grid_sampler_3d.default", sample)];

/// The values that eager reads outside the volume.
#[derive(Clone, Copy, PartialEq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

/// A place along one dimension, for each element of the result.
struct Axis {
    at: Value,
    size: i64,
}

fn sample(c: &Call) -> Option<Vec<Value>> {
    let (x, grid, aligned) = (c.tensor(0)?, c.tensor(1)?, c.bool(4)?);
    let (e, shape, element) = (c.e, c.result_shape(0), x.ty().element());
    let padding = match c.int(3)? {
        0 => Padding::Zeros,
        1 => Padding::Border,
        2 => Padding::Reflection,
        _ => return None,
    };
    if element.width() == 16 || grid.ty().element() != element || x.ty().numel() == 0 || c.result_type(0).numel() == 0 {
        return None;
    }
    let sizes = x.ty().shape();
    // The grid's last dimension lists x, y, z; the volume's dimensions are z, y, x.
    let axis = |i: usize| {
        let size = sizes[2 + i];
        let place = e.slice_dim(grid, 4, 2 - i as i64, 1, 1);
        let place = e.reshape(place, &[shape[0], shape[2], shape[3], shape[4]]);
        let place = e.broadcast(source(&e, place, size, padding, aligned), &shape, &[0, 2, 3, 4]);
        Axis { at: place, size }
    };
    let axes = [axis(0), axis(1), axis(2)];
    let value = match c.int(2)? {
        0 => mean_of_eight(c, x, &axes),
        1 => read(c, x, &axes.map(|axis| Axis { at: e.round(axis.at), ..axis }), None),
        _ => return None,
    };
    Some(vec![value])
}

/// Maps the grid's range -1…1 to a place in the volume.
fn source(e: &Emit, x: Value, size: i64, padding: Padding, aligned: bool) -> Value {
    let number = |v: f64| e.full_like(x, v);
    let (wide, last) = (size as f64, (size - 1) as f64);
    let from_low = e.add(x, number(1.0));
    let place = if aligned {
        e.mul(e.div(from_low, number(2.0)), number(last))
    } else {
        e.div(e.sub(e.mul(from_low, number(wide)), number(1.0)), number(2.0))
    };
    match padding {
        Padding::Zeros => place,
        Padding::Border => clipped(e, place, last),
        Padding::Reflection if aligned => clipped(e, reflected(e, place, 0.0, last), last),
        Padding::Reflection => clipped(e, reflected(e, place, -0.5, wide), last),
    }
}

/// Clamps a place to the volume. A NaN becomes its end, as by eager's comparisons.
fn clipped(e: &Emit, x: Value, last: f64) -> Value {
    let (zero, last) = (e.full_like(x, 0.0), e.full_like(x, last));
    let x = e.select(e.lt(x, zero), zero, x);
    e.select(e.lt(x, last), x, last)
}

/// Reflects at `low` and `low + span`.
fn reflected(e: &Emit, x: Value, low: f64, span: f64) -> Value {
    if span == 0.0 {
        return e.full_like(x, 0.0);
    }
    let number = |v: f64| e.full_like(x, v);
    let from_low = e.abs(e.sub(x, number(low)));
    let extra = e.rem(from_low, number(span));
    let flips = e.floor(e.div(from_low, number(span)));
    let half = e.mul(flips, number(0.5));
    let even = e.eq(e.floor(half), half);
    e.add(e.select(even, extra, e.sub(number(span), extra)), number(low))
}

/// Reads the voxel at integral places, times its weight; zero outside, regardless of the weight.
fn read(c: &Call, x: Value, axes: &[Axis; 3], weight: Option<Value>) -> Value {
    let (e, shape) = (c.e, c.result_shape(0));
    let index = Type::int(e.ctx(), 64);
    let mut indices = vec![e.iota(&shape, 0), e.iota(&shape, 1)];
    let mut inside: Option<Value> = None;
    for axis in axes {
        let (zero, last) = (e.full_like(axis.at, 0.0), e.full_like(axis.at, (axis.size - 1) as f64));
        let within = e.and(e.ge(axis.at, zero), e.le(axis.at, last));
        indices.push(e.convert(e.select(within, axis.at, zero), index));
        inside = Some(inside.map_or(within, |others| e.and(others, within)));
    }
    let value = e.gather(x, &indices);
    let value = weight.map_or(value, |weight| e.mul(value, weight));
    inside.map_or(value, |inside| e.select(inside, value, e.full_like(value, 0.0)))
}

/// Weights each neighbour by its proximity to the place along each dimension.
fn mean_of_eight(c: &Call, x: Value, axes: &[Axis; 3]) -> Value {
    let e = c.e;
    let sides = axes.each_ref().map(|axis| {
        let before = e.floor(axis.at);
        let behind = e.add(before, e.full_like(before, 1.0));
        [(before, e.sub(behind, axis.at)), (behind, e.sub(axis.at, before))]
    });
    let corner = |n: usize| {
        let chosen = [sides[0][n >> 2 & 1], sides[1][n >> 1 & 1], sides[2][n & 1]];
        let weight = e.mul(e.mul(chosen[2].1, chosen[1].1), chosen[0].1);
        read(c, x, &[0, 1, 2].map(|i| Axis { at: chosen[i].0, size: axes[i].size }), Some(weight))
    };
    (1..8).fold(corner(0), |sum, n| e.add(sum, corner(n)))
}
