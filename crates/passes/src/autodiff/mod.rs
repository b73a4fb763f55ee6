//! `dynamo-autodiff`: an entry becomes the joint function of its results and its gradients (stage 01).
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
//! First the values that have a history are found ([`flow`]), as autograd would mark them: what an operator with grad mode on makes
//! of such a value. Then the operations are gone through from the last to the first ([`walk`]). Each that a gradient has
//! reached says what it means for its operands: by `vjp = @f` if it has that, else by a rule for the `ATen` operator (`rules`), else
//! by one for the primitive (`primitives`). Several gradients of one value are added. What no gradient reaches has none: nothing
//! stands for zero, but where a formula needs one beside others that are there.
//!
//! Rules emit the operators that eager calls in its backward pass, so that both round alike, and primitives where elements only
//! move. All count as recorded: with `again` the gradients of a joint function are differentiated in turn, with
//! respect to what required a gradient and to the tangents. Where an entry has `dynamo.order = 2` it becomes the joint function of
//! its gradients and of theirs ([`gradient`]), with 3 that of the second and the third, and so on.
//!
//! Sizes may be expressions. A rule that has to know a number, or whether two sizes are equal, and cannot, gives no derivative.
//!
//! Refused, with the reason `autograd`: an operator that a gradient reaches and of which nothing is known; an argument that is
//! written and wants a gradient, or is written with a value that has one; an output that eager differentiates and this does not.
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
        /// differentiate the gradients of functions that have some (false)
        again: bool = false,
        /// give a function one node of autograd's graph, whatever users see of it (false)
        one_node: bool = false,
    }
}

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-autodiff",
    description: "Add gradients to the entries that are differentiated",
    takes: Takes::Symbols,
    options: AutodiffOptions::DECLARED,
    statistics: &[DIFFERENTIATED],
    run,
};

const DIFFERENTIATED: Statistic = Statistic { name: "operations", description: "operations that a gradient went through" };

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

/// As often as `dynamo.order` says: each time but the last, the gradients alone are what is differentiated next.
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
        // Gradients are not made of one another: nobody differentiates one with respect to another.
        let as_one_node = options.one_node || step > 1;
        count += joint::differentiate(entry, &functions, joint::How { again: options.again, as_one_node })?;
    }
    Ok(count)
}

/// Numbers the operators that draw random numbers, so that those who differentiate the gradients in turn can tell which draw is which.
fn number_draws(entry: Op) {
    let drawing = entry.body().map(Block::ops).unwrap_or_default().into_iter().filter(|&op| draws(op));
    for (number, op) in (0..).zip(drawing) {
        ops::DRAW.set(op, number);
    }
}
