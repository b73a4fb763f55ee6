//! Reading and writing a window of a value: the simplest primitives that do it.
//!
//! Most windows are what `select`, `slice`, `view` and `transpose` make. They are found again from the strides alone:
//! the value is reshaped so that each stride of the window is a stride of one dimension, then sliced and permuted.
//! Only what is none of these (a diagonal, overlapping rows) becomes `dynamo.as_strided`.

use dynamlir_dialect::{
    ir::{Attr, Builder, Type, Value},
    ops::AtenOp,
};
use dynamlir_shapes::row_major;

use super::coordinates::Window;
use crate::emit::Emit;

/// A window as a slice and a permutation of the reshaped value.
struct Rectangle {
    /// What to reshape the value to.
    shape: Vec<i64>,
    starts: Vec<i64>,
    steps: Vec<i64>,
    counts: Vec<i64>,
    /// For each dimension of the window that moves through memory: the dimension of `shape` it walks.
    walks: Vec<usize>,
}

/// The part of `value` that `window`, in row-major coordinates of the value, shows.
pub fn read(b: &Builder, value: Value, window: &Window) -> Value {
    let (element, e) = (value.ty().element(), Emit::new(*b));
    if element.is_complex() {
        let (whole, result) = (Window::row_major(&value.ty().shape()) == *window, Type::tensor(&window.sizes, element));
        return if whole { value } else { by_torch(b, "aten.as_strided_copy.default", &[value], window, result) };
    }
    if window.is_empty() {
        return e.full(&window.sizes, element, 0.0);
    }
    let Some(found) = rectangle(&value.ty().shape(), window) else {
        return e.as_strided(value, &window.sizes, &window.strides, window.offset);
    };
    let mut part = e.reshape(value, &found.shape);
    if !found.is_whole() {
        part = e.slice(part, &found.starts, &found.steps, &found.counts);
    }
    if let Some(order) = found.order() {
        let kept: Vec<_> = found.walked().iter().map(|&d| found.counts[d]).collect();
        part = permute(b, e.reshape(part, &kept), &order);
    }
    let moving = moving(window);
    if window.sizes.iter().enumerate().all(|(i, &n)| n == 1 || moving.contains(&i)) {
        return e.reshape(part, &window.sizes);
    }
    let sizes: Vec<_> = moving.iter().map(|&i| window.sizes[i]).collect();
    let dims: Vec<_> = moving.iter().map(|&i| i as i64).collect();
    e.broadcast(e.reshape(part, &sizes), &window.sizes, &dims)
}

/// `value` with `source` in the place of what `window` shows. The window shows no element twice.
pub fn write(b: &Builder, value: Value, window: &Window, source: Value) -> Value {
    if window.is_empty() {
        return value;
    }
    let e = Emit::new(*b);
    if value.ty().element().is_complex() {
        if Window::row_major(&value.ty().shape()) == *window {
            return source;
        }
        return by_torch(b, "aten.as_strided_scatter.default", &[value, source], window, value.ty());
    }
    if window.numel() == value.ty().numel()
        && let Some(found) = rectangle(&value.ty().shape(), window)
    {
        let mut whole = source;
        if let Some(order) = found.order() {
            let sizes: Vec<_> = found.walks.iter().map(|&d| found.counts[d]).collect();
            let mut inverse = vec![0; order.len()];
            for (i, &d) in order.iter().enumerate() {
                inverse[d] = i;
            }
            whole = permute(b, e.reshape(whole, &sizes), &inverse);
        }
        return e.reshape(whole, &value.ty().shape());
    }
    e.as_strided_scatter(value, source, &window.strides, window.offset)
}

