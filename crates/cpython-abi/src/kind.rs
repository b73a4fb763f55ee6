//! Exact classes of builtin kinds whose type objects the stable ABI lacks; every version exports them.

use pyo3::{ffi, prelude::*};

/// Declares one test per type object.
macro_rules! kinds {
    ($($(#[$doc:meta])* $test:ident = $symbol:ident;)*) => {
        unsafe extern "C" {
            $(static mut $symbol: ffi::PyTypeObject;)*
        }

        $($(#[$doc])*
        pub fn $test(object: &Bound<'_, PyAny>) -> bool {
            // SAFETY: the object is alive; of the type object only the address is taken.
            unsafe { std::ptr::eq(ffi::Py_TYPE(object.as_ptr()), &raw mut $symbol) }
        })*
    };
}

kinds! {
    /// Whether an object is a Python function.
    is_function = PyFunction_Type;
    /// Whether an object is a bound method.
    is_method = PyMethod_Type;
    /// Whether an object is a generator.
    is_generator = PyGen_Type;
    /// Whether an object is a coroutine of an `async def`.
    is_coroutine = PyCoro_Type;
    /// Whether an object is an asynchronous generator.
    is_async_generator = PyAsyncGen_Type;
    /// Whether an object is a closure cell.
    is_cell = PyCell_Type;
}
