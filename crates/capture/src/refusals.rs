//! What becomes of exceptions while capturing: reasons to stop, or the frame's own.

use pyo3::prelude::*;

use crate::{
    state::{Capture, Halt},
    stop::{Stop, reason},
};

impl Capture<'_> {
    /// The reason behind an exception of the session, or the exception itself.
    pub fn session_error(&self, error: PyErr) -> Halt {
        let py = self.py;
        let failure = self.ask("failure", (error.value(py),));
        match failure {
            Ok(failure) if !failure.is_none() => {
                let text = |name: &str| failure.getattr(name).and_then(|value| value.extract::<String>()).unwrap_or_default();
                Halt::Stop(Stop { reason: known_reason(&text("reason")), message: text("message"), location: self.location() })
            }
            _ => Halt::Raise(error),
        }
    }

    /// As [`Self::session_error`], where a torch function raised. On fakes it does so in other words than on tensors, and the
    /// user's code may catch the exception and read it.
    pub fn refused_by_torch(&self, error: PyErr) -> Halt {
        match self.session_error(error) {
            Halt::Raise(error) => Halt::Stop(Stop { reason: reason::RAISED, message: error.to_string(), location: self.location() }),
            stop @ Halt::Stop(_) => stop,
        }
    }
}

/// The registry's IDs are static; one that the recorder gives is looked up by its text.
fn known_reason(text: &str) -> &'static str {
    const KNOWN: [&str; 19] = [
        "device",
        "mixed-devices",
        "gpu-random",
        "layout",
        "subclass",
        "complex",
        "dtype",
        "lazy-bit",
        "autograd",
        "data-dependent",
        "metadata-mutation",
        "no-functional-variant",
        "runtime-assert",
        "opaque-argument",
        "non-tensor-result",
        "unknown-tensor",
        "no-fake",
        "hidden-operation",
        "thread-state",
    ];
    KNOWN.iter().find(|known| **known == text).copied().unwrap_or("unsupported")
}

#[cfg(test)]
mod tests {
    use super::known_reason;

    #[test]
    fn what_the_recorder_refuses_keeps_its_reason() {
        let recorder = include_str!("../../../python/dynamlir/recorder.py");
        let mut met = 0;
        for raised in recorder.split("Fallback(\"").skip(1) {
            let id = raised.split('"').next().unwrap_or_default();
            assert_eq!(known_reason(id), id);
            met += 1;
        }
        assert!(met > 10, "{met}");
    }
}