/// What primitives have no types for: an operator of torch's that takes a window after its operands. Like a primitive it has a
/// history where an operand has one; what should have none goes through `dynamo.detach`.
fn by_torch(b: &Builder, schema: &str, operands: &[Value], window: &Window, result: Type) -> Value {
    let ctx = b.ctx();
    let mut args: Vec<_> = (0..operands.len()).map(|i| Attr::operand(ctx, i)).collect();
    let list = |numbers: &[i64]| Attr::array(ctx, &numbers.iter().map(|&n| Attr::i64(ctx, n)).collect::<Vec<_>>());
    args.extend([list(&window.sizes), list(&window.strides), Attr::i64(ctx, window.offset)]);
    let dense = |ty: Type| Attr::i64s(ctx, &row_major(&ty.shape()));
    let layouts: Vec<_> = operands.iter().map(|value| dense(value.ty())).collect();
    let layouts = (Some(&layouts[..]), Some(&[dense(result)][..]));
    let call = AtenOp::build(b, schema, operands, &args, None, None, None, None, None, layouts.0, layouts.1, true, &[result]);
    call.op().result(0)
}

/// `dynamo.permute`, unless the order is that already.
pub fn permute(b: &Builder, value: Value, order: &[usize]) -> Value {
    let dims: Vec<_> = order.iter().map(|&i| i as i64).collect();
    Emit::new(*b).permute(value, &dims)
}

/// Dimensions of the window along which memory is walked.
fn moving(window: &Window) -> Vec<usize> {
    (0..window.sizes.len()).filter(|&i| window.sizes[i] > 1 && window.strides[i] > 0).collect()
}

fn rectangle(shape: &[i64], window: &Window) -> Option<Rectangle> {
    let strides: Vec<_> = moving(window).iter().map(|&i| window.strides[i]).collect();
    let both: Vec<_> = strides.iter().copied().chain(row_major(shape)).collect();
    let total = shape.iter().product();
    // As it is, else with its dimensions split where the window's begin, else cut by the window's strides alone.
    in_shape(shape, window).or_else(|| in_shape(&cut(total, both)?, window)).or_else(|| in_shape(&cut(total, strides)?, window))
}

/// The shape of `total` elements whose row-major strides are these and 1, if there is one.
fn cut(total: i64, mut strides: Vec<i64>) -> Option<Vec<i64>> {
    strides.push(1);
    strides.sort_unstable_by(|a, b| b.cmp(a));
    strides.dedup();
    let mut around = total;
    let mut shape = Vec::new();
    for stride in strides {
        if around % stride != 0 {
            return None;
        }
        shape.push(around / stride);
        around = stride;
    }
    if shape.len() > 1 {
        shape.retain(|&n| n != 1);
    }
    Some(shape)
}

fn in_shape(shape: &[i64], window: &Window) -> Option<Rectangle> {
    let unit = row_major(shape);
    let mut found = Rectangle {
        shape: shape.to_vec(),
        starts: Vec::new(),
        steps: vec![1; shape.len()],
        counts: vec![1; shape.len()],
        walks: Vec::new(),
    };
    let mut rest = window.offset;
    for &stride in &unit {
        found.starts.push(rest / stride);
        rest %= stride;
    }
    for i in moving(window) {
        let (n, stride) = (window.sizes[i], window.strides[i]);
        let d = (0..shape.len()).find(|&d| shape[d] > 1 && stride % unit[d] == 0)?;
        let step = stride / unit[d];
        if found.walks.contains(&d) || found.starts[d] + (n - 1) * step >= shape[d] {
            return None;
        }
        (found.steps[d], found.counts[d]) = (step, n);
        found.walks.push(d);
    }
    Some(found)
}

impl Rectangle {
    fn is_whole(&self) -> bool {
        self.shape == self.counts
    }
    /// The dimensions of `shape` that the window walks, in their own order.
    fn walked(&self) -> Vec<usize> {
        let mut walked = self.walks.clone();
        walked.sort_unstable();
        walked
    }
    /// The permutation from the order of `shape` to the window's, if there is something to permute.
    fn order(&self) -> Option<Vec<usize>> {
        if self.walks.is_sorted() {
            return None;
        }
        let walked = self.walked();
        Some(self.walks.iter().filter_map(|d| walked.binary_search(d).ok()).collect())
    }
}
