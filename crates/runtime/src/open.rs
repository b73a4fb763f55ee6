//! Plans whose numbers depend on dynamic sizes.
//!
//! Only the numbers in a [`Plan`] vary, never what it does. So an [`OpenPlan`] consists of the plan for the sizes with which it was
//! created, and a list of those of its numbers that are expressions over symbols. [`Open::at`] turns it into the plan for other sizes. That
//! plan is checked and flattened like any other: nothing except the numbers relies on the expressions being right.

use dynamlir_shapes::{Bindings, Dim, Predicate, Symbol, SymbolInfo};

use crate::{
    ExternArg, Layout, Plan, PlanError, Step,
    plan::{InputSpec, Output},
};

/// A number of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of a window")]
pub enum LayoutField {
    Size(usize),
    Stride(usize),
    Offset,
}

/// The place of a number in a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanSlot {
    /// In the layout of an input.
    Input(usize, LayoutField),
    /// The bytes of the workspace.
    Workspace,
    /// In the layout of a step.
    Step(usize, LayoutField),
    /// The start of a step's buffer in the workspace.
    ByteOffset(usize),
    /// A size passed to a launch: step, index among its sizes.
    LaunchSize(usize, usize),
    /// In the layout of an extern call's result: call, result.
    ExternResult(usize, usize, LayoutField),
    /// An argument of an extern call: call, then indices into lists, from the outermost to the innermost.
    ExternArg(usize, Vec<usize>),
    /// The lower bound of a check.
    Low(usize),
    /// The upper bound of a check.
    High(usize),
    /// In an output that is a view.
    Output(usize, LayoutField),
    /// In the layout of a value passed between nodes.
    Crossing(usize, LayoutField),
}

/// The place of a symbol's value, and its possible values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Varying {
    /// The symbol.
    pub symbol: Symbol,
    /// The input that has it as a size.
    pub input: usize,
    /// The dimension of that input.
    pub dim: usize,
    /// Range and divisor.
    pub info: SymbolInfo,
}

/// The numbers of a plan that are expressions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Open {
    /// The symbols, in order.
    pub symbols: Vec<Varying>,
    /// The plan's assumptions about them.
    assumed: Vec<Predicate>,
    sizes: Vec<Dim>,
    /// Each number with its index in `sizes`: equal expressions are computed once.
    numbers: Vec<(PlanSlot, usize)>,
}

impl Open {
    /// Creates it for these symbols and assumptions.
    pub fn new(symbols: Vec<Varying>, assumed: Vec<Predicate>) -> Self {
        Self { symbols, assumed, ..Self::default() }
    }

    /// Records that a number of the plan has this expression.
    pub fn note(&mut self, number: PlanSlot, size: Dim) {
        let at = self.sizes.iter().position(|known| *known == size).unwrap_or_else(|| {
            self.sizes.push(size);
            self.sizes.len() - 1
        });
        self.numbers.push((number, at));
    }

    /// Returns true if the layout of an input has such numbers.
    pub(crate) fn varies_input(&self, at: usize) -> bool {
        self.numbers.iter().any(|(number, _)| matches!(number, PlanSlot::Input(input, _) if *input == at))
    }

    /// Returns true if the layout in a step has such numbers.
    pub(crate) fn varies_step(&self, at: usize) -> bool {
        self.numbers.iter().any(|(number, _)| matches!(number, PlanSlot::Step(step, _) if *step == at))
    }

    /// Returns true if no number depends on a symbol.
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty() && self.numbers.is_empty()
    }

    /// Binds the symbols to values, in order; returns an error if a symbol may not have its value.
    pub fn bindings(&self, values: &[i64]) -> Result<Bindings, PlanError> {
        if values.len() != self.symbols.len() {
            return Err(PlanError(format!("{} sizes for {} symbols", values.len(), self.symbols.len())));
        }
        for (varying, value) in self.symbols.iter().zip(values) {
            if !varying.info.range.contains(*value) || value % varying.info.divisor != 0 {
                return Err(PlanError(format!("{} may not be {value}", varying.symbol)));
            }
        }
        let bindings = self.symbols.iter().map(|varying| varying.symbol).zip(values.iter().copied()).collect();
        match self.assumed.iter().find(|predicate| predicate.holds(&bindings) != Ok(true)) {
            Some(broken) => Err(PlanError(format!("{broken} does not hold"))),
            None => Ok(bindings),
        }
    }

    /// Returns the plan, to which these numbers belong, for other values of the symbols.
    pub fn at(&self, plan: &Plan, values: &[i64]) -> Result<Plan, PlanError> {
        let mut plan = plan.clone();
        self.set(&mut plan, values)?;
        Ok(plan)
    }

    /// Changes the plan, to which these numbers belong, to other values of the symbols.
    pub fn set(&self, plan: &mut Plan, values: &[i64]) -> Result<(), PlanError> {
        let bindings = self.bindings(values)?;
        let fault = |error: dynamlir_shapes::ShapeError| PlanError(error.to_string());
        let sizes = self.sizes.iter().map(|size| size.at(&bindings)).collect::<Result<Vec<_>, _>>().map_err(fault)?;
        for (number, at) in &self.numbers {
            put(plan, number, sizes[*at]).ok_or_else(|| PlanError(format!("there is no such number: {number:?}")))??;
        }
        Ok(())
    }
}

