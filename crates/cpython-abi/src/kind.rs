//! Tests for exact builtin classes whose type objects the stable ABI lacks; every version exports them.

use pyo3::{ffi, prelude::*, sync::PyOnceLock, types::PyType};

/// Declares one test per type object.
macro_rules! kinds {
    ($($(#[$doc:meta])* $test:ident = $symbol:ident;)*) => {
        unsafe extern "C" {
            $(static mut $symbol: ffi::PyTypeObject;)*
        }

        $($(#[$doc])*
        #[inline]
        pub fn $test(object: &Bound<'_, PyAny>) -> bool {
            // SAFETY: the object is alive; the type object is used only for its address.
            unsafe { std::ptr::eq(ffi::Py_TYPE(object.as_ptr()), &raw mut $symbol) }
        })*
    };
}

kinds! {
    /// Returns true if an object is a Python function.
    is_function = PyFunction_Type;
    /// Returns true if an object is a bound method.
    is_method = PyMethod_Type;
    /// Returns true if an object is a generator.
    is_generator = PyGen_Type;
    /// Returns true if an object is a coroutine of an `async def`.
    is_coroutine = PyCoro_Type;
    /// Returns true if an object is an asynchronous generator.
    is_async_generator = PyAsyncGen_Type;
    /// Returns true if an object is a code object.
    is_code = PyCode_Type;
    /// Returns true if an object is a frame.
    is_frame = PyFrame_Type;
    /// Returns true if an object is a closure cell.
    is_cell = PyCell_Type;
    /// Returns true if an object is a C function, or a C method bound to an object.
    is_c_function = PyCFunction_Type;
    /// Returns true if an object is a C function that knows its defining class.
    is_c_method = PyCMethod_Type;
    /// Returns true if an object is an unbound method of a C class.
    is_method_descriptor = PyMethodDescr_Type;
    /// Returns true if an object is an unbound class method of a C class.
    is_class_method_descriptor = PyClassMethodDescr_Type;
    /// Returns true if an object is an unbound slot wrapper of a C class.
    is_slot_wrapper = PyWrapperDescr_Type;
    /// Returns true if an object is a member of a C class, or a slot declared by a Python class.
    is_member_descriptor = PyMemberDescr_Type;
    /// Returns true if an object is an attribute with a getter and setter in C.
    is_getset_descriptor = PyGetSetDescr_Type;
    /// Returns true if an object is a property.
    is_property = PyProperty_Type;
    /// Returns true if an object is a static method.
    is_static_method = PyStaticMethod_Type;
    /// Returns true if an object is the result of `dict.keys()`.
    is_keys_view = PyDictKeys_Type;
    /// Returns true if an object is the result of `dict.values()`.
    is_values_view = PyDictValues_Type;
    /// Returns true if an object is the result of `dict.items()`.
    is_items_view = PyDictItems_Type;
    /// Returns true if an object is the result of `OrderedDict.keys()`.
    is_ordered_keys_view = PyODictKeys_Type;
    /// Returns true if an object is the result of `OrderedDict.values()`.
    is_ordered_values_view = PyODictValues_Type;
    /// Returns true if an object is the result of `OrderedDict.items()`.
    is_ordered_items_view = PyODictItems_Type;
    /// Returns true if an object is a `types.MappingProxyType`.
    is_mapping_proxy = PyDictProxy_Type;
    /// Returns true if an object is a class method of a Python class.
    is_class_method = PyClassMethod_Type;
}

/// Returns true if an object is an unbound attribute of a C class, which has its class as `__objclass__`.
pub fn is_class_member(object: &Bound<'_, PyAny>) -> bool {
    let kinds = [is_method_descriptor, is_slot_wrapper, is_getset_descriptor, is_member_descriptor, is_class_method_descriptor];
    kinds.iter().any(|is| is(object))
}

/// Returns true if an object is a slot wrapper of a C class, bound to an object. CPython 3.13 does not export this class.
pub fn is_bound_slot(object: &Bound<'_, PyAny>) -> bool {
    static CLASS: PyOnceLock<Option<Py<PyType>>> = PyOnceLock::new();
    let py = object.py();
    let find = || py.None().bind(py).getattr("__str__").ok().map(|slot| slot.get_type().unbind());
    CLASS.get_or_init(py, find).as_ref().is_some_and(|class| object.get_type().is(class))
}
