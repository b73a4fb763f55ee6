//! Exact classes of builtin kinds whose type objects the stable ABI lacks; every version exports them.

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
    /// Whether an object is a code object.
    is_code = PyCode_Type;
    /// Whether an object is a frame.
    is_frame = PyFrame_Type;
    /// Whether an object is a closure cell.
    is_cell = PyCell_Type;
    /// Whether an object is a function of C's, or a method of C's that is bound to an object.
    is_c_function = PyCFunction_Type;
    /// Whether an object is a function of C's that knows the class that it was defined in.
    is_c_method = PyCMethod_Type;
    /// Whether an object is a method of a class of C's, not bound.
    is_method_descriptor = PyMethodDescr_Type;
    /// Whether an object is a class method of a class of C's, not bound.
    is_class_method_descriptor = PyClassMethodDescr_Type;
    /// Whether an object is a slot of a class of C's, not bound.
    is_slot_wrapper = PyWrapperDescr_Type;
    /// Whether an object is a field of a class of C's, or a slot that a class of Python's declares.
    is_member_descriptor = PyMemberDescr_Type;
    /// Whether an object is an attribute that C code gets and sets.
    is_getset_descriptor = PyGetSetDescr_Type;
    /// Whether an object is a property.
    is_property = PyProperty_Type;
    /// Whether an object is a static method.
    is_static_method = PyStaticMethod_Type;
    /// Whether an object is what `dict.keys()` gives.
    is_keys_view = PyDictKeys_Type;
    /// Whether an object is what `dict.values()` gives.
    is_values_view = PyDictValues_Type;
    /// Whether an object is what `dict.items()` gives.
    is_items_view = PyDictItems_Type;
    /// Whether an object is what `OrderedDict.keys()` gives.
    is_ordered_keys_view = PyODictKeys_Type;
    /// Whether an object is what `OrderedDict.values()` gives.
    is_ordered_values_view = PyODictValues_Type;
    /// Whether an object is what `OrderedDict.items()` gives.
    is_ordered_items_view = PyODictItems_Type;
    /// Whether an object is a `types.MappingProxyType`.
    is_mapping_proxy = PyDictProxy_Type;
    /// Whether an object is a class method of a class of Python's.
    is_class_method = PyClassMethod_Type;
}

/// Whether an object is what a class of C's holds under a name, not bound: it says whose it is, as `__objclass__`.
pub fn is_class_member(object: &Bound<'_, PyAny>) -> bool {
    let kinds = [is_method_descriptor, is_slot_wrapper, is_getset_descriptor, is_member_descriptor, is_class_method_descriptor];
    kinds.iter().any(|is| is(object))
}

/// Whether an object is a slot of a class of C's, bound to an object. CPython 3.13 exports no name for this class.
pub fn is_bound_slot(object: &Bound<'_, PyAny>) -> bool {
    static CLASS: PyOnceLock<Option<Py<PyType>>> = PyOnceLock::new();
    let py = object.py();
    let find = || py.None().bind(py).getattr("__str__").ok().map(|slot| slot.get_type().unbind());
    CLASS.get_or_init(py, find).as_ref().is_some_and(|class| object.get_type().is(class))
}