/// A plan, and those of its numbers that are expressions.
pub type OpenPlan = (Plan, Open);

/// Sets a number; returns None if the plan does not have it.
fn put(plan: &mut Plan, number: &PlanSlot, value: i64) -> Option<Result<(), PlanError>> {
    let count = || usize::try_from(value).map_err(|_| PlanError(format!("{value} bytes")));
    match number {
        PlanSlot::Input(input, part) => {
            let InputSpec { layout, .. } = plan.inputs.get_mut(*input)?;
            *part.of(layout)? = value;
        }
        PlanSlot::Workspace => match count() {
            Ok(bytes) => plan.workspace_bytes = bytes,
            Err(error) => return Some(Err(error)),
        },
        PlanSlot::Step(step, part) => {
            let (Step::Buffer { layout, .. } | Step::OutputBuffer { layout, .. } | Step::View { layout, .. }) =
                plan.steps.get_mut(*step)?
            else {
                return None;
            };
            *part.of(layout)? = value;
        }
        PlanSlot::ByteOffset(step) => {
            let Step::Buffer { byte_offset, .. } = plan.steps.get_mut(*step)? else { return None };
            match count() {
                Ok(bytes) => *byte_offset = bytes,
                Err(error) => return Some(Err(error)),
            }
        }
        PlanSlot::LaunchSize(step, at) => {
            let Step::Launch { sizes, .. } = plan.steps.get_mut(*step)? else { return None };
            *sizes.get_mut(*at)? = value;
        }
        PlanSlot::ExternResult(call, result, part) => {
            *part.of(plan.externs.get_mut(*call)?.result_layouts.get_mut(*result)?.as_mut()?)? = value;
        }
        PlanSlot::ExternArg(call, path) => {
            let (first, rest) = path.split_first()?;
            let mut arg = plan.externs.get_mut(*call)?.args.get_mut(*first)?;
            for at in rest {
                let ExternArg::List(list) = arg else { return None };
                arg = list.get_mut(*at)?;
            }
            let ExternArg::Int(number) = arg else { return None };
            *number = value;
        }
        PlanSlot::Low(step) | PlanSlot::High(step) => {
            let Step::CheckRange { low, high, .. } = plan.steps.get_mut(*step)? else { return None };
            *(if matches!(number, PlanSlot::Low(_)) { low } else { high }) = value;
        }
        PlanSlot::Crossing(at, part) => *part.of(plan.training.as_mut()?.crossing.get_mut(*at)?)? = value,
        PlanSlot::Output(output, part) => {
            let (Output::ArgView { sizes, strides, offset, .. } | Output::ResultView { sizes, strides, offset, .. }) =
                plan.outputs.get_mut(*output)?
            else {
                return None;
            };
            *match part {
                LayoutField::Size(dim) => sizes.get_mut(*dim)?,
                LayoutField::Stride(dim) => strides.get_mut(*dim)?,
                LayoutField::Offset => offset,
            } = value;
        }
    }
    Some(Ok(()))
}

