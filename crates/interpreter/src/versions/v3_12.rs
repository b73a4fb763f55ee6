//! CPython 3.12.

use dynamlir_bytecode::{Instruction, Version};

use super::VersionTable;
use crate::ops::{Op, intrinsics};

pub(super) static TABLE: VersionTable = VersionTable { version: Version::V3_12, op, wraps_yield: intrinsics::wraps_yield };

fn op(instruction: &Instruction) -> Option<Op> {
    let _ = instruction;
    None
}
