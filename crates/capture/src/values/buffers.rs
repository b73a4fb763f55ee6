//! Numbers in the buffers of modules, such as a codec's kernel sizes, and values computed from them, which the program reads.
//!
//! A buffer of one integer or bool that has not changed so far is expected to stay constant: when the program asks, the session computes
//! the values that follow from it (`dynamlir.module_buffers`), and its contents are guarded. A buffer that has changed from one entry to the next
//! is read when the graph runs, or breaks it, like any other tensor.

use dynamlir_guards::{Contents, Guard, ModuleTable, Source, SourceId};
use pyo3::{exceptions::PyRuntimeError, prelude::*};

use crate::{floors::Numbers, graph_break::Outcome};

impl<'py> Numbers<'py> {
    /// Notifies the session about a new input that is a buffer whose contents the program may read.
    pub(crate) fn note_buffer(&self, fake: &Bound<'py, PyAny>, real: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        let Some(floats) = self.history.as_ref().filter(|_| !self.sizes.is_declared()) else { return Ok(()) };
        if !matches!(self.guards.get(source), Source::Member(_, ModuleTable::Buffers, _)) {
            return Ok(());
        }
        let contents = self.guarded(dynamlir_interpreter::suspended(|| Contents::of(real)))?;
        let expression = self.guards.expression(source);
        if contents.is_some_and(|contents| !floats.is_number(&contents.place(&expression), contents.number().cast_unsigned())) {
            self.recorder().note_buffer(fake, real)?;
            self.tensors.note_buffer();
        }
        Ok(())
    }

    /// Returns the number of times that the program has read buffers. A module call that reads buffers cannot be repeated for another
    /// module, which has its own.
    pub(crate) fn count_of_buffers_read(&self) -> PyResult<usize> {
        if self.tensors.has_buffers() { self.recorder().buffers_read()?.len() } else { Ok(0) }
    }

    /// Guards the contents of the buffers that the program has read.
    pub(crate) fn guard_buffers(&self) -> PyResult<()> {
        if !self.tensors.has_buffers() {
            return Ok(());
        }
        for fake in self.recorder().buffers_read()?.try_iter()? {
            // An abandoned attempt may have read other buffers.
            let Some((real, source)) = self.real_of(&fake?) else { continue };
            let contents = dynamlir_interpreter::suspended(|| Contents::of(&real));
            let contents = contents.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
            let contents = contents.ok_or_else(|| PyRuntimeError::new_err("a buffer has become another one"))?;
            self.guards.add(source, Guard::Contents(contents));
        }
        Ok(())
    }
}
