//! CPython 3.13.

use super::Facts;
use crate::Opcode;

pub(super) static FACTS: Facts = Facts {
    comparison_shift: 5,
    comparison_to_bool: Some(16),
    attribute_has_method_flag: true,
    import_has_flags: false,
    with_places: 1,
    iterator_places: 1,
    common_constants: &[],
    null_above_callable: true,
    load_fast_checks: false,
    jump_asks_for_truth: false,
    turns_jumps: true,
    pairs_locals: true,
    loop_end: &[Opcode::EndFor, Opcode::PopTop],
    merges_positions: true,
    class_notes_its_place: true,
    nests_quotes: true,
};
