//! Complex numbers as pairs of real ones.
//!
//! `view_as_real`, `.real` and `view_as_complex` view one storage in two element types. If such a storage is written, its base value
//! consists of real numbers (see [`base`](super::base)). An output with another element type than the storage's root is a view of a result
//! of its own type.

use dynamlir_dialect::{
    ir::{Attr, AttrValue, Builder, Type, Value},
    ops::AtenOp,
};
use dynamlir_shapes::{Dim, Dimension, Scope, row_major_in};

use super::coordinates::Window;
use crate::emit::Emit;

/// Returns the real type if these element types are a real type and the complex type of its numbers.
pub fn reals_of(types: &[Type]) -> Option<Type> {
    match *types {
        [a, b] if a.part() == Some(b) => Some(b),
        [a, b] if b.part() == Some(a) => Some(a),
        _ => None,
    }
}

/// Converts a window of elements of this type to a window of real numbers. `None` if a size overflows.
pub fn in_reals(window: &Window, element: Type) -> Option<Window> {
    if !element.is_complex() {
        return Some(window.clone());
    }
    let two = Dim::from(2);
    let mut wide = Window { offset: window.offset.mul(&two).ok()?, ..window.clone() };
    wide.strides = window.strides.iter().map(|stride| stride.mul(&two).ok()).collect::<Option<_>>()?;
    wide.sizes.push(two);
    wide.strides.push(Dim::from(1));
    Some(wide)
}

/// Views a value as real numbers: a complex one gets one more dimension.
pub fn as_reals(b: &Builder, value: Value, scope: &Scope) -> Value {
    let Some(part) = value.ty().element().part() else { return value };
    let mut sizes = value.ty().dims();
    sizes.push(Dim::from(2));
    call(b, "aten.view_as_real.default", value, Type::tensor_of(&sizes, part), scope)
}

/// Views real numbers as elements of this type; a complex type consumes the last dimension as pairs.
pub fn as_elements(b: &Builder, value: Value, element: Type, scope: &Scope) -> Value {
    if value.ty().element() == element {
        return value;
    }
    let mut sizes = value.ty().dims();
    sizes.pop();
    call(b, "aten.view_as_complex.default", value, Type::tensor_of(&sizes, element), scope)
}

/// The contents of a row-major tensor of real numbers as pairs. `None` if its last dimension does not, or may not, consist of pairs.
pub fn paired(b: &Builder, value: Value, element: Type, scope: &Scope) -> Option<Value> {
    let mut sizes = value.ty().dims();
    let last = sizes.pop()?.known().filter(|last| last % 2 == 0)?;
    sizes.extend([Dim::from(last / 2), Dim::from(2)]);
    Some(as_elements(b, Emit::new(*b).reshape(value, &sizes), element, scope))
}

/// Builds a call of a unary operator. As with a primitive, the result has a history if the operand has one.
fn call(b: &Builder, schema: &str, operand: Value, result: Type, scope: &Scope) -> Value {
    let dense = |ty: Type| Vec::<Dim>::write(b.ctx(), &row_major_in(&ty.dims(), scope).unwrap_or_default());
    let layouts = [[dense(operand.ty())], [dense(result)]];
    let strides = (Some(&layouts[0][..]), Some(&layouts[1][..]));
    let args = [Attr::operand(b.ctx(), 0)];
    AtenOp::build(b, schema, &[operand], &args, None, None, None, None, None, strides.0, strides.1, true, &[result]).op().result(0)
}
