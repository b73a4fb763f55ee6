//! `dynamo-autodiff`: turns an entry into the joint function of its results and its gradients (stage 01).
//!
//! Before:
//! ```mlir
//! func.func @main(%x: tensor<4xf32> {dynamo.requires_grad, …}) -> (tensor<4xf32> {…})
//!     attributes {dynamo.entry, dynamo.differentiable = array<i64: 0>, dynamo.outputs = [#dynamo.output<result 0>]} {
//!   %0 = dynamo.aten "aten.tanh.default"(%x) … {grad_enabled, …}
//!   return %0
//! }
//! ```
//! After:
//! ```mlir
//! func.func @main(%x: …, %t: tensor<4xf32> {dynamo.tangent = 0, …}) -> (tensor<4xf32> {…}, tensor<4xf32> {dynamo.gradient = 0, …}) {
//!   %0 = dynamo.aten "aten.tanh.default"(%x) …
//!   %1 = dynamo.aten "aten.tanh_backward.default"(%t, %0) …
//!   return %0, %1
//! }
//! ```
//!
//! First the pass finds the values that have a history ([`flow`]), as autograd would mark them: the results of operators that run with grad
//! mode on and take such a value. Then it visits the operations from the last to the first ([`walk`]). For each operation that a gradient
//! has reached, it emits the gradients of the operands: by `vjp = @f` if the operation has that, else by a rule for the `ATen` operator
//! (`rules`), else by one for the primitive (`primitives`). Several gradients of one value are added. A value that no gradient reaches has
//! none: zeros are emitted only if a formula needs one together with other gradients that exist.
//!
//! Rules emit the operators that eager calls in its backward pass, so that both round alike, and primitives where elements only move. All
//! of these count as recorded: with `again` the gradients of a joint function are themselves differentiated, with respect to the values
//! that required a gradient and to the tangents. An entry with `dynamo.order = 2` becomes the joint function of its gradients and of theirs
//! ([`gradient`]), with 3 that of the second and the third order, and so on.
//!
//! Sizes may be expressions. A rule that needs a number, or needs to know that two sizes are equal, declines if that is unknown.
//!
//! The pass refuses, with the reason `autograd`: an operator that a gradient reaches and whose derivative is unknown; an argument that is
//! mutated and requires a gradient, or is mutated with a value that has one; an output that is differentiable in eager but not here.
#![expect(clippy::float_cmp, reason = "constants of the program are compared exactly: each has its own formula")]
#![expect(clippy::cast_precision_loss, reason = "element counts, which eager makes doubles too")]

mod at;
pub(crate) mod aten;
mod flow;
pub mod gradient;
mod joint;
mod nodes;
mod primitives;
mod rules;
mod vjp;
pub mod walk;

use dynamlir_dialect::{
    ir::{Block, Op},
    ops,
    pass::{Options, Pass, PassError, PassResult, Run, Statistic, Takes},
    pass_options,
    program::entries,
};

use crate::decompose::draws;
pub use rules::{is_constant, schemas};

pass_options! {
    /// Options of `dynamo-autodiff`.
    pub struct AutodiffOptions {
        /// differentiate the gradients of functions that have gradients (false)
        again: bool = false,
        /// make each function a single node of autograd's graph, regardless of what users see (false)
        one_node: bool = false,
    }
}

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-autodiff",
    description: "Add gradients to the entries that require them",
    takes: Takes::Symbols,
    options: AutodiffOptions::DECLARED,
    statistics: &[DIFFERENTIATED],
    run,
};

const DIFFERENTIATED: Statistic = Statistic { name: "operations", description: "operations differentiated" };

fn run(module: Op, run: &Run) -> PassResult {
    let mut wanted = entries(module);
    wanted.retain(|&entry| ops::DIFFERENTIABLE.is_on(entry));
    if wanted.is_empty() {
        return Ok(());
    }
    let options: AutodiffOptions = run.options()?;
    for entry in wanted {
        if options.again == joint::is_joint(entry) {
            run.count(&DIFFERENTIATED, differentiate(entry, module, &options)?);
        }
    }
    Ok(())
}

/// Differentiates as often as `dynamo.order` says. Each step after the first differentiates the gradients of the step before.
fn differentiate(mut entry: Op, module: Op, options: &AutodiffOptions) -> Result<usize, PassError> {
    let order = ops::ORDER.of(entry).unwrap_or(1);
    let path = ops::PATH.of(entry).unwrap_or_default();
    let mut count = 0;
    if !options.again {
        number_draws(entry);
    }
    for step in 1..=order.max(1) {
        if step > 1 {
            let node = usize::try_from(step - 2).ok().and_then(|step| path.get(step)).copied();
            entry = gradient::take(entry, module, node)?;
            if !ops::DIFFERENTIABLE.is_on(entry) {
                return Ok(count);
            }
        }
        let functions: Vec<Op> = module.body().map(Block::ops).unwrap_or_default();
        // A gradient is never computed from another one that is returned, and users do not differentiate one with respect to another.
        let as_one_node = options.one_node || step > 1;
        count += joint::differentiate(entry, &functions, joint::How { again: options.again, as_one_node })?;
    }
    Ok(count)
}

/// Numbers the operators that draw random numbers, so that double backward can match its draws to these.
fn number_draws(entry: Op) {
    let drawing = entry.body().map(Block::ops).unwrap_or_default().into_iter().filter(|&op| draws(op));
    for (number, op) in (0..).zip(drawing) {
        ops::DRAW.set(op, number);
    }
}
