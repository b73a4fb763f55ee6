//! One graph for all sizes: as an executable for each that there have been, which share code, calls of the library and memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dynamlir_torch_abi::TensorRef;

use crate::{
    Executable, Open, PlanError, RunError,
    open::Varying,
    reuse::{Facts, Spent},
};

/// How many are kept; that which was not used for the longest time goes first.
const MOST: usize = 16;

/// The values of the symbols, in order.
type Sizes = Vec<i64>;

/// An executable and the same for other sizes.
pub struct Instances {
    /// The one for the sizes that the plan was made with.
    first: Arc<Executable>,
    open: Open,
    /// What no size changes.
    facts: Facts,
    /// The last used one first.
    made: Mutex<Vec<(Sizes, Arc<Executable>)>>,
}

impl Instances {
    /// Of an executable whose plan has these numbers.
    pub fn new(first: Arc<Executable>, open: Open) -> Result<Self, PlanError> {
        let facts = Facts::new(first.plan(), &open)?;
        Ok(Self { first, open, facts, made: Mutex::default() })
    }

    /// The sizes that there are executables for, the last used ones first.
    pub fn sizes(&self) -> Vec<Vec<i64>> {
        self.made().iter().map(|(sizes, _)| sizes.clone()).collect()
    }

    /// The values that the symbols have where these are the inputs, in order. `input` gives those that are there: a symbol is a size
    /// of one of these.
    pub fn values<'a>(&self, input: impl Fn(usize) -> Option<TensorRef<'a>>) -> Result<Vec<i64>, RunError> {
        let value = |varying: &Varying| {
            let found = input(varying.input).and_then(|input| input.sizes().ok()?.get(varying.dim).copied());
            found.ok_or_else(|| RunError::Guard(format!("input {} has no dimension {}", varying.input, varying.dim).into()))
        };
        self.open.symbols.iter().map(value).collect()
    }

    /// The executable for the sizes of these inputs.
    pub fn of(&self, inputs: &[TensorRef<'_>]) -> Result<Arc<Executable>, RunError> {
        self.at(self.values(|at| inputs.get(at).copied())?)
    }

    /// The executable where symbols have these values.
    pub fn at(&self, sizes: Sizes) -> Result<Arc<Executable>, RunError> {
        if let Some(known) = self.known(&sizes) {
            return Ok(known);
        }
        let gone = {
            let mut all = self.made();
            if all.len() < MOST { None } else { all.pop() }
        };
        let made = self.make(&sizes, gone).map_err(|error| RunError::Guard(error.to_string().into()))?;
        // Another thread may have made the same meanwhile.
        if let Some(known) = self.known(&sizes) {
            return Ok(known);
        }
        let made = Arc::new(made);
        self.made().insert(0, (sizes, Arc::clone(&made)));
        Ok(made)
    }

    /// Reuses what one that is no longer needed consists of, unless somebody still runs it.
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

    fn known(&self, sizes: &[i64]) -> Option<Arc<Executable>> {
        let mut made = self.made();
        let at = made.iter().position(|(known, _)| known == sizes)?;
        made[..=at].rotate_right(1);
        Some(Arc::clone(&made[0].1))
    }

    fn made(&self) -> MutexGuard<'_, Vec<(Sizes, Arc<Executable>)>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
