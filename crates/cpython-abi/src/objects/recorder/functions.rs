//! Steps through functions, methods and cells.

use pyo3::{
    prelude::*,
    sync::PyOnceLock,
    types::{PyString, PyType},
};

use super::{Proof, Reached, Recorder, Spot, at};

impl<'py> Recorder<'py> {
    /// A field of a function, method or cell, by the attribute that shows it; `kind` is the only type that has it.
    fn field(&mut self, spot: &Spot<'py>, kind: &Py<PyType>, attribute: &Bound<'py, PyString>, offset: usize) -> PyResult<Reached<'py>> {
        if !spot.object.get_type().is(kind) {
            return Ok(Reached::unproven(None));
        }
        let object = spot.object.getattr(attribute)?;
        if !self.class(spot) {
            return Ok(Reached::unproven(Some(object)));
        }
        // SAFETY: the type is recorded; where the field lies elsewhere the word differs. A NULL shows as None.
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
    /// What Python raised; as for the following.
    pub fn globals(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, &Kinds::get(self.py)?.function, pyo3::intern!(self.py, "__globals__"), at::FUNCTION_GLOBALS)
    }

    /// `function.__builtins__`
    pub fn builtins(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, &Kinds::get(self.py)?.function, pyo3::intern!(self.py, "__builtins__"), at::FUNCTION_BUILTINS)
    }

    /// `function.__code__`
    pub fn code(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, &Kinds::get(self.py)?.function, pyo3::intern!(self.py, "__code__"), at::FUNCTION_CODE)
    }

    /// `function.__defaults__`
    pub fn defaults(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, &Kinds::get(self.py)?.function, pyo3::intern!(self.py, "__defaults__"), at::FUNCTION_DEFAULTS)
    }

    /// `function.__kwdefaults__`
    pub fn kwdefaults(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, &Kinds::get(self.py)?.function, pyo3::intern!(self.py, "__kwdefaults__"), at::FUNCTION_KWDEFAULTS)
    }

    /// `function.__closure__`
    pub fn closure(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, &Kinds::get(self.py)?.function, pyo3::intern!(self.py, "__closure__"), at::FUNCTION_CLOSURE)
    }

    /// `method.__func__`
    pub fn method_function(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, &Kinds::get(self.py)?.method, pyo3::intern!(self.py, "__func__"), at::METHOD_FUNCTION)
    }

    /// `method.__self__`
    pub fn method_self(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        self.field(spot, &Kinds::get(self.py)?.method, pyo3::intern!(self.py, "__self__"), at::METHOD_SELF)
    }

    /// What a cell holds.
    ///
    /// # Errors
    /// When Python is out of memory.
    pub fn cell(&mut self, spot: &Spot<'py>) -> PyResult<Reached<'py>> {
        if !spot.object.get_type().is(&Kinds::get(self.py)?.cell) {
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
        let proof = unsafe { self.pointer(spot, at::CELL_CONTENT, object.as_ref()) };
        Ok(Reached { object, proof })
    }
}

/// The address of a Python function's code; None for what is no Python function.
#[inline]
pub fn code_address(function: &Bound<'_, PyAny>) -> Option<usize> {
    let kinds = Kinds::get(function.py()).ok()?;
    if function.get_type_ptr().cast() != kinds.function.as_ptr() {
        return None;
    }
    // SAFETY: all functions have their code there, in every supported version.
    Some(unsafe { function.as_ptr().byte_add(at::FUNCTION_CODE).cast::<usize>().read() })
}

/// A Python function's code; None for what is not a Python function. Asking for `__code__` would run audit hooks, which are Python,
/// so that a signal handler could raise there.
#[must_use]
pub fn code<'py>(function: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let code = code_address(function)? as *mut pyo3::ffi::PyObject;
    // SAFETY: the function, which is alive, holds its code, which is never NULL.
    Some(unsafe { Bound::from_borrowed_ptr(function.py(), code) })
}

/// Types that `types` knows by name, whose instances have fields that we read.
pub(super) struct Kinds {
    pub function: Py<PyType>,
    pub method: Py<PyType>,
    pub cell: Py<PyType>,
    pub code: Py<PyType>,
}

impl Kinds {
    pub fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static KINDS: PyOnceLock<Kinds> = PyOnceLock::new();
        KINDS.get_or_try_init(py, || {
            let module = py.import("types")?;
            let class = |name: &str| Ok::<_, PyErr>(module.getattr(name)?.cast_into::<PyType>()?.unbind());
            Ok(Self { function: class("FunctionType")?, method: class("MethodType")?, cell: class("CellType")?, code: class("CodeType")? })
        })
    }
}
