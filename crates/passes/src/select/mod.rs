//! `dynamo-select`: chooses between library call and code, for each operator that has both.
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
//! This is the only pass before the plan whose decisions depend on the machine, which is described by the module's `dynamo.target`:
//!
//! - On a processor, products, convolutions and attention are computed by the alternative that the cost model expects to be faster, or that
//!   `dynamo.choices` on the module selects ([`crate::anchors::choices`]); `list-problems` lists those with a choice. Maxima of windows
//!   have dedicated code if vectors are available, else a slice for each tap.
//! - On a GPU, code is chosen if each of its operations can be lowered to threads. So a check of indices by the host, which would have to
//!   wait for the device, is left to the library, whose kernels assert on the device as eager's do.
//!
//! If a size of a product is an expression, it has no code, and the library computes it. Attention of one query, and products with one row
//! or column of that kind, are sums (`dynamo-decompose`), and so leave no choice.
//!
//! In all other cases the code is taken.

mod cost;
mod taps;

use dynamlir_decisions::{Decision, Text};
use dynamlir_dialect::{
    ir::{Block, Builder, Op, Target, Value},
    ops::{AtenOp, MaxPoolOp, YieldOp},
    pass::{Options, Pass, PassResult, Run, Statistic, Takes},
    pass_options,
    upstream::func,
};

use crate::{
    anchors::{choices::Choices, is_anchor, strategy::Strategy},
    library::without_gpu_code,
    total::sweep,
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-select",
    description: "Choose between the library's call and generated code for each ATen op that has both",
    takes: Takes::Symbols,
    options: SelectOptions::DECLARED,
    statistics: &[CODE, LIBRARY],
    run,
};

const CODE: Statistic = Statistic { name: "code", description: "operators computed by generated code" };
const LIBRARY: Statistic = Statistic { name: "library", description: "operators computed by the library although they have code" };

pass_options! {
    /// Options of `dynamo-select`.
    pub struct SelectOptions {
        /// list the problems that have a choice, as dynamo.problems on the module (false)
        list_problems: bool = false,
        /// print each decision with its reason (false)
        print_selection: bool = false,
    }
}

/// The decision about an operator, with its reason.
pub(crate) struct Selection {
    pub(crate) what: What,
    pub(crate) why: &'static str,
}

/// The alternatives in decisions; code may also be named by its strategy.
const CHOICES: [&str; 2] = ["library", "code"];

/// The implementation of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The library call.
    Library,
    /// Code, with this strategy if one is given.
    Code(Option<Strategy>),
    /// Code without the primitive for windows.
    Taps,
}

fn run(module: Op, pass: &Run) -> PassResult {
    let options: SelectOptions = pass.options()?;
    let target = Target::of(module);
    let choices = Choices::of(module, options.list_problems)?;
    let functions = module.body().map(Block::ops).unwrap_or_default();
    for block in functions.into_iter().filter(|op| op.is(func::FUNC)).filter_map(Op::body) {
        for (call, code) in block.ops().into_iter().filter_map(with_code) {
            let selection = decide(call, code, &target, &choices);
            let decision = decision(call, &selection, pass);
            if options.print_selection {
                println!("{}", text(&decision));
            }
            pass.decide(decision);
            pass.count(if selection.what == What::Library { &LIBRARY } else { &CODE }, 1);
            apply(call, code, selection.what);
        }
        sweep(block);
    }
    choices.finish(module);
    Ok(())
}

fn decision(call: AtenOp, selection: &Selection, pass: &Run) -> Decision {
    let [library, code] = CHOICES;
    let (choice, other): (Text, _) = match selection.what {
        What::Library => (library.into(), code),
        What::Code(Some(strategy)) => (format!("{code}: {strategy}").into(), library),
        What::Code(None) => (code.into(), library),
        What::Taps => (format!("{code}: a slice for each tap").into(), library),
    };
    pass.decision(call.op(), call.schema(), choice, &[other]).because(selection.why)
}

fn text(decision: &Decision) -> String {
    let by = decision.choice.split(':').next().unwrap_or_default();
    format!("select: {} by {by}: {}", decision.site.what, decision.reason)
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

/// Replaces the call by the chosen implementation.
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
