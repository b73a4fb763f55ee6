//! What can go wrong between a kernel and its code.

/// A failure of GPU code generation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// MLIR could not write the device's module as LLVM IR, or LLVM could not compile it.
    #[error(transparent)]
    Codegen(#[from] dynamlir_codegen::Error),
    /// The code calls functions that nothing defines.
    #[error("{functions} must come from libdevice.10.bc, {why}")]
    Undefined {
        /// The functions, comma separated.
        functions: String,
        /// Where it was looked for, or that it lacks them.
        why: String,
    },
    /// A chip that no code is made for.
    #[error("{0} is not a chip that code can be made for: expected sm_80 or later")]
    Chip(String),
    /// `libdevice.10.bc` is there and cannot be used.
    #[error("cannot link {path}: {message}")]
    Libdevice {
        /// The file.
        path: String,
        /// LLVM's message.
        message: String,
    },
}
