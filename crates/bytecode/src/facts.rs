//! Differences between versions other than their opcodes: one table per version, each in its own file.

mod v3_11;
mod v3_12;
mod v3_13;
mod v3_14;
mod v3_15;

use crate::{Opcode, Version};

/// The facts about one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself")]
pub struct Facts {
    /// The number of flag bits below the comparison in the argument of `COMPARE_OP`.
    pub comparison_shift: u32,
    /// The flag that makes `COMPARE_OP` convert its result to bool.
    pub comparison_to_bool: Option<u32>,
    /// True if the lowest bit of `LOAD_ATTR` requests a method; otherwise `LOAD_METHOD` does that.
    pub attribute_has_method_flag: bool,
    /// True if the two lowest bits of `IMPORT_NAME` say that an import is lazy or eager.
    pub import_has_flags: bool,
    /// The number of values that a `with` block keeps on the stack: the exit method, and from 3.14 on the object it is bound to.
    pub with_places: u32,
    /// The number of values that a loop keeps on the stack: the iterator, and from 3.15 on the position reached in a list or tuple.
    pub iterator_places: u32,
    /// The constants that `LOAD_COMMON_CONSTANT` loads, by argument.
    pub common_constants: &'static [&'static str],
    /// True if the NULL of a call is above the callable on the stack.
    pub null_above_callable: bool,
    /// True if `LOAD_FAST` checks that the local is set; otherwise `LOAD_FAST_CHECK` does that.
    pub load_fast_checks: bool,
    /// True if a conditional jump evaluates the truth of any value, which may raise; otherwise it expects a bool.
    pub jump_asks_for_truth: bool,
    /// True if the compiler inverts some conditional jumps and loses their handlers.
    pub turns_jumps: bool,
    /// True if one instruction may load two locals, both at the source position of the first.
    pub pairs_locals: bool,
    /// The instructions that an exhausted `FOR_ITER` jumps to, which only drop the iterator.
    pub loop_end: &'static [Opcode],
    /// True if the line table merges adjacent instructions at the same position into one entry; otherwise each has its own.
    pub merges_positions: bool,
    /// True if a class body stores its first line and the attributes that its methods set.
    pub class_notes_its_place: bool,
    /// True if an expression in an f-string may contain backslashes and the quotes of the f-string.
    pub nests_quotes: bool,
}

impl Version {
    /// Returns the facts about this version.
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
