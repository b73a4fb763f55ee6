//! Products: gradients of matrix products are two products; those of convolutions and pooling use torch's own backward operators.

use dynamlir_dialect::{
    ir::{Type, Value},
    ops::{DynamoOp, MatmulOp},
};

use dynamlir_shapes::{Dim, product as lengths};

use crate::autodiff::{at::At, aten::args};

/// Emits the gradients; returns None for other primitives.
pub fn differentiate(op: DynamoOp, at: &mut At, g: Value) -> Option<()> {
    match op {
        DynamoOp::Matmul(op) => matmul(op, at, g),
        DynamoOp::Convolution(op) => {
            let (x, w, a) = (op.input(), op.weight(), at.a);
            let (image, taps) = (x.ty().numbers()?, w.ty().numbers()?);
            let windows = positions(&image[2..], &taps[2..], [&op.strides(), &op.padding(), &op.dilation()]);
            let shape = [&[image[0], taps[0]][..], &windows].concat();
            if shape.iter().product::<i64>() != g.ty().numel() {
                return None;
            }
            let mask = vec![at.wants(x), at.wants(w), false];
            let made = |value: Value| if at.wants(value) { (value.ty(), None) } else { a.nothing() };
            let results = [made(x), made(w), a.nothing()];
            let arguments = args![
                a.e.reshape(g, &shape),
                x,
                w,
                super::super::aten::Arg::None,
                op.strides(),
                op.padding(),
                op.dilation(),
                false,
                vec![0, 0],
                op.groups(),
                super::super::aten::Arg::Bools(mask),
            ];
            let found = a.call("aten.convolution_backward.default", arguments, &results);
            for (operand, gradient) in [x, w].into_iter().zip(found) {
                if at.wants(operand) {
                    at.give_to(operand, gradient);
                }
            }
            Some(())
        }
        DynamoOp::MaxPool(op) => {
            let (x, a) = (op.input(), at.a);
            let image = x.ty().numbers()?;
            let windows = positions(&image[2..], &op.window(), [&op.strides(), &op.padding(), &op.dilation()]);
            let shape = [&image[..2], &windows].concat();
            if shape.iter().product::<i64>() != g.ty().numel() {
                return None;
            }
            // The primitive does not return the index of the largest element, so torch's operator recomputes it.
            let how = [op.window(), op.strides(), op.padding(), op.dilation()].map(super::super::aten::Arg::from);
            let [window, strides, padding, dilation] = how;
            let again = [x.into(), window.clone(), strides.clone(), padding.clone(), dilation.clone(), false.into()];
            let (values, index) = (Type::tensor(&shape, x.ty().element()), Type::tensor(&shape, Type::int(a.b.ctx(), 64)));
            let found = a.call("aten.max_pool2d_with_indices.default", &again, &[(values, None), (index, None)])[1];
            let arguments = [a.e.reshape(g, &shape).into(), x.into(), window, strides, padding, dilation, false.into(), found.into()];
            at.give_to(x, a.one("aten.max_pool2d_with_indices_backward.default", &arguments, x.ty()));
            Some(())
        }
        _ => None,
    }
}

/// Returns the number of positions of a window along each dimension.
fn positions(sizes: &[i64], window: &[i64], [strides, padding, dilation]: [&[i64]; 3]) -> Vec<i64> {
    (0..sizes.len()).map(|d| (sizes[d] + 2 * padding[d] - dilation[d] * (window[d] - 1) - 1) / strides[d] + 1).collect()
}

/// `∂lhs = g · rhsᵀ` and `∂rhs = lhsᵀ · g`, with all dimensions of one side flattened to one.
fn matmul(op: MatmulOp, at: &mut At, g: Value) -> Option<()> {
    let (lhs, rhs, e) = (op.lhs(), op.rhs(), at.a.e);
    let batch = usize::try_from(op.batch()).unwrap_or(0);
    let (left, right) = (lhs.ty().dims(), rhs.ty().dims());
    let lead = &left[..batch];
    let m = lengths(&left[batch..left.len() - 1]).ok()?;
    let k = right[batch].clone();
    let n = lengths(&right[batch + 1..]).ok()?;
    let as_matrix = |x: Value, rows: &Dim, columns: &Dim| e.reshape(x, &[lead, &[rows.clone(), columns.clone()]].concat());
    let turned = |x: Value| e.transpose(x, batch as i64, batch as i64 + 1);
    let (g, a, b) = (as_matrix(g, &m, &n), as_matrix(lhs, &m, &k), as_matrix(rhs, &k, &n));
    if at.wants(lhs) {
        at.give_to(lhs, e.reshape(e.matmul(g, turned(b), batch), &left));
    }
    if at.wants(rhs) {
        at.give_to(rhs, e.reshape(e.matmul(turned(a), g, batch), &right));
    }
    Some(())
}
