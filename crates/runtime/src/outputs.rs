//! From finished results to what the user gets.

use dynamlir_torch_abi::{OwnedTensor, TensorRef, TorchAbi, TorchError};
use smallvec::SmallVec;

use crate::lower::Program;
use crate::plan::{Const, Output, Plan};
use crate::workspace::Workspace;
use crate::{bases, effects};

/// One output of a run.
#[derive(Debug)]
pub enum OutputValue {
    /// A tensor that has no Python object yet.
    Tensor(OwnedTensor),
    /// The object that was passed as input `i`.
    Arg(usize),
    /// None.
    None,
    /// The object of output `i`.
    Same(usize),
    /// A constant.
    Const(Const),
}

/// The outputs of a run.
pub type Outputs = SmallVec<[OutputValue; 2]>;

/// Builds the outputs; call it with the thread's own dispatch keys, so that views are real views.
pub(crate) fn build(
    abi: &TorchAbi,
    plan: &Plan,
    program: &Program,
    workspace: &mut Workspace,
    inputs: &[TensorRef<'_>],
) -> Result<Outputs, TorchError> {
    if program.plain_outputs {
        let mut outputs = Outputs::with_capacity(plan.outputs.len());
        for output in &plan.outputs {
            outputs.push(simple(output, |r| workspace.slots[program.results[r].0].take())?);
        }
        return Ok(outputs);
    }
    let mut results = Vec::with_capacity(program.results.len());
    for (i, (slot, layout)) in program.results.iter().enumerate() {
        let tensor = workspace.slots[*slot].take().ok_or_else(|| TorchError::new("a result was not made"))?;
        let tensor = match layout {
            None => tensor,
            Some(l) => {
                // The slot's own layout has its offset too; what matters is the distance between the two.
                let offset = tensor.as_ref().storage_offset()? + l.window.offset - program.slots[*slot].window.offset;
                tensor.as_ref().reinterpret(&l.window.sizes, &l.window.strides, offset)?
            }
        };
        if let Some(&version) = plan.versions.get(i)
            && version > 0
        {
            effects::set_version(abi, &tensor, version)?;
        }
        results.push(Some(tensor));
    }
    let mut outputs = Vec::with_capacity(plan.outputs.len());
    // Views first: they need their base, which a plain result output then takes away.
    for output in &plan.outputs {
        outputs.push(match output {
            Output::ArgView { arg, sizes, strides, offset } => {
                let moved = inputs[*arg].storage_offset()? - plan.inputs[*arg].layout.window.offset;
                Some(OutputValue::Tensor(inputs[*arg].as_strided(sizes, strides, offset.saturating_add(moved))?))
            }
            Output::ResultView { result, sizes, strides, offset } => {
                let base = results[*result].as_ref().ok_or_else(|| TorchError::new("a result is missing"))?.as_ref();
                // The result's own offset was 0 when it was traced.
                Some(OutputValue::Tensor(base.as_strided(sizes, strides, offset + base.storage_offset()?)?))
            }
            _ => None,
        });
    }
    let mut take = |(output, made): (&Output, Option<OutputValue>)| match made {
        Some(view) => Ok(view),
        None => simple(output, |r| results[r].take()),
    };
    let mut outputs: Outputs = plan.outputs.iter().zip(outputs).map(&mut take).collect::<Result<_, _>>()?;
    bases::rebase(&program.rebased, &mut outputs, inputs)?;
    Ok(outputs)
}

/// An output that is not a view; `take` hands out a result, once.
fn simple(output: &Output, take: impl FnOnce(usize) -> Option<OwnedTensor>) -> Result<OutputValue, TorchError> {
    Ok(match output {
        Output::Result(r) => {
            take(*r).map(OutputValue::Tensor).ok_or_else(|| TorchError::new("a result was not made, or is returned twice"))?
        }
        Output::Arg(a) => OutputValue::Arg(*a),
        Output::Same(o) => OutputValue::Same(*o),
        Output::Const(c) => OutputValue::Const(c.clone()),
        Output::None | Output::ArgView { .. } | Output::ResultView { .. } => OutputValue::None,
    })
}
