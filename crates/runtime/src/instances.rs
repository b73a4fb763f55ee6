//! One graph for all sizes: an executable for each combination seen so far. They share code, library calls and memory.

use std::sync::Arc;

use dynamlir_torch_abi::TensorRef;

use crate::{
    Executable, Open, PlanError, RunError,
    open::Varying,
    recent::Recent,
    reuse::{Facts, Spent},
};

/// The values of the symbols, in order.
type Sizes = Vec<i64>;

/// An executable and its counterparts for other sizes.
pub struct Instances {
    /// The executable for the sizes with which the plan was created.
    first: Arc<Executable>,
    open: Open,
    /// The facts that do not depend on sizes.
    facts: Facts,
    made: Recent<Sizes, Arc<Executable>>,
}

impl Instances {
    /// Creates the instances of an executable whose plan has these symbolic numbers.
    pub fn new(first: Arc<Executable>, open: Open) -> Result<Self, PlanError> {
        let facts = Facts::new(first.plan(), &open)?;
        Ok(Self { first, open, facts, made: Recent::default() })
    }

    /// Returns the sizes for which executables exist, most recently used first.
    pub fn sizes(&self) -> Vec<Vec<i64>> {
        self.made.keys()
    }

    /// Returns the values of the symbols for these inputs, in order. `input` returns an input if it is given: each symbol is a size of one
    /// of them.
    pub fn values<'a>(&self, input: impl Fn(usize) -> Option<TensorRef<'a>>) -> Result<Vec<i64>, RunError> {
        let value = |varying: &Varying| {
            let found = input(varying.input).and_then(|input| input.sizes().ok()?.get(varying.dim).copied());
            found.ok_or_else(|| RunError::Guard(format!("input {} has no dimension {}", varying.input, varying.dim).into()))
        };
        self.open.symbols.iter().map(value).collect()
    }

    /// Returns the executable for the sizes of these inputs.
    pub fn of(&self, inputs: &[TensorRef<'_>]) -> Result<Arc<Executable>, RunError> {
        self.at(self.values(|at| inputs.get(at).copied())?)
    }

    /// Returns the executable for these values of the symbols.
    pub fn at(&self, sizes: Sizes) -> Result<Arc<Executable>, RunError> {
        if let Some(known) = self.made.get(&sizes) {
            return Ok(known);
        }
        let made = self.make(&sizes, self.made.make_room()).map_err(|error| RunError::Guard(error.to_string().into()))?;
        // Another thread may have created the same one meanwhile.
        if let Some(known) = self.made.get(&sizes) {
            return Ok(known);
        }
        let made = Arc::new(made);
        drop(self.made.insert(sizes, Arc::clone(&made)));
        Ok(made)
    }

    /// Creates an executable, reusing the parts of one that is no longer needed, unless that is still running.
    fn make(&self, sizes: &[i64], gone: Option<(Sizes, Arc<Executable>)>) -> Result<Executable, PlanError> {
        match gone.map(|(_, gone)| Arc::try_unwrap(gone)) {
            Some(Ok(gone)) => {
                let Spent { mut plan, program, workspace } = gone.spent();
                self.open.set(&mut plan, sizes)?;
                self.first.again(plan, &self.facts, (program, workspace))
            }
            _ => self.first.again(self.open.at(self.first.plan(), sizes)?, &self.facts, Default::default()),
        }
    }
}
