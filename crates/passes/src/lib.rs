//! The passes, one file each, and their registration by name.
#![forbid(unsafe_code)]

use dynamlir_dialect::pass::{Pass, register};
use std::sync::Once;

/// Every pass of this crate.
pub const PASSES: &[&Pass] = &[];

/// Registers all passes by name; safe to call more than once.
pub fn register_all() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| PASSES.iter().for_each(|pass| register(pass)));
}
