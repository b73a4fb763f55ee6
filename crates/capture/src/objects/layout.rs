//! The memory layout of a class's instances.

use dynamlir_cpython_abi::types;
use pyo3::{prelude::*, types::PyType};

/// The memory layout of a class's instances.
pub(crate) struct Layout<'py> {
    /// The first class of the MRO that is not written in Python.
    pub base: Bound<'py, PyType>,
    /// True if a class before it in the MRO declares slots.
    pub slots: bool,
}

impl<'py> Layout<'py> {
    /// Returns the layout of a class's instances.
    pub fn of(class: &Bound<'py, PyType>) -> PyResult<Self> {
        const IMMUTABLE_TYPE: u64 = 1 << 8;
        const HEAP_TYPE: u64 = 1 << 9;
        let mut slots = false;
        for base in types::mro(class)? {
            // C classes are static, or created at run time and then locked; Python classes never are.
            if types::flags(&base) & (HEAP_TYPE | IMMUTABLE_TYPE) != HEAP_TYPE {
                return Ok(Self { base, slots });
            }
            // Abstract base classes declare empty slots.
            slots |= types::dict(&base)?.get_item("__slots__").is_ok_and(|slots| slots.is_truthy().unwrap_or(true));
        }
        Ok(Self { base: class.py().get_type::<PyAny>(), slots })
    }
}
