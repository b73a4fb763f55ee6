//! `dynamlir-opt`: everything in `mlir-opt`, with the dynamo dialect and our passes and pipelines.

mod registered;

use dynamlir_dialect::{
    ir::Op,
    pass::{Pass, PassResult, Run, Takes, register},
    tools::{self, Upstream},
};
use std::process::exit;

/// For the test that a bug in a pass results in a diagnostic, not an abort.
static PANIC: Pass =
    Pass { name: "dynamo-test-panic", description: "Test only: panic", takes: Takes::Symbols, options: &[], statistics: &[], run: panics };

#[expect(clippy::panic_in_result_fn, reason = "it is what the pass is for")]
fn panics(_module: Op, _run: &Run) -> PassResult {
    panic!("on purpose");
}

fn main() {
    registered::register_all();
    register(&PANIC);
    exit(tools::opt(std::env::args(), Upstream::ALL));
}
