//! Functions that are called where Python runs between graphs: which are compiled like their caller, and which are not.

use std::sync::{Arc, Weak};

use dynamlir_cpython_abi::{Frame, Owner, kind};
use pyo3::{
    intern,
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};

use crate::{cache::Cache, callable::Callable};

/// The form of [`Called`] that the code's own cache stores: it must not keep alive an object that keeps the code alive.
#[derive(Clone)]
pub(crate) enum Noted {
    /// See [`Called::Plain`].
    Plain,
    /// See [`Called::Alone`].
    Alone,
    /// See [`Called::This`]; valid as long as the caller lives.
    This(Weak<Callable>),
}

/// The decision about a code object that a compiled function calls.
pub(crate) enum Called {
    /// CPython runs it.
    Plain,
    /// CPython runs it, and everything that it calls.
    Alone,
    /// It is compiled.
    This(Arc<Callable>),
}

/// The number of items of a container that are inspected.
const LOOKED_AT: usize = 8;

/// Decides about a frame called from one of `root`'s, before its first instruction. `concerns_us`: its arguments need not be inspected.
pub(crate) fn called(root: &Callable, frame: &Frame<'_>, concerns_us: bool) -> PyResult<Called> {
    let py = frame.py();
    if frame.owner() != Owner::Thread || frame.next_unit() != 0 {
        return Ok(Called::Plain);
    }
    let (Some(function), Some(code)) = (frame.function().filter(kind::is_function), frame.code()) else { return Ok(Called::Plain) };
    let cache = Cache::of(root.abi(), &code);
    match cache.called(root.key()) {
        Some(Noted::Plain) => return Ok(Called::Plain),
        Some(Noted::Alone) => return Ok(Called::Alone),
        Some(Noted::This(callable)) => {
            if let Some(callable) = callable.upgrade() {
                return Ok(Called::This(callable));
            }
        }
        None => {}
    }
    let is_marked = |name| function.getattr_opt(name).is_ok_and(|mark| mark.is_some_and(|mark| mark.is_truthy().unwrap_or(false)));
    let called = if is_marked(intern!(py, "_torchdynamo_disable")) {
        Called::Alone
    } else {
        let mut arguments = (0..frame.locals_count()).filter_map(|slot| frame.local(slot));
        if !concerns_us && !arguments.any(|argument| concerns(root, &argument)) {
            // It may be called with other arguments later.
            return Ok(Called::Plain);
        }
        root.share().callee(code.as_ptr() as usize, || root.compiler().called(&function))?.map_or(Called::Plain, Called::This)
    };
    cache.note_called(
        root.key(),
        match &called {
            Called::Plain => Noted::Plain,
            Called::Alone => Noted::Alone,
            Called::This(callable) => Noted::This(Arc::downgrade(callable)),
        },
    );
    Ok(called)
}

/// Returns true if an argument, or an item of one, is a reason to compile the callee.
fn concerns(root: &Callable, argument: &Bound<'_, PyAny>) -> bool {
    let compiler = root.compiler();
    let any = |items: &mut dyn Iterator<Item = Bound<'_, PyAny>>| items.take(LOOKED_AT).any(|item| compiler.concerns(&item));
    if let Ok(items) = argument.cast_exact::<PyTuple>() {
        any(&mut items.iter())
    } else if let Ok(items) = argument.cast_exact::<PyList>() {
        any(&mut items.iter())
    } else if let Ok(items) = argument.cast_exact::<PyDict>() {
        any(&mut items.iter().map(|(_, item)| item))
    } else {
        compiler.concerns(argument)
    }
}
