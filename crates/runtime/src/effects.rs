//! What a run does beside its values: the state of the thread and of the random number generator around it, and how often
//! tensors count as written.
//!
//! Values and memory are right without this. Autograd's checks of later operations rest on the counters.

use dynamlir_torch_abi::{NoGrad, OwnedTensor, RandomState, TensorRef, TorchAbi, TorchError};

use crate::executor::{Failure, RunError};
use crate::lower::PlanError;
use crate::plan::Plan;

/// The state that a run changes, or may have to put back.
pub(crate) struct Around {
    random: Option<RandomState>,
    _no_grad: Option<NoGrad>,
}

impl Around {
    /// Whether a plan needs any of it.
    pub fn is_needed(plan: &Plan) -> bool {
        plan.no_grad || plan.random
    }

    /// Before a run.
    pub fn enter(abi: &'static TorchAbi, plan: &Plan) -> Result<Self, RunError> {
        let before = |error: TorchError| RunError::Failed(Failure::from(error));
        let random = if plan.random { Some(RandomState::save(abi).map_err(before)?) } else { None };
        let no_grad = if plan.no_grad { Some(NoGrad::enter(abi).map_err(before)?) } else { None };
        Ok(Self { random, _no_grad: no_grad })
    }

    /// After it: what is left to eager draws the same numbers again. What has been committed is not repeated.
    pub fn leave<T>(self, outcome: &Result<T, RunError>) {
        if let (Some(random), Err(RunError::Guard(_) | RunError::Failed(_))) = (self.random, outcome) {
            random.restore();
        }
    }
}

/// Writes are counted one by one, so that a larger number would keep a call busy; no program writes that often. As in the dialect.
const MOST: i64 = 1 << 20;

/// The inputs whose counters go up, with by how much.
pub(crate) fn bumps(plan: &Plan) -> Result<Vec<(usize, i64)>, PlanError> {
    if plan.versions.len() > plan.results.len() {
        return Err(PlanError(format!("{} results have {} versions", plan.results.len(), plan.versions.len())));
    }
    if let Some((result, version)) = plan.versions.iter().enumerate().find(|(_, version)| !(0..MOST).contains(*version)) {
        return Err(PlanError(format!("result {result}: {version} is not a version counter")));
    }
    let counted = |(at, bumps): (usize, i64)| match bumps {
        0 => None,
        1..MOST => Some(Ok((at, bumps))),
        _ => Some(Err(PlanError(format!("input {at}: it cannot be written {bumps} times")))),
    };
    plan.inputs.iter().map(|input| input.version_bumps).enumerate().filter_map(counted).collect()
}

/// Says that inputs are written.
///
/// This comes before the writes: where torch forbids one (of an inference tensor outside inference mode), this fails while eager
/// can still run and raise. Such tensors count nothing, and are asked first.
pub(crate) fn bump(bumps: &[(usize, i64)], inputs: &[TensorRef<'_>]) -> Result<(), TorchError> {
    for of_inference in [true, false] {
        for &(at, count) in bumps {
            // Where torch does not tell, the order is as good as any.
            if inputs[at].is_inference().unwrap_or(false) == of_inference {
                inputs[at].bump_version(count)?;
            }
        }
    }
    Ok(())
}

/// Has a result that was made here carry a version. Inference tensors carry none.
pub(crate) fn set_version(abi: &TorchAbi, result: &OwnedTensor, version: i64) -> Result<(), TorchError> {
    match result.as_ref().version() {
        Ok(Some(seen)) if seen < version => abi.bump_fresh_version(result, version - seen),
        Ok(_) => Ok(()),
        // This torch does not tell; nobody has written it yet.
        Err(_) => abi.bump_fresh_version(result, version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, InputSpec, Layout};

    fn plan(version_bumps: i64, versions: Vec<i64>) -> Plan {
        let layout = Layout::contiguous(DType::F32, &[4]);
        Plan { inputs: vec![InputSpec { layout, storage: None, mutated: false, version_bumps }], versions, ..Plan::default() }
    }

    #[test]
    fn counts_are_counts() {
        assert_eq!(bumps(&plan(0, vec![])), Ok(vec![]));
        assert_eq!(bumps(&plan(2, vec![])), Ok(vec![(0, 2)]));
        let error = |bumped, versions| bumps(&plan(bumped, versions)).expect_err("is refused").to_string();
        assert!(error(-1, vec![]).contains("input 0: it cannot be written -1 times"));
        assert!(error(i64::MAX, vec![]).contains("input 0: it cannot be written"));
        assert!(error(0, vec![1]).contains("0 results have 1 versions"));
        let results = |version| Plan { results: vec![0], ..plan(0, vec![version]) };
        assert!(bumps(&results(3)).is_ok());
        assert!(bumps(&results(-3)).expect_err("is refused").to_string().contains("result 0: -3 is not a version counter"));
    }
}
