//! Imports.

use dynamlir_cpython_abi::{lazy, object, types};
use pyo3::{
    exceptions::{PyImportError, PyIndexError, PyTypeError},
    prelude::*,
    types::{PyDict, PyMapping, PyString},
};

use super::{
    abi,
    calls::optional,
    names::{lookup, namespace},
};
use crate::{Activation, Value, names::interned};

/// `import name`, `from name import fromlist`
pub fn import_name<'py>(
    frame: &Activation<'py>,
    name: &Bound<'py, PyString>,
    fromlist: &Bound<'py, PyAny>,
    level: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = frame.py();
    let import = lookup(&frame.builtins(), interned(py).import.bind(py))?.ok_or_else(|| PyImportError::new_err("__import__ not found"))?;
    let locals = frame.namespace().unwrap_or_else(|| py.None().into_bound(py));
    let args = [name.clone().into_any(), frame.globals(), locals, fromlist.clone(), level.clone()].map(Value::new);
    super::call(&import, &args, None)
}

/// `import name` that may be deferred
pub fn import_lazily<'py>(
    frame: &Activation<'py>,
    name: &Bound<'py, PyString>,
    fromlist: &Bound<'py, PyAny>,
    level: &Bound<'py, PyAny>,
    lazy: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let statement = lazy::Statement { name, fromlist, level };
    match lazy::import_name(&frame.frame, &statement, lazy)? {
        Some(imported) => Ok(imported),
        None => import_name(frame, name, fromlist, level),
    }
}

/// `from module import name` of a module whose import is deferred; `None` for a loaded module
pub fn import_from_placeholder<'py>(
    frame: &Activation<'py>,
    module: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    lazy::import_from(&frame.frame, module, name)
}

/// `from module import name`
pub fn import_from<'py>(module: &Bound<'py, PyAny>, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
    let py = module.py();
    let names = interned(py);
    if let Some(found) = optional(module.getattr(name))? {
        return Ok(found);
    }
    // A circular import may have put the submodule only into `sys.modules`.
    let package = optional(module.getattr(names.name.bind(py)))?.and_then(|package| package.cast_into::<PyString>().ok());
    if let Some(package) = &package {
        let modules = dynamlir_cpython_abi::import(py, "sys")?.getattr("modules")?;
        if let Some(found) = lookup(&modules, &PyString::new(py, &format!("{package}.{name}")))? {
            return Ok(found);
        }
    }
    let file = object::module_file(module).ok();
    let shown = match &package {
        Some(package) => package.repr()?.to_string(),
        None => "'<unknown module name>'".to_owned(),
    };
    let named = name.repr()?;
    let message = match &file {
        None => format!("cannot import name {named} from {shown} (unknown location)"),
        Some(file) if is_initializing(module)? => {
            format!("cannot import name {named} from partially initialized module {shown} (most likely due to a circular import) ({file})")
        }
        Some(file) => format!("cannot import name {named} from {shown} ({file})"),
    };
    let keywords = PyDict::new(py);
    keywords.set_item("name", package)?;
    keywords.set_item("path", file)?;
    if abi(py).import_error_has_name() {
        keywords.set_item("name_from", name)?;
    }
    let error = py.get_type::<PyImportError>().call((message,), Some(&keywords))?;
    Err(super::raise(&error, None))
}

/// Returns true if a module is still being imported.
fn is_initializing(module: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = module.py();
    let names = interned(py);
    let Some(spec) = optional(module.getattr(names.spec.bind(py)))?.filter(|spec| !spec.is_none()) else { return Ok(false) };
    match spec.getattr(names.initializing.bind(py)) {
        Ok(value) => value.is_truthy(),
        Err(_) => Ok(false),
    }
}

/// `from module import *`
pub fn import_star<'py>(frame: &Activation<'py>, module: &Bound<'py, PyAny>) -> PyResult<()> {
    let py = frame.py();
    let names = interned(py);
    let locals = namespace(frame, "no locals found during 'import *'")?;
    let listed = optional(module.getattr(names.all.bind(py)))?;
    let (all, is_listed) = match listed {
        Some(all) => (all, true),
        None => match optional(module.getattr(names.dict.bind(py)))? {
            Some(dict) => (dict.cast::<PyMapping>()?.keys()?.into_any(), false),
            None => return Err(PyImportError::new_err("from-import-* object has no __dict__ and no __all__")),
        },
    };
    for index in 0_usize.. {
        let name = match all.get_item(index) {
            Ok(name) => name,
            Err(error) if error.is_instance_of::<PyIndexError>(py) => break,
            Err(error) => return Err(error),
        };
        let Ok(name) = name.cast::<PyString>() else {
            return Err(bad_name(module, &name, is_listed)?);
        };
        if !is_listed && name.to_string_lossy().starts_with('_') {
            continue;
        }
        locals.set_item(name, module.getattr(name)?)?;
    }
    Ok(())
}

/// Returns the error for an exported name that is not a string.
fn bad_name(module: &Bound<'_, PyAny>, name: &Bound<'_, PyAny>, is_listed: bool) -> PyResult<PyErr> {
    let module_name = module.getattr(interned(module.py()).name.bind(module.py()))?;
    let Ok(module_name) = module_name.cast::<PyString>() else {
        return Ok(PyTypeError::new_err(format!("module __name__ must be a string, not {}", types::name(&module_name))));
    };
    let (what, place) = if is_listed { ("Item", "__all__") } else { ("Key", "__dict__") };
    Ok(PyTypeError::new_err(format!("{what} in {module_name}.{place} must be str, not {}", types::name(name))))
}
