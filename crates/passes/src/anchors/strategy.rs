//! A strategy for a product: the library, or code of one form. It contains less than a schedule, and the cost model cuts the rest, so that
//! it applies wherever the same product occurs.

use std::{fmt, str::FromStr};

use dynamlir_dialect::{ir::Op, ops, pass::PassError};

use super::{
    choose::{Form, Schedule, choose, dots, panels, stream},
    cut,
    problem::Problem,
    windows::{WindowSchedule, Windows},
};

/// The maximum expected cost of a candidate worth trying, relative to the best code.
const COST_CUTOFF: f64 = 1.3;
/// The maximum number of code strategies to try.
const MAX_CANDIDATES: usize = 4;

/// A way to compute a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The library's call.
    Library,
    /// Code of this form, with `vectors` vectors in a tile; the lanes belong to the right or the left operand.
    Product {
        /// The content of the vectors.
        form: Form,
        /// True if the right operand's lines are in the lanes.
        right: bool,
        /// Number of adjacent vectors, or of columns for dots.
        vectors: i64,
    },
    /// A convolution computed by code, with these numbers of vectors in a tile and of images in one row of panels.
    Windows {
        /// Number of adjacent vectors.
        vectors: i64,
        /// Number of images that share panels.
        images: i64,
    },
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Library => f.write_str("library"),
            Self::Product { form, right, vectors } => write!(f, "{}-{}-{vectors}", form.name(), if right { "rhs" } else { "lhs" }),
            Self::Windows { vectors, images } => write!(f, "windows-{vectors}-{images}"),
        }
    }
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().ok().filter(|&number: &i64| number > 0);
        let strategy = match text.split('-').collect::<Vec<_>>()[..] {
            ["library"] => Some(Self::Library),
            ["windows", vectors, images] => number(vectors).zip(number(images)).map(|(vectors, images)| Self::Windows { vectors, images }),
            [form, side @ ("lhs" | "rhs"), vectors] => {
                Form::named(form).zip(number(vectors)).map(|(form, vectors)| Self::Product { form, right: side == "rhs", vectors })
            }
            _ => None,
        };
        // Each strategy has exactly one text: a number written differently is rejected.
        strategy.filter(|strategy| strategy.to_string() == text).ok_or_else(|| format!("'{text}' is not a strategy for a product"))
    }
}

impl Strategy {
    /// The strategy of a schedule.
    fn of(schedule: &Schedule) -> Self {
        Self::Product { form: schedule.form, right: schedule.right, vectors: schedule.vectors }
    }
    fn of_windows(schedule: &WindowSchedule) -> Self {
        Self::Windows { vectors: schedule.vectors, images: schedule.images }
    }
    /// Records the strategy on a primitive.
    pub fn mark(self, op: Op) {
        ops::CHOICE.set(op, &self.to_string());
    }
    /// Returns the strategy recorded on a primitive.
    pub fn on(op: Op) -> Result<Option<Self>, PassError> {
        let Some(attr) = op.attr(ops::CHOICE.name()) else { return Ok(None) };
        let text = attr.as_str().ok_or_else(|| PassError::at(op, format!("'{}' must be a string, got {attr}", ops::CHOICE.name())))?;
        text.parse().map(Some).map_err(|error| PassError::at(op, format!("'{}': {error}", ops::CHOICE.name())))
    }
}

/// The schedule for a product, following this strategy if it suits the product.
pub fn schedule(problem: &Problem, vector_bits: i64, strategy: Option<Strategy>) -> Option<Schedule> {
    let chosen = choose(problem, vector_bits)?;
    let Some(Strategy::Product { form, right, vectors }) = strategy else { return Some(chosen) };
    let width = vector_bits / 32;
    let made = match form {
        Form::Panels => (1..=3).contains(&vectors).then(|| panels(problem, right, width, vectors..=vectors).1),
        Form::Dots | Form::Stream => of_few(problem, form, right, width),
    };
    Some(made.filter(|made| made.form == form && made.suits(problem)).unwrap_or(chosen))
}

/// The same for a convolution.
///
/// # Errors
/// Returns the reason if there is no schedule at all.
pub fn window_schedule(windows: &Windows, vector_bits: i64, strategy: Option<Strategy>) -> Result<WindowSchedule, &'static str> {
    let chosen = cut::choose(windows, vector_bits)?;
    let Some(Strategy::Windows { vectors, images }) = strategy else { return Ok(chosen) };
    Ok(cut::candidates(windows, vector_bits)
        .into_iter()
        .map(|(_, made)| made)
        .find(|made| (made.vectors, made.images) == (vectors, images))
        .unwrap_or(chosen))
}

