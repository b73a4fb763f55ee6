//! The cost model for products, convolutions, attention and maxima of windows on a processor.

use dynamlir_dialect::{
    ir::{Op, Target, Value},
    ops::{self, AtenOp, AttentionOp, ConvolutionOp, DynamoOp, MatmulOp, MaxPoolOp, PermuteOp},
};

use super::{Selection, What};
use crate::anchors::{
    attention::{self, Heads},
    choices::{Choices, Decision, Question},
    choose::{Outline, is_possible, is_worth_generating},
    cut,
    problem::Problem,
    strategy,
    windows::{Windows, is_possible_windows, is_worth_generating_windows},
};

/// Decides about an operator whose code has this anchor.
pub(super) fn decide(call: AtenOp, anchor: Op, target: &Target, choices: &Choices) -> Selection {
    if call.schema() == "aten.convolution_backward.default" {
        return gradient(call, target);
    }
    match DynamoOp::of(anchor) {
        Some(DynamoOp::Matmul(op)) => product(call, op, target, choices),
        Some(DynamoOp::Convolution(op)) => convolution(call, op, target, choices),
        Some(DynamoOp::Attention(op)) => heads(op, target),
        Some(DynamoOp::MaxPool(op)) => maxima(op, target),
        _ => code("there is nothing that the library does better"),
    }
}

fn code(why: &'static str) -> Selection {
    Selection { what: What::Code(None), why }
}

fn library(why: &'static str) -> Selection {
    Selection { what: What::Library, why }
}

/// The decision of `dynamo.choices`, or else of the cost model.
fn chosen(decision: Decision, expected: bool, reasons: (&'static str, &'static str)) -> Selection {
    match decision {
        Decision::Library if expected => library("dynamo.choices says so"),
        Decision::Library => library(reasons.1),
        Decision::Code(strategy) if expected && strategy.is_none() => code(reasons.0),
        Decision::Code(strategy) => Selection { what: What::Code(strategy), why: "dynamo.choices says so" },
    }
}

fn product(call: AtenOp, op: MatmulOp, target: &Target, choices: &Choices) -> Selection {
    let (lhs, rhs) = (op.lhs(), op.rhs());
    let batch = usize::try_from(op.batch()).unwrap_or(0);
    let (left, right) = (lhs.ty().shape(), rhs.ty().shape());
    let columns = right.get(batch + 1).copied().unwrap_or(1);
    let outline = Outline {
        repeats: left[..batch].iter().product(),
        sizes: (left[batch], columns, right[batch]),
        dotted: !is_turned(lhs, batch) && is_turned(rhs, batch),
        followed: ops::FOLLOWED.is_on(call.op()),
    };
    let bits = target.vector_bits;
    if !is_possible(outline, bits) {
        return library("no code would be as fast and as exact");
    }
    let expected = is_worth_generating(outline, bits, target.library_vector_bits);
    let decision = choices.decide(call.op().ctx(), expected, || {
        let operands = layouts(call);
        let [.., (left, left_strides), (right, right_strides)] = &operands[..] else { return None };
        let problem = Problem::of(batch, (left, left_strides), (right, right_strides))?;
        let strategies = strategy::strategies(&problem, bits);
        Some(Question {
            schema: call.schema(),
            operands,
            numbers: Vec::new(),
            followed: outline.followed,
            work: problem.work(),
            strategies,
        })
    });
    chosen(
        decision,
        expected,
        ("it is expected to be as fast as the library, or to take in what follows", "the library is expected to be faster"),
    )
}

/// Returns true if the last two dimensions were transposed, so that memory runs along the first of them.
fn is_turned(value: Value, batch: usize) -> bool {
    let dims = PermuteOp::defining(value).map(PermuteOp::dims);
    dims.is_some_and(|dims| dims.len() == batch + 2 && dims[batch + 1] == batch as i64)
}

fn convolution(call: AtenOp, op: ConvolutionOp, target: &Target, choices: &Choices) -> Selection {
    let bits = target.vector_bits;
    let Some(windows) = Windows::of(op.op(), &op.input().ty().strides()).filter(|windows| is_possible_windows(windows, bits)) else {
        return library("no code would be as fast");
    };
    let expected = is_worth_generating_windows(&windows, bits);
    let decision = choices.decide(call.op().ctx(), expected, || {
        let numbers = vec![op.strides(), op.padding(), op.dilation(), vec![windows.groups]];
        let strategies = strategy::window_strategies(&windows, bits);
        let followed = ops::FOLLOWED.is_on(call.op());
        Some(Question { schema: call.schema(), operands: layouts(call), numbers, followed, work: windows.work(), strategies })
    });
    chosen(decision, expected, ("it is expected to be as fast as the library", "the library is expected to be faster"))
}

/// Decides about a gradient of a convolution, whose code consists of several convolutions or products.
///
/// Measured on one core with vectors of 256 bits against torch 2.15's `oneDNN`, which does not have fast code for gradients there. With
/// wider vectors it does.
fn gradient(call: AtenOp, target: &Target) -> Selection {
    let bits = target.vector_bits;
    let suits = |op: Op| match DynamoOp::of(op) {
        Some(DynamoOp::Convolution(op)) => {
            let windows = Windows::of(op.op(), &op.input().ty().strides());
            windows.is_some_and(|windows| op.result().ty().numel() > 1 && is_possible_windows(&windows, bits))
        }
        Some(DynamoOp::Matmul(op)) => {
            let (left, right) = (op.lhs().ty().shape(), op.rhs().ty().shape());
            let sizes = (left[0], right[1], right[0]);
            is_possible(Outline { repeats: 1, sizes, dotted: true, followed: false }, bits)
        }
        _ => true,
    };
    let code_suits = call.op().body().is_some_and(|body| body.ops().into_iter().all(suits));
    match code_suits {
        true if target.library_vector_bits < 512 => code("the library has no fast code for gradients of convolutions"),
        true => library("the library is expected to be faster"),
        false => library("no code would be as fast"),
    }
}

fn heads(op: AttentionOp, target: &Target) -> Selection {
    let operands = op.op().operands();
    let strides: Vec<_> = operands.iter().map(|value| value.ty().strides()).collect();
    let fits = |heads: &Heads| target.vector_bits >= 256 && attention::choose(heads, target.vector_bits).is_some();
    match Heads::of(op.op(), &strides) {
        Some(heads) if !fits(&heads) => library("there is no code for it"),
        Some(heads) if attention::is_worth_generating(&heads) => code("few keys: their scores stay in the cache"),
        _ => library("many keys: the library is expected to be faster"),
    }
}

fn maxima(op: MaxPoolOp, target: &Target) -> Selection {
    let windows = Windows::of(op.op(), &op.input().ty().strides());
    let fits = windows.is_some_and(|windows| target.vector_bits >= 256 && cut::choose(&windows, target.vector_bits).is_ok());
    if fits { code("each tap of all positions is a line of memory") } else { Selection { what: What::Taps, why: "a slice for each tap" } }
}

/// Sizes and strides of all tensor arguments, as in eager.
fn layouts(call: AtenOp) -> Vec<(Vec<i64>, Vec<i64>)> {
    let given = call.operand_strides().unwrap_or_default();
    let strides = |i: usize| given.get(i)?.as_i64s();
    let operands = call.args().into_iter().filter_map(dynamlir_dialect::ir::Attr::as_operand);
    operands
        .map(|i| (call.op().operand(i).ty(), strides(i)))
        .map(|(ty, given)| (ty.shape(), given.unwrap_or_else(|| ty.strides())))
        .collect()
}
