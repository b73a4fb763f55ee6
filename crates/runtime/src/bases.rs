//! The tensor of which each output is a view.
//!
//! Outputs are created directly as views of the input or result whose memory they show. If eager has another base, the plan says so, and
//! the output is replaced by a tensor over the same memory that is a view of the right base. Autograd's checks of later in-place operations
//! rely on that; values and memory are right without it.

use std::collections::HashMap;

use dynamlir_torch_abi::{DType, OwnedTensor, TensorRef, TorchAbi, TorchError};

use crate::lower::{PlanError, Program};
use crate::outputs::OutputValue;
use crate::plan::{Base, Output, Plan};

/// Returns the outputs that must be rebuilt, with their new bases, in a feasible order.
pub(crate) fn steps(plan: &Plan) -> Result<Vec<(usize, Base)>, PlanError> {
    if plan.bases.len() > plan.outputs.len() {
        return Err(PlanError(format!("{} outputs have {} bases", plan.outputs.len(), plan.bases.len())));
    }
    let made = made(&plan.outputs);
    let mut steps = Vec::new();
    for (at, base) in plan.bases.iter().enumerate().filter_map(|(at, base)| base.map(|base| (at, base))) {
        check(plan, &made, at, base).map_err(|what| PlanError(format!("base of output {at}: {what}")))?;
        // A detached tensor has no gradient: an output with a gradient stays a view of its original base.
        let is_detached = matches!(base, Base::None | Base::Hidden(_));
        if base != made[at] && !(is_detached && plan.differentiable.contains(&at)) {
            steps.push((at, base));
        }
    }
    // An output that is not a view may be another's base, and the first view of a hidden tensor provides it for the others.
    steps.sort_by_key(|&(at, base)| (base != Base::None, base != Base::Hidden(at)));
    Ok(steps)
}

/// Returns the bases of outputs as they are created.
fn made(outputs: &[Output]) -> Vec<Base> {
    let whole = |result: usize| outputs.iter().position(|output| *output == Output::Result(result));
    let mut hidden: HashMap<usize, usize> = HashMap::new();
    let mut made: Vec<Base> = Vec::with_capacity(outputs.len());
    for (at, output) in outputs.iter().enumerate() {
        made.push(match output {
            Output::ArgView { arg, .. } => Base::Arg(*arg),
            Output::ResultView { result, .. } => match whole(*result) {
                Some(shown) => Base::Output(shown),
                None => Base::Hidden(*hidden.entry(*result).or_insert(at)),
            },
            Output::Same(other) => made.get(*other).copied().unwrap_or(Base::None),
            Output::Result(_) | Output::Arg(_) | Output::None | Output::Const(_) => Base::None,
        });
    }
    made
}

/// Checks that an output can be made a view of this base.
fn check(plan: &Plan, made: &[Base], at: usize, base: Base) -> Result<(), String> {
    let wanted = |at: usize| plan.bases.get(at).copied().flatten().unwrap_or(made[at]);
    let own = memory(plan, at);
    if base != made[at] && !matches!(plan.outputs[at], Output::Result(_) | Output::ArgView { .. } | Output::ResultView { .. }) {
        return Err("it is another's object, or no tensor".to_owned());
    }
    let other = match base {
        Base::None => own,
        Base::Arg(arg) if arg >= plan.inputs.len() => return Err(format!("there is no input {arg}")),
        Base::Arg(arg) => Some(Memory::of_input(plan, arg)),
        Base::Output(other) if other >= plan.outputs.len() => return Err(format!("there is no output {other}")),
        Base::Output(other) if other == at => return Err("it is the output itself".to_owned()),
        Base::Output(other) if wanted(other) != Base::None => return Err(format!("output {other} is a view itself")),
        Base::Output(other) => memory(plan, other),
        Base::Hidden(first) if first > at || wanted(first) != base => return Err(format!("output {first} is not the first view of it")),
        Base::Hidden(first) => memory(plan, first),
    };
    if other == own { Ok(()) } else { Err("it shows other memory than the output".to_owned()) }
}

/// The memory that tensors show, as far as a plan can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    Result(usize),
    Input(usize, DType),
    /// The memory of inputs that share a storage.
    Shared(u32, DType),
}

impl Memory {
    fn of_input(plan: &Plan, at: usize) -> Self {
        let input = &plan.inputs[at];
        let dtype = input.layout.dtype;
        input.storage.map_or(Self::Input(at, dtype), |storage| Self::Shared(storage, dtype))
    }
}

fn memory(plan: &Plan, at: usize) -> Option<Memory> {
    match &plan.outputs[at] {
        Output::Result(result) | Output::ResultView { result, .. } => Some(Memory::Result(*result)),
        Output::Arg(arg) | Output::ArgView { arg, .. } => Some(Memory::of_input(plan, *arg)),
        Output::Same(other) => memory(plan, *other),
        Output::None | Output::Const(_) => None,
    }
}

