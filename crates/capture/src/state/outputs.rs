//! The recipes of a capture and the values that its graph must return for them.

use pyo3::prelude::*;
use rustc_hash::FxHashMap;

/// Collects recipes and the fakes that the graph must return.
#[derive(Default)]
pub struct Outputs<'py> {
    /// The graph's results, in order.
    pub fakes: Vec<Bound<'py, PyAny>>,
    pub seen: FxHashMap<usize, usize>,
    /// Objects that have a recipe, kept alive: some were created only for the traversal, and an address must keep identifying one object.
    pub(crate) alive: Vec<Bound<'py, PyAny>>,
    pub(crate) open: Vec<usize>,
    /// The dicts that hold attributes of instances, kept alive.
    pub(crate) attributes: FxHashMap<usize, Bound<'py, PyAny>>,
    /// The addresses of objects without a recipe and of the objects that contain them, innermost first.
    pub failed: Vec<usize>,
}
