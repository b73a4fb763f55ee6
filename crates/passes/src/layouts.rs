//! Layouts of values in functions that are differentiated: strides, and the outputs that are views.

use dynamlir_dialect::{
    ir::{Op, Type, Value},
    ops,
    pass::{PassError, PassResult},
};
use dynamlir_reasons::DYNAMIC_SHAPE;
use dynamlir_shapes::{Dim, Scope, Window, row_major, row_major_in};

/// Returns the row-major strides of a type.
///
/// # Panics
/// If its number of elements exceeds 64 bits for all values of the symbols.
pub fn strides_of(ty: Type, scope: &Scope) -> Vec<Dim> {
    match ty.numbers() {
        Some(sizes) => row_major(&sizes).into_iter().map(Dim::from).collect(),
        None => row_major_in(&ty.dims(), scope).expect("strides of a tensor"),
    }
}

/// Refuses values whose strides exceed 64 bits for all values of the symbols. Such a value cannot exist in memory, and the positions of its
/// elements cannot be computed.
pub fn refuse_huge(function: Op, values: &[Value], scope: &Scope) -> PassResult {
    for value in values {
        if value.ty().sizes().is_some_and(|sizes| row_major_in(&sizes, scope).is_err()) {
            let message = format!("64 bits do not hold the strides of {}", value.ty());
            return Err(PassError::refusal(value.def().unwrap_or(function), DYNAMIC_SHAPE, message));
        }
    }
    Ok(())
}

/// Returns true if the strides are known to be dense: the elements are contiguous in some order, as in a fresh tensor.
pub fn is_dense(sizes: &[Dim], strides: &[Dim], scope: &Scope) -> bool {
    let window = Window { sizes: sizes.to_vec(), strides: strides.to_vec(), offset: Dim::from(0) };
    match window.known() {
        Some(window) => !window.may_repeat() && (window.is_empty() || window.end() == window.numel()),
        None => window.is_dense_in(scope).unwrap_or(false),
    }
}

/// Returns the output that a result of an operation is, if the output is a view.
pub fn shown(op: Op, result: usize) -> Option<usize> {
    usize::try_from(*ops::SHOWN.of(op)?.get(result)?).ok()
}
