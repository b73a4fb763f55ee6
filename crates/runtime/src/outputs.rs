//! Builds the user's outputs from the finished results.

use dynamlir_torch_abi::{NoGrad, OwnedTensor, TensorRef, TorchAbi, TorchError};
use smallvec::SmallVec;

use crate::lower::{PlanError, Program};
use crate::plan::{Base, Const, Output, Plan};
use crate::workspace::Workspace;
use crate::{bases, effects, gathered};

/// One output of a run.
#[derive(Debug)]
pub enum OutputValue {
    /// A tensor that does not have a Python object yet.
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

/// The tensors that a run has created, in the order of the plan's results; None for one that was taken.
pub type Results = SmallVec<[Option<OwnedTensor>; 4]>;

/// The way that autograd treats an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Making {
    /// As torch creates it under the thread's own grad mode.
    Ambient,
    /// It was created with grad mode off.
    WithoutGrad,
    /// It is a tensor detached from one that requires a gradient, and does not require one itself.
    Detached,
}

impl Making {
    /// Enters the grad mode under which such a view is created, while the guard lives.
    pub fn enter(self, abi: &'static TorchAbi) -> Result<Option<NoGrad>, TorchError> {
        if self == Self::Ambient { Ok(None) } else { NoGrad::enter(abi).map(Some) }
    }
}

/// Determines how each output is created.
pub(crate) fn making(plan: &Plan) -> Result<Vec<Making>, PlanError> {
    for (what, positions) in [("requires a gradient", &plan.differentiable), ("is made without", &plan.without_grad)] {
        if let Some(at) = positions.iter().find(|at| **at >= plan.outputs.len()) {
            return Err(PlanError(format!("output {at} {what}, and there are {}", plan.outputs.len())));
        }
    }
    // If an output requires a gradient, so does its result.
    let shown = |output: &Output| match output {
        Output::Result(result) | Output::ResultView { result, .. } => Some(*result),
        _ => None,
    };
    let required: Vec<usize> = plan.differentiable.iter().filter_map(|at| shown(&plan.outputs[*at])).collect();
    let one = |(at, output): (usize, &Output)| {
        let is_view = matches!(output, Output::ArgView { .. } | Output::ResultView { .. });
        // Torch reports that such a view requires a gradient if its base does, although the view has no history.
        if is_view && plan.without_grad.contains(&at) {
            return Making::WithoutGrad;
        }
        if plan.differentiable.contains(&at) {
            return Making::Ambient;
        }
        let from_required = match output {
            Output::ArgView { arg, .. } => plan.requires_grad.contains(arg),
            output => shown(output).is_some_and(|result| required.contains(&result)),
        };
        match output {
            Output::Result(_) if from_required => Making::Detached,
            // A view without history of a tensor that requires a gradient is created with grad mode off, unless its base was detached.
            _ if is_view && from_required && !is_rebased(plan, at) => Making::WithoutGrad,
            _ => Making::Ambient,
        }
    };
    Ok(plan.outputs.iter().enumerate().map(one).collect())
}

/// Checks that views created from other views show the same memory, and that these chains end.
pub(crate) fn check_made_from(plan: &Plan) -> Result<(), PlanError> {
    let of = |at: usize| plan.made_from.get(at).copied().flatten();
    let shown = |at: usize| match plan.outputs.get(at) {
        Some(Output::ArgView { arg, .. }) => Some((true, *arg)),
        Some(Output::ResultView { result, .. }) => Some((false, *result)),
        _ => None,
    };
    for at in 0..plan.made_from.len() {
        let mut chain = std::iter::successors(of(at), |other| of(*other));
        if let Some(other) = chain.clone().next()
            && (shown(at).is_none() || shown(at) != shown(other) || chain.nth(plan.outputs.len()).is_some())
        {
            return Err(PlanError(format!("output {at} is made from output {other}, of which it is not a view")));
        }
    }
    Ok(())
}

/// Returns true if an output is a view of a detached tensor.
fn is_rebased(plan: &Plan, at: usize) -> bool {
    matches!(plan.bases.get(at), Some(Some(Base::None | Base::Hidden(_) | Base::Output(_))))
}

/// Builds the outputs of a plan with [`Program::plain_outputs`].
pub(crate) fn plain(plan: &Plan, program: &Program, workspace: &mut Workspace) -> Result<Outputs, TorchError> {
    plan.outputs.iter().map(|output| simple(output, |r| workspace.slots[program.results[r].0].take())).collect()
}