impl LayoutField {
    fn of(self, layout: &mut Layout) -> Option<&mut i64> {
        match self {
            Self::Size(dim) => layout.window.sizes.get_mut(dim),
            Self::Stride(dim) => layout.window.strides.get_mut(dim),
            Self::Offset => Some(&mut layout.window.offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use dynamlir_shapes::Interval;

    use super::*;
    use crate::{DType, ExternCall, KernelSpec, Route};

    /// A plan for 8 rows of 4: two consecutive buffers, a view of the last row, a launch, a library call with the number of rows.
    fn plan() -> Plan {
        let rows = Layout::contiguous(DType::F32, &[8, 4]);
        Plan {
            inputs: vec![InputSpec { layout: rows.clone(), storage: None, mutated: false, version_bumps: 0 }],
            workspace_bytes: 192,
            steps: vec![
                Step::Buffer { dst: 1, byte_offset: 64, layout: rows.clone() },
                Step::View { dst: 2, src: 1, layout: Layout::contiguous(DType::F32, &[1, 4]).with_offset(28) },
                Step::Launch { kernel: 0, args: vec![0, 1], sizes: vec![8] },
                Step::CheckRange { src: 0, low: 0, high: 8, message: String::new() },
            ],
            externs: vec![ExternCall {
                schema: "aten.view.default".into(),
                args: vec![ExternArg::List(vec![ExternArg::Int(8), ExternArg::Int(4)])],
                route: Route::CShim,
                result_layouts: vec![Some(rows)],
                location: String::new(),
            }],
            kernels: vec![KernelSpec { name: "k".into(), arguments: 2, written: 1, sizes: 1 }],
            outputs: vec![Output::ArgView { arg: 0, sizes: vec![7, 4], strides: vec![4, 1], offset: 4 }],
            ..Plan::default()
        }
    }

    fn open() -> Open {
        let info = SymbolInfo { range: Interval::new(2, 100), hint: Some(8), divisor: 2 };
        let mut open = Open::new(vec![Varying { symbol: Symbol(0), input: 0, dim: 0, info }], vec!["s0 != 10".parse().expect("parses")]);
        let numbers = [
            (PlanSlot::Input(0, LayoutField::Size(0)), "s0"),
            (PlanSlot::Workspace, "s0*16 + 64"),
            (PlanSlot::Step(0, LayoutField::Size(0)), "s0"),
            (PlanSlot::Step(1, LayoutField::Offset), "s0*4 - 4"),
            (PlanSlot::LaunchSize(2, 0), "s0"),
            (PlanSlot::High(3), "s0"),
            (PlanSlot::ExternArg(0, vec![0, 0]), "s0"),
            (PlanSlot::ExternResult(0, 0, LayoutField::Size(0)), "s0"),
            (PlanSlot::Output(0, LayoutField::Size(0)), "s0 - 1"),
        ];
        for (number, size) in numbers {
            open.note(number, size.parse().expect("parses"));
        }
        open
    }

    #[test]
    fn numbers_are_put_where_they_belong() {
        let (plan, open) = (plan(), open());
        assert_eq!(open.at(&plan, &[8]).expect("the sizes that it was made with"), plan);
        let made = open.at(&plan, &[20]).expect("other sizes");
        assert_eq!((made.inputs[0].layout.window.sizes[0], made.workspace_bytes), (20, 384));
        let Step::View { layout, .. } = &made.steps[1] else { panic!("{made:?}") };
        assert_eq!(layout.window.offset, 76);
        assert!(matches!(&made.steps[2], Step::Launch { sizes, .. } if sizes == &[20]));
        assert!(matches!(&made.steps[3], Step::CheckRange { high: 20, low: 0, .. }));
        assert_eq!(made.externs[0].args, [ExternArg::List(vec![ExternArg::Int(20), ExternArg::Int(4)])]);
        assert!(matches!(&made.outputs[0], Output::ArgView { sizes, .. } if sizes == &[19, 4]));
        // Changing it back, in place.
        let mut again = made;
        open.set(&mut again, &[8]).expect("the first sizes");
        assert_eq!(again, plan);
    }

    #[test]
    fn what_is_declared_and_assumed_is_asked_for() {
        let error = |values: &[i64]| open().at(&plan(), values).expect_err("is refused").to_string();
        assert!(error(&[102]).contains("s0 may not be 102"));
        assert!(error(&[7]).contains("s0 may not be 7"));
        assert!(error(&[10]).contains("s0 != 10 does not hold"));
        assert!(error(&[8, 8]).contains("2 sizes for 1 symbols"));
    }

    #[test]
    fn a_number_that_is_not_there_is_an_error() {
        let wrong = [
            PlanSlot::Input(1, LayoutField::Offset),
            PlanSlot::Step(2, LayoutField::Offset),
            PlanSlot::ExternArg(0, vec![0]),
            PlanSlot::Low(0),
        ];
        for number in
            wrong.into_iter().chain([PlanSlot::LaunchSize(2, 1), PlanSlot::Output(0, LayoutField::Size(2)), PlanSlot::ByteOffset(1)])
        {
            let mut open = Open::new(open().symbols, Vec::new());
            open.note(number, "s0".parse().expect("parses"));
            assert!(open.at(&plan(), &[8]).expect_err("is refused").to_string().contains("there is no such number"));
        }
    }
}
