//! Tests of the house rules; see `tests/`.
#![forbid(unsafe_code)]
