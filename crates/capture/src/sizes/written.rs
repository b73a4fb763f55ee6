//! Sizes as the compiler takes them: what is recorded with expressions is compiled with expressions.

use dynamlir_shapes::{Dim, Symbol, SymbolInfo};
use pyo3::{prelude::*, types::PyInt};

use super::{
    SizeNode, Sizes,
    class::{is_size, is_symbolic},
    node::Value,
};

/// A recorded size: a number, or an expression in its simplest form. None of what is neither.
///
/// # Errors
/// What Python raised.
pub fn expression(value: &Bound<'_, PyAny>) -> PyResult<Option<Dim>> {
    if value.is_instance_of::<PyInt>() {
        return value.extract::<i64>().map(|number| Some(number.into()));
    }
    if !is_size(value) && !is_symbolic(value) {
        return Ok(None);
    }
    let Ok(node) = value.getattr(pyo3::intern!(value.py(), "node"))?.cast_into::<SizeNode>() else { return Ok(None) };
    let node = node.get();
    Ok(match &node.value {
        Value::Int(size) => Some(node.sizes.get().made(Ok(size.clone()))),
        _ => None,
    })
}

impl Sizes {
    /// The symbols that recorded sizes may name, with what is known of them. Those that turned out to be others, or numbers, are named
    /// nowhere.
    pub fn free(&self) -> Vec<(Symbol, SymbolInfo)> {
        self.with(|known| {
            let is_free = |symbol: Symbol| Dim::from(symbol).simplify(&known.scope).is_ok_and(|size| size.as_symbol() == Some(symbol));
            known.scope.symbols().filter(|(symbol, _)| is_free(*symbol)).map(|(symbol, info)| (symbol, *info)).collect()
        })
    }
}
