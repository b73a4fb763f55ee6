//! Types: names for error messages, flags, slots, version tags, look-ups in the method resolution order.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};

use pyo3::{
    ffi, intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyModule, PyString, PyTuple, PyType},
};

use crate::{Abi, abi::has_lock, kind, offsets};

/// `Py_TPFLAGS_SEQUENCE`: `match` treats instances as sequences.
pub const SEQUENCE: c_ulong = 1 << 5;
/// `Py_TPFLAGS_MAPPING`: `match` treats instances as mappings.
pub const MAPPING: c_ulong = 1 << 6;
/// `Py_TPFLAGS_HEAPTYPE`: the class was created at run time.
pub const HEAP_TYPE: c_ulong = 1 << 9;
/// `_Py_TPFLAGS_MATCH_SELF`: a positional class pattern matches the instance itself.
pub const MATCH_SELF: c_ulong = 1 << 22;

/// Slots of types by number, as taken by [`slot`].
pub mod slots {
    pub use pyo3::ffi::{Py_am_aiter, Py_am_anext, Py_am_await, Py_tp_descr_get, Py_tp_getattro, Py_tp_iter, Py_tp_iternext};
}

/// Returns the name of an object's class as in `tp_name`: for many builtin types this includes their module.
pub fn name(object: &Bound<'_, PyAny>) -> String {
    name_of(&object.get_type())
}

/// Returns the name of a class, as in `tp_name`.
pub fn name_of(class: &Bound<'_, PyType>) -> String {
    if !has_lock() {
        return class.name().map_or_else(|_| "?".to_owned(), |name| name.to_string_lossy().into_owned());
    }
    // SAFETY: the type is alive and its name is a NUL-terminated string that lives as long as the type.
    let name = unsafe { CStr::from_ptr(class.as_ptr().byte_add(offsets::TYPE_NAME).cast::<*const c_char>().read()) };
    name.to_string_lossy().into_owned()
}

/// Returns an attribute of `type` itself, bound to a class: a metaclass may override it with Python code.
fn of_type<'py>(
    class: &Bound<'py, PyType>,
    name: &Bound<'py, PyString>,
    getter: &'static PyOnceLock<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    let kind = py.get_type::<PyType>();
    if class.get_type().is(&kind) {
        return class.getattr(name);
    }
    let made = getter.get_or_try_init(py, || Ok::<_, PyErr>(kind.getattr("__dict__")?.get_item(name)?.getattr("__get__")?.unbind()));
    made?.bind(py).call1((class,))
}

/// Returns the classes in which a class looks up names, in order.
pub fn mro<'py>(class: &Bound<'py, PyType>) -> PyResult<Vec<Bound<'py, PyType>>> {
    static GETTER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let classes = of_type(class, intern!(class.py(), "__mro__"), &GETTER)?;
    classes.cast::<PyTuple>()?.iter().map(|class| Ok(class.cast_into::<PyType>()?)).collect()
}

/// Returns a class's own attributes, as a read-only mapping.
pub fn dict<'py>(class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    static GETTER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    of_type(class, intern!(class.py(), "__dict__"), &GETTER)
}

/// Returns the flags of a class.
pub fn flags(class: &Bound<'_, PyType>) -> c_ulong {
    // SAFETY: the type is alive.
    unsafe { ffi::PyType_GetFlags(class.as_type_ptr()) }
}

/// `Py_TPFLAGS_MANAGED_DICT`: the instance dict, or its replacement before it is created, is stored before the object.
pub fn has_managed_dict(class: &Bound<'_, PyType>) -> bool {
    const MANAGED_DICT: c_ulong = 1 << 4;
    flags(class) & MANAGED_DICT != 0
}

/// `tp_dictoffset`: the offset of the instance dict, if it is not managed; 0 if instances do not have one.
pub fn dict_offset(class: &Bound<'_, PyType>) -> isize {
    static GETTER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if !has_lock() {
        let offset = of_type(class, intern!(class.py(), "__dictoffset__"), &GETTER).and_then(|offset| offset.extract());
        return offset.unwrap_or(0);
    }
    // SAFETY: a type is longer than that, and the field is there in all supported versions.
    unsafe { class.as_ptr().byte_add(offsets::TYPE_DICT_OFFSET).cast::<ffi::Py_ssize_t>().read() }
}

/// Returns true if instances of a class have their own dict for attributes.
pub fn has_instance_dict(class: &Bound<'_, PyType>) -> bool {
    has_managed_dict(class) || dict_offset(class) != 0
}

/// Returns a slot of a class; NULL if it is empty.
pub fn slot(class: &Bound<'_, PyType>, number: c_int) -> *mut c_void {
    // SAFETY: the type is alive, and the numbers are those of the stable ABI.
    unsafe { ffi::PyType_GetSlot(class.as_type_ptr(), number) }
}

/// Returns true if attributes of a class's instances are looked up like `object`'s, without Python code.
pub fn has_generic_attributes(class: &Bound<'_, PyType>) -> bool {
    std::ptr::eq(slot(class, ffi::Py_tp_getattro), ffi::PyObject_GenericGetAttr as *const c_void)
}

