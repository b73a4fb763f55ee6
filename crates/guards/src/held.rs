//! Objects that guards compare by identity, without keeping anything of the user's alive.

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
    /// By a weak reference: its address is its identity while the guard set is valid.
    Weak(Pin),
    /// A descriptor of a built-in type, which refers to nothing but that type, a function of numpy's, or a number or text.
    Strong(Py<PyAny>),
    /// An immutable object without weak references, by its class and by what it is made of: `property(fget, fset, fdel)`.
    Parts(Py<PyType>, Vec<(&'static str, Part)>),
    /// An `operator.itemgetter` by its items, or a descriptor of a named tuple's field by its position.
    Items(Py<PyType>, Vec<Part>),
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
    // The last is what pybind11 puts into its classes, and into the properties of these.
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
        // Bound methods of C are made anew by each access, functions are not.
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

/// The class of an object that is held by what it is made of, and its parts: numbers and text as such, other objects by their addresses.
/// None for an object that is held itself.
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

/// Returns true for numbers and text, which refer to nothing: one may be kept where its identity counts, and not only its value.
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

/// The items of an `operator.itemgetter`, and the position that a descriptor of a named tuple's field stands for: both show them to
/// `pickle` alone.
fn items<'py>(getter: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
    let made_of: Bound<'_, PyTuple> = getter.call_method0(intern!(getter.py(), "__reduce__"))?.get_item(1)?.cast_into()?;
    // After the position there is the field's documentation.
    if is_field(getter)? { Ok(made_of.get_slice(0, 1)) } else { Ok(made_of) }
}

/// Whether this is a function that numpy exports. Those take no weak references, and live as long as numpy does.
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

impl Part {
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
    /// Whether an object can be held.
    ///
    /// # Errors
    /// When it cannot.
    pub fn possible(object: &Bound<'_, PyAny>) -> Result<(), GuardError> {
        match plan(object)? {
            Plan::Weak | Plan::Strong => Ok(()),
            Plan::Parts(names) => names.iter().try_for_each(|name| Part::possible(&object.getattr(*name)?)),
            Plan::Items => items(object)?.iter().try_for_each(|item| Part::possible(&item)),
        }
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
                let parts = names.iter().map(|name| Ok((*name, Part::new(pins, &object.getattr(*name)?)?)));
                Self::Parts(object.get_type().unbind(), parts.collect::<Result<_, GuardError>>()?)
            }
            Plan::Items => {
                let parts = items(object)?.iter().map(|item| Part::new(pins, &item)).collect::<Result<_, _>>()?;
                Self::Items(object.get_type().unbind(), parts)
            }
        })
    }

    /// The object, unless it is dead or known by its parts only.
    pub fn get<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        match self {
            Self::Weak(pin) => pin.get(py),
            Self::Strong(held) => Some(held.bind(py).clone()),
            Self::Parts(..) | Self::Items(..) => None,
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

    /// Whether an equal address, at which something is alive, is proof enough.
    pub fn by_address(&self) -> bool {
        !matches!(self, Self::Parts(..) | Self::Items(..))
    }
}
