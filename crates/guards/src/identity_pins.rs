//! Objects that guards compare by identity, without keeping any of the user's objects alive.

use dynamlir_cpython_abi::{kind, types};
use dynamlir_trails::{Pin, Pins};
use pyo3::{
    intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyBytes, PyComplex, PyFloat, PyInt, PyModule, PyString, PyTuple, PyType, PyTypeMethods},
};

use crate::{Constant, GuardError};

/// An object to compare with.
pub(crate) enum Held {
    /// Held by a weak reference: its address is its identity while the guard set is valid.
    Weak(Pin),
    /// A descriptor of a built-in type, which refers only to that type; a numpy function; or a number or string.
    Strong(Py<PyAny>),
    /// An immutable object without weak references, held by its class and its parts: `property(fget, fset, fdel)`.
    Parts(Py<PyType>, Vec<(&'static str, HeldPart)>),
    /// An `operator.itemgetter`, held by its items, or a descriptor of a named tuple's field, held by its position.
    Items(Py<PyType>, Vec<HeldPart>),
}

/// A part of an object.
pub(crate) enum HeldPart {
    Object(Held),
    Value(Constant),
}

/// The way in which an object is held.
enum Plan {
    Weak,
    Strong,
    Parts(&'static [&'static str]),
    Items,
}

const HEAP_TYPE: u64 = 1 << 9;

fn plan(object: &Bound<'_, PyAny>) -> Result<Plan, GuardError> {
    let class = object.get_type();
    let refused =
        || GuardError::NotWeak(format!("an object of type {}", class.name().map_or_else(|_| "?".to_owned(), |name| name.to_string())));
    if is_leaf(object) {
        return Ok(Plan::Strong);
    }
    if kind::is_property(object) {
        return Ok(Plan::Parts(&["fget", "fset", "fdel"]));
    }
    // pybind11 puts `instancemethod` objects into its classes, and into the properties of these.
    if kind::is_static_method(object) || kind::is_class_method(object) || types::name_of(&class) == "instancemethod" {
        return Ok(Plan::Parts(&["__func__"]));
    }
    if kind::is_method(object) {
        return Ok(Plan::Parts(&["__func__", "__self__"]));
    }
    if kind::is_bound_slot(object) {
        return Ok(Plan::Parts(&["__self__", "__name__"]));
    }
    if kind::is_c_function(object) || kind::is_c_method(object) {
        // Bound methods of C are created anew by each access; functions are not.
        let is_method = types::owner_of_method(object)?.is_some();
        return Ok(if is_method { Plan::Parts(&["__self__", "__name__"]) } else { Plan::Weak });
    }
    if kind::is_class_member(object) {
        let owner = object.getattr("__objclass__")?;
        let heap = owner.getattr("__flags__")?.extract::<u64>()? & HEAP_TYPE != 0;
        return Ok(if heap { Plan::Parts(&["__objclass__", "__name__"]) } else { Plan::Strong });
    }
    if is_item_getter(object)? || is_field(object)? {
        return Ok(Plan::Items);
    }
    if class.getattr("__weakrefoffset__")?.extract::<isize>()? != 0 {
        return Ok(Plan::Weak);
    }
    if is_of_numpy(object)? { Ok(Plan::Strong) } else { Err(refused()) }
}

/// Describes an object that is held by its parts: its class and its parts, with numbers and strings as such and other objects by address.
/// Returns None for an object that is held itself.
pub(crate) fn made_of(object: &Bound<'_, PyAny>) -> Option<String> {
    let parts: Vec<_> = match plan(object).ok()? {
        Plan::Weak | Plan::Strong => return None,
        Plan::Parts(names) => names.iter().map(|name| object.getattr(*name)).collect::<PyResult<_>>().ok()?,
        Plan::Items => items(object).ok()?.iter().collect(),
    };
    let told = parts.iter().map(|part| match Constant::new(part) {
        Ok(Some(value)) => value.to_string(),
        _ => made_of(part).unwrap_or_else(|| (part.as_ptr() as usize).to_string()),
    });
    let class = types::name(object);
    Some(format!("[{}]", std::iter::once(format!("'{class}'")).chain(told).collect::<Vec<_>>().join(", ")))
}

/// Returns true for numbers and strings, which refer to nothing: one may be kept if its identity matters, and not only its value.
pub(crate) fn is_leaf(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyString>()
        || object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyComplex>()
        || object.is_exact_instance_of::<PyBytes>()
}

fn is_item_getter(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = object.py();
    Ok(object.get_type().is(dynamlir_cpython_abi::import_once(py, &CLASS, "operator", "itemgetter")?))
}

/// Returns true for the descriptor of a named tuple's field.
fn is_field(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = object.py();
    Ok(object.get_type().is(dynamlir_cpython_abi::import_once(py, &CLASS, "_collections", "_tuplegetter")?))
}

/// Returns the items of an `operator.itemgetter`, or the position of a named tuple's field descriptor. Both expose them only to `pickle`.
fn items<'py>(getter: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
    let made_of: Bound<'_, PyTuple> = getter.call_method0(intern!(getter.py(), "__reduce__"))?.get_item(1)?.cast_into()?;
    // The field's documentation follows the position.
    if is_field(getter)? { Ok(made_of.get_slice(0, 1)) } else { Ok(made_of) }
}

