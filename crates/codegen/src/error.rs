//! Errors between the LLVM dialect and object code.

/// A failure of code generation. Each is a defect of this compiler or its environment, never of the user's model.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// MLIR could not translate the module to LLVM IR. The reason is in MLIR's diagnostics.
    #[error("translating the kernels to LLVM IR failed (see the diagnostics)")]
    Translation,
    /// The LLVM IR is malformed.
    #[error("the kernels' LLVM IR does not verify: {0}")]
    Verification(String),
    /// LLVM does not have a code generator for the processor.
    #[error("LLVM has no target for this machine: {0}")]
    Target(String),
    /// LLVM's optimizer rejected the pass pipeline.
    #[error("LLVM's pass pipeline failed: {0}")]
    Optimization(String),
    /// LLVM could not emit code.
    #[error("emitting code failed: {0}")]
    Emission(String),
}
