//! Looking names up as classes do, without running code.

use dynamlir_cpython_abi::{kind, types};
use pyo3::{
    prelude::*,
    types::{PyAny, PyDict, PyFunction, PyString, PyType},
};

use crate::graph_break::{GraphBreak, Halt, Outcome, reason};

/// `Py_TPFLAGS_IMMUTABLETYPE`
const IMMUTABLE: std::ffi::c_ulong = 1 << 8;

/// Returns true if attributes of a class cannot be set, as for C classes.
pub(crate) fn is_immutable(class: &Bound<'_, PyType>) -> bool {
    types::flags(class) & IMMUTABLE != 0
}

/// Returns true if a `__getattribute__` is that of `object`, or of another C class that looks attributes up in the same way.
pub(crate) fn is_generic(own: &Bound<'_, PyAny>) -> bool {
    let class = || own.getattr("__objclass__").ok()?.cast_into::<PyType>().ok();
    kind::is_slot_wrapper(own) && class().is_some_and(|class| types::has_generic_attributes(&class))
}

/// Returns true if Python code may set attributes of a class.
pub(crate) fn is_changeable(class: &Bound<'_, PyType>) -> bool {
    const IMMUTABLE_TYPE: std::ffi::c_ulong = 1 << 8;
    const HEAP_TYPE: std::ffi::c_ulong = 1 << 9;
    types::flags(class) & (HEAP_TYPE | IMMUTABLE_TYPE) == HEAP_TYPE
}

/// An entry of a class under a name, by the way it binds.
pub(crate) enum ClassAttr<'py> {
    Missing,
    /// A data descriptor: takes precedence over the instance's value.
    Data(Bound<'py, PyAny>),
    /// A Python function: becomes a bound method.
    Function(Bound<'py, PyAny>),
    /// A descriptor that binds by its own code.
    Descriptor(Bound<'py, PyAny>),
    Plain(Bound<'py, PyAny>),
}

/// A name as Rust text.
pub(crate) fn text(name: &Bound<'_, PyString>) -> Outcome<String> {
    let text = name.to_str().map_err(|error| {
        // A name that is not valid UTF-8 cannot have a source.
        let (message, location) = (error.to_string(), Vec::new());
        Halt::Break(GraphBreak { reason: reason::UNGUARDABLE, message, location })
    });
    text.map(str::to_owned)
}

/// Returns the attribute that a class finds under a name along its MRO, unbound.
pub(crate) fn lookup<'py>(class: &Bound<'py, PyType>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let name = PyString::intern(class.py(), name);
    for base in types::mro(class)? {
        // Tested first: a miss of `[]` raises an exception, which takes longer than everything else here.
        let dict = types::dict(&base)?;
        if dict.contains(&name)? {
            return dict.get_item(&name).map(Some);
        }
    }
    Ok(None)
}

pub(crate) fn classify<'py>(class: &Bound<'py, PyType>, name: &str) -> PyResult<ClassAttr<'py>> {
    let Some(found) = lookup(class, name)? else { return Ok(ClassAttr::Missing) };
    let kind = found.get_type();
    if found.is_exact_instance_of::<PyFunction>() {
        return Ok(ClassAttr::Function(found));
    }
    if lookup(&kind, "__get__")?.is_none() {
        return Ok(ClassAttr::Plain(found));
    }
    let data = lookup(&kind, "__set__")?.is_some() || lookup(&kind, "__delete__")?.is_some();
    Ok(if data { ClassAttr::Data(found) } else { ClassAttr::Descriptor(found) })
}

/// The dictionary of an instance, without running its class's code.
pub(crate) fn instance_dict<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyDict>> {
    let generic = object.py().get_type::<PyAny>().getattr("__getattribute__").ok()?;
    generic.call1((object, "__dict__")).ok()?.cast_into::<PyDict>().ok()
}
