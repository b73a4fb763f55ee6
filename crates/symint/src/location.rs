//! The location of the program, as whoever runs it knows it: for guards on sizes, which are recorded from within torch's code.

use std::cell::RefCell;

use dynamlir_graph::Line;

/// Returns the location of the program, innermost frame first.
type Locate = dyn Fn() -> Vec<Line>;

thread_local! {
    static LOCATE: RefCell<Option<Box<Locate>>> = const { RefCell::new(None) };
}

/// From now on, guards on sizes that this thread records are located by `locate`.
pub fn located_by(locate: impl Fn() -> Vec<Line> + 'static) {
    LOCATE.with(|current| current.replace(Some(Box::new(locate))));
}

/// Returns the location of the program in this thread; empty if no one has said how to find it.
pub(crate) fn current() -> Vec<Line> {
    LOCATE.with(|locate| locate.borrow().as_ref().map_or_else(Vec::new, |locate| locate()))
}
