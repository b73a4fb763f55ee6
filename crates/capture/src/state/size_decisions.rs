//! The symbols that a capture gave to sizes, and the writes that it left out, for a capture that must do the same with other values.

use dynamlir_shapes::{Interval, Predicate, Symbol};

/// A dynamic size.
#[derive(Clone, Debug)]
pub(crate) struct DecidedSize {
    /// Its source, as [`dynamlir_frame::ValueHistory`] knows it.
    pub place: String,
    /// The symbol, which equal sizes share.
    pub symbol: Symbol,
    /// Its possible values.
    pub range: Interval,
    /// True if its tensor was marked, so that its symbol is not shared.
    pub marked: bool,
}

/// The decisions of a capture. Everything else that depends on values is guarded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decided {
    /// The dynamic sizes of tensors.
    pub sizes: Vec<DecidedSize>,
    /// The expressions of ints that are represented by symbols. For another changing int, a guard holds only the queries about it, so that
    /// it may by now be one that would get a symbol.
    pub ints: Vec<String>,
    /// The expressions of tensors with marks.
    pub marked: Vec<String>,
    /// Assumptions made for faster code, because they were true.
    pub expected: Vec<Predicate>,
    /// The places that already held the value that the program writes there, under a guard for that: the write is left out.
    pub left_out: Vec<String>,
}

impl Decided {
    /// Returns the decision about the size at a source.
    pub fn at(&self, place: &str) -> Option<&DecidedSize> {
        self.sizes.iter().find(|size| size.place == place)
    }
}
