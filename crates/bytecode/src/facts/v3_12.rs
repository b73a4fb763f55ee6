//! CPython 3.12.

use super::Facts;
use crate::Opcode;

pub(super) static FACTS: Facts = Facts {
    comparison_shift: 4,
    comparison_to_bool: None,
    attribute_has_method_flag: true,
    import_has_flags: false,
    with_places: 1,
    iterator_places: 1,
    common_constants: &[],
    null_above_callable: false,
    load_fast_checks: false,
    jump_asks_for_truth: true,
    turns_jumps: false,
    pairs_locals: false,
    loop_end: &[Opcode::EndFor],
    merges_positions: true,
    class_notes_its_place: false,
    nests_quotes: true,
};
