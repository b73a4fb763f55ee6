//! Dynamic ints among the program's inputs: an argument, an attribute, an item of a list.
//!
//! Like a size, an int is static until it differs from that of an earlier entry; from then on it is a symbol. Everywhere below, symbols are
//! sizes of the graph's inputs. So the graph gets an additional tensor, whose length is the int and which does not use memory for that:
//! code that handles sizes does not have to handle ints. -1, 0 and 1 are always static, as they are for sizes. For a negative int, the
//! symbol is its absolute value, and an entry for such ints accepts only negative ones: a symbol has one sign.

use dynamlir_guards::{Extent, Guard, SourceId};
use dynamlir_shapes::{Dim, Dimension, Interval, LARGEST_SIZE};
use dynamlir_symint::sym_int;
use pyo3::{prelude::*, types::PyInt};

use crate::{floors::Numbers, graph_break::Outcome, state::dynamic_sizes::Dynamic, values::sizes::inputs::Sized};

impl<'py> Numbers<'py> {
    /// Returns the size that represents an int found at a source; `None` if the object is not an int, has not changed, or if Python needs
    /// its number.
    pub(crate) fn int_at(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<Option<Bound<'py, PyAny>>> {
        let (Some(floats), Ok(int)) = (&self.history, object.cast_exact::<PyInt>()) else { return Ok(None) };
        // An int that Python has stored in a variable between two graphs stays with Python once it changes.
        let declared = if self.sizes.how == Dynamic::Declared { self.sizes.declared_int(&self.guards.expression(source)) } else { None };
        if self.sizes.how == Dynamic::Never || self.progress.is_resumed() && self.is_variable(source) {
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
        if !self.sizes.may_be_symbol(&expression) {
            return Ok(None);
        }
        let place = format!("{expression} as a size");
        if !floats.may_be_number(&place) || declared.is_none() && !floats.is_number(&expression, value.cast_unsigned()) {
            return Ok(None);
        }
        if let Some(known) = self.sizes.int_of(self.py, source) {
            return Ok(Some(known));
        }
        let sizes = self.sizes.known(self.py).bind(self.py).clone();
        let symbol = || Dim::from(sizes.get().declare(length, range));
        let length_now = declared.and_then(|line| self.sizes.declared_size(self.py, line)).unwrap_or_else(symbol);
        let sized = Sized { sizes: vec![length_now.clone()], strides: vec![Dim::from(0)] };
        let made = self.recorder().length(length, &expression, self.as_lists(sized)?);
        let (real, fake) = made.or_else(|error| self.refused_input(error))?;
        self.guards.add(source, Guard::Type(self.py.get_type::<PyInt>().into_any().unbind()));
        self.note_length(&fake, &real, source);
        self.layers.note_unrepeatable();
        let now = if value < 0 { sizes.get().made(Dim::from(0).sub(&length_now)) } else { length_now.clone() };
        let size = sym_int::wrap(&sizes, now)?;
        let extent = if value < 0 { Extent::Negated } else { Extent::Int };
        self.sizes.note_value(&expression, &value);
        self.sizes.note_int(source, extent, length_now, place, &size);
        Ok(Some(size))
    }

    /// Records that Python needs the number of the int at a source, if a size represents it.
    pub(crate) fn blame_int(&self, source: SourceId) -> PyResult<()> {
        if let Some(size) = self.sizes.int_of(self.py, source) {
            let size = sym_int::node_of(&size)?.get().dim(self.py);
            self.blame_size(&size);
        }
        Ok(())
    }
}
