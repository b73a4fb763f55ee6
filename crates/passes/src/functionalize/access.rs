//! Reading and writing a window of a value: the simplest primitives that do it.
//!
//! Most windows are what `select`, `slice`, `view` and `transpose` make. They are found again from the strides alone:
//! the value is reshaped so that each stride of the window is a stride of one dimension, then sliced and permuted.
//! Only what is none of these (a diagonal, overlapping rows) becomes `dynamo.as_strided`.

use dynamlir_dialect::ir::{Attr, Builder, Type, Value};
use dynamlir_shapes::row_major;

use super::coordinates::Window;

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
    let (element, ctx) = (value.ty().element(), b.ctx());
    let result = Type::tensor(&window.sizes, element);
    if element.is_complex() {
        let whole = Window::row_major(&value.ty().shape()) == *window;
        return if whole { value } else { by_torch(b, "aten.as_strided_copy.default", &[value], window, result) };
    }
    if window.is_empty() {
        return b.value("dynamo.full", &[], result, &[("value", Attr::scalar(element, 0.0))]);
    }
    let Some(found) = rectangle(&value.ty().shape(), window) else {
        let attrs = [("strides", Attr::i64s(ctx, &window.strides)), ("offset", Attr::i64(ctx, window.offset))];
        return b.value("dynamo.as_strided", &[value], result, &attrs);
    };
    let mut part = reshape(b, value, &found.shape);
    if !found.is_whole() {
        let attrs = [("starts", Attr::i64s(ctx, &found.starts)), ("steps", Attr::i64s(ctx, &found.steps))];
        part = b.value("dynamo.slice", &[part], Type::tensor(&found.counts, element), &attrs);
    }
    if let Some(order) = found.order() {
        let kept: Vec<_> = found.walked().iter().map(|&d| found.counts[d]).collect();
        part = permute(b, reshape(b, part, &kept), &order);
    }
    let moving = moving(window);
    if window.sizes.iter().enumerate().all(|(i, &n)| n == 1 || moving.contains(&i)) {
        return reshape(b, part, &window.sizes);
    }
    let sizes: Vec<_> = moving.iter().map(|&i| window.sizes[i]).collect();
    let dims: Vec<_> = moving.iter().map(|&i| i as i64).collect();
    b.value("dynamo.broadcast", &[reshape(b, part, &sizes)], result, &[("dims", Attr::i64s(ctx, &dims))])
}

/// `value` with `source` in the place of what `window` shows. The window shows no element twice.
pub fn write(b: &Builder, value: Value, window: &Window, source: Value) -> Value {
    if window.is_empty() {
        return value;
    }
    let ctx = b.ctx();
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
            whole = permute(b, reshape(b, whole, &sizes), &inverse);
        }
        return reshape(b, whole, &value.ty().shape());
    }
    let attrs = [("strides", Attr::i64s(ctx, &window.strides)), ("offset", Attr::i64(ctx, window.offset))];
    b.value("dynamo.as_strided_scatter", &[value, source], value.ty(), &attrs)
}

/// What primitives have no types for: an operator of torch's that takes a window after its operands.
fn by_torch(b: &Builder, schema: &str, operands: &[Value], window: &Window, result: Type) -> Value {
    let ctx = b.ctx();
    let mut args: Vec<_> = (0..operands.len()).map(|i| Attr::operand(ctx, i)).collect();
    let list = |numbers: &[i64]| Attr::array(ctx, &numbers.iter().map(|&n| Attr::i64(ctx, n)).collect::<Vec<_>>());
    args.extend([list(&window.sizes), list(&window.strides), Attr::i64(ctx, window.offset)]);
    let dense = |ty: Type| Attr::i64s(ctx, &row_major(&ty.shape()));
    let attrs = [
        ("schema", Attr::str(ctx, schema)),
        ("args", Attr::array(ctx, &args)),
        ("operand_strides", Attr::array(ctx, &operands.iter().map(|value| dense(value.ty())).collect::<Vec<_>>())),
        ("result_strides", Attr::array(ctx, &[dense(result)])),
    ];
    b.value("dynamo.aten", operands, result, &attrs)
}

/// `dynamo.reshape`, unless the shape is right already.
pub fn reshape(b: &Builder, value: Value, shape: &[i64]) -> Value {
    if value.ty().shape() == shape {
        return value;
    }
    b.value("dynamo.reshape", &[value], Type::tensor(shape, value.ty().element()), &[])
}

/// `dynamo.permute`, unless the order is that already.
pub fn permute(b: &Builder, value: Value, order: &[usize]) -> Value {
    if order.is_sorted() {
        return value;
    }
    let shape = value.ty().shape();
    let sizes: Vec<_> = order.iter().map(|&i| shape[i]).collect();
    let dims: Vec<_> = order.iter().map(|&i| i as i64).collect();
    b.value("dynamo.permute", &[value], Type::tensor(&sizes, value.ty().element()), &[("dims", Attr::i64s(b.ctx(), &dims))])
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
