//! The reasons for which plain eager, or plain Python, runs instead of compiled code, as constants.
//!
//! They are those of `python/dynamlir/reasons.toml`, which Python reads as well: there is no other list.
#![forbid(unsafe_code)]

include!(concat!(env!("OUT_DIR"), "/reasons.rs"));

/// The reason with this ID, which must be one of the file's: no other reason takes its place.
pub fn named(id: &str) -> Option<&'static str> {
    ALL.iter().copied().find(|known| *known == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_known_by_their_ids() {
        assert_eq!(named("c-function"), Some(C_FUNCTION));
        assert_eq!(named("c-functions"), None);
        assert!(ALL.contains(&INTERNAL_ERROR) && ALL.len() > 40);
    }
}
