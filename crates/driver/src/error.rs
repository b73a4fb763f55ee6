//! Why a compilation ended without an executable.

use dynamlir_import::Frame;

/// Each variant is answered differently by whoever asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program uses something that is not compiled; plain Python can run it.
    #[error("{message}")]
    Unsupported {
        /// The ID of the reason.
        reason: &'static str,
        /// What it is.
        message: String,
        /// The Python line, innermost frame first.
        location: Vec<Frame>,
    },
    /// MLIR refused: a malformed module, or a pass that failed.
    #[error(transparent)]
    Mlir(#[from] dynamlir_dialect::Error),
    /// LLVM refused.
    #[error("{source} (of the kernels {kernels})\n{diagnostics}")]
    Codegen {
        /// The names of those that were compiled together, one of which it is about.
        kernels: String,
        /// What went wrong.
        source: dynamlir_codegen::Error,
        /// What MLIR said, if it said something.
        diagnostics: String,
    },
    /// The code could not be linked.
    #[error("cannot link the kernels: {0}")]
    Link(String),
    /// The planned graph says something the runtime does not know.
    #[error("cannot read the plan: {0}")]
    Plan(String),
    /// The text is not at the stage that somebody says, or at none.
    #[error("{0}")]
    Stage(String),
    /// The kernels are made for a machine that this one is not.
    #[error("{0}")]
    Target(String),
    /// A dump could not be written or read.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// Whoever asked wants no more (Ctrl-C).
    #[error("interrupted")]
    Interrupted,
}

impl From<dynamlir_import::Error> for Error {
    fn from(error: dynamlir_import::Error) -> Self {
        Self::Unsupported { reason: dynamlir_reasons::UNSUPPORTED, message: error.message, location: error.location }
    }
}
