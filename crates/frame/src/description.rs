//! What callables are made of.

use std::sync::Arc;

use dynamlir_cpython_abi::callable::Arguments;
use pyo3::{
    prelude::*,
    types::{PyWeakrefMethods, PyWeakrefReference},
};

use crate::cache::Share;

/// A callable that is a method of one object alone, which stands for what the callable is bound to.
pub struct Method {
    /// A weak reference to the object, which has the callable.
    pub of: Py<PyAny>,
    /// What is called with the arguments of a call where the first is another object: one of its class that somebody else made.
    pub otherwise: Py<PyAny>,
}

impl Method {
    /// Returns true if the first argument of a call is the object.
    pub fn is_called(&self, arguments: Arguments<'_, '_>) -> bool {
        let of = self.of.bind(arguments.py()).cast::<PyWeakrefReference>().ok().and_then(PyWeakrefMethods::upgrade);
        arguments.positional().first().is_some_and(|first| of.is_some_and(|of| of.is(first)))
    }
}

/// What a callable is made of.
pub struct Description<'py> {
    /// The Python function whose frame is captured.
    pub function: Bound<'py, PyAny>,
    /// Arguments that it is bound to.
    pub bound: Vec<Bound<'py, PyAny>>,
    /// The object that it is a method of, if there is one.
    pub method: Option<Method>,
    /// What plain Python calls, with the same arguments.
    pub plain: Bound<'py, PyAny>,
    /// Which entries of the code's cache it uses: None for its own.
    pub share: Option<Arc<Share>>,
    /// Whether its backend is the one that a stance forces: it is used under that stance only.
    pub forced: bool,
}
