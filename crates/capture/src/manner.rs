//! The options of one attempt to capture a frame. An attempt may find that it needs others, and the frame is then captured once more.

use crate::graph_break::{GraphBreak, reason};

/// The options of one attempt.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    /// True if calls of modules are interpreted even where an equal one was: results that are repeated lack the history that autograd
    /// goes through.
    pub interprets_all: bool,
    /// True if C code is given a copy of each container, since the frame changes one that C code has looked at.
    pub copies_containers: bool,
    /// True if the instruction of each use is noted, for the message about a use that follows from no guard.
    pub tells_uses: bool,
}

impl Manner {
    /// The options of the next attempt after one that failed; None if there is nothing else to try.
    pub(crate) fn after(self, found: &GraphBreak, wants_histories: bool, wants_copies: bool) -> Option<Self> {
        match self {
            Self { interprets_all: false, .. } if wants_histories => Some(Self { interprets_all: true, ..self }),
            Self { copies_containers: false, .. } if wants_copies => Some(Self { copies_containers: true, ..self }),
            Self { tells_uses: false, .. } if found.reason == reason::UNPROVEN => Some(Self { tells_uses: true, ..self }),
            _ => None,
        }
    }
}
