//! The passes and pipelines that our tools know.

/// Registers them by name, for this process.
pub fn register_all() {
    dynamlir_passes::register_all();
    dynamlir_codegen::pipelines::register_all();
    dynamlir_nvptx::pipelines::register_all();
}
