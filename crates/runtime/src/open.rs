//! Plans whose numbers depend on sizes that vary.
//!
//! What varies is which numbers stand in a [`Plan`], never what it does. So an [`OpenPlan`] is the plan for the sizes that it was
//! made with, and a list of the numbers in it that are expressions over symbols; [`OpenPlan::at`] makes it the plan for others. That is
//! checked and flattened as any plan is: nothing depends on the expressions being right but the numbers.

use dynamlir_shapes::{Bindings, Dim, Predicate, Symbol, SymbolInfo};

use crate::{
    ExternArg, Layout, Plan, PlanError, Step,
    plan::{InputSpec, Output},
};

/// A number of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of a window")]
pub enum Part {
    Size(usize),
    Stride(usize),
    Offset,
}

/// A number of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Number {
    /// Of the layout of an input.
    Input(usize, Part),
    /// The bytes of the workspace.
    Workspace,
    /// Of the layout in a step.
    Step(usize, Part),
    /// Where a step's buffer begins in the workspace.
    ByteOffset(usize),
    /// What a launch hands over: step, place in its sizes.
    LaunchSize(usize, usize),
    /// Of the layout of an extern call's result: call, result.
    ExternResult(usize, usize, Part),
    /// An argument of an extern call: call, places in lists from the outermost to the innermost.
    ExternArg(usize, Vec<usize>),
    /// The lower bound of a check.
    Low(usize),
    /// The upper bound of a check.
    High(usize),
    /// Of the view that an output is.
    Output(usize, Part),
    /// Of the layout of what nodes hand to one another.
    Crossing(usize, Part),
}

/// Where a symbol's value is found, and which values it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Varying {
    /// Which.
    pub symbol: Symbol,
    /// The input whose size it is.
    pub input: usize,
    /// Which size of that.
    pub dim: usize,
    /// Range and divisor.
    pub info: SymbolInfo,
}

/// The numbers of a plan that are expressions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Open {
    /// The symbols, in order.
    pub symbols: Vec<Varying>,
    /// What the plan assumes of them.
    assumed: Vec<Predicate>,
    sizes: Vec<Dim>,
    /// Each with its place in `sizes`: equal expressions are computed once.
    numbers: Vec<(Number, usize)>,
}

impl Open {
    /// For these symbols, of which this is assumed.
    pub fn new(symbols: Vec<Varying>, assumed: Vec<Predicate>) -> Self {
        Self { symbols, assumed, ..Self::default() }
    }

    /// Notes that a number of the plan is this expression.
    pub fn note(&mut self, number: Number, size: Dim) {
        let at = self.sizes.iter().position(|known| *known == size).unwrap_or_else(|| {
            self.sizes.push(size);
            self.sizes.len() - 1
        });
        self.numbers.push((number, at));
    }

    /// Whether the layout of an input has such numbers.
    pub(crate) fn varies_input(&self, at: usize) -> bool {
        self.numbers.iter().any(|(number, _)| matches!(number, Number::Input(input, _) if *input == at))
    }

    /// Whether the layout in a step has such numbers.
    pub(crate) fn varies_step(&self, at: usize) -> bool {
        self.numbers.iter().any(|(number, _)| matches!(number, Number::Step(step, _) if *step == at))
    }

    /// Whether no number depends on a symbol.
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty() && self.numbers.is_empty()
    }

    /// The values of symbols, in their order; an error where a symbol may not have one.
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

    /// `plan`, whose numbers these are, for other values of the symbols.
    pub fn at(&self, plan: &Plan, values: &[i64]) -> Result<Plan, PlanError> {
        let mut plan = plan.clone();
        self.set(&mut plan, values)?;
        Ok(plan)
    }

    /// Makes `plan`, whose numbers these are, that for other values of the symbols.
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

/// A plan and its numbers that are expressions.
pub type OpenPlan = (Plan, Open);

