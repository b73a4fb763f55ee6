//! Special methods that C code looks up in the classes of its arguments: `int(x)` calls `__int__` if it exists, otherwise `__index__`.
//!
//! The method that is called is Python code and interpreted. The absence of a method that C code would prefer is guarded here, for classes
//! that may later get one.

use pyo3::{
    exceptions::{PyKeyError, PyTypeError},
    prelude::*,
    types::PyString,
};

use crate::{
    floors::{Heap, Reads},
    graph_break::{Halt, Outcome},
};

impl<'py> Reads<'py> {
    /// Returns the outcome of an operation on a value. If it has raised, the reason may be that the value's class does not have any of
    /// these methods yet, so their absence is guarded.
    pub(crate) fn or_lacking<T>(&self, outcome: Outcome<T>, value: &Bound<'py, PyAny>, names: &[&str]) -> Outcome<T> {
        if let Err(Halt::Raise(error)) = &outcome
            && (error.is_instance_of::<PyTypeError>(self.py) || error.is_instance_of::<PyKeyError>(self.py))
        {
            self.pin_specials(value, names)?;
        }
        outcome
    }
}

impl<'py> Heap<'py> {
    /// Guards the entries of a value's class under these names, or their absence. Builtin classes do not change.
    pub(crate) fn pin_specials(&self, value: &Bound<'py, PyAny>, names: &[&str]) -> Outcome<()> {
        if names.is_empty() || self.torch.is_primitive(value) || self.torch.is_tensor(value) {
            return Ok(());
        }
        if let Some(class) = self.class_at(value)? {
            for name in names {
                self.pin_entry(&value.get_type(), class, &PyString::intern(self.py, name))?;
            }
        }
        Ok(())
    }
}
