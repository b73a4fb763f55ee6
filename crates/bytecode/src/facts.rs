//! What differs between versions beyond their opcodes: one table per version, in a file of its own.

mod v3_11;
mod v3_12;
mod v3_13;
mod v3_14;
mod v3_15;

use crate::{Opcode, Version};

/// What holds of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself")]
pub struct Facts {
    /// How far the comparison is shifted in the argument of `COMPARE_OP`, above flags.
    pub comparison_shift: u32,
    /// The flag by which `COMPARE_OP` makes its result a bool.
    pub comparison_to_bool: Option<u32>,
    /// Whether the lowest bit of `LOAD_ATTR` asks for a method; else that is `LOAD_METHOD`.
    pub attribute_has_method_flag: bool,
    /// True if the two lowest bits of `IMPORT_NAME` say that an import is lazy or eager.
    pub import_has_flags: bool,
    /// The number of values that a `with` block keeps on the stack: the exit method, and from 3.14 on the object it is bound to.
    pub with_places: u32,
    /// The number of values that a loop keeps on the stack: the iterator, and from 3.15 on how far a list or tuple has been gone through.
    pub iterator_places: u32,
    /// What `LOAD_COMMON_CONSTANT` loads.
    pub common_constants: &'static [&'static str],
    /// Whether the NULL of a call stands above the callable.
    pub null_above_callable: bool,
    /// Whether `LOAD_FAST` finds that a local is not set; else that is `LOAD_FAST_CHECK`.
    pub load_fast_checks: bool,
    /// Whether a conditional jump asks a value of any kind for its truth, which may raise; else it gets a bool.
    pub jump_asks_for_truth: bool,
    /// Whether the compiler turns some conditional jumps around, and forgets their handlers.
    pub turns_jumps: bool,
    /// Whether one instruction may load two locals, both at the place of the first.
    pub pairs_locals: bool,
    /// What stands where `FOR_ITER` leads to at its end, and does no more than drop the iterator.
    pub loop_end: &'static [Opcode],
    /// Whether the line table has one entry for instructions at the same place; else one for each.
    pub merges_positions: bool,
    /// Whether a class body stores where it stands, and what its methods set.
    pub class_notes_its_place: bool,
    /// Whether an expression in an f-string may have backslashes, and the quotes of the f-string.
    pub nests_quotes: bool,
}

impl Version {
    /// What holds of it.
    pub const fn facts(self) -> &'static Facts {
        match self {
            Self::V3_11 => &v3_11::FACTS,
            Self::V3_12 => &v3_12::FACTS,
            Self::V3_13 => &v3_13::FACTS,
            Self::V3_14 => &v3_14::FACTS,
            Self::V3_15 => &v3_15::FACTS,
        }
    }
}
