//! stub
use super::Lowering;
/// Table.
pub const TABLE: &[(&str, Lowering)] = &[];
