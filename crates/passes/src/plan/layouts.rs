//! Which layout a value should be made in, so that nobody has to copy it.
//!
//! Wishes come from the end: the graph's results must have eager's strides, and extern ops must receive operands as
//! eager passed them. A wish travels backwards through changes of view to the launch that makes the value.

use std::collections::HashMap;

use dynamlir_dialect::{
    ir::{Op, Value},
    ops::{LaunchOp, PermuteOp, ReshapeOp, ScatterOp},
};
use dynamlir_shapes::{Dim, Dimension, Relation, Scope};

use super::careful::{is_dense, is_row_major, row_major};

/// What is wished of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// Strides that the value's own shape should have.
    pub strides: Vec<Dim>,
    /// The graph's result whose memory the value should be written to.
    pub result: Option<usize>,
}

/// The wishes for the values that launches and extern ops with an out form make.
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

/// Follows a value through changes of view that keep all its elements to where it is made.
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

/// Whether a `dynamo.scatter` may write into its base's own memory: what a kernel made for nothing else.
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

/// Strides of a reshape's operand, given those of its result: row-major stays row-major, and unit dimensions may come and go.
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