/// The schedule of one of the forms for few rows, if it applies.
fn of_few(problem: &Problem, form: Form, right: bool, width: i64) -> Option<Schedule> {
    let (few, many) = (problem.side(!right).size, problem.side(right).size);
    let (fills, make) = match form {
        Form::Dots => (problem.k >= width, dots as fn(&Problem, bool, i64) -> Schedule),
        _ => (many >= width, stream as _),
    };
    (few < width && fills).then(|| make(problem, right, width)).filter(|made| made.suits(problem))
}

/// The code strategies worth trying for a product, the expected one first.
pub fn strategies(problem: &Problem, vector_bits: i64) -> Vec<Strategy> {
    let Some(chosen) = choose(problem, vector_bits) else { return Vec::new() };
    let width = vector_bits / 32;
    let mut all = vec![Strategy::of(&chosen)];
    let right = problem.rhs.size >= problem.lhs.size;
    let others = [Form::Dots, Form::Stream].into_iter().filter_map(|form| of_few(problem, form, right, width));
    all.extend(others.map(|made| Strategy::of(&made)));
    let panelled = [true, false].into_iter().flat_map(|right| (1..=3).map(move |vectors| panels(problem, right, width, vectors..=vectors)));
    all.extend(promising(panelled.filter(|(_, made)| made.form == Form::Panels && made.suits(problem)), Strategy::of));
    distinct(all)
}

/// The same for a convolution.
pub fn window_strategies(windows: &Windows, vector_bits: i64) -> Vec<Strategy> {
    let Ok(chosen) = cut::choose(windows, vector_bits) else { return Vec::new() };
    let mut all = vec![Strategy::of_windows(&chosen)];
    all.extend(promising(cut::candidates(windows, vector_bits).into_iter(), Strategy::of_windows));
    distinct(all)
}

/// The strategies whose expected cost is close to the best, in order of cost.
fn promising<T>(candidates: impl Iterator<Item = (f64, T)>, strategy: impl Fn(&T) -> Strategy) -> Vec<Strategy> {
    let mut all: Vec<_> = candidates.collect();
    all.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let limit = all.first().map_or(0.0, |(best, _)| best * COST_CUTOFF);
    all.iter().filter(|(cost, _)| *cost <= limit).map(|(_, made)| strategy(made)).collect()
}

fn distinct(all: Vec<Strategy>) -> Vec<Strategy> {
    let mut kept: Vec<Strategy> = Vec::new();
    for strategy in all {
        if kept.len() < MAX_CANDIDATES && !kept.contains(&strategy) {
            kept.push(strategy);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_its_text() {
        for text in ["library", "panels-lhs-2", "dots-rhs-8", "stream-rhs-1", "windows-3-4"] {
            assert_eq!(text.parse::<Strategy>().expect("a strategy").to_string(), text);
        }
        for text in [
            "",
            "Library",
            "panels",
            "panels-lhs",
            "panels-lhs-0",
            "panels-both-1",
            "windows-1",
            "dots-rhs-08",
            "dots-rhs-+8",
            "spiral-lhs-1",
        ] {
            assert!(text.parse::<Strategy>().is_err(), "{text}");
        }
    }

    #[test]
    fn each_way_is_obeyed_or_the_model_is() {
        let sizes = [1, 2, 5, 15, 16, 17, 33, 48, 100, 768];
        let all =
            ["panels-lhs-1", "panels-lhs-3", "panels-rhs-2", "dots-lhs-4", "dots-rhs-8", "stream-lhs-2", "stream-rhs-1", "windows-1-1"];
        for bits in [256, 512] {
            for i in 0..sizes.len().pow(3) {
                let at = |i: usize| sizes[i % sizes.len()];
                let (m, n, k) = (at(i), at(i / 10), at(i / 100));
                for strides in [[1, k], [n, 1]] {
                    let problem = Problem::of(0, (&[m, k], &[k, 1]), (&[k, n], &strides)).expect("fits");
                    let tried = strategies(&problem, bits);
                    assert!(!tried.is_empty() && tried.len() <= MAX_CANDIDATES);
                    for strategy in tried {
                        let made = schedule(&problem, bits, Some(strategy)).expect("vectors");
                        assert_eq!(Strategy::of(&made), strategy, "{problem:?}");
                        assert!(made.suits(&problem), "{problem:?} {made:?}");
                    }
                    for strategy in all {
                        let made = schedule(&problem, bits, strategy.parse().ok()).expect("vectors");
                        assert!(made.suits(&problem), "{problem:?} {strategy} {made:?}");
                    }
                }
            }
        }
    }
}
