//! The reasons why a compilation ends without an executable.

use dynamlir_dialect::pass::Refusal;
use dynamlir_import::Frame;
use dynamlir_reasons as reason;

/// Callers handle each variant differently.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program uses something that is not compiled; plain Python can run it.
    #[error("{message}")]
    Unsupported {
        /// The ID of the reason.
        reason: &'static str,
        /// The description.
        message: String,
        /// The Python line, innermost frame first.
        location: Vec<Frame>,
    },
    /// MLIR failed: a malformed module, or a pass that failed.
    #[error(transparent)]
    Mlir(#[from] dynamlir_dialect::Error),
    /// LLVM failed.
    #[error("{source} (of the kernels {kernels})\n{diagnostics}")]
    Codegen {
        /// The names of the kernels that were compiled together; the error is about one of them.
        kernels: String,
        /// The error.
        source: dynamlir_codegen::Error,
        /// MLIR's diagnostics, if any.
        diagnostics: String,
    },
    /// The code could not be linked.
    #[error("cannot link the kernels: {0}")]
    Link(String),
    /// The planned graph contains something that the runtime does not support.
    #[error("cannot read the plan: {0}")]
    Plan(String),
    /// A compiled entry cannot be loaded.
    #[error("@{entry}: {what}")]
    Load {
        /// The name of the entry.
        entry: String,
        /// The reason.
        what: String,
    },
    /// The text is not at the stage that the caller states, or not at any stage.
    #[error("{0}")]
    Stage(String),
    /// The kernels are compiled for a machine that this one is not.
    #[error("{0}")]
    Target(String),
    /// A dump could not be written or read.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// The caller cancelled the compilation (Ctrl-C).
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// The reason to run the program as plain Python instead, or else the error itself.
    ///
    /// # Errors
    /// An error of the compiler that has no reason of its own, or an interruption.
    pub fn into_refusal(self) -> Result<Refusal, Self> {
        let (reason, message, location) = match self {
            Self::Unsupported { reason, message, location } => (reason, message, location.into_iter().map(Into::into).collect()),
            // A pass reports an operation that it does not support, but eager does.
            Self::Mlir(dynamlir_dialect::Error::Pass { refusal: Some(refusal), .. }) => return Ok(*refusal),
            Self::Mlir(dynamlir_dialect::Error::Pass { diagnostics, location, .. }) => (reason::PASS_FAILED, diagnostics, location),
            Self::Codegen { .. } | Self::Link(_) => (reason::CODEGEN_FAILED, self.to_string(), Vec::new()),
            Self::File { .. } => (reason::UNWRITABLE, self.to_string(), Vec::new()),
            Self::Load { .. } | Self::Mlir(_) | Self::Plan(_) | Self::Stage(_) | Self::Target(_) | Self::Interrupted => return Err(self),
        };
        Ok(Refusal { reason, message, location })
    }
}

impl From<dynamlir_import::Error> for Error {
    fn from(error: dynamlir_import::Error) -> Self {
        Self::Unsupported { reason: dynamlir_reasons::UNSUPPORTED, message: error.message, location: error.location }
    }
}
