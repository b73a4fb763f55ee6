//! Tests of the house rules; see `tests/`.
