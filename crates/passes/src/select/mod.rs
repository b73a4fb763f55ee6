//! `dynamo-select`: for each operator that has a library call and code, one of the two.
//!
//! Before:
//! ```mlir
//! %r = dynamo.aten "aten.mm.default"(%x, %w) args [#dynamo.operand<0>, #dynamo.operand<1>] code {
//!   %p = dynamo.matmul %x, %w batch 0 : …
//!   dynamo.yield %p : tensor<8x4xf32>
//! } : …
//! ```
//! After: `%r = dynamo.matmul %x, %w batch 0 : …`, or the call without its code.
//!
//! This is the one pass before the plan whose decisions depend on the machine, which is the module's `dynamo.target`:
//!
//! - On a processor products, convolutions and attention go where the cost model expects them to be faster, or where
//!   `dynamo.choices` on the module says ([`crate::anchors::choices`]); `list-problems` lists those for which there is a choice.
//!   Maxima of windows have code of their own where there are vectors, else a slice for each tap.
//! - Of a GPU, code goes where each of its operations has a form for threads; so a check of indices by the host, which would
//!   have to wait for the device, is left to the library, whose kernels assert on the device as eager's do.
//!
//! Where a size of a product is an expression, there is no code for it, and the library computes it. Attention of one query, and
//! such products with one row or column, are sums (`dynamo-decompose`), and so nothing that there is a choice for.
//!
//! Where nothing of this applies there is nothing to decide: the code is taken.

mod cost;
mod taps;

use dynamlir_dialect::{
    ir::{Block, Builder, Op, Target, Value},
    ops::{AtenOp, DynamoOp, MaxPoolOp, YieldOp},
    pass::{Options, Pass, PassResult, Run, Statistic, Takes},
    pass_options,
    upstream::func,
};

use crate::{
    anchors::{choices::Choices, is_anchor, strategy::Strategy},
    decompose::sweep,
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-select",
    description: "Choose between the library's call and code for each ATen op that has both",
    takes: Takes::Symbols,
    options: SelectOptions::DECLARED,
    statistics: &[CODE, LIBRARY],
    run,
};

const CODE: Statistic = Statistic { name: "code", description: "operators that code computes" };
const LIBRARY: Statistic = Statistic { name: "library", description: "operators that the library computes, although there is code" };

pass_options! {
    /// Options of `dynamo-select`.
    pub struct SelectOptions {
        /// list the problems that there is a choice for, as dynamo.problems on the module (false)
        list_problems: bool = false,
        /// print each decision with its reason (false)
        print_selection: bool = false,
    }
}

/// What is done about an operator, and why.
pub(crate) struct Selection {
    pub(crate) what: What,
    pub(crate) why: &'static str,
}

/// What computes an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The library.
    Library,
    /// Code, by this strategy if one is named.
    Code(Option<Strategy>),
    /// Code without the primitive for windows.
    Taps,
}

/// Whether the library may be left to compute what this operation is for: `dynamo-decompose` keeps its call.
pub(crate) fn is_optional(op: Op) -> bool {
    is_anchor(op) || without_gpu_code(op).is_some()
}

/// Why a GPU has no code for an operation, if it has none.
fn without_gpu_code(op: Op) -> Option<&'static str> {
    Some(match DynamoOp::of(op)? {
        DynamoOp::Matmul(_) | DynamoOp::Convolution(_) | DynamoOp::Attention(_) => "the cost model knows the CPU's products only",
        DynamoOp::CheckRange(_) => "the host would have to wait for the device to check indices",
        DynamoOp::Scan(_) => "a scan has no form for threads",
        DynamoOp::ArgReduce(_) => "a position of an extremum has no form for threads",
        DynamoOp::Scatter(_) => "a write by index has no form for threads",
        DynamoOp::Hypot(_) | DynamoOp::Lgamma(_) | DynamoOp::Nextafter(_) => "it is a function of the C library",
        _ => return None,
    })
}

fn run(module: Op, pass: &Run) -> PassResult {
    let options: SelectOptions = pass.options()?;
    let target = Target::of(module);
    let choices = Choices::of(module, options.list_problems)?;
    let functions = module.body().map(Block::ops).unwrap_or_default();
    for block in functions.into_iter().filter(|op| op.is(func::FUNC)).filter_map(Op::body) {
        for (call, code) in block.ops().into_iter().filter_map(with_code) {
            let selection = decide(call, code, &target, &choices);
            if options.print_selection {
                let by = if selection.what == What::Library { "library" } else { "code" };
                println!("select: {} by {by}: {}", call.schema(), selection.why);
            }
            pass.count(if selection.what == What::Library { &LIBRARY } else { &CODE }, 1);
            apply(call, code, selection.what);
        }
        sweep(block);
    }
    choices.finish(module);
    Ok(())
}

/// An operator with its code, if it has any.
fn with_code(op: Op) -> Option<(AtenOp, Block)> {
    Some((AtenOp::cast(op)?, op.body()?))
}

fn decide(call: AtenOp, code: Block, target: &Target, choices: &Choices) -> Selection {
    let ops = code.ops();
    let pool = ops.iter().any(|op| op.is(MaxPoolOp::NAME));
    if target.is_gpu() {
        return match ops.iter().find_map(|&op| without_gpu_code(op)) {
            Some(why) => Selection { what: What::Library, why },
            None if pool => Selection { what: What::Taps, why: "a slice for each tap has a form for threads" },
            None => Selection { what: What::Code(None), why: "each of its operations has a form for threads" },
        };
    }
    match ops.into_iter().find(|&op| is_anchor(op)) {
        Some(anchor) if anchor.operands().into_iter().chain(anchor.results()).any(|value| value.ty().is_open()) => {
            Selection { what: What::Library, why: "there is no code for sizes that are expressions" }
        }
        Some(anchor) => cost::decide(call, anchor, target, choices),
        None => Selection { what: What::Code(None), why: "there is nothing that the library does better" },
    }
}

/// Puts what was chosen in the call's place.
fn apply(call: AtenOp, code: Block, what: What) {
    let op = call.op();
    let values: Vec<Value> = if what == What::Library {
        let attrs = op.attrs();
        let attrs: Vec<_> = attrs.iter().map(|(name, attr)| (name.as_str(), *attr)).collect();
        let attrs: Vec<_> = attrs.into_iter().filter(|(name, _)| *name != dynamlir_dialect::ops::FOLLOWED.name()).collect();
        let results: Vec<_> = op.results().iter().map(|result| result.ty()).collect();
        Builder::before(op).op(AtenOp::NAME, &op.operands(), &results, &attrs).results()
    } else {
        let mut yielded = Vec::new();
        for inner in code.ops() {
            if let Some(end) = YieldOp::cast(inner) {
                yielded = end.values();
                break;
            }
            inner.move_before(op);
            if let (What::Code(Some(strategy)), true) = (what, is_anchor(inner)) {
                strategy.mark(inner);
            }
            if let (What::Taps, Some(pool)) = (what, MaxPoolOp::cast(inner)) {
                taps::expand(pool);
            }
        }
        yielded
    };
    for (result, value) in op.results().into_iter().zip(values) {
        result.replace_all_uses_with(value);
    }
    op.erase();
}
