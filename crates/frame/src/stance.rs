//! What `torch.compiler.set_stance` says now, of all compiled callables and threads.
//!
//! Torch keeps the stance in a global of `torch._dynamo.eval_frame`, which is exchanged as a whole. While nobody has imported that
//! module the stance is the default; it is not imported for being asked. That the stance is the default is remembered as the state
//! of the dict that says so: `sys.modules` without the module, or the module's own. A call compares that, and looks again only
//! where it differs.
//!
//! `skip_guard_eval_unsafe` asks for fewer guards: ours are all checked all the same.

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

/// What a call may do.
pub(crate) enum Stance<'py> {
    /// What it does without a stance.
    Default,
    /// As by default, compiled by this backend instead of its own.
    Backend(Bound<'py, PyAny>),
    /// Plain Python.
    Eager,
    /// Use entries, but make none: plain Python where none fits.
    EagerOnMiss,
    /// Use entries, but make none: an error where none fits.
    FailOnMiss,
    /// Plain Python at the first miss, entries from the second on.
    EagerFirst,
}

/// The state of the dict that says that the stance is the default.
static DEFAULT: Unchanged = Unchanged::new();
/// The latest default stance: what looking again finds, if it was another name of the dict that changed, or dicts have no version.
static OBJECT: Mutex<Option<Py<PyAny>>> = Mutex::new(None);

impl<'py> Stance<'py> {
    /// The stance now.
    ///
    /// # Errors
    /// When it has a name that torch does not know; torch accepts any, and says so at the next call.
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
        // A module that is still being imported has no stance yet; one that is none was put there by somebody.
        let names = module.cast_into::<PyModule>().map(|module| module.dict()).ok();
        match names.filter(|names| names.contains(intern!(py, "_stance")).unwrap_or(false)) {
            Some(names) => Self::read(NAMES.get_or_init(py, || names.unbind()).bind(py), abi),
            None => Ok(Self::Default),
        }
    }

    /// The stance that the module's names say.
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
            // What "aot_eager" would save the first call is memory for gradients, which are not recorded here.
            Ok("eager_then_compile" | "aot_eager_then_compile") => Ok(Self::EagerFirst),
            _ => Err(PyRuntimeError::new_err(format!("invalid torch.compile stance '{stance}'"))),
        }
    }
}
