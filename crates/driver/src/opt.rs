//! `dynamlir-opt` of the wheel: our passes and pipelines, and the parts of MLIR that they use.

use dynamlir_dialect::tools::{self, Upstream};

/// Reads the command line, whose first word is the program's name, does the work and returns the exit code. Call it once per process.
pub fn main(args: impl IntoIterator<Item = String>) -> i32 {
    dynamlir_passes::register_all();
    dynamlir_codegen::pipelines::register_all();
    dynamlir_nvptx::pipelines::register_all();
    tools::opt(args, Upstream::USED)
}