/// Returns the results of the steps, with their final layouts and versions.
pub(crate) fn results(abi: &'static TorchAbi, plan: &Plan, program: &Program, workspace: &mut Workspace) -> Result<Results, TorchError> {
    let mut results = Results::with_capacity(program.results.len());
    for (i, (slot, layout)) in program.results.iter().enumerate() {
        let tensor = workspace.slots[*slot].take().ok_or_else(|| TorchError::new("a result was not made"))?;
        let tensor = match layout {
            None => tensor,
            Some(l) => {
                // The slot's own layout has an offset too; the distance between the two is required.
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
    Ok(results)
}

/// The views among the outputs that were already created, by position.
pub type Views = SmallVec<[(usize, OwnedTensor); 2]>;

/// Builds the outputs; must be called with the thread's own dispatch keys and grad mode, so that views are real views. Some `views` may
/// have been created before ([`view`]).
pub(crate) fn build(
    abi: &'static TorchAbi,
    plan: &Plan,
    program: &Program,
    (mut results, mut views): (Results, Views),
    inputs: &[TensorRef<'_>],
) -> Result<Outputs, TorchError> {
    let mut outputs = Vec::with_capacity(plan.outputs.len());
    // Views first: they need their base, which a plain result output then takes.
    for (at, (output, making)) in plan.outputs.iter().zip(&program.making).enumerate() {
        outputs.push(match output {
            Output::ArgView { .. } | Output::ResultView { .. } => {
                Some(OutputValue::Tensor(view(abi, plan, program, at, (&results, inputs, &mut views))?.to_owned()?))
            }
            Output::Result(result) if *making == Making::Detached => {
                let of = results[*result].as_ref().ok_or_else(|| TorchError::new("a result is missing"))?;
                Some(OutputValue::Tensor(of.as_ref().detach()?))
            }
            _ => None,
        });
    }
    let mut take = |(output, made): (&Output, Option<OutputValue>)| match made {
        Some(view) => Ok(view),
        None => simple(output, |r| results[r].take()),
    };
    let mut outputs: Outputs = plan.outputs.iter().zip(outputs).map(&mut take).collect::<Result<_, _>>()?;
    bases::rebase(abi, program, &mut outputs, inputs)?;
    Ok(outputs)
}

/// Returns an output that is a view; creates it unless it is already among the views.
pub(crate) fn view<'a>(
    abi: &'static TorchAbi,
    plan: &Plan,
    program: &Program,
    at: usize,
    (results, inputs, views): (&Results, &[TensorRef<'_>], &'a mut Views),
) -> Result<TensorRef<'a>, TorchError> {
    let known = views.iter().position(|(made, _)| *made == at);
    let place = if let Some(place) = known {
        place
    } else {
        let from = match plan.made_from.get(at).copied().flatten() {
            Some(other) => Some(view(abi, plan, program, other, (results, inputs, views))?),
            None => None,
        };
        if let Some(made) = several_of(plan, program, at, (results, inputs, from))? {
            views.extend(made);
            views.iter().position(|(made, _)| *made == at).ok_or_else(|| TorchError::new("a view was not made"))?
        } else {
            let made = view_of(abi, plan, program, at, (results, inputs, from))?;
            views.push((at, made));
            views.len() - 1
        }
    };
    Ok(views[place].1.as_ref())
}

/// Creates, by one call, the views that were returned together with this one, if they have a history.
fn several_of(
    plan: &Plan,
    program: &Program,
    at: usize,
    (results, inputs, from): (&Results, &[TensorRef<'_>], Option<TensorRef<'_>>),
) -> Result<Option<Vec<(usize, OwnedTensor)>>, TorchError> {
    if plan.made_beside.is_empty() {
        return Ok(None);
    }
    let (base, moved) = match &plan.outputs[at] {
        Output::ArgView { arg, .. } => (inputs[*arg], inputs[*arg].storage_offset()? - plan.inputs[*arg].layout.window.offset),
        Output::ResultView { result, .. } => {
            let base = results[*result].as_ref().ok_or_else(|| TorchError::new("a result is missing"))?.as_ref();
            (base, base.storage_offset()?)
        }
        _ => return Ok(None),
    };
    let from = from.unwrap_or(base);
    // Finding the members scans all outputs: once if they are created here, but for each of them if they are not.
    if !from.requires_grad()? {
        return Ok(None);
    }
    let members = gathered::members(plan, program, at);
    if members.is_empty() {
        return Ok(None);
    }
    let made = gathered::make(plan, &members, from, moved)?;
    Ok(made.map(|made| members.into_iter().zip(made).collect()))
}

/// Creates an output that is a view, from another view if one is given.
fn view_of(
    abi: &'static TorchAbi,
    plan: &Plan,
    program: &Program,
    at: usize,
    (results, inputs, from): (&Results, &[TensorRef<'_>], Option<TensorRef<'_>>),
) -> Result<OwnedTensor, TorchError> {
    let _mode = program.making[at].enter(abi)?;
    match &plan.outputs[at] {
        Output::ArgView { arg, sizes, strides, offset } => {
            let moved = inputs[*arg].storage_offset()? - plan.inputs[*arg].layout.window.offset;
            from.unwrap_or(inputs[*arg]).as_strided(sizes, strides, offset.saturating_add(moved))
        }
        Output::ResultView { result, sizes, strides, offset } => {
            let base = results[*result].as_ref().ok_or_else(|| TorchError::new("a result is missing"))?.as_ref();
            // The result's own offset was 0 when it was traced.
            from.unwrap_or(base).as_strided(sizes, strides, offset + base.storage_offset()?)
        }
        _ => Err(TorchError::new("an output that is not a view is taken for one")),
    }
}

/// Returns an output that is not a view; `take` returns a result, once.
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
