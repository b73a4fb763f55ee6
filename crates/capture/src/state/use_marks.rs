//! The sources and demands that existed after each instruction, for a capture that reports where it used something.

use std::cell::RefCell;

use dynamlir_graph::Line;

/// The sources and demands that each instruction has created, for a capture that reports where it used something that no guard covers.
#[derive(Debug, Default)]
pub(crate) struct UseMarks(pub(crate) RefCell<Vec<UseMark>>);

/// The state after an instruction.
#[derive(Debug)]
pub(crate) struct UseMark {
    /// The number of sources and demands after the instruction has run.
    pub(crate) sources: usize,
    pub(crate) demands: usize,
    pub(crate) location: Vec<Line>,
}
