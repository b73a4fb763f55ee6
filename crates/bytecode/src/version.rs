//! The supported versions of CPython; any other is refused.

use std::fmt;

/// A version of CPython, as far as the bytecode differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// CPython 3.11.
    V3_11,
    /// CPython 3.12.
    V3_12,
    /// CPython 3.13.
    V3_13,
    /// CPython 3.14.
    V3_14,
    /// CPython 3.15.
    V3_15,
}

impl Version {
    /// All versions, oldest first.
    pub const ALL: [Self; 5] = [Self::V3_11, Self::V3_12, Self::V3_13, Self::V3_14, Self::V3_15];

    /// Returns the version with this number; `None` if its bytecode is not supported.
    pub fn of(major: u32, minor: u32) -> Option<Self> {
        match (major, minor) {
            (3, 11) => Some(Self::V3_11),
            (3, 12) => Some(Self::V3_12),
            (3, 13) => Some(Self::V3_13),
            (3, 14) => Some(Self::V3_14),
            (3, 15) => Some(Self::V3_15),
            _ => None,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V3_11 => "3.11",
            Self::V3_12 => "3.12",
            Self::V3_13 => "3.13",
            Self::V3_14 => "3.14",
            Self::V3_15 => "3.15",
        })
    }
}
