//! The options of one attempt to capture a frame. If an attempt finds that it needs other options, the frame is captured again with them.

use crate::graph_break::{GraphBreak, reason};

/// The options of one attempt.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AttemptOptions {
    /// True if module calls are interpreted even where an equal call was recorded: replayed results lack the history that autograd goes
    /// through.
    pub interprets_all: bool,
    /// True if C code is given a copy of each container, because the frame changes one that C code has read.
    pub copies_containers: bool,
    /// True if the instruction of each use is recorded, for the message about a use that no guard proves.
    pub tells_uses: bool,
}

impl AttemptOptions {
    /// Returns the options of the next attempt after a failed one; `None` if there is nothing else to try.
    pub(crate) fn after(self, found: &GraphBreak, wants_histories: bool, wants_copies: bool) -> Option<Self> {
        match self {
            Self { interprets_all: false, .. } if wants_histories => Some(Self { interprets_all: true, ..self }),
            Self { copies_containers: false, .. } if wants_copies => Some(Self { copies_containers: true, ..self }),
            Self { tells_uses: false, .. } if found.reason == reason::UNPROVEN => Some(Self { tells_uses: true, ..self }),
            _ => None,
        }
    }
}
