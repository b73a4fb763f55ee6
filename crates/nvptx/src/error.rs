//! Errors between a kernel and its code.

/// A failure of GPU code generation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// MLIR could not translate the device's module to LLVM IR, or LLVM could not compile it.
    #[error(transparent)]
    Codegen(#[from] dynamlir_codegen::Error),
    /// The code calls functions that nothing defines.
    #[error("{functions} must come from libdevice.10.bc, {why}")]
    Undefined {
        /// The functions, comma separated.
        functions: String,
        /// The places searched for the library, or a note that it lacks the functions.
        why: String,
    },
    /// A chip for which code cannot be generated.
    #[error("{0} is not a chip that code can be made for: expected sm_80 or later")]
    Chip(String),
    /// `libdevice.10.bc` exists but cannot be used.
    #[error("cannot link {path}: {message}")]
    Libdevice {
        /// The file.
        path: String,
        /// LLVM's message.
        message: String,
    },
}