/// None where the plan has no such number.
fn put(plan: &mut Plan, number: &Number, value: i64) -> Option<Result<(), PlanError>> {
    let count = || usize::try_from(value).map_err(|_| PlanError(format!("{value} bytes")));
    match number {
        Number::Input(input, part) => {
            let InputSpec { layout, .. } = plan.inputs.get_mut(*input)?;
            *part.of(layout)? = value;
        }
        Number::Workspace => match count() {
            Ok(bytes) => plan.workspace_bytes = bytes,
            Err(error) => return Some(Err(error)),
        },
        Number::Step(step, part) => {
            let (Step::Buffer { layout, .. } | Step::OutputBuffer { layout, .. } | Step::View { layout, .. }) =
                plan.steps.get_mut(*step)?
            else {
                return None;
            };
            *part.of(layout)? = value;
        }
        Number::ByteOffset(step) => {
            let Step::Buffer { byte_offset, .. } = plan.steps.get_mut(*step)? else { return None };
            match count() {
                Ok(bytes) => *byte_offset = bytes,
                Err(error) => return Some(Err(error)),
            }
        }
        Number::LaunchSize(step, at) => {
            let Step::Launch { sizes, .. } = plan.steps.get_mut(*step)? else { return None };
            *sizes.get_mut(*at)? = value;
        }
        Number::ExternResult(call, result, part) => {
            *part.of(plan.externs.get_mut(*call)?.result_layouts.get_mut(*result)?.as_mut()?)? = value;
        }
        Number::ExternArg(call, path) => {
            let (first, rest) = path.split_first()?;
            let mut arg = plan.externs.get_mut(*call)?.args.get_mut(*first)?;
            for at in rest {
                let ExternArg::List(list) = arg else { return None };
                arg = list.get_mut(*at)?;
            }
            let ExternArg::Int(number) = arg else { return None };
            *number = value;
        }
        Number::Low(step) | Number::High(step) => {
            let Step::CheckRange { low, high, .. } = plan.steps.get_mut(*step)? else { return None };
            *(if matches!(number, Number::Low(_)) { low } else { high }) = value;
        }
        Number::Crossing(at, part) => *part.of(plan.training.as_mut()?.crossing.get_mut(*at)?)? = value,
        Number::Output(output, part) => {
            let (Output::ArgView { sizes, strides, offset, .. } | Output::ResultView { sizes, strides, offset, .. }) =
                plan.outputs.get_mut(*output)?
            else {
                return None;
            };
            *match part {
                Part::Size(dim) => sizes.get_mut(*dim)?,
                Part::Stride(dim) => strides.get_mut(*dim)?,
                Part::Offset => offset,
            } = value;
        }
    }
    Some(Ok(()))
}

impl Part {
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

    /// A plan for 8 rows of 4: a buffer behind another, a view of its last row, a launch, a call of the library with the number of rows.
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
            (Number::Input(0, Part::Size(0)), "s0"),
            (Number::Workspace, "s0*16 + 64"),
            (Number::Step(0, Part::Size(0)), "s0"),
            (Number::Step(1, Part::Offset), "s0*4 - 4"),
            (Number::LaunchSize(2, 0), "s0"),
            (Number::High(3), "s0"),
            (Number::ExternArg(0, vec![0, 0]), "s0"),
            (Number::ExternResult(0, 0, Part::Size(0)), "s0"),
            (Number::Output(0, Part::Size(0)), "s0 - 1"),
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
        // And back again, in place.
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
        let wrong = [Number::Input(1, Part::Offset), Number::Step(2, Part::Offset), Number::ExternArg(0, vec![0]), Number::Low(0)];
        for number in wrong.into_iter().chain([Number::LaunchSize(2, 1), Number::Output(0, Part::Size(2)), Number::ByteOffset(1)]) {
            let mut open = Open::new(open().symbols, Vec::new());
            open.note(number, "s0".parse().expect("parses"));
            assert!(open.at(&plan(), &[8]).expect_err("is refused").to_string().contains("there is no such number"));
        }
    }
}
