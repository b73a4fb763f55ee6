//! Numbers in the buffers of modules, such as a codec's kernel sizes, that the program reads from what it computes of them.
//!
//! A buffer of one integer, or bool, that has not changed so far is expected to stay as it is: the session computes what follows from
//! it when the program asks (`dynamlir.buffers`), and its contents are guarded then. One that has changed from one entry to the next is
//! read when the graph runs, or breaks it, like any other tensor.

use dynamlir_guards::{Contents, Guard, ModuleTable, Source, SourceId};
use pyo3::{exceptions::PyRuntimeError, prelude::*};

use crate::state::{Capture, Outcome};

impl<'py> Capture<'py> {
    /// Tells the session of a new input that is a buffer whose contents the program may read.
    pub(crate) fn note_buffer(&self, fake: &Bound<'py, PyAny>, real: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        let Some(floats) = self.floats.as_ref().filter(|_| !self.varying.is_declared()) else { return Ok(()) };
        if !matches!(self.guards.get(source), Source::Member(_, ModuleTable::Buffers, _)) {
            return Ok(());
        }
        let contents = self.guarded(dynamlir_interpreter::suspended(|| Contents::of(real)))?;
        let expression = self.guards.expression(source);
        if contents.is_some_and(|contents| !floats.is_number(&contents.place(&expression), contents.number().cast_unsigned())) {
            let recorder = self.session().getattr("recorder")?;
            dynamlir_interpreter::suspended(|| recorder.getattr("buffers")?.call_method1("note", (&recorder, fake, real)))?;
            self.tensors.note_buffer();
        }
        Ok(())
    }

    /// The number of times that the program has read buffers. A call of another module that reads its own cannot be repeated from this one.
    pub(crate) fn count_of_buffers_read(&self) -> PyResult<usize> {
        if self.tensors.has_buffers() { self.buffers_read()?.len() } else { Ok(0) }
    }

    /// The stand-ins of the buffers that the program has read, as often as it has.
    fn buffers_read(&self) -> PyResult<Bound<'py, PyAny>> {
        dynamlir_interpreter::suspended(|| self.session().getattr("recorder")?.getattr("buffers")?.getattr("read"))
    }

    /// Guards the contents of the buffers that the program has read.
    pub(crate) fn guard_buffers(&self) -> PyResult<()> {
        if !self.tensors.has_buffers() {
            return Ok(());
        }
        for fake in self.buffers_read()?.try_iter()? {
            // An attempt that was given up may have read others.
            let Some((real, source)) = self.real_of(&fake?) else { continue };
            let contents = dynamlir_interpreter::suspended(|| Contents::of(&real));
            let contents = contents.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
            let contents = contents.ok_or_else(|| PyRuntimeError::new_err("a buffer has become another one"))?;
            self.guards.add(source, Guard::Contents(contents));
        }
        Ok(())
    }
}
