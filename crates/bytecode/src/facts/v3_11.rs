//! CPython 3.11.

use super::Facts;

pub(super) static FACTS: Facts = Facts {
    comparison_shift: 0,
    comparison_to_bool: None,
    attribute_has_method_flag: false,
    import_has_flags: false,
    with_places: 1,
    iterator_places: 1,
    common_constants: &[],
    null_above_callable: false,
    load_fast_checks: true,
    jump_asks_for_truth: true,
    turns_jumps: false,
    pairs_locals: false,
    loop_end: &[],
    merges_positions: false,
    class_notes_its_place: false,
    nests_quotes: false,
};
