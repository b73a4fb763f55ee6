//! Classes that decide: what is caught, what `isinstance` and `issubclass` are asked about, what is raised.
//!
//! A class that is found under a name, or in a tuple of them, may be another one at the next call.

use pyo3::{exceptions::PyBaseException, prelude::*, types::PyTuple};

use crate::{
    state::{Capture, Outcome, Tracked},
    stop::reason,
};

impl<'py> Capture<'py> {
    /// A class, a tuple of classes, or a tuple of such tuples, each of which is guarded to be this one.
    pub(crate) fn classes(&self, value: &Tracked<'py>) -> Outcome<Bound<'py, PyAny>> {
        let readable = self.readable(value)?;
        if let Ok(items) = readable.cast_exact::<PyTuple>() {
            for item in items {
                self.classes(&Tracked::new(item))?;
            }
        } else if let Some(source) = self.source_of(&readable) {
            self.guard_contents(&readable, source)?;
        }
        Ok(readable)
    }

    /// `raise exception from cause`: the classes among them are guarded; an exception that existed before would be changed, since
    /// it keeps the traceback.
    pub(crate) fn raises(&self, exception: &Tracked<'py>, cause: Option<&Tracked<'py>>) -> Outcome<()> {
        if exception.object.is_instance_of::<PyBaseException>()
            && let Some(source) = self.source_of(&exception.object)
        {
            return self.stop(reason::SIDE_EFFECT, format!("raises {}, which existed before", self.guards.expression(source)));
        }
        for value in [Some(exception), cause].into_iter().flatten() {
            self.classes(value)?;
        }
        Ok(())
    }
}
