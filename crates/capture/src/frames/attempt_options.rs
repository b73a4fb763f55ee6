//! The options that an attempt to capture a frame may ask for, so that the frame is captured again with them.

use crate::{
    frames::run::CaptureFailure,
    graph_break::{GraphBreak, reason},
};

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

/// The options that a failed attempt asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wishes {
    /// True if it needs the history of a replayed result.
    pub histories: bool,
    /// True if it has changed a container that C code had read.
    pub copies: bool,
}

impl AttemptOptions {
    /// Returns the options of the next attempt after a failed one, and the reason for them; `None` if there is nothing else to try.
    pub(crate) fn after(self, failure: &CaptureFailure) -> Option<(Self, &'static str)> {
        self.next(&failure.graph_break, failure.wishes)
    }

    fn next(self, found: &GraphBreak, wishes: Wishes) -> Option<(Self, &'static str)> {
        match self {
            Self { interprets_all: false, .. } if wishes.histories => {
                Some((Self { interprets_all: true, ..self }, "autograd needs what a repeated layer computes: each layer is interpreted"))
            }
            Self { copies_containers: false, .. } if wishes.copies => {
                Some((Self { copies_containers: true, ..self }, "a container was changed after C code has read it: C code gets copies"))
            }
            Self { tells_uses: false, .. } if found.reason == reason::UNPROVEN => {
                Some((Self { tells_uses: true, ..self }, "a use is not covered by guards: the lines of uses are recorded"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(reason: &'static str) -> GraphBreak {
        GraphBreak { reason, message: String::new(), location: Vec::new() }
    }

    #[test]
    fn each_option_is_tried_once() {
        let wishes = Wishes { histories: true, copies: true };
        let (first, _) = AttemptOptions::default().next(&found(reason::UNPROVEN), wishes).expect("histories are wanted");
        assert!(first.interprets_all && !first.copies_containers && !first.tells_uses);
        let (second, _) = first.next(&found(reason::UNPROVEN), wishes).expect("copies are wanted");
        assert!(second.interprets_all && second.copies_containers && !second.tells_uses);
        let (third, _) = second.next(&found(reason::UNPROVEN), wishes).expect("a use is unproven");
        assert!(third.tells_uses && third.next(&found(reason::UNPROVEN), wishes).is_none());
    }

    #[test]
    fn another_failure_asks_for_nothing() {
        assert!(AttemptOptions::default().next(&found(reason::RAISED), Wishes::default()).is_none());
    }
}
