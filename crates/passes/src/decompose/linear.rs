//! Small linear algebra that is essentially pointwise: diagonals, outer and cross products, inner products of vectors.

use dynamlir_dialect::ir::Value;

use super::{
    Call, Lowering,
    promote::{category, wide},
    view::{cut, diagonal_window},
};
use crate::emit::Scalar;

/// Lowerings by schema. Products with matrices are left to the library.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.addr.default", addr),
    ("aten.diag_embed.default", diag_embed),
    ("aten.dot.default", dot),
    ("aten.ger.default", outer),
    ("aten.linalg_cross.default", cross),
    ("aten.outer.default", outer),
    ("aten.renorm.default", renorm),
    ("aten.trace.default", trace),
    ("aten.vdot.default", dot),
];

/// Sum of products. Integers wrap in their own type.
fn dot(c: &Call) -> Option<Vec<Value>> {
    let (a, b) = (c.tensor(0)?, c.tensor(1)?);
    let element = c.result_type(0).element();
    let same = a.ty() == b.ty() && a.ty().element() == element && !element.is_bool();
    same.then_some(())?;
    let product = c.e.mul(c.e.convert(a, wide(element)), c.e.convert(b, wide(element)));
    Some(vec![c.e.convert(c.e.sum(product, &[0], false), element)])
}

/// A vector along one dimension of a matrix.
fn along(c: &Call, i: usize, dim: i64) -> Option<Value> {
    let ty = c.result_type(0);
    Some(c.e.broadcast(c.e.convert(c.tensor(i)?, wide(ty.element())), &ty.shape(), &[dim]))
}

fn outer(c: &Call) -> Option<Vec<Value>> {
    let element = c.result_type(0).element();
    let (a, b) = (along(c, 0, 0)?, along(c, 1, 1)?);
    let product = if element.is_bool() { c.e.and(a, b) } else { c.e.mul(a, b) };
    Some(vec![c.e.convert(product, element)])
}

/// `beta · self + alpha · vec1 · vec2`. If beta is 0, self is not read, so that its NaNs have no effect.
fn addr(c: &Call) -> Option<Vec<Value>> {
    let ty = c.result_type(0);
    let (beta, alpha) = (c.scalar(3)?, c.scalar(4)?);
    let whole = |s: Scalar| category(ty.element()) == 2 || !matches!(s, Scalar::Float(_));
    // For bools the constants are logical; for integers a fraction cannot be represented.
    if ty.element().is_bool() || !whole(beta) || !whole(alpha) {
        return None;
    }
    let (a, b) = (along(c, 1, 0)?, along(c, 2, 1)?);
    let product = c.e.mul(c.e.mul(c.e.full_like(a, alpha), a), b);
    let out = if beta.as_f64() == 0.0 {
        product
    } else {
        let own = c.e.broadcast_to(c.e.convert(c.tensor(0)?, product.ty().element()), &ty.shape());
        c.e.add(c.e.mul(c.e.full_like(own, beta), own), product)
    };
    Some(vec![c.e.convert(out, ty.element())])
}

/// The cross product `a × b` along a dimension of size 3, one component after another.
fn cross(c: &Call) -> Option<Vec<Value>> {
    let ty = c.result_type(0);
    let dim = c.dim(2, ty.rank())?;
    (ty.shape().get(dim as usize) == Some(&3) && !ty.element().is_bool()).then_some(())?;
    let operand = |i: usize| Some(c.e.broadcast_to(c.e.convert(c.tensor(i)?, wide(ty.element())), &ty.shape()));
    let (a, b) = (operand(0)?, operand(1)?);
    let term = |i: i64, j: i64| c.e.mul(cut(c, a, dim, i, 1, 1), cut(c, b, dim, j, 1, 1));
    let component = |i: i64| c.e.sub(term((i + 1) % 3, (i + 2) % 3), term((i + 2) % 3, (i + 1) % 3));
    let out = c.e.concat(&[component(0), component(1), component(2)], dim);
    Some(vec![c.e.convert(out, ty.element())])
}

/// Integers (and bools) are summed in i64, the result's type.
fn trace(c: &Call) -> Option<Vec<Value>> {
    let (x, element) = (c.tensor(0)?, c.result_type(0).element());
    let &[rows, columns] = x.ty().shape().as_slice() else { return None };
    let size = rows.min(columns);
    let (strides, offset) = diagonal_window(&[rows, columns], 0, (0, 1), size);
    let diagonal = c.e.convert(c.e.as_strided(x, &[size], &strides, offset), wide(element));
    Some(vec![c.e.convert(c.e.sum(diagonal, &[0], false), element)])
}

/// Places the last dimension on a diagonal of a zero matrix.
fn diag_embed(c: &Call) -> Option<Vec<Value>> {
    let (x, ty) = (c.tensor(0)?, c.result_type(0));
    let (a, b) = (c.dim(2, ty.rank())?, c.dim(3, ty.rank())?);
    let zeros = c.e.full(&ty.shape(), ty.element(), 0i64);
    if x.ty().numel() == 0 {
        return Some(vec![zeros]);
    }
    let length = *x.ty().shape().last()?;
    let (strides, offset) = diagonal_window(&ty.shape(), c.int(1)?, (a, b), length);
    Some(vec![c.e.as_strided_scatter(zeros, x, &strides, offset)])
}

/// Scales slices along a dimension down to a bound if their p-norm exceeds it.
fn renorm(c: &Call) -> Option<Vec<Value>> {
    let (x, p, most) = (c.tensor(0)?, c.float(1)?, c.float(3)?);
    let (shape, element) = (x.ty().shape(), x.ty().element());
    let dim = c.dim(2, shape.len())?;
    if p <= 0.0 || !element.is_float() || (p.is_infinite() && x.ty().numel() == 0) {
        return None;
    }
    let x = c.e.convert(x, wide(element));
    let others: Vec<i64> = (0..shape.len() as i64).filter(|&d| d != dim).collect();
    let size = c.e.abs(x);
    let sum = |v: Value| c.e.sum(v, &others, true);
    let norm = if p == 1.0 {
        sum(size)
    } else if p == 2.0 {
        c.e.sqrt(sum(c.e.mul(x, x)))
    } else if p.is_infinite() {
        c.e.reduce("max", size, &others, true)
    } else {
        let total = sum(c.e.pow(size, c.e.full_like(size, p)));
        c.e.pow(total, c.e.full_like(total, 1.0 / p))
    };
    let number = |v: f64| c.e.full_like(norm, v);
    let shrink = c.e.div(number(most), c.e.add(norm, number(1e-7)));
    let factor = c.e.select(c.e.gt(norm, number(most)), shrink, number(1.0));
    Some(vec![c.e.convert(c.e.mul(x, c.e.broadcast_to(factor, &shape)), element)])
}
