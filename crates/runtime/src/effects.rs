//! Effects of a run besides its values: the state of the random number generator around it, and version counters.
//!
//! Values and memory are right without this. Autograd's checks of later operations rely on the counters.

use dynamlir_torch_abi::{Arg, OwnedTensor, RandomState, TensorRef, TorchAbi, TorchError};

use crate::executor::{Failure, RunError};
use crate::lower::PlanError;
use crate::plan::{Plan, Step};

/// The random state that a run may have to restore.
pub(crate) struct Around(RandomState);

impl Around {
    /// Returns true if a plan may have to restore the state: it draws random numbers, and may fail afterwards, so that eager draws instead.
    pub fn is_needed(plan: &Plan) -> bool {
        let before = plan.steps.iter().take_while(|step| **step != Step::Commit);
        // A check that fails before the first call fails before anything is drawn.
        let mut failing = before.filter(|step| matches!(step, Step::Extern { .. } | Step::CheckRange { .. }));
        let first = failing.find(|step| matches!(step, Step::Extern { .. }));
        plan.random && first.is_some_and(|first| !draws_keys(plan, first) || failing.next().is_some())
    }

    /// Saves the state before a run.
    pub fn enter(abi: &'static TorchAbi) -> Result<Self, RunError> {
        RandomState::save(abi).map(Self).map_err(|error| RunError::Failed(Failure::from(error)))
    }

    /// Restores the state after a failed run, so that eager draws the same numbers again. A run that has committed is not repeated.
    pub fn leave<T>(self, outcome: &Result<T, RunError>) {
        if let Err(RunError::Guard(_) | RunError::Failed(_)) = outcome {
            self.0.restore();
        }
    }
}

/// Returns true if a step only draws the keys of random numbers, which cannot fail.
pub(crate) fn draws_keys(plan: &Plan, step: &Step) -> bool {
    let Step::Extern { call, operands, .. } = step else { return false };
    let call = &plan.externs[*call];
    let bounds = [i64::MIN, i64::MAX].map(Arg::Int);
    operands.is_empty() && call.schema == "aten.randint.low" && call.args.starts_with(&bounds)
}

/// The maximum number of counted writes. Writes are counted one by one, so that a larger number would keep a call busy; no program writes
/// that often. The dialect has the same limit.
const MOST: i64 = 1 << 20;

/// Returns the inputs whose version counters increase, and the increments.
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

/// Increments the version counters of inputs.
///
/// This precedes the writes: if torch forbids one (to an inference tensor outside inference mode), this fails while eager can still run and
/// raise. Such tensors have no counter, and are checked first.
pub(crate) fn bump(bumps: &[(usize, i64)], inputs: &[TensorRef<'_>]) -> Result<(), TorchError> {
    for of_inference in [true, false] {
        for &(at, count) in bumps {
            // If torch does not report it, the order does not matter.
            if inputs[at].is_inference().unwrap_or(false) == of_inference {
                inputs[at].bump_version(count)?;
            }
        }
    }
    Ok(())
}

/// Sets the version of a result that was created here. Inference tensors do not have one.
pub(crate) fn set_version(abi: &TorchAbi, result: &OwnedTensor, version: i64) -> Result<(), TorchError> {
    match result.as_ref().version() {
        Ok(Some(seen)) if seen < version => abi.bump_fresh_version(result, version - seen),
        Ok(_) => Ok(()),
        // This torch does not report it; the result has not been written yet.
        Err(_) => abi.bump_fresh_version(result, version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, ExternCall, InputSpec, Layout};
    use dynamlir_torch_abi::Route;

    fn plan(version_bumps: i64, versions: Vec<i64>) -> Plan {
        let layout = Layout::contiguous(DType::F32, &[4]);
        Plan { inputs: vec![InputSpec { layout, storage: None, mutated: false, version_bumps }], versions, ..Plan::default() }
    }

    #[test]
    fn the_state_is_saved_where_something_may_fail_after_a_draw() {
        let call = |schema: &str, args: &[i64]| ExternCall {
            schema: schema.to_owned(),
            args: args.iter().copied().map(Arg::Int).collect(),
            route: Route::Python,
            result_layouts: Vec::new(),
            location: String::new(),
        };
        let externs =
            vec![call("aten.randint.low", &[i64::MIN, i64::MAX]), call("aten.mm.default", &[]), call("aten.randint.low", &[3, 2])];
        let step = |call| Step::Extern { call, operands: Vec::new(), outs: Vec::new(), results: Vec::new() };
        let check = || Step::CheckRange { src: 0, low: 0, high: 1, message: String::new() };
        let is_needed = |steps| Around::is_needed(&Plan { random: true, externs: externs.clone(), steps, ..Plan::default() });
        assert!(!is_needed(vec![]));
        assert!(!is_needed(vec![check(), step(0)]));
        assert!(!is_needed(vec![step(0), Step::Commit, step(1)]));
        assert!(is_needed(vec![step(0), step(1)]));
        assert!(is_needed(vec![step(0), check()]));
        // User-supplied bounds may be rejected after another draw.
        assert!(is_needed(vec![step(2)]));
        // Another operator may have any effect before it fails.
        assert!(is_needed(vec![step(1), step(0)]));
        assert!(!Around::is_needed(&Plan { externs: externs.clone(), steps: vec![step(0), step(1)], ..Plan::default() }));
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