/// Returns true for a function that numpy exports. Those do not support weak references, and live as long as numpy does.
fn is_of_numpy(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static NUMPY: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let py = object.py();
    let class = object.get_type();
    let own = |module: &Bound<'_, PyAny>| module.extract::<&str>().is_ok_and(|name| name == "numpy" || name.starts_with("numpy."));
    if class.getattr(intern!(py, "__flags__"))?.extract::<u64>()? & HEAP_TYPE != 0
        || !class.getattr(intern!(py, "__module__")).is_ok_and(|module| own(&module))
    {
        return Ok(false);
    }
    let numpy = NUMPY.get_or_try_init(py, || dynamlir_cpython_abi::import(py, "numpy").map(Bound::unbind))?;
    let Ok(name) = object.getattr(intern!(py, "__name__")) else { return Ok(false) };
    Ok(numpy.bind(py).dict().get_item(name)?.is_some_and(|known| known.is(object)))
}

impl HeldPart {
    fn new(pins: &Pins, part: &Bound<'_, PyAny>) -> Result<Self, GuardError> {
        Ok(match Constant::new(part)? {
            Some(value) => Self::Value(value),
            None => Self::Object(Held::new(pins, part)?),
        })
    }

    fn possible(part: &Bound<'_, PyAny>) -> Result<(), GuardError> {
        if Constant::new(part)?.is_some() { Ok(()) } else { Held::possible(part) }
    }

    fn is(&self, seen: &Bound<'_, PyAny>) -> PyResult<bool> {
        match self {
            Self::Object(held) => held.is(seen),
            Self::Value(value) => value.matches(seen),
        }
    }
}

impl Held {
    /// Checks that an object can be held.
    ///
    /// # Errors
    /// If it cannot.
    pub fn possible(object: &Bound<'_, PyAny>) -> Result<(), GuardError> {
        match plan(object)? {
            Plan::Weak | Plan::Strong => Ok(()),
            Plan::Parts(names) => names.iter().try_for_each(|name| HeldPart::possible(&object.getattr(*name)?)),
            Plan::Items => items(object)?.iter().try_for_each(|item| HeldPart::possible(&item)),
        }
    }

    /// Holds an object.
    ///
    /// # Errors
    /// If that is not possible.
    pub fn new(pins: &Pins, object: &Bound<'_, PyAny>) -> Result<Self, GuardError> {
        Ok(match plan(object)? {
            Plan::Weak => Self::Weak(pins.pin(object)?),
            Plan::Strong => Self::Strong(object.clone().unbind()),
            Plan::Parts(names) => {
                let parts = names.iter().map(|name| Ok((*name, HeldPart::new(pins, &object.getattr(*name)?)?)));
                Self::Parts(object.get_type().unbind(), parts.collect::<Result<_, GuardError>>()?)
            }
            Plan::Items => {
                let parts = items(object)?.iter().map(|item| HeldPart::new(pins, &item)).collect::<Result<_, _>>()?;
                Self::Items(object.get_type().unbind(), parts)
            }
        })
    }

    /// Returns the object, unless it is dead or held by its parts only.
    pub fn get<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        match self {
            Self::Weak(pin) => pin.get(py),
            Self::Strong(held) => Some(held.bind(py).clone()),
            Self::Parts(..) | Self::Items(..) => None,
        }
    }

    /// Returns true if this is the object.
    ///
    /// # Errors
    /// Returns an exception raised by Python.
    pub fn is(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        match self {
            Self::Weak(pin) => Ok(pin.is(object)),
            Self::Strong(held) => Ok(held.is(object)),
            Self::Parts(class, parts) => {
                if !object.get_type().is(class) {
                    return Ok(false);
                }
                for (name, part) in parts {
                    if !part.is(&object.getattr(*name)?)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Items(class, parts) => {
                if !object.get_type().is(class) {
                    return Ok(false);
                }
                let items = items(object)?;
                Ok(items.len() == parts.len()
                    && items.iter().zip(parts).try_fold(true, |same, (item, part)| PyResult::Ok(same && part.is(&item)?))?)
            }
        }
    }

    /// Returns true if an equal address with a live object is sufficient proof.
    pub fn by_address(&self) -> bool {
        !matches!(self, Self::Parts(..) | Self::Items(..))
    }
}
