//! Which symbols a capture gave to which sizes, and which writes it left out, for one that is to do the same with other values.

use dynamlir_shapes::{Interval, Predicate, Symbol};

/// A size that varies.
#[derive(Clone, Debug)]
pub(crate) struct DecidedSize {
    /// Its place, as [`dynamlir_frame::Floats`] knows it.
    pub place: String,
    /// The symbol, which equal ones share.
    pub symbol: Symbol,
    /// What it may be.
    pub range: Interval,
    /// Whether its tensor was marked, so that it shares none.
    pub marked: bool,
}

/// The decisions of a capture. Everything else that depends on values is guarded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decided {
    /// The sizes of tensors that vary.
    pub sizes: Vec<DecidedSize>,
    /// The expressions of ints for which symbols stand. Of another one that varies a guard holds what was asked of it alone, so that it may
    /// be one by now of which a symbol would be made.
    pub ints: Vec<String>,
    /// The expressions of tensors with marks.
    pub marked: Vec<String>,
    /// What was assumed because it was so, for the sake of faster code.
    pub expected: Vec<Predicate>,
    /// The places that held already what the program writes there, under a guard that they do: the write is left out.
    pub left_out: Vec<String>,
}

impl Decided {
    /// What was decided of the size at a place.
    pub fn at(&self, place: &str) -> Option<&DecidedSize> {
        self.sizes.iter().find(|size| size.place == place)
    }
}
