//! The reasons for running plain eager, or plain Python, instead of compiled code, as constants.
//!
//! They come from `python/dynamlir/reasons.toml`, which Python reads as well: this is the only list.
#![forbid(unsafe_code)]

/// The effect of a reason on the capture of a frame. The first two end the graph, and the frame continues in another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Python itself has to run there: the code after it is data-dependent, or other code observes the effect.
    MustBreak,
    /// It could become part of a graph, or an effect that is replayed after one.
    MayCapture,
    /// The whole call has to run as plain Python, or the compiler failed: breaking the graph there would not help.
    Refuse,
}

include!(concat!(env!("OUT_DIR"), "/reasons.rs"));

/// The reason with this ID, or `None` if the file does not have it; no other reason is substituted.
pub fn named(id: &str) -> Option<&'static str> {
    ALL.iter().map(|(known, _)| *known).find(|known| *known == id)
}

/// The kind of a reason. An unknown ID is an internal error.
pub fn kind(id: &str) -> Kind {
    ALL.iter().find(|(known, _)| *known == id).map_or(Kind::Refuse, |(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_known_by_their_ids() {
        assert_eq!(named("c-function"), Some(C_FUNCTION));
        assert_eq!(named("c-functions"), None);
        assert!(ALL.contains(&(INTERNAL_ERROR, Kind::Refuse)) && ALL.len() > 40);
        assert_eq!((kind(PRINT), kind(SIDE_EFFECT)), (Kind::MustBreak, Kind::MayCapture));
    }
}
