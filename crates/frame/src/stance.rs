//! The current `torch.compiler.set_stance`, for all compiled callables and threads.
//!
//! Torch keeps the stance in a global of `torch._dynamo.eval_frame`, which is replaced as a whole. While that module has not been imported,
//! the stance is the default; the module is not imported just for this query. A default stance is remembered as the state of the dict that
//! shows it: `sys.modules` without the module, or the module's own dict. A call compares that state, and looks again only if it differs.
//!
//! `skip_guard_eval_unsafe` requests fewer guards; ours are all checked nevertheless.

use std::sync::{Mutex, PoisonError};

use dynamlir_cpython_abi::{
    Abi,
    mapping::{Unchanged, imported, modules},
};
use pyo3::{
    exceptions::PyRuntimeError,
    intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyModule},
};

/// The behavior that the stance allows a call.
pub(crate) enum Stance<'py> {
    /// The behavior without a stance.
    Default,
    /// The default behavior, compiled by this backend instead of the callable's own.
    Backend(Bound<'py, PyAny>),
    /// Plain Python.
    Eager,
    /// Use entries, but create none: plain Python on a miss.
    EagerOnMiss,
    /// Use entries, but create none: an error on a miss.
    FailOnMiss,
    /// Plain Python at the first miss, entries from the second on.
    EagerFirst,
}

/// The state of the dict that shows the stance to be the default.
static DEFAULT: Unchanged = Unchanged::new();
/// The latest default stance. It is found again when a different name of the dict changed, or if dicts have no version.
static OBJECT: Mutex<Option<Py<PyAny>>> = Mutex::new(None);

impl<'py> Stance<'py> {
    /// Returns the current stance.
    ///
    /// # Errors
    /// If torch does not know its name; torch accepts any name, and reports it at the next call.
    #[inline]
    pub fn now(py: Python<'py>, abi: &'static Abi) -> PyResult<Self> {
        if DEFAULT.holds(py) { Ok(Self::Default) } else { Self::look(py, abi) }
    }

    #[cold]
    fn look(py: Python<'py>, abi: &'static Abi) -> PyResult<Self> {
        static NAMES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
        if let Some(names) = NAMES.get(py) {
            return Self::read(names.bind(py), abi);
        }
        let Some(module) = imported(py, intern!(py, "torch._dynamo.eval_frame"))? else {
            DEFAULT.remember(abi, &modules(py), intern!(py, "torch._dynamo.eval_frame"));
            return Ok(Self::Default);
        };
        // A module that is still being imported has no stance yet; an object that is not a module was put there by other code.
        let names = module.cast_into::<PyModule>().map(|module| module.dict()).ok();
        match names.filter(|names| names.contains(intern!(py, "_stance")).unwrap_or(false)) {
            Some(names) => Self::read(NAMES.get_or_init(py, || names.unbind()).bind(py), abi),
            None => Ok(Self::Default),
        }
    }

    /// Reads the stance from the module's names.
    fn read(names: &Bound<'py, PyDict>, abi: &'static Abi) -> PyResult<Self> {
        let py = names.py();
        let Some(stance) = names.get_item(intern!(py, "_stance"))? else { return Ok(Self::Default) };
        let latest = || OBJECT.lock().unwrap_or_else(PoisonError::into_inner);
        if latest().as_ref().is_some_and(|known| known.is(&stance)) {
            DEFAULT.remember(abi, names, intern!(py, "_stance"));
            return Ok(Self::Default);
        }
        let backend = stance.getattr(intern!(py, "backend"))?;
        match stance.getattr(intern!(py, "stance"))?.extract::<std::borrow::Cow<'_, str>>().as_deref() {
            Ok("default") if backend.is_none() => {
                let former = latest().replace(stance.unbind());
                drop(former);
                DEFAULT.remember(abi, names, intern!(py, "_stance"));
                Ok(Self::Default)
            }
            Ok("default") => Ok(Self::Backend(backend)),
            Ok("force_eager") => Ok(Self::Eager),
            Ok("eager_on_recompile") => Ok(Self::EagerOnMiss),
            Ok("fail_on_recompile") => Ok(Self::FailOnMiss),
            // "aot_eager" would only save memory for gradients in the first call, and gradients are not recorded here.
            Ok("eager_then_compile" | "aot_eager_then_compile") => Ok(Self::EagerFirst),
            _ => Err(PyRuntimeError::new_err(format!("invalid torch.compile stance '{stance}'"))),
        }
    }
}
