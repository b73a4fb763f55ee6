//! What abstract base classes answered: `issubclass(C, A)`, where `A` counts among its own what is registered with it.
//!
//! Python counts registrations. Until the number changes, what was answered holds; then the questions are asked again. Where a hook of the
//! user's answers, they are asked at each call.

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

/// An answer that a capture got. See [`crate::GuardBuilder::registered`].
#[derive(Debug)]
pub(crate) struct Answer {
    pub class: Py<PyType>,
    pub base: Py<PyAny>,
    pub expected: bool,
}

impl Answer {
    /// It in words.
    pub(crate) fn text(&self, py: Python<'_>) -> PyResult<String> {
        let (class, base) = (self.class.bind(py), self.base.bind(py));
        let expected = if self.expected { "True" } else { "False" };
        Ok(format!("issubclass({}, {}) is {expected}", class.name()?, base.getattr("__name__")?))
    }
}

/// The number of registrations that the answers were last asked at, before there is one.
const NEVER: u64 = u64::MAX;

/// Answers, and when they were last asked.
pub(crate) struct Registered {
    answers: Vec<Held>,
    asked: AtomicU64,
    /// True if a hook of the user's is asked. Python caches its answers, but the cache can be cleared, which changes no counter.
    hooked: bool,
}

/// An answer, its classes held weakly.
struct Held {
    class: Py<PyWeakrefReference>,
    base: Py<PyWeakrefReference>,
    expected: bool,
    text: String,
}

/// How many registrations there have been: `abc.get_cache_token()`. Runs no Python code.
fn count(py: Python<'_>) -> PyResult<u64> {
    static TOKEN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    dynamlir_cpython_abi::import_once(py, &TOKEN, "_abc", "get_cache_token")?.call0()?.extract()
}

/// Where hooks are that answer by what a class has, which is guarded by itself.
const KNOWN_HOOKS: [&str; 7] = ["_collections_abc", "collections.abc", "typing", "typing_extensions", "os", "contextlib", "importlib.abc"];

/// Returns true if a class, or one that is derived from it, has a `__subclasshook__` that somebody has written in Python.
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
    /// When Python is out of memory.
    pub fn new(py: Python<'_>, answers: &[Answer]) -> PyResult<Self> {
        let held = |answer: &Answer| {
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

    /// Whether nothing was asked.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Whether there have been no registrations since the answers were found to hold.
    ///
    /// # Errors
    /// What Python raised.
    pub fn current(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(!self.hooked && count(py)? == self.asked.load(Ordering::Relaxed))
    }

    /// The first answer that is another one now, as a predicate. Asks them all, which may run Python code.
    ///
    /// # Errors
    /// What Python raised.
    pub fn changed(&self, py: Python<'_>) -> PyResult<Option<&str>> {
        // Read first: what is registered while we ask is asked about again.
        let count = count(py)?;
        for held in &self.answers {
            let same = match (held.class.bind(py).upgrade_as::<PyType>()?, held.base.bind(py).upgrade()) {
                (Some(class), Some(base)) => class.is_subclass(&base)? == held.expected,
                // The frame made it, and makes another; had it been there before, the guards of where it was would fail.
                _ => true,
            };
            if !same {
                return Ok(Some(&held.text));
            }
        }
        self.asked.store(count, Ordering::Relaxed);
        Ok(None)
    }

    /// The answers as predicates.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.answers.iter().map(|held| held.text.as_str())
    }
}