/// `object.name`, bypassing a `__getattribute__` in Python.
///
/// # Errors
/// Returns the exception raised by Python, for example for a missing attribute.
pub fn attribute_past_python<'py>(object: &Bound<'py, PyAny>, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
    let class = object.get_type();
    if !has_generic_attributes(&class) && attribute_getters(&class)?.first().is_some_and(|(_, found)| kind::is_function(found)) {
        return object.py().get_type::<PyAny>().getattr(intern!(object.py(), "__getattribute__"))?.call1((object, name));
    }
    object.getattr(name)
}

/// Returns true if attributes of a class's instances are looked up like `object`'s, apart from any `__getattribute__` in Python.
///
/// # Errors
/// Returns the exception raised by Python.
pub fn is_generic_past_python(class: &Bound<'_, PyType>) -> PyResult<bool> {
    if has_generic_attributes(class) {
        return Ok(true);
    }
    let getters = attribute_getters(class)?;
    Ok(getters.iter().find(|(_, found)| !kind::is_function(found)).is_some_and(|(base, _)| base.is(class.py().get_type::<PyAny>())))
}

/// Returns each `__getattribute__` of a class, in the order of its bases, with the base that defines it.
fn attribute_getters<'py>(class: &Bound<'py, PyType>) -> PyResult<Vec<(Bound<'py, PyType>, Bound<'py, PyAny>)>> {
    let name = intern!(class.py(), "__getattribute__");
    let own = |base: Bound<'py, PyType>| dict(&base).and_then(|dict| dict.get_item(name)).ok().map(|found| (base, found));
    Ok(mro(class)?.into_iter().filter_map(own).collect())
}

/// Returns true if a class fills a slot.
pub fn has_slot(class: &Bound<'_, PyType>, number: c_int) -> bool {
    !slot(class, number).is_null()
}

/// Calls a slot that takes the object and returns a new reference; `None` if the class does not fill it.
pub fn call_unary_slot<'py>(object: &Bound<'py, PyAny>, number: c_int) -> Option<PyResult<Bound<'py, PyAny>>> {
    debug_assert!([ffi::Py_am_aiter, ffi::Py_am_anext, ffi::Py_am_await, ffi::Py_tp_iter].contains(&number), "not a unary slot");
    let function = slot(&object.get_type(), number);
    if function.is_null() {
        return None;
    }
    // SAFETY: the slots named above are `unaryfunc`s: they borrow the object and return a new reference, or NULL with an exception.
    unsafe {
        let function = std::mem::transmute::<*mut c_void, ffi::unaryfunc>(function);
        Some(Bound::from_owned_ptr_or_err(object.py(), function(object.as_ptr())))
    }
}

/// Returns the attribute of a class or its bases with a name, without binding it. Borrows both; returns a new reference.
pub fn lookup<'py>(abi: &'static Abi, class: &Bound<'py, PyType>, name: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    // SAFETY: class and name are alive; the result is borrowed from the class, and we take a reference at once.
    unsafe { Bound::from_borrowed_ptr_or_opt(class.py(), (abi.symbols.type_lookup)(class.as_type_ptr(), name.as_ptr())) }
}

/// Returns a special method of an object: looked up in its class, then bound. `None` if the class does not have it.
pub fn lookup_special<'py>(abi: &'static Abi, object: &Bound<'py, PyAny>, name: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let class = object.get_type();
    let Some(found) = lookup(abi, &class, name) else { return Ok(None) };
    let get = slot(&found.get_type(), ffi::Py_tp_descr_get);
    if get.is_null() {
        return Ok(Some(found));
    }
    // SAFETY: the slot is a `descrgetfunc`: it borrows all three and returns a new reference, or NULL with an exception.
    unsafe {
        let get = std::mem::transmute::<*mut c_void, ffi::descrgetfunc>(get);
        Bound::from_owned_ptr_or_err(object.py(), get(found.as_ptr(), object.as_ptr(), class.as_ptr())).map(Some)
    }
}

/// Returns the class's version tag: a different tag means that an attribute of the class or of a base has changed. 0 means that the class
/// currently has no tag.
pub fn version_tag(abi: &'static Abi, class: &Bound<'_, PyType>) -> u32 {
    // SAFETY: the layout says that an unsigned int is there, and the type is alive.
    unsafe { class.as_ptr().byte_add(abi.layout.types.version_tag).cast::<c_uint>().read() }
}

/// Returns the object or class that a C function is a method of; `None` for a module's function, and for one of pybind11, which stores its
/// own record in `__self__`.
///
/// # Errors
/// If it has no `__self__` or no `__name__`; every C function has both.
pub fn owner_of_method<'py>(function: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let owner = function.getattr(intern!(function.py(), "__self__"))?;
    if owner.is_none() || owner.is_instance_of::<PyModule>() {
        return Ok(None);
    }
    let name = function.getattr(intern!(function.py(), "__name__"))?.cast_into::<PyString>()?;
    let class = owner.cast::<PyType>().map_or_else(|_| owner.get_type(), Clone::clone);
    for base in mro(&class)? {
        if dict(&base)?.contains(&name)? {
            return Ok(Some(owner));
        }
    }
    Ok(None)
}
