//! Recipes that compute sizes at a call, from the sizes of its tensors.

use dynamlir_frame::{Made, Measured, Recipe};
use dynamlir_symint::{is_size, node_of};
use pyo3::{
    prelude::*,
    types::{PySlice, PyTuple},
};

use crate::{
    floors::Recipes,
    graph_break::{Halt, Outcome, reason},
    objects::Tracked,
    state::outputs::Outputs,
};

impl<'py> Recipes<'py> {
    /// Returns the recipe for a size, or for a `torch.Size` or slice of sizes; `None` for anything else.
    pub(crate) fn size_recipe(&self, object: &Bound<'py, PyAny>, outputs: &mut Outputs<'py>) -> Outcome<Option<Recipe>> {
        if !self.sizes.any() {
            return Ok(None);
        }
        if is_size(object) {
            return self.measured(object, outputs).map(Some);
        }
        let parts: Vec<_> = if object.is_exact_instance_of::<PySlice>() {
            ["start", "stop", "step"].into_iter().map(|name| object.getattr(name)).collect::<PyResult<_>>()?
        } else if self.torch.is_primitive(object)
            && let Ok(sizes) = object.cast::<PyTuple>()
        {
            sizes.iter().collect()
        } else {
            return Ok(None);
        };
        if !parts.iter().any(is_size) {
            return Ok(None);
        }
        let parts = parts.into_iter().map(|part| self.recipe(&Tracked::new(part), outputs)).collect::<Outcome<Vec<_>>>()?;
        let given = if object.is_exact_instance_of::<PySlice>() { parts } else { vec![Recipe::Tuple(parts)] };
        Ok(Some(Made::new(object.get_type().into_any().unbind(), given).into()))
    }

    fn measured(&self, object: &Bound<'py, PyAny>, outputs: &mut Outputs<'py>) -> Outcome<Recipe> {
        let size = node_of(object)?.get().dim(self.py);
        if let Some(found) = self.undecided_size() {
            return Err(Halt::Break(found));
        }
        if let Some(int) = self.sizes.int_that_is(self.py, &size)? {
            return Ok(Recipe::Input(self.guards.collect(int)));
        }
        if self.sizes.sizes().is_some_and(|sizes| sizes.bind(self.py).get().is_unbacked(&size)) {
            // The graph returns it.
            let known = outputs.fakes.iter().position(|known| known.is(object));
            return Ok(Recipe::Output(known.unwrap_or_else(|| {
                outputs.fakes.push(object.clone());
                outputs.fakes.len() - 1
            })));
        }
        let mut symbols = Vec::new();
        for symbol in size.to_expr().symbols() {
            let Some((source, dimension)) = self.sizes.binding(symbol) else {
                self.blame_size(&size);
                return self.break_graph(reason::DYNAMIC_SHAPE, format!("returns the size {size}, which is found nowhere"));
            };
            symbols.push((symbol, self.guards.collect(source), dimension));
        }
        Ok(Recipe::Size(Box::new(Measured { size, symbols })))
    }
}
