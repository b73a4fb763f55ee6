//! The passes, one file each, and their registration by name.
#![forbid(unsafe_code)]

pub mod alias_scopes;
pub mod anchors;
pub mod approximate_math;
pub mod at;
pub mod autodiff;
pub mod bf16_as_bits;
pub mod block_sums;
pub mod bools_as_bytes;
pub mod decompose;
pub mod edge_math;
pub mod emit;
pub mod expand_copies;
pub mod extent;
pub mod fork_if;
pub mod functionalize;
pub mod fuse;
pub mod hoist_scratch;
mod layouts;
pub mod legalize_arith;
mod library;
pub mod loop_locations;
pub mod narrow;
pub mod partition;
pub mod plan;
pub mod prefetch;
pub mod schedule;
pub mod select;
pub mod signed_addresses;
pub mod to_linalg;
mod total;
pub mod transpose_tiles;
pub mod values;
pub mod vector_widths;

use dynamlir_dialect::pass::{Pass, register};
use std::sync::Once;

/// Every pass of this crate.
pub const PASSES: &[&Pass] = &[
    &at::PASS,
    &functionalize::PASS,
    &functionalize::verify::PASS,
    &plan::PLAN,
    &schedule::PASS,
    &autodiff::PASS,
    &autodiff::gradient::PASS,
    &decompose::PASS,
    &decompose::verify::PASS,
    &partition::PASS,
    &select::PASS,
    &prefetch::PASS,
    &fork_if::PASS,
    &vector_widths::PASS,
    &vector_widths::BRANCHES,
    &hoist_scratch::PASS,
    &loop_locations::PASS,
    &edge_math::PASS,
    &approximate_math::PASS,
    &narrow::PASS,
    &legalize_arith::PASS,
    &bf16_as_bits::PASS,
    &bools_as_bytes::PASS,
    &expand_copies::PASS,
    &transpose_tiles::PASS,
    &block_sums::PASS,
    &alias_scopes::PASS,
    &signed_addresses::MARK,
    &signed_addresses::PASS,
    &fuse::PASS,
    &fuse::verify::PASS,
    &to_linalg::PASS,
];

/// Registers all passes by name; safe to call more than once.
pub fn register_all() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| PASSES.iter().for_each(|pass| register(pass)));
}
