//! Python objects that call into Rust by vectorcall, without a tuple or dict: a call takes about ten nanoseconds.
//!
//! pyo3's classes are called through `tp_call`, for which CPython packs the arguments. The type here is built by hand: it behaves like a
//! function (it binds as a method, has a `__dict__`, supports weak references and garbage collection) and passes its calls to a [`Callee`].

use std::{
    any::Any,
    ffi::{c_char, c_int, c_uint, c_void},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
    sync::atomic::{AtomicUsize, Ordering},
};

use pyo3::{
    exceptions::{PyReferenceError, PySystemError, PyTypeError},
    ffi,
    prelude::*,
    sync::PyOnceLock,
    types::{PyFunction, PyString, PyTuple, PyTupleMethods, PyType},
};

// Exported by every supported CPython, though part of the stable ABI only since 3.12.
unsafe extern "C" {
    /// Borrows all; returns a new reference.
    fn PyObject_Vectorcall(
        callable: *mut ffi::PyObject,
        values: *const *mut ffi::PyObject,
        count: usize,
        names: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject;
    /// A `tp_call` that calls by vectorcall. Borrows all; returns a new reference.
    fn PyVectorcall_Call(callable: *mut ffi::PyObject, values: *mut ffi::PyObject, names: *mut ffi::PyObject) -> *mut ffi::PyObject;
}

/// The behaviour of a callable object.
pub trait Callee: Any + Send + Sync {
    /// Handles a call.
    ///
    /// # Errors
    /// Returns the exception raised by the call.
    fn call<'py>(&self, arguments: Arguments<'_, 'py>) -> PyResult<Bound<'py, PyAny>>;

    /// Returns the text of `repr`.
    ///
    /// # Errors
    /// Returns the exception raised by Python.
    fn describe(&self, py: Python<'_>) -> PyResult<String>;

    /// Returns true if the object represents a Python function: `isinstance` then reports it as one.
    fn is_function(&self, py: Python<'_>) -> bool;

    /// Visits each Python object that it holds strongly, for the garbage collector. Must not run Python code.
    fn referents(&self, visit: &mut dyn FnMut(&Py<PyAny>));
}

/// The arguments of a call, borrowed from the caller.
#[derive(Clone, Copy)]
pub struct Arguments<'a, 'py> {
    /// The positional arguments, then the keyword arguments.
    values: &'a [Bound<'py, PyAny>],
    names: Option<&'a Bound<'py, PyTuple>>,
    py: Python<'py>,
}

impl<'a, 'py> Arguments<'a, 'py> {
    /// Creates arguments from Rust.
    pub fn new(py: Python<'py>, values: &'a [Bound<'py, PyAny>], names: Option<&'a Bound<'py, PyTuple>>) -> Self {
        Self { values, names, py }
    }

    /// Returns the GIL token.
    pub fn py(&self) -> Python<'py> {
        self.py
    }

    /// Returns the number of keyword arguments.
    fn keywords(&self) -> usize {
        self.names.map_or(0, |names| names.len().min(self.values.len()))
    }

    /// Returns true if there are keyword arguments.
    #[inline]
    pub fn has_keywords(&self) -> bool {
        self.names.is_some_and(|names| !names.is_empty())
    }

    /// Returns the arguments without the first positional one.
    #[must_use]
    pub fn without_first(self) -> Self {
        if self.positional().is_empty() { self } else { Self { values: &self.values[1..], ..self } }
    }

    /// Returns the positional arguments.
    pub fn positional(&self) -> &'a [Bound<'py, PyAny>] {
        &self.values[..self.values.len() - self.keywords()]
    }

    /// Returns the keyword arguments with their names.
    pub fn by_keyword(&self) -> impl Iterator<Item = (Bound<'py, PyAny>, &'a Bound<'py, PyAny>)> + use<'a, 'py> {
        let first = self.values.len() - self.keywords();
        let names = self.names;
        self.values[first..].iter().enumerate().filter_map(move |(i, value)| Some((names?.get_item(i).ok()?, value)))
    }

    /// Calls another callable with the same arguments.
    ///
    /// # Errors
    /// Returns the exception raised by the call.
    pub fn forward(&self, callable: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let names = self.names.map_or(ptr::null_mut(), Bound::as_ptr);
        // SAFETY: a Bound is a pointer to its object; the arguments are alive, positional ones first, as vectorcall requires.
        unsafe {
            let result = PyObject_Vectorcall(callable.as_ptr(), self.values.as_ptr().cast(), self.positional().len(), names);
            Bound::from_owned_ptr_or_err(self.py, result)
        }
    }
}

/// The fields after the head of an object of the type; the type's members refer to them.
#[repr(C)]
struct Content {
    vectorcall: Option<Vectorcall>,
    dict: *mut ffi::PyObject,
    weak: *mut ffi::PyObject,
    /// `None` after the garbage collector has cleared it.
    callee: Option<Box<dyn Callee>>,
}

/// The size of an object head in bytes, which CPython does not guarantee: 16, or 32 without the GIL. Set before the first object is
/// created.
static HEAD: AtomicUsize = AtomicUsize::new(0);

/// Returns the address of the fields after the head of an object of our type.
///
/// # Safety
/// `object` must be an object of our type.
#[inline]
unsafe fn content(object: *mut ffi::PyObject) -> *mut Content {
    // SAFETY: by the condition above, the memory is that of a head followed by the content.
    unsafe { object.byte_add(HEAD.load(Ordering::Relaxed)).cast() }
}

type Vectorcall = unsafe extern "C" fn(*mut ffi::PyObject, *const *mut ffi::PyObject, usize, *mut ffi::PyObject) -> *mut ffi::PyObject;

/// `PY_VECTORCALL_ARGUMENTS_OFFSET`
const ARGUMENTS_OFFSET: usize = 1 << (usize::BITS - 1);
/// `Py_TPFLAGS_HAVE_VECTORCALL`
const HAVE_VECTORCALL: u64 = 1 << 11;
/// `Py_TPFLAGS_METHOD_DESCRIPTOR`: `object.method(…)` passes the object as the first argument without binding.
const METHOD_DESCRIPTOR: u64 = 1 << 17;

/// Creates a callable object.
///
/// # Errors
/// If Python is out of memory.
pub fn callable(py: Python<'_>, callee: Box<dyn Callee>) -> PyResult<Bound<'_, PyAny>> {
    let class = callable_type(py)?.as_type_ptr();
    // SAFETY: the type is ours, so its allocator returns memory for a head and `Content`, zeroed except for the head.
    unsafe {
        let object = ffi::PyType_GenericAlloc(class, 0);
        let object = Bound::from_owned_ptr_or_err(py, object)?;
        let raw = content(object.as_ptr());
        (&raw mut (*raw).vectorcall).write(Some(vectorcall));
        (&raw mut (*raw).callee).write(Some(callee));
        Ok(object)
    }
}

/// Returns the callee of a callable object, if it is of that type.
pub fn callee_of<'a, T: Callee>(object: &'a Bound<'_, PyAny>) -> Option<&'a T> {
    if !object.get_type().is(callable_type(object.py()).ok()?) {
        return None;
    }
    // SAFETY: the type is ours. The callee lives as long as the object, except for an object cleared by the garbage collector, to which no
    // references remain.
    let callee = unsafe { (*content(object.as_ptr())).callee.as_deref() };
    let callee: &dyn Any = callee?;
    callee.downcast_ref()
}

/// Returns the exception for a panic, which must not unwind into C.
fn panicked(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    PySystemError::new_err(format!("panic in a compiled call: {}", text.unwrap_or("no message")))
}

unsafe extern "C" fn vectorcall(
    this: *mut ffi::PyObject,
    values: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls this with the GIL held, with an object of our type and `count` positional values followed by one for each name
    // in a tuple of names (or none), all alive through the call. A Bound is a non-null pointer.
    unsafe {
        let py = Python::assume_attached();
        let names = (!names.is_null()).then_some(&names).map(|names| &*ptr::from_ref(names).cast::<Bound<'_, PyTuple>>());
        let total = (count & !ARGUMENTS_OFFSET) + names.map_or(0, PyTupleMethods::len);
        let values = if total == 0 { &[] } else { std::slice::from_raw_parts(values.cast::<Bound<'_, PyAny>>(), total) };
        let Some(callee) = &(*content(this)).callee else {
            PyReferenceError::new_err("the callable was cleared").restore(py);
            return ptr::null_mut();
        };
        // The callee must outlive the call, even if the call drops the last reference to the object.
        let _alive = Bound::from_borrowed_ptr(py, this);
        match catch_unwind(AssertUnwindSafe(|| callee.call(Arguments { values, names, py }))) {
            Ok(Ok(object)) => object.into_ptr(),
            Ok(Err(error)) => {
                error.restore(py);
                ptr::null_mut()
            }
            Err(panic) => {
                panicked(&*panic).restore(py);
                ptr::null_mut()
            }
        }
    }
}

unsafe extern "C" fn traverse(this: *mut ffi::PyObject, visit: ffi::visitproc, context: *mut c_void) -> c_int {
    // SAFETY: the garbage collector passes an object of our type; visiting only counts.
    unsafe {
        let object = &*content(this);
        let mut result = 0;
        let mut see = |referent: *mut ffi::PyObject| {
            if result == 0 && !referent.is_null() {
                result = visit(referent, context);
            }
        };
        // Instances of heap types own a reference to their type.
        see(ffi::Py_TYPE(this).cast());
        see(object.dict);
        if let Some(callee) = &object.callee {
            callee.referents(&mut |referent| see(referent.as_ptr()));
        }
        result
    }
}

unsafe extern "C" fn clear(this: *mut ffi::PyObject) -> c_int {
    // SAFETY: as for `traverse`; each reference is taken out before it is dropped, since dropping runs code.
    unsafe {
        let object = content(this);
        let callee = (*object).callee.take();
        let dict = ptr::replace(&raw mut (*object).dict, ptr::null_mut());
        ffi::Py_XDECREF(dict);
        // Dropping an owned Python reference requires that the GIL is known to be held.
        Python::attach(|_| drop(callee));
    }
    0
}

unsafe extern "C" fn dealloc(this: *mut ffi::PyObject) {
    // SAFETY: the last reference is gone; the order is CPython's: untrack, weak references, content, memory, type.
    unsafe {
        let class = ffi::Py_TYPE(this);
        ffi::PyObject_GC_UnTrack(this.cast());
        if !(*content(this)).weak.is_null() {
            ffi::PyObject_ClearWeakRefs(this);
        }
        clear(this);
        ffi::PyObject_GC_Del(this.cast());
        ffi::Py_DECREF(class.cast());
    }
}

/// Binds like a function.
unsafe extern "C" fn descr_get(this: *mut ffi::PyObject, object: *mut ffi::PyObject, _class: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: CPython passes live objects, NULL or None for access through the class.
    unsafe {
        let py = Python::assume_attached();
        if object.is_null() || object == ffi::Py_None() {
            return Bound::from_borrowed_ptr(py, this).into_ptr();
        }
        let bind = || method_type(py)?.call1((Bound::from_borrowed_ptr(py, this), Bound::from_borrowed_ptr(py, object)));
        match bind() {
            Ok(method) => method.into_ptr(),
            Err(error) => {
                error.restore(py);
                ptr::null_mut()
            }
        }
    }
}

/// `__class__`
unsafe extern "C" fn class_of(this: *mut ffi::PyObject, _closure: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: CPython passes an object of our type, with the GIL held; types are alive while their objects are.
    unsafe {
        let py = Python::assume_attached();
        let callee = (*content(this)).callee.as_deref();
        let function = catch_unwind(AssertUnwindSafe(|| callee.is_some_and(|callee| callee.is_function(py)))).unwrap_or(false);
        if function {
            return py.get_type::<PyFunction>().into_ptr();
        }
        Bound::from_borrowed_ptr(py, ffi::Py_TYPE(this).cast()).into_ptr()
    }
}

unsafe extern "C" fn repr(this: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: CPython passes an object of our type, with the GIL held.
    let (py, callee) = unsafe { (Python::assume_attached(), (*content(this)).callee.as_deref()) };
    let describe = || callee.map_or_else(|| Ok("<a cleared callable>".to_owned()), |callee| callee.describe(py));
    let text = catch_unwind(AssertUnwindSafe(describe)).unwrap_or_else(|panic| Err(panicked(&*panic)));
    match text {
        Ok(text) => PyString::new(py, &text).into_ptr().cast(),
        Err(error) => {
            error.restore(py);
            ptr::null_mut()
        }
    }
}

fn method_type(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static METHOD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    crate::import_once(py, &METHOD, "types", "MethodType")
}

unsafe extern "C" fn refuse(_class: *mut ffi::PyTypeObject, _args: *mut ffi::PyObject, _kwargs: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: CPython calls with the GIL held.
    let py = unsafe { Python::assume_attached() };
    PyTypeError::new_err("compiled callables are made by dynamlir.compile").restore(py);
    ptr::null_mut()
}

/// `PyMemberDef`, whose `type` is `T_PYSSIZET` and whose flag is `READONLY` here.
const fn member(name: *const c_char, offset: usize) -> ffi::PyMemberDef {
    const PYSSIZET: c_int = 19;
    ffi::PyMemberDef { name, type_code: PYSSIZET, offset: offset as ffi::Py_ssize_t, flags: 1, doc: ptr::null() }
}

/// Returns the type of callable objects, created once.
///
/// # Errors
/// If Python is out of memory.
pub fn callable_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = CLASS.get_or_try_init(py, || {
        let head: usize = py.get_type::<PyAny>().getattr("__basicsize__")?.extract()?;
        HEAD.store(head, Ordering::Relaxed);
        let offsets = [
            member(c"__vectorcalloffset__".as_ptr(), head + std::mem::offset_of!(Content, vectorcall)),
            member(c"__dictoffset__".as_ptr(), head + std::mem::offset_of!(Content, dict)),
            member(c"__weaklistoffset__".as_ptr(), head + std::mem::offset_of!(Content, weak)),
            ffi::PyMemberDef { name: ptr::null(), type_code: 0, offset: 0, flags: 0, doc: ptr::null() },
        ];
        let attributes = [
            ffi::PyGetSetDef {
                name: c"__dict__".as_ptr(),
                get: Some(ffi::PyObject_GenericGetDict),
                set: Some(ffi::PyObject_GenericSetDict),
                doc: ptr::null(),
                closure: ptr::null_mut(),
            },
            // Tools that inspect functions, such as torch.fx, begin with `isinstance`.
            ffi::PyGetSetDef { name: c"__class__".as_ptr(), get: Some(class_of), set: None, doc: ptr::null(), closure: ptr::null_mut() },
            ffi::PyGetSetDef { name: ptr::null(), get: None, set: None, doc: ptr::null(), closure: ptr::null_mut() },
        ];
        // CPython copies the members, but keeps the address of the attributes.
        let attributes = Box::leak(Box::new(attributes));
        let slot = |slot, pfunc| ffi::PyType_Slot { slot, pfunc };
        let mut slots = [
            slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
            slot(ffi::Py_tp_traverse, traverse as *mut c_void),
            slot(ffi::Py_tp_clear, clear as *mut c_void),
            slot(ffi::Py_tp_call, PyVectorcall_Call as *mut c_void),
            slot(ffi::Py_tp_descr_get, descr_get as *mut c_void),
            slot(ffi::Py_tp_repr, repr as *mut c_void),
            slot(ffi::Py_tp_new, refuse as *mut c_void),
            slot(ffi::Py_tp_members, offsets.as_ptr().cast_mut().cast()),
            slot(ffi::Py_tp_getset, attributes.as_mut_ptr().cast()),
            slot(0, ptr::null_mut()),
        ];
        let flags = ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_HAVE_GC | HAVE_VECTORCALL | METHOD_DESCRIPTOR;
        let mut spec = ffi::PyType_Spec {
            name: c"dynamlir.CompiledFunction".as_ptr(),
            basicsize: (head + size_of::<Content>()) as c_int,
            itemsize: 0,
            flags: flags as c_uint,
            slots: slots.as_mut_ptr(),
        };
        // SAFETY: the spec describes a head and `Content`, and everything it points to is alive or copied; the result is a new reference.
        unsafe { Ok::<_, PyErr>(Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec))?.cast_into::<PyType>()?.unbind()) }
    })?;
    Ok(class.bind(py))
}
