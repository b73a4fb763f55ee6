//! The words of a frame that refer to objects, in the format of the running version, and the other values that may take their place.
//!
//! From 3.14 on, the value stack also has ints that programs never see: the unit that raised, below an exception being handled, and in 3.15
//! the position reached by a loop. Here these are objects of a private class, so that they are restored unchanged when a frame is passed to
//! CPython.

use pyo3::{
    ffi, intern,
    prelude::*,
    types::{PyBytes, PyInt, PyList, PyString, PyTuple},
};

use crate::layout::References;

/// Marks a reference that is not counted.
const UNCOUNTED: usize = 1;
/// The low bits of an int.
const INT: usize = 3;

/// A tagged int from CPython's value stack: a unit of code, or an index.
#[pyclass(frozen, module = "dynamlir")]
struct Unit(isize);

/// Returns true if CPython does not count references to an object.
fn is_immortal(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is alive. In the versions that have tags, it begins with a reference count of 32 bits, which is negative for an
    // immortal object, 16 bits of overflow, and 16 bits of flags, the lowest of which marks immortal objects.
    let (count, flags) = unsafe { (object.as_ptr().cast::<i32>().read(), object.as_ptr().cast::<u16>().add(3).read()) };
    count < 0 || flags & 1 == 1
}

impl References {
    /// Returns the object that a word refers to. A new reference.
    ///
    /// # Safety
    /// The word must be from a frame of this version, which keeps the object alive.
    pub unsafe fn get(self, py: Python<'_>, word: usize) -> Option<Bound<'_, PyAny>> {
        match self {
            // SAFETY: as the caller promises, it is the address of a live object, or NULL.
            Self::Plain => unsafe { Bound::from_borrowed_ptr_or_opt(py, word as *mut ffi::PyObject) },
            Self::Tagged if word & INT == INT => Some(tagged_unit(py, word)),
            // SAFETY: as above, without the tag.
            Self::Tagged => unsafe { Bound::from_borrowed_ptr_or_opt(py, (word & !UNCOUNTED) as *mut ffi::PyObject) },
        }
    }

    /// Takes ownership of the object that a word refers to.
    ///
    /// # Safety
    /// As for [`Self::get`]; the word must not be used again.
    pub unsafe fn take(self, py: Python<'_>, word: usize) -> Option<Bound<'_, PyAny>> {
        if self == Self::Tagged && word & UNCOUNTED == UNCOUNTED {
            // SAFETY: as the caller promises.
            return unsafe { self.get(py, word) };
        }
        // SAFETY: as the caller promises; the word owns a reference, or is NULL.
        unsafe { Bound::from_owned_ptr_or_opt(py, word as *mut ffi::PyObject) }
    }

    /// Returns the word that refers to an object, or the NULL word. It owns the reference.
    pub fn give(self, object: Option<Bound<'_, PyAny>>) -> usize {
        match (self, object) {
            (Self::Plain, object) => object.map_or(0, |object| object.into_ptr() as usize),
            (Self::Tagged, None) => UNCOUNTED,
            (Self::Tagged, Some(object)) => match object.cast_exact::<Unit>() {
                Ok(unit) => (unit.get().0 << 2) as usize | INT,
                Err(_) if is_immortal(&object) => object.as_ptr() as usize | UNCOUNTED,
                Err(_) => object.into_ptr() as usize,
            },
        }
    }

    /// Returns the word for NULL.
    pub fn null(self) -> usize {
        self.give(None)
    }

    /// Returns the address of the object that a word refers to.
    pub fn address(self, word: usize) -> usize {
        match self {
            Self::Plain => word,
            Self::Tagged => word & !UNCOUNTED,
        }
    }

    /// Returns the object that represents a unit on the value stack.
    ///
    /// # Errors
    /// If Python is out of memory.
    pub fn unit(self, py: Python<'_>, unit: i32) -> PyResult<Bound<'_, PyAny>> {
        match self {
            Self::Plain => Ok(PyInt::new(py, unit).into_any()),
            Self::Tagged => Bound::new(py, Unit(unit as isize)).map(Bound::into_any),
        }
    }
}

fn tagged_unit(py: Python<'_>, word: usize) -> Bound<'_, PyAny> {
    let unit = (word as isize) >> 2;
    // If memory for such a small object runs out, nothing else works either.
    Bound::new(py, Unit(unit)).map_or_else(|_| py.None().into_bound(py), Bound::into_any)
}

/// Returns the unit that an object on the value stack represents.
///
/// # Errors
/// If it does not represent a unit.
pub(crate) fn unit_of(object: &Bound<'_, PyAny>) -> PyResult<i32> {
    match object.cast_exact::<Unit>() {
        Ok(unit) => Ok(unit.get().0 as i32),
        Err(_) => object.extract(),
    }
}

/// Returns an iterator that continues a loop with an index on the value stack, above the object that it iterates over; `None` if the
/// arguments are not such a loop. The unit that raised is never directly above an object of these classes.
///
/// # Errors
/// If Python is out of memory.
pub(crate) fn loop_iterator<'py>(object: &Bound<'py, PyAny>, above: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Ok(index) = above.cast_exact::<Unit>() else { return Ok(None) };
    let is_gone_through = object.is_exact_instance_of::<PyList>()
        || object.is_exact_instance_of::<PyTuple>()
        || object.is_exact_instance_of::<PyString>()
        || object.is_exact_instance_of::<PyBytes>();
    if !is_gone_through {
        return Ok(None);
    }
    let index = index.get().0;
    // At the end of the loop, the index is -1.
    let iterator = if index < 0 { PyTuple::empty(object.py()).try_iter()? } else { object.try_iter()? };
    if index > 0 {
        iterator.call_method1(intern!(object.py(), "__setstate__"), (index,))?;
    }
    Ok(Some(iterator.into_any()))
}
