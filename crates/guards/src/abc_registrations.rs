//! The answers of abstract base classes: `issubclass(C, A)`, where `A` also accepts the classes registered with it.
//!
//! Python counts registrations. The answers remain valid until the number changes; then they are queried again. If a user's hook answers,
//! they are queried at each call.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicU64, Ordering},
};

use dynamlir_cpython_abi::types;
use pyo3::{
    intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyFunction, PyType, PyWeakrefReference},
};

/// An answer that a capture received. See [`crate::GuardBuilder::registered`].
#[derive(Debug)]
pub(crate) struct RegistryAnswer {
    pub class: Py<PyType>,
    pub base: Py<PyAny>,
    pub expected: bool,
}

impl RegistryAnswer {
    /// Returns the answer as text.
    pub(crate) fn text(&self, py: Python<'_>) -> PyResult<String> {
        let (class, base) = (self.class.bind(py), self.base.bind(py));
        let expected = if self.expected { "True" } else { "False" };
        Ok(format!("issubclass({}, {}) is {expected}", class.name()?, base.getattr("__name__")?))
    }
}

/// The initial number of registrations at the last query, before there has been a query.
const NEVER: u64 = u64::MAX;

/// Answers, and the time of their last query.
pub(crate) struct Registered {
    answers: Vec<Held>,
    asked: AtomicU64,
    /// True if a user's hook is called. Python caches its answers, but the cache can be cleared without changing a counter.
    hooked: bool,
}

/// An answer, its classes held weakly.
struct Held {
    class: Py<PyWeakrefReference>,
    base: Py<PyWeakrefReference>,
    expected: bool,
    text: String,
}

/// Returns the number of registrations so far: `abc.get_cache_token()`. Runs no Python code.
fn count(py: Python<'_>) -> PyResult<u64> {
    static TOKEN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    dynamlir_cpython_abi::import_once(py, &TOKEN, "_abc", "get_cache_token")?.call0()?.extract()
}

/// The modules of hooks whose answers depend on the attributes of a class, which are guarded separately.
const KNOWN_HOOKS: [&str; 7] = ["_collections_abc", "collections.abc", "typing", "typing_extensions", "os", "contextlib", "importlib.abc"];

/// Returns true if a class, or one derived from it, has a user-written Python `__subclasshook__`.
fn is_hooked(base: &Bound<'_, PyAny>) -> PyResult<bool> {
    let (py, name) = (base.py(), intern!(base.py(), "__subclasshook__"));
    let below = dynamlir_cpython_abi::import(py, "builtins")?.getattr("type")?.getattr(intern!(py, "__subclasses__"))?;
    let (mut waiting, mut seen) = (vec![base.clone()], HashSet::new());
    while let Some(class) = waiting.pop() {
        let Ok(known) = class.cast::<PyType>().cloned() else { continue };
        if !seen.insert(class.as_ptr() as usize) {
            continue;
        }
        let bases = if seen.len() == 1 { types::mro(&known)? } else { vec![known] };
        for of in bases {
            let own = types::dict(&of)?;
            if !own.contains(name)? {
                continue;
            }
            if let Some(function) = own.get_item(name)?.getattr_opt(intern!(py, "__func__"))?
                && function.is_exact_instance_of::<PyFunction>()
                && !KNOWN_HOOKS.contains(&function.getattr(intern!(py, "__module__"))?.extract::<String>().unwrap_or_default().as_str())
            {
                return Ok(true);
            }
        }
        waiting.extend(below.call1((&class,))?.try_iter()?.collect::<PyResult<Vec<_>>>()?);
    }
    Ok(false)
}

impl Registered {
    /// Holds answers.
    ///
    /// # Errors
    /// If Python is out of memory.
    pub fn new(py: Python<'_>, answers: &[RegistryAnswer]) -> PyResult<Self> {
        let held = |answer: &RegistryAnswer| {
            let (class, base) = (answer.class.bind(py), answer.base.bind(py));
            Ok(Held {
                text: answer.text(py)?,
                class: PyWeakrefReference::new(class)?.unbind(),
                base: PyWeakrefReference::new(base)?.unbind(),
                expected: answer.expected,
            })
        };
        let hooked = answers.iter().try_fold(false, |hooked, answer| Ok::<_, PyErr>(hooked || is_hooked(answer.base.bind(py))?))?;
        let answers = answers.iter().map(held).collect::<PyResult<_>>()?;
        Ok(Self { answers, asked: AtomicU64::new(NEVER), hooked })
    }

    /// Returns true if there are no answers.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Returns true if there have been no registrations since the answers were last found valid.
    ///
    /// # Errors
    /// Returns an exception raised by Python.
    pub fn current(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(!self.hooked && count(py)? == self.asked.load(Ordering::Relaxed))
    }

    /// Queries all answers, and returns the first that has changed, as a predicate. May run Python code.
    ///
    /// # Errors
    /// Returns an exception raised by Python.
    pub fn changed(&self, py: Python<'_>) -> PyResult<Option<&str>> {
        // Read first: classes registered during the queries cause another query.
        let count = count(py)?;
        for held in &self.answers {
            let same = match (held.class.bind(py).upgrade_as::<PyType>()?, held.base.bind(py).upgrade()) {
                (Some(class), Some(base)) => class.is_subclass(&base)? == held.expected,
                // The class was created by the frame, which creates another one. If it had existed before, the guards of its place would
                // fail.
                _ => true,
            };
            if !same {
                return Ok(Some(&held.text));
            }
        }
        self.asked.store(count, Ordering::Relaxed);
        Ok(None)
    }

    /// Returns the answers as predicates.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.answers.iter().map(|held| held.text.as_str())
    }
}
