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

    /// Whether a number depends on a symbol.
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
