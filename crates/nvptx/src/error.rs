//! What can go wrong between a kernel and its code on a device.

/// A failure of GPU code generation or of the CUDA driver.
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
    #[error("{0} is no chip that code can be made for: sm_80 or later")]
    Chip(String),
    /// `libdevice.10.bc` is there and cannot be used.
    #[error("cannot link {path}: {message}")]
    Libdevice {
        /// The file.
        path: String,
        /// LLVM's message.
        message: String,
    },
    /// There is no CUDA driver, or it lacks a function.
    #[error("no CUDA driver: {0}")]
    NoDriver(String),
    /// The driver refused a call.
    #[error("{call} failed: {name} ({code})")]
    Driver {
        /// The driver's function.
        call: &'static str,
        /// The driver's number.
        code: i32,
        /// The driver's name of it.
        name: String,
    },
    /// A launch that does not fit the kernel.
    #[error("kernel {kernel} cannot be launched: {why}")]
    Launch {
        /// The kernel.
        kernel: String,
        /// The reason.
        why: String,
    },
}
