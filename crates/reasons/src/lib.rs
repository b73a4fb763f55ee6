//! The reasons for which plain eager, or plain Python, runs instead of compiled code, as constants.
//!
//! They are those of `python/dynamlir/reasons.toml`, which Python reads as well: there is no other list.
#![forbid(unsafe_code)]

/// What is done about a reason where a frame is captured. The first two end the graph, and the frame goes on in another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Python itself has to run there: what comes after depends on what only running tells, or somebody sees it.
    MustBreak,
    /// Nothing forbids that it be part of a graph, or an effect that is replayed after one.
    MayCapture,
    /// The whole call has to be left to plain Python, or the compiler failed: breaking the graph there would not help.
    Refuse,
}

include!(concat!(env!("OUT_DIR"), "/reasons.rs"));

/// The reason with this ID, which must be one of the file's: no other reason takes its place.
pub fn named(id: &str) -> Option<&'static str> {
    ALL.iter().map(|(known, _)| *known).find(|known| *known == id)
}

/// The kind of a reason. What is not in the file is an error of ours.
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