/// Rebuilds outputs that have another base; must be called with the thread's own dispatch keys.
pub(crate) fn rebase(
    abi: &'static TorchAbi,
    program: &Program,
    outputs: &mut [OutputValue],
    inputs: &[TensorRef<'_>],
) -> Result<(), TorchError> {
    let mut hidden: Vec<(usize, OwnedTensor)> = Vec::new();
    for &(at, base) in &program.rebased {
        let _mode = program.making[at].enter(abi)?;
        let old = tensor(outputs, inputs, at)?;
        if old.is_inference()? {
            // Inference tensors do not store a base.
            continue;
        }
        let over = |target: TensorRef<'_>| target.as_strided(old.sizes()?, old.strides()?, old.storage_offset()?);
        let mended = match base {
            Base::None => old.detach()?,
            Base::Arg(arg) => over(inputs[arg])?,
            Base::Output(other) => over(tensor(outputs, inputs, other)?)?,
            Base::Hidden(first) => {
                if hidden.iter().all(|(number, _)| *number != first) {
                    hidden.push((first, old.detach()?));
                }
                let target = hidden.iter().find(|(number, _)| *number == first);
                over(target.ok_or_else(|| TorchError::new("a hidden base was not made"))?.1.as_ref())?
            }
        };
        outputs[at] = OutputValue::Tensor(mended);
    }
    Ok(())
}

/// Returns the tensor of an output.
fn tensor<'a>(outputs: &'a [OutputValue], inputs: &[TensorRef<'a>], at: usize) -> Result<TensorRef<'a>, TorchError> {
    match &outputs[at] {
        OutputValue::Tensor(tensor) => Ok(tensor.as_ref()),
        OutputValue::Arg(arg) => Ok(inputs[*arg]),
        OutputValue::Same(other) if *other < at => tensor(outputs, inputs, *other),
        OutputValue::Same(_) | OutputValue::None | OutputValue::Const(_) => Err(TorchError::new("an output is not a tensor")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Const, InputSpec};
    use crate::{DType, Layout};

    fn input(storage: Option<u32>, dtype: DType) -> InputSpec {
        InputSpec { layout: Layout::contiguous(dtype, &[4]), storage, mutated: false, version_bumps: 0 }
    }

    fn of_arg(arg: usize) -> Output {
        Output::ArgView { arg, sizes: vec![2], strides: vec![1], offset: 0 }
    }

    fn of_result(result: usize) -> Output {
        Output::ResultView { result, sizes: vec![2], strides: vec![1], offset: 0 }
    }

    fn plan(outputs: &[Output], bases: &[Option<Base>]) -> Plan {
        let inputs = vec![input(None, DType::F32), input(Some(7), DType::F32), input(Some(7), DType::F32), input(Some(7), DType::I32)];
        Plan { inputs, outputs: outputs.to_vec(), bases: bases.to_vec(), ..Plan::default() }
    }

    fn error(outputs: &[Output], bases: &[Option<Base>]) -> String {
        steps(&plan(outputs, bases)).expect_err("is refused").to_string()
    }

    #[test]
    fn what_is_made_anyway_is_no_step() {
        let outputs = [of_result(0), Output::Result(0), of_arg(0), of_result(1), of_result(1), Output::Same(4), Output::Arg(0)];
        let bases = [Base::Output(1), Base::None, Base::Arg(0), Base::Hidden(3), Base::Hidden(3), Base::Hidden(3), Base::None];
        assert_eq!(steps(&plan(&outputs, &bases.map(Some))), Ok(vec![]));
        assert_eq!(steps(&plan(&outputs, &[])), Ok(vec![]));
    }

    #[test]
    fn what_others_are_views_of_is_made_before_them() {
        let outputs = [of_arg(0), of_arg(0), of_arg(1), of_arg(2)];
        let bases = [Base::Output(1), Base::None, Base::Hidden(2), Base::Hidden(2)].map(Some);
        let expected = vec![(1, Base::None), (2, Base::Hidden(2)), (0, Base::Output(1)), (3, Base::Hidden(2))];
        assert_eq!(steps(&plan(&outputs, &bases)), Ok(expected));
    }

    #[test]
    fn what_cannot_be_made_is_named() {
        let two = [of_arg(0), of_arg(0)];
        let some = |base| [Some(base), None];
        assert!(error(&two[..1], &[None, None]).contains("1 outputs have 2 bases"));
        assert!(error(&two, &some(Base::Arg(4))).contains("base of output 0: there is no input 4"));
        assert!(error(&two, &some(Base::Output(2))).contains("base of output 0: there is no output 2"));
        assert!(error(&two, &some(Base::Output(0))).contains("base of output 0: it is the output itself"));
        assert!(error(&two, &some(Base::Output(1))).contains("base of output 0: output 1 is a view itself"));
        assert!(error(&two, &some(Base::Hidden(1))).contains("base of output 0: output 1 is not the first view of it"));
        assert!(error(&two, &[None, Some(Base::Hidden(0))]).contains("base of output 1: output 0 is not the first view of it"));
        for object in [Output::Arg(1), Output::None, Output::Const(Const::Int(3))] {
            assert!(error(&[object], &[Some(Base::Arg(0))]).contains("it is another's object, or no tensor"));
        }
    }

    #[test]
    fn a_base_shows_the_same_memory() {
        assert_eq!(steps(&plan(&[of_arg(1)], &[Some(Base::Arg(2))])), Ok(vec![(0, Base::Arg(2))]));
        for other in [0, 3] {
            assert!(error(&[of_arg(1)], &[Some(Base::Arg(other))]).contains("it shows other memory than the output"));
        }
        assert!(error(&[Output::Result(0)], &[Some(Base::Arg(0))]).contains("it shows other memory"));
        assert!(error(&[of_arg(0), Output::Result(0)], &[Some(Base::Output(1)), None]).contains("it shows other memory"));
        assert!(error(&[of_arg(0), of_arg(1)], &[Some(Base::Hidden(0)); 2]).contains("base of output 1: it shows other memory"));
        assert!(error(&[of_arg(0), Output::None], &[Some(Base::Output(1)), None]).contains("it shows other memory"));
    }
}
