//! What is known of the running interpreter, found out once.

use std::sync::OnceLock;

use pyo3::prelude::*;

use crate::{
    Refusal,
    layout::{Layout, Leaving, layout},
    lazy::Lazy,
    stack::Told,
    symbols::{ClearAndPop, Merge, Symbols, clear_and_pop},
};

/// The layout and the symbols of the running interpreter.
pub struct Abi {
    pub(crate) layout: &'static Layout,
    pub(crate) symbols: Symbols,
    /// Only where frames are left by a call.
    pub(crate) clear_and_pop: Option<ClearAndPop>,
    pub(crate) merge: Merge,
    /// Only where modules may import lazily.
    pub(crate) lazy: Option<Lazy>,
    /// Only where threads know their stacks, and can be told of another one.
    pub(crate) told_of_stack: Option<Told>,
}

impl Abi {
    /// CPython's version as (major, minor).
    pub fn version(&self) -> (u8, u8) {
        self.layout.version
    }

    /// What `match` says of a pattern that is called and is not a class.
    pub fn no_class_in_pattern(&self) -> &'static str {
        self.layout.no_class_in_pattern
    }

    /// Whether an `ImportError` of `from module import name` says the name, as `name_from`.
    pub fn import_error_has_name(&self) -> bool {
        self.layout.import_error_has_name
    }

    /// True if loops may have an index on the value stack: see [`crate::loop_iterator`].
    pub fn loops_by_index(&self) -> bool {
        self.layout.loops_by_index
    }

    /// Where a type has its version tag, an `unsigned int` before padding that is never written: see [`crate::types::version_tag`].
    pub fn type_version_offset(&self) -> usize {
        self.layout.types.version_tag
    }

    /// Where a tuple has the first of its items.
    pub fn tuple_items_offset(&self) -> usize {
        self.layout.tuple_items
    }

    /// Where a dict has its version, a `uint64_t`, if the version of CPython has those: see [`crate::mapping::dict_version`].
    pub fn dict_version_offset(&self) -> Option<usize> {
        self.layout.dict_version
    }
}

/// True if there is a global interpreter lock. Without it heads of objects are longer, and other threads write what is being read: all
/// that knows where something lies in an object asks this, or has an [`Abi`], and else leaves the reading to CPython's own functions.
pub(crate) fn has_lock() -> bool {
    static LOCK: OnceLock<bool> = OnceLock::new();
    *LOCK.get_or_init(|| !Python::version_str().contains("free-threading"))
}

/// Where things lie in the running interpreter, unless it is one that is not known.
pub(crate) fn known_layout(py: Python<'_>) -> Result<&'static Layout, Refusal> {
    if !has_lock() {
        return Err(Refusal::FreeThreaded);
    }
    let version = py.version_info();
    layout((version.major, version.minor)).ok_or_else(|| Refusal::Version(Python::version_str().to_owned()))
}

/// The running interpreter, unless it is one that is not known.
pub fn abi(py: Python<'_>) -> Result<&'static Abi, Refusal> {
    static FOUND: OnceLock<Result<Abi, Refusal>> = OnceLock::new();
    FOUND.get_or_init(|| find(py)).as_ref().map_err(Clone::clone)
}

fn find(py: Python<'_>) -> Result<Abi, Refusal> {
    if std::env::var_os("DYNAMLIR_CAPTURE").is_some_and(|value| value == "0") {
        return Err(Refusal::Off);
    }
    let layout = known_layout(py)?;
    let clear_and_pop = match layout.leaving {
        Leaving::Call => Some(clear_and_pop()?),
        Leaving::Caller | Leaving::Default => None,
    };
    let told_of_stack = layout.knows_stack.then(Told::find).and_then(Result::ok);
    let lazy = if layout.imports_lazily { Some(Lazy::load()?) } else { None };
    Ok(Abi { layout, symbols: Symbols::load(layout)?, clear_and_pop, merge: Merge::load(layout.merging)?, lazy, told_of_stack })
}
