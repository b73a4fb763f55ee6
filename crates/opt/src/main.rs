//! `dynamlir-opt`: everything in `mlir-opt`, with the dynamo dialect and our passes and pipelines.

use dynamlir_dialect::{
    ir::Op,
    opt::{self, Upstream},
    pass::{Pass, PassResult, Run, Takes, register},
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
    dynamlir_passes::register_all();
    dynamlir_codegen::pipelines::register_all();
    dynamlir_nvptx::pipelines::register_all();
    register(&PANIC);
    exit(opt::main(std::env::args(), Upstream::ALL));
}
