//! Exception groups and `except*`.

use dynamlir_cpython_abi::{Thread, exception, types};
use pyo3::{
    exceptions::{PyBaseExceptionGroup, PyTypeError},
    prelude::*,
    types::{PyTuple, PyType},
};

use super::{abi, exceptions::check_classes};
use crate::names::interned;

/// Checks that `class` contains only classes, none of them an exception group itself.
fn check(class: &Bound<'_, PyAny>) -> PyResult<()> {
    check_classes(class)?;
    let group = class.py().get_type::<PyBaseExceptionGroup>();
    let is_group = |class: &Bound<'_, PyAny>| class.cast::<PyType>()?.is_subclass(&group);
    let mut any = false;
    match class.cast::<PyTuple>() {
        Ok(classes) => {
            for class in classes {
                any = any || is_group(&class)?;
            }
        }
        Err(_) => any = is_group(class)?,
    }
    if any {
        return Err(PyTypeError::new_err("catching ExceptionGroup with except* is not allowed. Use except instead."));
    }
    Ok(())
}

/// `except* class`: the part of an exception that the class matches, and the rest; each may be `None`.
pub fn group_match<'py>(raised: &Bound<'py, PyAny>, class: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let py = raised.py();
    check(class)?;
    let none = py.None().into_bound(py);
    if raised.is_none() {
        return Ok((none.clone(), none));
    }
    let group_class = py.get_type::<PyBaseExceptionGroup>();
    let is_group = raised.is_instance(&group_class)?;
    if exception::matches(raised, class) {
        if is_group {
            return Ok((raised.clone(), none));
        }
        let group = group_class.call1(("", PyTuple::new(py, [raised])?))?;
        // From 3.14 on, the group records where it was created.
        let newer = abi(py).version() >= (3, 14);
        if let Some(thread) = newer.then(|| Thread::current(py).ok()).flatten() {
            drop(thread.traceback_here(PyErr::from_value(group.clone())));
        }
        return Ok((group, none));
    }
    if is_group {
        let pair = raised.call_method1(interned(py).split.bind(py), (class,))?;
        let Ok(pair) = pair.cast::<PyTuple>() else {
            let (class, pair) = (types::name(raised), types::name(&pair));
            return Err(PyTypeError::new_err(format!("{class}.split must return a tuple, not {pair}")));
        };
        if pair.len() < 2 {
            let (class, count) = (types::name(raised), pair.len());
            return Err(PyTypeError::new_err(format!("{class}.split must return a 2-tuple, got tuple of size {count}")));
        }
        return Ok((pair.get_item(0)?, pair.get_item(1)?));
    }
    Ok((none, raised.clone()))
}
