//! The single error type of this crate: a sentence, which is torch's own message if torch raised the error.

use std::fmt;

/// An error from libtorch, or from the search for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TorchError {
    message: String,
}

impl TorchError {
    /// Creates an error with the given sentence.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// Returns the sentence. For errors raised inside torch, it is the message of the eager exception.
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
