//! Objects that guards compare by identity, without keeping anything of the user's alive.

use dynamlir_cpython_abi::{
    kind,
    objects::{Pin, Pins},
};
use pyo3::{
    prelude::*,
    types::{PyType, PyTypeMethods},
};

use crate::{Constant, GuardError};

/// An object to compare with.
pub(crate) enum Held {
    /// By a weak reference: its address is its identity while the guard set is valid.
    Weak(Pin),
    /// A descriptor of a built-in type, which refers to nothing but that type.
    Strong(Py<PyAny>),
    /// An immutable object without weak references, by its class and by what it is made of: `property(fget, fset, fdel)`.
    Parts(Py<PyType>, Vec<(&'static str, Part)>),
}

/// What an object is made of.
pub(crate) enum Part {
    Object(Held),
    Value(Constant),
}

/// How an object is held.
enum Plan {
    Weak,
    Strong,
    Parts(&'static [&'static str]),
}

const HEAP_TYPE: u64 = 1 << 9;

fn plan(object: &Bound<'_, PyAny>) -> Result<Plan, GuardError> {
    let class = object.get_type();
    let refused =
        || GuardError::NotWeak(format!("an object of type {}", class.name().map_or_else(|_| "?".to_owned(), |name| name.to_string())));
    if kind::is_property(object) {
        return Ok(Plan::Parts(&["fget", "fset", "fdel"]));
    }
    if kind::is_static_method(object) || kind::is_class_method(object) {
        return Ok(Plan::Parts(&["__func__"]));
    }
    if kind::is_method(object) {
        return Ok(Plan::Parts(&["__func__", "__self__"]));
    }
    if kind::is_bound_slot(object) {
        return Ok(Plan::Parts(&["__self__", "__name__"]));
    }
    if kind::is_c_function(object) || kind::is_c_method(object) {
        // Bound methods of C are made anew by each access, functions of modules are not.
        let owner = object.getattr("__self__")?;
        let of_module = owner.is_none() || owner.is_instance_of::<PyModule>();
        return Ok(if of_module { Plan::Weak } else { Plan::Parts(&["__self__", "__name__"]) });
    }
    if kind::is_class_member(object) {
        let owner = object.getattr("__objclass__")?;
        let heap = owner.getattr("__flags__")?.extract::<u64>()? & HEAP_TYPE != 0;
        return Ok(if heap { Plan::Parts(&["__objclass__", "__name__"]) } else { Plan::Strong });
    }
    if class.getattr("__weakrefoffset__")?.extract::<isize>()? == 0 { Err(refused()) } else { Ok(Plan::Weak) }
}

impl Held {
    /// Whether an object can be held.
    ///
    /// # Errors
    /// When it cannot.
    pub fn possible(object: &Bound<'_, PyAny>) -> Result<(), GuardError> {
        let Plan::Parts(names) = plan(object)? else { return Ok(()) };
        for name in names {
            let part = object.getattr(*name)?;
            if Constant::new(&part)?.is_none() {
                Self::possible(&part)?;
            }
        }
        Ok(())
    }

    /// Holds an object.
    ///
    /// # Errors
    /// When that is not possible.
    pub fn new(pins: &Pins, object: &Bound<'_, PyAny>) -> Result<Self, GuardError> {
        Ok(match plan(object)? {
            Plan::Weak => Self::Weak(pins.pin(object)?),
            Plan::Strong => Self::Strong(object.clone().unbind()),
            Plan::Parts(names) => {
                let mut parts = Vec::new();
                for name in names {
                    let part = object.getattr(*name)?;
                    let part = match Constant::new(&part)? {
                        Some(value) => Part::Value(value),
                        None => Part::Object(Self::new(pins, &part)?),
                    };
                    parts.push((*name, part));
                }
                Self::Parts(object.get_type().unbind(), parts)
            }
        })
    }

    /// The object, unless it is dead or known by its parts only.
    pub fn get<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        match self {
            Self::Weak(pin) => pin.get(py),
            Self::Strong(held) => Some(held.bind(py).clone()),
            Self::Parts(..) => None,
        }
    }

    /// Whether this is the object.
    ///
    /// # Errors
    /// What Python raised.
    pub fn is(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        match self {
            Self::Weak(pin) => Ok(pin.is(object)),
            Self::Strong(held) => Ok(held.is(object)),
            Self::Parts(class, parts) => {
                if !object.get_type().is(class) {
                    return Ok(false);
                }
                for (name, part) in parts {
                    let seen = object.getattr(*name)?;
                    let same = match part {
                        Part::Object(held) => held.is(&seen)?,
                        Part::Value(value) => value.matches(&seen)?,
                    };
                    if !same {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    /// Whether an equal address, at which something is alive, is proof enough.
    pub fn by_address(&self) -> bool {
        !matches!(self, Self::Parts(..))
    }
}
