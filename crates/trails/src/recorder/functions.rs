//! Steps through functions, methods and cells.

use dynamlir_cpython_abi::{kind, offsets};
use pyo3::{prelude::*, types::PyString};

use super::{Proof, Reached, Recorder, Spot};

impl<'py> Recorder<'py> {
    /// Steps to a field of a function, method or cell, by the attribute that exposes it; `is_kind` tests for the only type with this field.
    fn field(
        &mut self,
        spot: &Spot<'py>,
        is_kind: fn(&Bound<'_, PyAny>) -> bool,
        attribute: &Bound<'py, PyString>,
        offset: usize,
    ) -> PyResult<Reached<'py>> {
        if !is_kind(&spot.object) {
            return Ok(Reached::unproven(None));
        }
        let object = spot.object.getattr(attribute)?;
        if !self.class(spot) {
            return Ok(Reached::unproven(Some(object)));
        }
        // SAFETY: the type is recorded; if the field is at another offset the word differs. A NULL is exposed as None.
        let proof = unsafe {
            match self.pointer(spot, offset, Some(&object)) {
                Proof::None if object.is_none() => self.pointer(spot, offset, None),
                proof => proof,
            }
        };
        Ok(Reached { object: Some(object), proof })
    }

    /// `function.__globals__`
    ///
    /// # Errors
    /// Returns an exception raised by Python; the same applies to the functions below.
    pub fn globals(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, kind::is_function, pyo3::intern!(self.py, "__globals__"), offsets::FUNCTION_GLOBALS)
    }

    /// `function.__builtins__`
    pub fn builtins(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, kind::is_function, pyo3::intern!(self.py, "__builtins__"), offsets::FUNCTION_BUILTINS)
    }

    /// `function.__code__`
    pub fn code(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, kind::is_function, pyo3::intern!(self.py, "__code__"), offsets::FUNCTION_CODE)
    }

    /// `function.__defaults__`
    pub fn defaults(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, kind::is_function, pyo3::intern!(self.py, "__defaults__"), offsets::FUNCTION_DEFAULTS)
    }

    /// `function.__kwdefaults__`
    pub fn kwdefaults(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, kind::is_function, pyo3::intern!(self.py, "__kwdefaults__"), offsets::FUNCTION_KWDEFAULTS)
    }

    /// `function.__closure__`
    pub fn closure(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, kind::is_function, pyo3::intern!(self.py, "__closure__"), offsets::FUNCTION_CLOSURE)
    }

    /// `method.__func__`
    pub fn method_function(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, kind::is_method, pyo3::intern!(self.py, "__func__"), offsets::METHOD_FUNCTION)
    }

    /// `method.__self__`
    pub fn method_self(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, kind::is_method, pyo3::intern!(self.py, "__self__"), offsets::METHOD_SELF)
    }

    /// Steps to the contents of a cell.
    ///
    /// # Errors
    /// If Python is out of memory.
    pub fn cell(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        if !kind::is_cell(&spot.object) {
            return Ok(Reached::unproven(None));
        }
        let object = match spot.object.getattr(pyo3::intern!(self.py, "cell_contents")) {
            Ok(object) => Some(object),
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyValueError>(self.py) => None,
            Err(error) => return Err(error),
        };
        if !self.class(spot) {
            return Ok(Reached::unproven(object));
        }
        // SAFETY: the type is recorded, and cells hold their content there.
        let proof = unsafe { self.pointer(spot, offsets::CELL_CONTENT, object.as_ref()) };
        Ok(Reached { object, proof })
    }
}
