//! Attempts: with numbers and sizes that vary, as far as Python does not need to know them, else with constants.

use pyo3::prelude::*;

use crate::{
    run::{Broken, Captured, Ended, Manner, Subject, Tables, whole},
    sizes::Dynamic,
};

/// How often a frame is captured with numbers before its floats are all taken for constants.
pub(crate) const MOST_ATTEMPTS: usize = 6;

/// Floats that have changed are numbers of the graph, unless that is why it ends: those that Python looks at are constants from then on.
pub(crate) fn numbered(tables: &Tables, subject: Subject<'_, '_>, attempts: usize) -> Result<Result<Captured, Broken>, Ended> {
    let first = whole(tables, subject, Manner::default())?;
    let (Err(Broken { numbers, sizes, blamed, .. }), Some(floats)) = (&first, subject.floats) else { return Ok(first) };
    if numbers.is_empty() && sizes.is_empty() {
        return Ok(first);
    }
    if let Err(broken) = &first {
        tell_given_up(subject.function, broken)?;
    }
    if !blamed.is_empty() && attempts > 1 {
        for place in blamed {
            floats.specialize(place.clone());
        }
        return numbered(tables, subject, attempts - 1);
    }
    if subject.sizes == Dynamic::Declared {
        // What was declared to vary is no number.
        return Ok(first);
    }
    if !sizes.is_empty() {
        let second = numbered(tables, Subject { sizes: Dynamic::Never, ..subject }, attempts)?;
        if second.is_ok() {
            for place in sizes {
                floats.specialize(place.clone());
            }
        }
        return Ok(second);
    }
    match whole(tables, Subject { floats: None, ..subject }, Manner::default())? {
        Ok(captured) => {
            for place in numbers {
                floats.specialize(place.clone());
            }
            Ok(Ok(captured))
        }
        // They are not the reason. So it ends whatever they are.
        Err(_) => Ok(first),
    }
}

/// Logs why an attempt with sizes that vary came to nothing.
fn tell_given_up(function: &Bound<'_, PyAny>, broken: &Broken) -> PyResult<()> {
    if broken.sizes.is_empty() {
        return Ok(());
    }
    let (name, found) = (function.getattr("__qualname__")?, &broken.graph_break);
    let places = if broken.blamed.is_empty() { &broken.sizes } else { &broken.blamed };
    let session = function.py().import("dynamlir.capture.session")?;
    session.call_method1("tell_given_up", (name, places.clone(), found.reason, &found.message, found.location.clone()))?;
    Ok(())
}
