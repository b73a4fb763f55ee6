//! The floors of a capture: each is a type that dereferences to the floor below, so a method sees its own floor and all lower ones.
//!
//! | floor | its methods |
//! |---|---|
//! | [`Record`] | nodes, inputs, locations, the break: what one capture has recorded |
//! | [`Sources`] | where an object comes from, and guards on it |
//! | [`Numbers`] | sizes, ints and floats that may change |
//! | [`Writes`] | the frame's writes to existing objects, noted |
//! | [`Heap`] | reads of existing objects, which see these writes |
//! | [`Recipes`] | how the epilogue makes values again |
//! | [`Reads`] | what C code reads and decides by |
//! | [`Operations`] | calls, attributes, containers, operators |
//! | [`Capture`] | names, imports, frames |
//!
//! An upward call does not compile: the method belongs on a higher floor, or takes that part of its work as a closure.

use std::{ops::Deref, rc::Rc};

use pyo3::Python;

use crate::state::State;

/// The lowest floor: what one capture has recorded, in a thread that is attached to the interpreter.
pub struct Record<'py> {
    /// The interpreter.
    pub py: Python<'py>,
    pub(crate) state: Rc<State>,
}

impl Record<'_> {
    /// Creates the floor of a capture's state.
    pub(crate) fn new(py: Python<'_>, state: Rc<State>) -> Record<'_> {
        Record { py, state }
    }
}

impl Deref for Record<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

macro_rules! floors {
    ($($(#[$doc:meta])* $floor:ident on $below:ident;)*) => {$(
        $(#[$doc])*
        pub struct $floor<'py>($below<'py>);

        impl $floor<'_> {
            /// Creates the floor of a capture's state.
            pub(crate) fn new(py: Python<'_>, state: Rc<State>) -> $floor<'_> {
                $floor($below::new(py, state))
            }
        }

        impl<'py> Deref for $floor<'py> {
            type Target = $below<'py>;

            fn deref(&self) -> &$below<'py> {
                &self.0
            }
        }
    )*};
}

floors! {
    /// Where objects come from.
    Sources on Record;
    /// Numbers that may change.
    Numbers on Sources;
    /// Writes to existing objects.
    Writes on Numbers;
    /// Reads of existing objects.
    Heap on Writes;
    /// Recipes of values.
    Recipes on Heap;
    /// Reads by C code.
    Reads on Recipes;
    /// Operations on values.
    Operations on Reads;
    /// Frames: a whole capture.
    Capture on Operations;
}
