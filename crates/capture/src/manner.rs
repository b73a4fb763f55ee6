//! How a frame is captured. That it must be another way is seen on the way, so it is captured once more.

use crate::graph_break::{GraphBreak, reason};

/// How a frame is captured.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    /// Whether calls of modules that were seen before are interpreted nevertheless. What is repeated has results without the history
    /// that the engine goes through for gradients.
    pub interprets_all: bool,
    /// Whether C code is given a copy of each container, since the frame changes one that C code has looked at.
    pub copies_containers: bool,
    /// Whether it is noted which instruction uses what, since something was used that no guard says.
    pub tells_uses: bool,
}

impl Manner {
    /// How the frame is captured once more, after an attempt that has come to nothing; None if nothing else is to be tried.
    pub(crate) fn after(self, found: &GraphBreak, wants_histories: bool, wants_copies: bool) -> Option<Self> {
        match self {
            Self { interprets_all: false, .. } if wants_histories => Some(Self { interprets_all: true, ..self }),
            Self { copies_containers: false, .. } if wants_copies => Some(Self { copies_containers: true, ..self }),
            Self { tells_uses: false, .. } if found.reason == reason::UNPROVEN => Some(Self { tells_uses: true, ..self }),
            _ => None,
        }
    }
}
