//! CPython 3.13.

use dynamlir_bytecode::{Instruction, Version};

use super::VersionTable;
use crate::ops::{Op, intrinsics};

pub(super) static TABLE: VersionTable = VersionTable { version: Version::V3_13, op, wraps_yield: intrinsics::wraps_yield };

fn op(instruction: &Instruction) -> Option<Op> {
    let _ = instruction;
    None
}
