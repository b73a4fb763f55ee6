//! The one error of this crate: a sentence, in torch's own words where torch spoke.

use std::fmt;

/// Something libtorch, or the search for it, refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TorchError {
    message: String,
}

impl TorchError {
    /// An error with the given sentence.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// The sentence; for errors raised inside torch it is what the eager exception would say.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for TorchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TorchError {}
