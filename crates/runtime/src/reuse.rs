//! Reuse by a plan for other sizes: facts about layouts that do not depend on sizes, and the memory of a plan that is no longer needed.
//!
//! A size that grows at each call creates a plan at each call, so that this is part of the call's time. Most of a plan's numbers are in
//! static layouts, and its lists are as long as those of the previous plan.

use crate::layout::Layout;
use crate::lower::{PlanError, Program};
use crate::open::Open;
use crate::plan::{Plan, Step};
use crate::workspace::Workspace;

/// The facts about a layout that lowering needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fact {
    /// The range of bytes touched, from element 0; None if there are no elements.
    pub span: Option<(i64, i64)>,
    /// True if several indices may refer to one element.
    pub repeats: bool,
}

impl Fact {
    fn of(layout: &Layout) -> Result<Self, PlanError> {
        Ok(Self { span: layout.checked_span().map_err(PlanError)?, repeats: layout.window.may_repeat() })
    }
}

/// Facts about the layouts of a plan that are the same for all sizes.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    inputs: Vec<Option<Fact>>,
    steps: Vec<Option<Fact>>,
}

impl Facts {
    /// Collects the facts of `plan`, in which the numbers of `open` are dynamic.
    pub fn new(plan: &Plan, open: &Open) -> Result<Self, PlanError> {
        let fact = |varies: bool, layout: Option<&Layout>| layout.filter(|_| !varies).map(Fact::of).transpose();
        let inputs = plan.inputs.iter().enumerate().map(|(at, input)| fact(open.varies_input(at), Some(&input.layout)));
        let steps = plan.steps.iter().enumerate().map(|(at, step)| {
            let layout = match step {
                Step::Buffer { layout, .. } | Step::OutputBuffer { layout, .. } | Step::View { layout, .. } => Some(layout),
                _ => None,
            };
            fact(open.varies_step(at), layout)
        });
        Ok(Self { inputs: inputs.collect::<Result<_, _>>()?, steps: steps.collect::<Result<_, _>>()? })
    }

    /// Returns the fact about an input's layout.
    pub fn input(&self, at: usize) -> Option<Fact> {
        self.inputs.get(at).copied().flatten()
    }

    /// Returns the fact about the layout that a step defines.
    pub fn step(&self, at: usize) -> Option<Fact> {
        self.steps.get(at).copied().flatten()
    }
}

/// An executable that is no longer needed.
pub(crate) struct Spent {
    pub plan: Plan,
    pub program: Program,
    /// Its workspace, unless a run is using it.
    pub workspace: Option<Box<Workspace>>,
}

impl Program {
    /// Returns an empty program that reuses the memory of this one. The layouts of slots remain, to be overwritten.
    pub(crate) fn emptied(self) -> Self {
        let Self { mut ops, mut checks, mut sizes, mut workspace_binds, mut input_binds, mut slot_binds, slots, mut results, .. } = self;
        ops.clear();
        checks.clear();
        sizes.clear();
        workspace_binds.clear();
        input_binds.clear();
        slot_binds.iter_mut().for_each(smallvec::SmallVec::clear);
        results.clear();
        Self { ops, checks, sizes, workspace_binds, input_binds, slot_binds, slots, results, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, LayoutField, PlanSlot, lower, plan::InputSpec};

    /// A copy of `rows` rows of 4 through a buffer of another size, and a view of its first row.
    fn plan(rows: i64) -> Plan {
        let (all, one) = (Layout::contiguous(DType::F32, &[rows, 4]), Layout::contiguous(DType::F32, &[1, 4]));
        Plan {
            inputs: vec![InputSpec { layout: all.clone(), storage: None, mutated: false, version_bumps: 0 }],
            workspace_bytes: 64,
            steps: vec![
                Step::Buffer { dst: 1, byte_offset: 0, layout: one.clone() },
                Step::OutputBuffer { dst: 2, layout: all },
                Step::View { dst: 3, src: 2, layout: one },
            ],
            results: vec![2],
            ..Plan::default()
        }
    }

    fn open() -> Open {
        let mut open = Open::default();
        for number in [PlanSlot::Input(0, LayoutField::Size(0)), PlanSlot::Step(1, LayoutField::Size(0))] {
            open.note(number, "s0".parse().expect("parses"));
        }
        open
    }

    #[test]
    fn only_what_does_not_vary_is_known() {
        let facts = Facts::new(&plan(8), &open()).expect("makes sense");
        let row = Some(Fact { span: Some((0, 16)), repeats: false });
        assert_eq!((facts.input(0), facts.step(0), facts.step(1), facts.step(2), facts.step(9)), (None, row, None, row, None));
    }

    #[test]
    fn what_is_made_in_old_memory_is_what_is_made_anew() {
        let facts = Facts::new(&plan(8), &open()).expect("makes sense");
        let before = lower::lower(&plan(8)).expect("is fine");
        // More slots than needed, or fewer, do no harm.
        let mut more = lower::lower(&plan(8)).expect("is fine");
        more.slots.push(Layout::contiguous(DType::I8, &[3]));
        more.slot_binds.push(lower::Binds::new());
        for spent in [before, more, Program::default()] {
            for rows in [8, 20, 1] {
                let fresh = format!("{:?}", lower::lower(&plan(rows)).expect("is fine"));
                let again = lower::lower_again(&plan(rows), &facts, lower::lower(&plan(5)).expect("is fine").emptied());
                assert_eq!(format!("{:?}", again.expect("is fine")), fresh);
            }
            let again = lower::lower_again(&plan(20), &facts, spent.emptied()).expect("is fine");
            assert_eq!(format!("{again:?}"), format!("{:?}", lower::lower(&plan(20)).expect("is fine")));
        }
    }
}
