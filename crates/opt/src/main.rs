//! `dynamlir-opt`: everything `mlir-opt` does, with the dynamo dialect and our passes and pipelines.

use std::process::exit;

fn main() {
    dynamlir_passes::register_all();
    exit(dynamlir_dialect::pass::opt_main(std::env::args()));
}

/// The static archive of the dialect names this for the plugin; the tool registers by itself.
#[unsafe(no_mangle)]
pub extern "C" fn dynamlirRegisterPasses() {
    dynamlir_passes::register_all();
}
