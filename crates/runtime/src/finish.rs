//! What a run does beside its plan: the state of the thread and of the random number generator around it, and the identity and
//! versions of its outputs after it.
//!
//! Values and memory are right without this. Autograd's checks of later in-place operations rest on which tensor is a view of
//! which, and on how often each was written.

use dynamlir_torch_abi::{NoGrad, OwnedTensor, RandomState, TensorRef, TorchAbi, TorchError};

use crate::executor::{Executable, Failure, RunError};
use crate::externs::PythonCalls;
use crate::outputs::{OutputValue, Outputs};

/// What an output has to be a view of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// It is no view.
    None,
    /// Of input `i`.
    Input(usize),
    /// Of the tensor of output `i`.
    Output(usize),
    /// Of a tensor that nobody sees; outputs with the same number share it, and the first of them has that number.
    Hidden(usize),
}

/// The fix-ups of one graph, decided when it was compiled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finish {
    /// An input wants a gradient that the graph does not compute.
    pub no_grad: bool,
    /// The graph draws random numbers: a run that fails puts the generator back.
    pub random: bool,
    /// Inputs whose version goes up without being written: number, and by how much.
    pub bumps: Vec<(usize, i64)>,
    /// Outputs whose base is not the one that the plan gives them, in the order in which they can be mended.
    pub bases: Vec<(usize, Base)>,
    /// Outputs that are the same object as an earlier one, once that is mended.
    pub copies: Vec<(usize, usize)>,
    /// Outputs and the version they carry.
    pub versions: Vec<(usize, i64)>,
}

fn before(error: TorchError) -> RunError {
    RunError::Failed(Failure::from(error))
}

impl Executable {
    /// Runs, with everything that belongs to it.
    pub fn run_finished(
        &self,
        abi: &'static TorchAbi,
        finish: &Finish,
        inputs: &[TensorRef<'_>],
        py: &mut dyn PythonCalls,
    ) -> Result<Outputs, RunError> {
        finish.run_with_fixups(abi, inputs, || self.run(inputs, py))
    }

    /// As [`Executable::run_finished`], for inputs whose metadata is known.
    ///
    /// # Safety
    /// As for [`Executable::run_known`].
    pub unsafe fn run_finished_known(
        &self,
        abi: &'static TorchAbi,
        finish: &Finish,
        inputs: &[TensorRef<'_>],
        py: &mut dyn PythonCalls,
    ) -> Result<Outputs, RunError> {
        // SAFETY: the caller's promise.
        finish.run_with_fixups(abi, inputs, || unsafe { self.run_known(inputs, py) })
    }
}

/// The tensor that an output is.
fn tensor<'a>(outputs: &'a [OutputValue], inputs: &[TensorRef<'a>], at: usize) -> Result<TensorRef<'a>, TorchError> {
    match &outputs[at] {
        OutputValue::Tensor(tensor) => Ok(tensor.as_ref()),
        OutputValue::Arg(i) => Ok(inputs[*i]),
        OutputValue::Same(i) if *i < at => tensor(outputs, inputs, *i),
        OutputValue::Same(_) | OutputValue::None | OutputValue::Const(_) => Err(TorchError::new("an output is no tensor")),
    }
}

impl Finish {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// A run with the state of the thread around it and the fix-ups after it.
    #[inline]
    fn run_with_fixups(
        &self,
        abi: &'static TorchAbi,
        inputs: &[TensorRef<'_>],
        run: impl FnOnce() -> Result<Outputs, RunError>,
    ) -> Result<Outputs, RunError> {
        let random = if self.random { Some(RandomState::save(abi).map_err(before)?) } else { None };
        let outcome = {
            let _no_grad = if self.no_grad { Some(NoGrad::enter(abi).map_err(before)?) } else { None };
            run()
        };
        let mut outputs = outcome.inspect_err(|error| {
            // What is left to eager draws the same numbers again.
            if let (Some(random), RunError::Guard(_) | RunError::Failed(_)) = (&random, error) {
                random.restore();
            }
        })?;
        self.apply(abi, &mut outputs, inputs).map_err(|error| RunError::AfterCommit(Failure::from(error)))?;
        Ok(outputs)
    }

    fn apply(&self, abi: &'static TorchAbi, outputs: &mut [OutputValue], inputs: &[TensorRef<'_>]) -> Result<(), TorchError> {
        for &(at, count) in &self.bumps {
            if !inputs[at].is_inference()? {
                inputs[at].bump_version(count)?;
            }
        }
        if !self.bases.is_empty() {
            let _no_grad = NoGrad::enter(abi)?;
            self.rebase_views(outputs, inputs)?;
        }
        for &(at, wanted) in &self.versions {
            let seen = tensor(outputs, inputs, at)?;
            if let Some(version) = seen.version()?
                && version < wanted
            {
                match &outputs[at] {
                    OutputValue::Tensor(fresh) => abi.bump_fresh_version(fresh, wanted - version)?,
                    _ => seen.bump_version(wanted - version)?,
                }
            }
        }
        Ok(())
    }

    fn rebase_views(&self, outputs: &mut [OutputValue], inputs: &[TensorRef<'_>]) -> Result<(), TorchError> {
        let mut hidden: Vec<(usize, OwnedTensor)> = Vec::new();
        for &(at, base) in &self.bases {
            let old = tensor(outputs, inputs, at)?;
            if old.is_inference()? {
                // Inference tensors keep no bases.
                return Ok(());
            }
            let over = |target: TensorRef<'_>| target.as_strided(old.sizes()?, old.strides()?, old.storage_offset()?);
            let mended = match base {
                Base::None => old.detach()?,
                Base::Input(i) => over(inputs[i])?,
                Base::Output(i) => over(tensor(outputs, inputs, i)?)?,
                Base::Hidden(first) => {
                    if first == at {
                        hidden.push((at, old.detach()?));
                    }
                    let target = hidden.iter().find(|(number, _)| *number == first);
                    over(target.ok_or_else(|| TorchError::new("a hidden base was not made"))?.1.as_ref())?
                }
            };
            outputs[at] = OutputValue::Tensor(mended);
        }
        for &(at, same) in &self.copies {
            outputs[at] = OutputValue::Same(same);
        }
        Ok(())
    }
}
