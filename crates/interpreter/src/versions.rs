//! The opcodes of each version and their implementations: one table per version.

mod v3_11;
mod v3_12;
mod v3_13;
mod v3_14;
mod v3_15;

use dynamlir_bytecode::{Instruction, Version};

use crate::ops::{Op, intrinsics};

/// The differences between versions.
pub(crate) struct VersionTable {
    pub version: Version,
    /// Returns the implementation of an instruction; `None` if it is not supported.
    pub op: fn(&Instruction) -> Option<Op>,
    /// Returns true if CPython runs the instruction together with the yield after it.
    pub wraps_yield: fn(&Instruction) -> bool,
}

/// Returns the table of the running version.
pub(crate) fn version_table(version: (u8, u8)) -> Option<&'static VersionTable> {
    Some(match Version::of(version.0.into(), version.1.into())? {
        Version::V3_11 => &v3_11::TABLE,
        Version::V3_12 => &v3_12::TABLE,
        Version::V3_13 => &v3_13::TABLE,
        Version::V3_14 => &v3_14::TABLE,
        Version::V3_15 => &v3_15::TABLE,
    })
}

/// Returns the name of an instruction's intrinsic, beyond its opcode.
pub(crate) fn detail(instruction: &Instruction) -> Option<&'static str> {
    intrinsics::name(instruction)
}
