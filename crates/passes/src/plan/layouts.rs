//! The preferred layout of each value, which avoids copies by its users.
//!
//! Preferences (wishes) start at the end: the graph's results must have eager's strides, and extern ops must receive operands with the
//! strides they have in eager. A wish propagates backwards through changes of view to the launch that computes the value.

use std::collections::HashMap;

use dynamlir_dialect::{
    ir::{Op, Value},
    ops::{LaunchOp, PermuteOp, ReshapeOp, ScatterOp},
};
use dynamlir_shapes::{Dim, Dimension, Relation, Scope};

use super::careful::{is_dense, is_row_major, row_major};

/// The preference for a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The preferred strides of the value, in its own shape.
    pub strides: Vec<Dim>,
    /// The graph's result whose memory the value should be written to.
    pub result: Option<usize>,
}

/// The wishes for the values computed by launches and by extern ops with an out form.
pub fn wishes(results: &[(Value, Vec<Dim>)], externs: &[(Value, Vec<Dim>)], scope: &Scope) -> HashMap<Value, Wish> {
    let mut wishes: HashMap<Value, Wish> = HashMap::new();
    let from_results = results.iter().enumerate().map(|(i, (value, strides))| (*value, strides, Some(i)));
    let from_externs = externs.iter().map(|(value, strides)| (*value, strides, None));
    for (value, strides, result) in from_results.chain(from_externs) {
        if !is_dense(&value.ty().dims(), strides, scope) {
            continue;
        }
        if let Some((maker, strides)) = trace_back(value, strides.clone(), scope) {
            wishes.entry(maker).or_insert(Wish { strides, result });
        }
    }
    wishes
}

/// Follows a value back to its definition, through changes of view that keep all its elements.
fn trace_back(mut value: Value, mut strides: Vec<Dim>, scope: &Scope) -> Option<(Value, Vec<Dim>)> {
    loop {
        let op = value.def()?;
        if let Some(permute) = PermuteOp::cast(op) {
            let dims = permute.dims();
            let mut inner = vec![Dim::from(0); dims.len()];
            for (i, dim) in dims.iter().enumerate() {
                inner[*dim as usize] = strides[i].clone();
            }
            strides = inner;
        } else if op.is(ReshapeOp::NAME) {
            strides = through_reshape(op, &strides, scope)?;
        } else if !is_written_over(op) {
            return Some((value, strides));
        }
        value = op.operand(0);
    }
}

/// Returns true if a `dynamo.scatter` may write into its base's own memory: a kernel computed the base, and it has no other use.
pub fn is_written_over(op: Op) -> bool {
    let mut base = op;
    op.is(ScatterOp::NAME)
        && loop {
            let value = base.operand(0);
            match value.def().filter(|_| value.uses().len() == 1) {
                Some(def) if def.is(LaunchOp::NAME) || def.is(ScatterOp::NAME) => break true,
                Some(def) if def.is(PermuteOp::NAME) || def.is(ReshapeOp::NAME) => base = def,
                _ => break false,
            }
        }
}

/// Strides of a reshape's operand, given those of its result: row-major stays row-major, and unit dimensions may be added or removed.
fn through_reshape(op: Op, strides: &[Dim], scope: &Scope) -> Option<Vec<Dim>> {
    let (from, to) = (op.operand(0).ty().dims(), op.result(0).ty().dims());
    if is_row_major(&to, strides, scope) {
        return Some(row_major(&from, scope));
    }
    let mut real = to.iter().zip(strides).filter(|(size, _)| !size.is(1));
    let mut inner = Vec::with_capacity(from.len());
    for size in &from {
        if size.is(1) {
            inner.push(Dim::from(1));
        } else {
            let (other, stride) = real.next()?;
            if !other.compare(Relation::Eq, size, scope).unwrap_or(false) {
                return None;
            }
            inner.push(stride.clone());
        }
    }
    real.next().is_none().then_some(inner)
}
