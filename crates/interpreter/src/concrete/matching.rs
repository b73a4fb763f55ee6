//! Structural pattern matching.

use dynamlir_cpython_abi::types;
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PySet, PyString, PyTuple, PyType},
};

use super::{abi, calls::optional};
use crate::names::interned;

/// `case Class(…)`: the attributes that the patterns match against, as a tuple, or `None`
pub fn match_class<'py>(
    subject: &Bound<'py, PyAny>,
    class: &Bound<'py, PyAny>,
    positional: usize,
    names: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = subject.py();
    let Ok(class) = class.cast::<PyType>() else {
        return Err(PyTypeError::new_err(abi(py).no_class_in_pattern()));
    };
    let none = py.None().into_bound(py);
    if !subject.is_instance(class)? {
        return Ok(none);
    }
    let mut attributes = Attributes { subject, class, seen: PySet::empty(py)?, found: Vec::new() };
    if positional > 0 && !attributes.positional(positional)? {
        return Ok(none);
    }
    for name in names.cast::<PyTuple>()?.iter() {
        if !attributes.add(&name)? {
            return Ok(none);
        }
    }
    Ok(PyTuple::new(py, attributes.found)?.into_any())
}

/// The attributes found so far.
struct Attributes<'a, 'py> {
    subject: &'a Bound<'py, PyAny>,
    class: &'a Bound<'py, PyType>,
    seen: Bound<'py, PySet>,
    found: Vec<Bound<'py, PyAny>>,
}

impl<'py> Attributes<'_, 'py> {
    /// Adds the attributes of positional patterns; returns false if one is missing.
    fn positional(&mut self, count: usize) -> PyResult<bool> {
        let py = self.class.py();
        let shown = types::name_of(self.class);
        let listed = match optional(self.class.getattr(interned(py).match_args.bind(py)))? {
            Some(listed) => {
                let Ok(listed) = listed.cast_exact::<PyTuple>() else {
                    return Err(PyTypeError::new_err(format!("{shown}.__match_args__ must be a tuple (got {})", types::name(&listed))));
                };
                Some(listed.clone())
            }
            None => None,
        };
        // `case int(x)`: the subject itself.
        let itself = listed.is_none() && types::flags(self.class) & types::MATCH_SELF != 0;
        let listed = listed.unwrap_or_else(|| PyTuple::empty(py));
        let allowed = if itself { 1 } else { listed.len() };
        if allowed < count {
            let plural = if allowed == 1 { "" } else { "s" };
            let message = format!("{shown}() accepts {allowed} positional sub-pattern{plural} ({count} given)");
            return Err(PyTypeError::new_err(message));
        }
        if itself {
            self.found.push(self.subject.clone());
            return Ok(true);
        }
        for name in listed.iter().take(count) {
            if !name.is_exact_instance_of::<PyString>() {
                return Err(PyTypeError::new_err(format!("__match_args__ elements must be strings (got {})", types::name(&name))));
            }
            if !self.add(&name)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds one attribute; returns false if it is missing.
    fn add(&mut self, name: &Bound<'py, PyAny>) -> PyResult<bool> {
        if self.seen.contains(name)? {
            let message = format!("{}() got multiple sub-patterns for attribute {}", types::name_of(self.class), name.repr()?);
            return Err(PyTypeError::new_err(message));
        }
        self.seen.add(name)?;
        let found = optional(self.subject.getattr(name.cast::<PyString>()?))?;
        let is_found = found.is_some();
        self.found.extend(found);
        Ok(is_found)
    }
}

/// `case {key: …}`: the values that the patterns match against, as a tuple, or `None`
pub fn match_keys<'py>(subject: &Bound<'py, PyAny>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = subject.py();
    let keys = keys.cast::<PyTuple>()?;
    if keys.is_empty() {
        return Ok(PyTuple::empty(py).into_any());
    }
    // `get` with a default does not create a key, as `__getitem__` of a defaultdict would.
    let get = subject.getattr(interned(py).get.bind(py))?;
    let missing = py.get_type::<PyAny>().call0()?;
    let seen = PySet::empty(py)?;
    let mut values = Vec::with_capacity(keys.len());
    for key in keys {
        if seen.contains(&key)? {
            return Err(PyValueError::new_err(format!("mapping pattern checks duplicate key ({})", key.repr()?)));
        }
        seen.add(&key)?;
        let value = get.call1((key, &missing))?;
        if value.is(&missing) {
            return Ok(py.None().into_bound(py));
        }
        values.push(value);
    }
    Ok(PyTuple::new(py, values)?.into_any())
}
