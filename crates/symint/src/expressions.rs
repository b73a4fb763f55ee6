//! Sizes in the form that the compiler takes: a recording with expressions is compiled with expressions.

use dynamlir_shapes::{Dim, Predicate, Scope, Symbol, SymbolInfo};
use pyo3::{prelude::*, types::PyInt};

use crate::{
    SizeGuard, SizeNode, Sizes,
    node::Value,
    sym_int::{is_size, is_symbolic},
};

/// Returns a recorded size: a number, or an expression in its simplest form. `None` if the value is neither.
///
/// # Errors
/// Returns the exception raised by Python.
pub fn expression(value: &Bound<'_, PyAny>) -> PyResult<Option<Dim>> {
    of(value, true)
}

/// Like [`expression`], without using the facts that have become known since.
///
/// # Errors
/// Returns the exception raised by Python.
pub fn expression_as_recorded(value: &Bound<'_, PyAny>) -> PyResult<Option<Dim>> {
    of(value, false)
}

fn of(value: &Bound<'_, PyAny>, simplified: bool) -> PyResult<Option<Dim>> {
    if value.is_instance_of::<PyInt>() {
        return value.extract::<i64>().map(|number| Some(number.into()));
    }
    if !is_size(value) && !is_symbolic(value) {
        return Ok(None);
    }
    let Ok(node) = value.getattr(pyo3::intern!(value.py(), "node"))?.cast_into::<SizeNode>() else { return Ok(None) };
    let node = node.get();
    Ok(match &node.value {
        Value::Int(size) if simplified => Some(node.sizes.get().made(Ok(size.clone()))),
        Value::Int(size) => Some(size.clone()),
        _ => None,
    })
}

impl Sizes {
    /// Returns the assumptions about the symbols, except those that follow from the facts about each symbol alone.
    pub fn assumed(&self) -> Vec<Predicate> {
        let mut alone = Scope::new();
        self.free().into_iter().for_each(|(symbol, info)| alone.declare(symbol, info));
        self.with(|known| {
            let simplest = |size: &Dim| size.simplify(&known.scope).ok();
            let predicates = known.guards.iter().map(|SizeGuard { predicate, .. }| {
                Some(Predicate::new(simplest(&predicate.left)?, predicate.relation, simplest(&predicate.right)?))
            });
            predicates.flatten().filter(|predicate| alone.decide(predicate).is_none()).collect()
        })
    }

    /// Returns the symbols that recorded sizes may name, with the facts about them. Symbols that turned out to be equal to others, or to
    /// numbers, are never named.
    pub fn free(&self) -> Vec<(Symbol, SymbolInfo)> {
        self.with(|known| {
            let is_free = |symbol: Symbol| Dim::from(symbol).simplify(&known.scope).is_ok_and(|size| size.as_symbol() == Some(symbol));
            known.scope.symbols().filter(|(symbol, _)| is_free(*symbol)).map(|(symbol, info)| (symbol, *info)).collect()
        })
    }
}
