//! Calls that differ from those of an entry only in sizes.

use dynamlir_torch_abi::{Field, Meta, State as TorchState};
use pyo3::PyResult;

use crate::{
    GuardSet, Relation, Roots,
    check::{handles_an_exception, holds, same_modes},
    tree::PreparedGuard,
};

impl GuardSet {
    /// Returns true if a call that fails would pass with tensors of other sizes and strides: the same program, which may take another path.
    /// Sizes of 0 and 1 have entries of their own for each such program.
    ///
    /// # Errors
    /// Returns an exception raised by Python code that had to be run.
    pub fn differs_in_sizes(&self, roots: Roots<'_, '_>) -> PyResult<bool> {
        let py = roots.function.py();
        let state = self.torch.as_ref().is_none_or(TorchState::holds) && same_modes(py, self)?;
        let handled = self.handled.is_none_or(|expected| expected == handles_an_exception(py));
        if !self.is_valid() || !state || !handled || self.registered.changed(py)?.is_some() {
            return Ok(false);
        }
        let mut differs = false;
        // The checks after those of the guards belong to relations.
        for (node, check) in self.tree.checks.iter().take(self.texts.guards.len()) {
            let Some(value) = self.value(*node, roots)? else {
                if check.holds_of_nothing() {
                    continue;
                }
                return Ok(false);
            };
            if holds(self, check, &value)? {
                continue;
            }
            let PreparedGuard::Tensor(expected) = check else { return Ok(false) };
            let expected = &self.tree.tensors[*expected];
            let Some(seen) = expected.class.tensor(&value).and_then(|tensor| Meta::of(tensor).ok()) else { return Ok(false) };
            if !matches!(expected.meta.difference(&seen), Some(Field::Size(_) | Field::Stride(_))) {
                return Ok(false);
            }
            differs = true;
        }
        for (relation, told) in self.relations.iter().zip(&self.texts.relations) {
            let members = relation.nodes.iter().map(|&node| self.value(node, roots)).collect::<PyResult<Vec<_>>>()?;
            if !relation.holds_for(py, &|member| members[member].as_ref())? {
                if !matches!(told, Relation::Sizes(_)) {
                    return Ok(false);
                }
                differs = true;
            }
        }
        Ok(differs)
    }
}
