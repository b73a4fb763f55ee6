//! Average pooling: a reshape and a mean if the windows tile the image, else a sum of slices.

use dynamlir_dialect::ir::Value;

use super::{Call, Lowering, adaptive_pool::Adaptive, promote::wide, view::cut, window::Windows};

/// Lowerings by schema.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten._adaptive_avg_pool2d.default", adaptive),
    ("aten._adaptive_avg_pool3d.default", adaptive),
    ("aten.adaptive_avg_pool1d.default", adaptive),
    ("aten.avg_pool1d.default", windows),
    ("aten.avg_pool2d.default", windows),
    ("aten.avg_pool3d.default", windows),
];

/// Means of blocks: the last dimensions consist of `counts` blocks of `block` elements each.
fn tiles(c: &Call, mut x: Value, counts: &[i64], block: &[i64], divisor: Option<i64>) -> Option<Vec<Value>> {
    let element = x.ty().element();
    if !element.is_float() || counts.len() != block.len() || block.contains(&0) {
        return None;
    }
    let front = x.ty().rank().checked_sub(counts.len())?;
    let (mut split, mut dims) = (x.ty().shape()[..front].to_vec(), Vec::new());
    for (i, (&count, &size)) in counts.iter().zip(block).enumerate() {
        let dim = (front + i) as i64;
        if count * size > x.ty().shape()[dim as usize] {
            return None;
        }
        x = cut(c, x, dim, 0, 1, count * size);
        split.push(count);
        if size > 1 {
            dims.push(split.len() as i64);
            split.push(size);
        }
    }
    let blocks = c.e.reshape(c.e.convert(x, wide(element)), &split);
    let sum = c.e.sum(blocks, &dims, false);
    let mean = c.e.div(sum, c.e.full_like(sum, divisor.unwrap_or(block.iter().product()) as f64));
    Some(vec![c.e.convert(mean, element)])
}

/// Adaptive pooling. If the result's sizes divide the input's, the windows are adjacent blocks of one size.
fn adaptive(c: &Call) -> Option<Vec<Value>> {
    let (x, counts) = (c.tensor(0)?, c.ints(1)?);
    let shape = x.ty().shape();
    if c.result_shape(0).contains(&0) && !shape[shape.len().saturating_sub(counts.len())..].contains(&0) {
        return Some(vec![c.e.full(&c.result_shape(0), x.ty().element(), 0i64)]);
    }
    let sizes = shape.get(shape.len().checked_sub(counts.len())?..)?;
    let block: Option<Vec<i64>> =
        sizes.iter().zip(&counts).map(|(&size, &count)| (count > 0 && size % count == 0).then(|| size / count)).collect();
    match block {
        Some(block) => tiles(c, x, &counts, &block, None),
        None if x.ty().element().is_float() => Some(vec![Adaptive::new(c, x, counts.len())?.mean()?]),
        None => None,
    }
}

fn windows(c: &Call) -> Option<Vec<Value>> {
    let (x, kernel) = (c.tensor(0)?, c.ints(1)?);
    // A single number applies to all dimensions.
    let spatial = match c.schema() {
        "aten.avg_pool1d.default" => 1,
        "aten.avg_pool2d.default" => 2,
        _ => 3,
    };
    let all = |list: Vec<i64>| if let [one] = *list { vec![one; spatial] } else { list };
    let kernel = all(kernel);
    let stride = c.ints(2).filter(|s| !s.is_empty()).map_or_else(|| kernel.clone(), all);
    let padded = c.ints(3)?.iter().any(|&p| p != 0);
    let result = c.result_shape(0);
    let counts = result.get(result.len().checked_sub(spatial)?..)?;
    // A single window needs no stride. With `ceil_mode` there may be truncated windows, which `tiles` declines.
    let side_by_side = kernel.iter().zip(&stride).zip(counts).all(|((k, s), &count)| k == s || count == 1);
    let tiled = if padded || !side_by_side { None } else { tiles(c, x, counts, &kernel, c.int(6)) };
    tiled.or_else(|| overlapping(c, x, spatial))
}

/// The sum of all taps of the padded image, divided by the number of elements that each window counts.
fn overlapping(c: &Call, x: Value, spatial: usize) -> Option<Vec<Value>> {
    let element = x.ty().element();
    if c.result_shape(0).contains(&0) {
        return Some(vec![c.e.full(&c.result_shape(0), element, 0i64)]);
    }
    let windows = Windows::read(c, spatial, None).filter(|_| element.is_float())?;
    let padded = windows.padded(c, x, 0.0);
    let taps = windows.taps();
    let sum = taps.iter().map(|tap| c.e.convert(windows.tap(c, padded, tap), wide(element))).reduce(|a, b| c.e.add(a, b))?;
    let divisor = match c.int(6) {
        Some(divisor) => c.e.full_like(sum, divisor),
        None => windows.divisor(c, wide(element), c.bool(5)?),
    };
    Some(vec![c.e.convert(c.e.div(sum, divisor), element)])
}
