//! A tile of sums whose vectors run along k.

use dynamlir_dialect::ir::{Type, Value};

use super::{code::Code, tile::Source};

/// Stores `rows × columns` sums of `k` products at `at`, rows `pitch` apart. `columns` is a power of two, at most `width`.
pub(super) fn store(
    code: Code,
    (rows, columns, width): (i64, i64, i64),
    (left, right): (Source, Source),
    k: i64,
    (memory, at, pitch): (Value, Value, i64),
) {
    let zero = code.zero(Type::vector(&[width], memory.ty().element()));
    let start = vec![zero; (rows * columns) as usize];
    let whole = k / width * width;
    let mut sums = code.for_each((code.index(0), code.index(whole), width), &start, |code, i, sums| {
        products(code, (rows, columns), (left, right), i, (width, width), sums)
    });
    if whole < k {
        sums = products(code, (rows, columns), (left, right), code.index(whole), (width, k - whole), &sums);
    }
    // A row's sums are contiguous and their number is a power of two, so whole rows fit into the parts of a vector.
    for (group, vectors) in sums.chunks(width as usize).enumerate() {
        let total = sum_up(code, vectors, width);
        for part in 0..vectors.len() as i64 / columns {
            let lanes: Vec<i64> = (0..columns).map(|i| part * columns + i).collect();
            let row = group as i64 * (width / columns) + part;
            code.store_vector(code.shuffle(total, total, &lanes), memory, code.plus(at, row * pitch));
        }
    }
}

fn products(
    code: Code,
    (rows, columns): (i64, i64),
    (left, right): (Source, Source),
    at: Value,
    part: (i64, i64),
    sums: &[Value],
) -> Vec<Value> {
    let line = |source: Source, i: i64| code.load_vector(source.memory, code.add(code.plus(source.base, i * source.stride), at), part);
    let right: Vec<_> = (0..columns).map(|i| line(right, i)).collect();
    let left: Vec<_> = (0..rows).map(|i| line(left, i)).collect();
    let pairs = left.iter().flat_map(|&a| right.iter().map(move |&b| (a, b)));
    sums.iter().zip(pairs).map(|(&sum, (a, b))| code.fma(a, b, sum)).collect()
}

/// Returns one vector whose element i is the sum of vector i's elements. Each step adds neighbours and halves the number of vectors.
fn sum_up(code: Code, vectors: &[Value], width: i64) -> Value {
    let mut level = vectors.to_vec();
    // Pads to a power of two; the padding's sums are ignored.
    let full = vectors.len().next_power_of_two();
    level.resize(full, vectors[0]);
    let even: Vec<i64> = (0..width).map(|i| 2 * i).collect();
    let odd: Vec<i64> = even.iter().map(|i| i + 1).collect();
    let mut elements = width;
    while elements > 1 {
        let next = |pair: &[Value]| {
            let (a, b) = (pair[0], pair[pair.len() - 1]);
            code.b.addf(code.shuffle(a, b, &even), code.shuffle(a, b, &odd))
        };
        level = level.chunks(2).map(next).collect();
        elements /= 2;
    }
    level[0]
}
