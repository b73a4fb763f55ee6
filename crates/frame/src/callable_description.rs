//! The parameters for creating a callable.

use std::sync::Arc;

use dynamlir_cpython_abi::callable::Arguments;
use pyo3::{
    prelude::*,
    types::{PyWeakrefMethods, PyWeakrefReference},
};

use crate::cache::Share;

/// A callable that is a method of one object only; that object takes the place of the arguments to which the callable is bound.
pub struct Method {
    /// A weak reference to the object that has the callable.
    pub of: Py<PyAny>,
    /// The object that is called instead when the first argument is another object: an instance of its class that other code created.
    pub otherwise: Py<PyAny>,
}

impl Method {
    /// Returns true if the first argument of a call is the object.
    pub fn is_called(&self, arguments: Arguments<'_, '_>) -> bool {
        let of = self.of.bind(arguments.py()).cast::<PyWeakrefReference>().ok().and_then(PyWeakrefMethods::upgrade);
        arguments.positional().first().is_some_and(|first| of.is_some_and(|of| of.is(first)))
    }
}

/// The parameters for creating a callable.
pub struct Description<'py> {
    /// The Python function whose frame is captured.
    pub function: Bound<'py, PyAny>,
    /// The arguments to which it is bound.
    pub bound: Vec<Bound<'py, PyAny>>,
    /// The object whose method it is, if any.
    pub method: Option<Method>,
    /// The object that plain Python calls, with the same arguments.
    pub plain: Bound<'py, PyAny>,
    /// The entries of the code's cache that it uses; None for its own.
    pub share: Option<Arc<Share>>,
    /// True if its backend is the one that a stance forces; the callable is then used under that stance only.
    pub forced: bool,
}
