//! Ints that the program is given and that vary: an argument, an attribute, an item of a list.
//!
//! As a size, an int is a number until it is another one than for an entry before; from then on it is a symbol. Symbols are sizes of the
//! graph's inputs everywhere below. So the graph is given one more tensor, which is as long as the int says, without memory for that: what
//! knows of sizes needs to know nothing of ints. -1, 0 and 1 are numbers always, as they are for sizes. Of an int below zero the symbol is
//! what it is without its sign, and an entry for such ints takes no others: a symbol has one sign.

use dynamlir_guards::{Extent, Guard, LARGEST_SIZE, SourceId};
use dynamlir_shapes::{Dim, Dimension, Interval};
use pyo3::{prelude::*, types::PyInt};

use super::{
    class,
    input::{Dynamic, Sized},
};
use crate::state::{Capture, Outcome};

impl<'py> Capture<'py> {
    /// The size that stands for an int found at a source; None where it is none, one that has not changed, or one whose number Python needs.
    pub(crate) fn int_at(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<Option<Bound<'py, PyAny>>> {
        let (Some(floats), Ok(int)) = (&self.floats, object.cast_exact::<PyInt>()) else { return Ok(None) };
        // What Python has put into a frame between two graphs is Python's once it changes.
        let declared =
            if self.varying.how == Dynamic::Declared { self.varying.declared_int(&self.guards.expression(source)) } else { None };
        if self.varying.how == Dynamic::Never || self.progress.is_resumed() && self.is_variable(source) {
            return Ok(None);
        }
        let Some((value, length)) = int.extract::<i64>().ok().and_then(|value| Some((value, value.checked_abs()?))) else {
            return Ok(None);
        };
        let range = Interval::new(2, LARGEST_SIZE);
        if !range.contains(length) {
            return Ok(None);
        }
        let expression = self.guards.expression(source);
        if !self.varying.may_be_symbol(&expression) {
            return Ok(None);
        }
        let place = format!("{expression} as a size");
        if !floats.may_be_number(&place) || declared.is_none() && !floats.is_number(&expression, value.cast_unsigned()) {
            return Ok(None);
        }
        if let Some(known) = self.varying.int_of(self.py, source) {
            return Ok(Some(known));
        }
        let sizes = self.varying.known(self.py).bind(self.py).clone();
        let symbol = || Dim::from(sizes.get().declare(length, range));
        let length_now = declared.and_then(|line| self.varying.declared_size(self.py, line)).unwrap_or_else(symbol);
        let sized = Sized { sizes: vec![length_now.clone()], strides: vec![Dim::from(0)] };
        let made = self.ask("length", (length, &expression, self.as_lists(sized)?)).or_else(|error| self.refused_input(error))?;
        let (real, fake): (Bound<'py, PyAny>, Bound<'py, PyAny>) = made.extract()?;
        self.guards.add(source, Guard::Type(self.py.get_type::<PyInt>().into_any().unbind()));
        self.note_length(&fake, &real, source);
        self.layers.note_unrepeatable();
        let now = if value < 0 { sizes.get().made(Dim::from(0).sub(&length_now)) } else { length_now.clone() };
        let size = class::wrap(&sizes, now)?;
        let extent = if value < 0 { Extent::Negated } else { Extent::Int };
        self.varying.note_value(&expression, &value);
        self.varying.note_int(source, extent, length_now, place, &size);
        Ok(Some(size))
    }

    /// Says that the number is needed of the int at a source for which a size stands.
    pub(crate) fn blame_int(&self, source: SourceId) -> PyResult<()> {
        if let Some(size) = self.varying.int_of(self.py, source) {
            let size = class::node_of(&size)?.get().dim(self.py);
            self.blame_size(&size);
        }
        Ok(())
    }
}
