//! Calls by the vectorcall protocol, and method look-up without binding.

use pyo3::{ffi, prelude::*, types::PyTuple};

use crate::{Abi, exception::fetch, object::is_iterator};

/// `PY_VECTORCALL_ARGUMENTS_OFFSET`: the slot before the arguments may be written.
const ARGUMENTS_OFFSET: usize = 1 << (usize::BITS - 1);

/// The number of arguments that fit without an allocation.
const INLINE: usize = 8;

/// Calls a callable with positional arguments followed by the values of `keywords`. Borrows all; returns a new reference.
///
/// The slot before the arguments is free for the callee (`ARGUMENTS_OFFSET`), so that a bound method needs no copy.
pub fn vectorcall<'a, 'py: 'a>(
    abi: &'static Abi,
    callable: &Bound<'py, PyAny>,
    args: impl ExactSizeIterator<Item = &'a Bound<'py, PyAny>>,
    keywords: Option<&Bound<'py, PyTuple>>,
) -> PyResult<Bound<'py, PyAny>> {
    let count = args.len();
    let mut inline = [std::ptr::null_mut(); INLINE + 1];
    let mut large = Vec::new();
    let slots = if count <= INLINE {
        &mut inline[..=count]
    } else {
        large.resize(count + 1, std::ptr::null_mut());
        &mut large[..]
    };
    for (slot, arg) in slots[1..].iter_mut().zip(args) {
        *slot = arg.as_ptr();
    }
    let named = keywords.map_or(0, PyTupleMethods::len);
    assert!(named <= count, "{named} keywords for {count} arguments");
    let positional = (count - named) | ARGUMENTS_OFFSET;
    let keywords = keywords.map_or(std::ptr::null_mut(), Bound::as_ptr);
    // SAFETY: the arguments outlive the call, the slot before them is ours to lend, and the result is a new reference.
    unsafe {
        let result = (abi.symbols.vectorcall)(callable.as_ptr(), slots.as_ptr().add(1), positional, keywords);
        Bound::from_owned_ptr_or_opt(callable.py(), result).ok_or_else(|| fetch(callable.py()))
    }
}

/// The result of [`method`].
pub enum Method<'py> {
    /// A function of the class, to be called with the object first.
    Unbound(Bound<'py, PyAny>),
    /// Any other value of the attribute.
    Attribute(Bound<'py, PyAny>),
}

/// Looks up a method without creating a bound method. Borrows both; the result is a new reference.
pub fn method<'py>(abi: &'static Abi, object: &Bound<'py, PyAny>, name: &Bound<'py, PyAny>) -> PyResult<Method<'py>> {
    let mut found = std::ptr::null_mut();
    // SAFETY: object and name are alive; the function stores a new reference, or NULL with an exception set.
    unsafe {
        let unbound = (abi.symbols.get_method)(object.as_ptr(), name.as_ptr(), &raw mut found) == 1;
        let found = Bound::from_owned_ptr_or_err(object.py(), found)?;
        Ok(if unbound { Method::Unbound(found) } else { Method::Attribute(found) })
    }
}

/// `callable(*args, **kwargs)`. Borrows all; returns a new reference.
pub fn call_ex<'py>(
    callable: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let kwargs = kwargs.map_or(std::ptr::null_mut(), Bound::as_ptr);
    // SAFETY: the arguments are a tuple and a dict or NULL, alive through the call; the result is a new reference.
    let result = unsafe { Bound::from_owned_ptr_or_opt(callable.py(), ffi::PyObject_Call(callable.as_ptr(), args.as_ptr(), kwargs)) };
    result.ok_or_else(|| fetch(callable.py()))
}

/// The result of sending a value to a generator or iterator.
pub enum Sent<'py> {
    /// It yielded.
    Yielded(Bound<'py, PyAny>),
    /// It returned.
    Returned(Bound<'py, PyAny>),
}

/// Sends a value to a generator, coroutine or iterator. Borrows both; the result is a new reference.
pub fn send<'py>(receiver: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>) -> PyResult<Sent<'py>> {
    let mut result = std::ptr::null_mut();
    // SAFETY: both are alive; the function stores a new reference unless it reports an error.
    unsafe {
        match ffi::PyIter_Send(receiver.as_ptr(), value.as_ptr(), &raw mut result) {
            ffi::PySendResult::PYGEN_NEXT => Ok(Sent::Yielded(Bound::from_owned_ptr_or_err(receiver.py(), result)?)),
            ffi::PySendResult::PYGEN_RETURN => Ok(Sent::Returned(Bound::from_owned_ptr_or_err(receiver.py(), result)?)),
            ffi::PySendResult::PYGEN_ERROR => Err(PyErr::fetch(receiver.py())),
        }
    }
}

/// Returns the next item of an iterator; `None` at its end. Borrows the iterator; the item is a new reference.
pub fn next<'py>(iterator: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    if !is_iterator(iterator) {
        return Err(pyo3::exceptions::PyTypeError::new_err(format!("'{}' object is not an iterator", crate::types::name(iterator))));
    }
    // SAFETY: it is an iterator; NULL without an exception is the end.
    match unsafe { Bound::from_owned_ptr_or_opt(iterator.py(), ffi::PyIter_Next(iterator.as_ptr())) } {
        Some(item) => Ok(Some(item)),
        None => PyErr::take(iterator.py()).map_or(Ok(None), Err),
    }
}
