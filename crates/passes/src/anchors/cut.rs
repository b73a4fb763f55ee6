//! Enumerates the ways to cut the loops of a convolution, with the expected cost of each.

#![expect(clippy::cast_precision_loss, reason = "costs are estimates")]

use super::{
    choose::{LOCAL, PIECES, ceiling, group_cycles, most_rows},
    plane,
    tile::RUN,
    windows::{WindowSchedule, Windows},
};

/// The maximum number of floats in a piece's panels.
const PANELS: i64 = 28 * 1024;
/// The maximum number of floats in a piece's sums.
const SUMS: i64 = 28 * 1024;
/// Number of steps along k that are copied to panels at once: many, or few in favour of more panels.
const DEPTHS: [i64; 2] = [512, 128];
/// The maximum number of output channels that are processed together.
const GROUPS: [i64; 3] = [512, 256, 128];
/// The same if the weights are larger than the images.
const DEEP_GROUP: i64 = 96;
/// The maximum number of images that share panels.
const MOST_TOGETHER: i64 = 16;

/// Cycles for storing one vector of windows.
const STORE_CYCLES: f64 = 1.5;
/// Cycles for adding a register to the sums in memory.
const SUM_CYCLES: f64 = 1.5;
/// The maximum number of rows whose weights the processor can prefetch, and the factor for a tile's time if there are more.
const FOLLOWED: (i64, f64) = (16, 1.25);
/// Number of floats of weights that the second-level cache keeps until they are needed again.
const KEPT: i64 = 160 * 1024;
/// Cycles per float of weights that must be fetched from beyond that cache.
const FETCH_CYCLES: f64 = 0.1;

/// The schedule, with vectors of `vector_bits` bits. Without vectors, it returns a slow schedule: a convolution has no other lowering.
///
/// # Errors
/// Returns the reason if there is no schedule at all.
pub fn choose(windows: &Windows, vector_bits: i64) -> Result<WindowSchedule, &'static str> {
    if !windows.is_regular() {
        return Err("a convolution of images too large, or that run backwards in memory");
    }
    candidates(windows, vector_bits).into_iter().next().map(|(_, schedule)| schedule).ok_or("a convolution of windows too large")
}

/// All ways to cut the loops of a regular convolution, with their costs in cycles, the cheapest first.
pub(super) fn candidates(windows: &Windows, vector_bits: i64) -> Vec<(f64, WindowSchedule)> {
    let width = if vector_bits >= 256 { vector_bits / 32 } else { 1 };
    let fits = |(_, schedule): &(f64, WindowSchedule)| schedule.local(windows) <= LOCAL;
    if windows.is_depthwise() {
        return Some((0.0, plane::choose(windows, width))).filter(fits).into_iter().collect();
    }
    // The larger extent is shared among threads: positions, or else output channels, so that weights are read only once. If copying windows
    // is slow, positions are always shared out.
    let is_deep = windows.outputs > windows.images * windows.positions() && !windows.is_gathered();
    let groups = if is_deep { vec![ceiling(windows.outputs, PIECES).max(DEEP_GROUP)] } else { GROUPS.to_vec() };
    let mut all = Vec::new();
    for images in (1..=windows.images.min(MOST_TOGETHER)).filter(|&images| windows.are_joined_by(images)) {
        for vectors in 1..=3 {
            for &group in &groups {
                all.extend(DEPTHS.map(|depth| candidate(windows, (width, vectors), images, (group, depth))));
            }
        }
    }
    all.retain(fits);
    all.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    all
}

/// One way to cut the loops, with its cost.
fn candidate(windows: &Windows, (width, vectors): (i64, i64), images: i64, (most, depth): (i64, i64)) -> (f64, WindowSchedule) {
    let (outputs, lanes, taps) = (windows.outputs, vectors * width, windows.taps());
    let rows = most_rows(width, vectors);
    let panels = ceiling(images * windows.positions(), lanes);
    // The number of panels that must fit at once.
    let (fewest, all) = if images > 1 { (panels, panels) } else { (1, windows.images * panels) };
    let pieces = ceiling(outputs, most.min(SUMS / (lanes * fewest)).max(1));
    let group = ceiling(outputs, pieces);
    let depth = (depth.min(PANELS / (lanes * fewest)) / taps).clamp(1, windows.channels);
    let fitting = (PANELS / (lanes * depth * taps)).min(SUMS / (lanes * group));
    let shared = ceiling(all, ceiling(PIECES, windows.groups * pieces));
    let chunk = fitting.min(shared).clamp(fewest, all);
    let schedule = WindowSchedule { width, vectors, rows, group, depth, chunk, images };
    (cost(windows, &schedule), schedule)
}

/// The cost in cycles, over all panels and steps along k.
fn cost(windows: &Windows, s: &WindowSchedule) -> f64 {
    let (length, ..) = windows.lines();
    // Memory is read once for each line that a vector crosses.
    let lines = 1.0 + (s.lanes() as f64 / length as f64).min(ceiling(s.width - 1, length) as f64);
    let reads = if windows.is_gathered() { s.width as f64 } else { lines };
    let packed = s.vectors as f64 * (STORE_CYCLES + reads);
    let sums = SUM_CYCLES * (s.group * s.vectors) as f64 / (s.depth * windows.taps()).min(RUN) as f64;
    let slow = if s.rows > FOLLOWED.0 { FOLLOWED.1 } else { 1.0 };
    let weights = windows.outputs * windows.k();
    let fetched = if weights > KEPT { FETCH_CYCLES * s.group as f64 / s.chunk as f64 } else { 0.0 };
    let step = group_cycles(s.group, s.rows, s.vectors) * slow + packed + sums + fetched;
    let panels = s.all_panels(windows) * ceiling(windows.outputs, s.group);
    (windows.groups * panels * windows.k()) as f64 * step
}
