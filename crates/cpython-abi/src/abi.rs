//! Facts about the running interpreter, determined once.

use std::sync::OnceLock;

use pyo3::prelude::*;

use crate::{
    Refusal,
    layout::{Layout, Leaving, layout},
    lazy::Lazy,
    stack::StackBounds,
    symbols::{ClearAndPop, Merge, Symbols, clear_and_pop},
};

/// The layout and the symbols of the running interpreter.
pub struct Abi {
    pub(crate) layout: &'static Layout,
    pub(crate) symbols: Symbols,
    /// Present if frames are left by a call.
    pub(crate) clear_and_pop: Option<ClearAndPop>,
    pub(crate) merge: Merge,
    /// Present if modules may import lazily.
    pub(crate) lazy: Option<Lazy>,
    /// Present if threads know the bounds of their stacks, and these can be changed.
    pub(crate) told_of_stack: Option<StackBounds>,
}

impl Abi {
    /// Returns CPython's version as (major, minor).
    pub fn version(&self) -> (u8, u8) {
        self.layout.version
    }

    /// Returns the error message of `match` for a class pattern whose callable is not a class.
    pub fn no_class_in_pattern(&self) -> &'static str {
        self.layout.no_class_in_pattern
    }

    /// Returns true if an `ImportError` of `from module import name` stores the name as `name_from`.
    pub fn import_error_has_name(&self) -> bool {
        self.layout.import_error_has_name
    }

    /// Returns true if loops may have an index on the value stack: see [`crate::loop_iterator`].
    pub fn loops_by_index(&self) -> bool {
        self.layout.loops_by_index
    }

    /// Returns the offset of a type's version tag, an `unsigned int` before padding that is never written: see
    /// [`crate::types::version_tag`].
    pub fn type_version_offset(&self) -> usize {
        self.layout.types.version_tag
    }

    /// Returns the offset of a tuple's first item.
    pub fn tuple_items_offset(&self) -> usize {
        self.layout.tuple_items
    }

    /// Returns the offset of a dict's version, a `uint64_t`, if this version of CPython has one: see [`crate::mapping::dict_version`].
    pub fn dict_version_offset(&self) -> Option<usize> {
        self.layout.dict_version
    }
}

/// Returns true if there is a global interpreter lock. Without it, object heads are longer, and other threads write to the memory being
/// read. All code that uses offsets into objects must check this or hold an [`Abi`]; otherwise it must use CPython's own functions.
pub(crate) fn has_lock() -> bool {
    static LOCK: OnceLock<bool> = OnceLock::new();
    *LOCK.get_or_init(|| !Python::version_str().contains("free-threading"))
}

/// Returns the layout of the running interpreter, if it is supported.
pub(crate) fn known_layout(py: Python<'_>) -> Result<&'static Layout, Refusal> {
    if !has_lock() {
        return Err(Refusal::FreeThreaded);
    }
    let version = py.version_info();
    layout((version.major, version.minor)).ok_or_else(|| Refusal::Version(Python::version_str().to_owned()))
}

/// Returns the description of the running interpreter, if it is supported.
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
    let told_of_stack = layout.knows_stack.then(StackBounds::find).and_then(Result::ok);
    let lazy = if layout.imports_lazily { Some(Lazy::load()?) } else { None };
    Ok(Abi { layout, symbols: Symbols::load(layout)?, clear_and_pop, merge: Merge::load(layout.merging)?, lazy, told_of_stack })
}
