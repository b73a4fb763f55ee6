//! A strategy for a product: the library, or code of one form. It is less than a schedule – what is left open is cut as the
//! cost model likes – so that it fits wherever the same product stands.

use std::{fmt, str::FromStr};

use dynamlir_dialect::{ir::Op, ops, pass::PassError};

use super::{
    choose::{Form, Schedule, choose, dots, panels, stream},
    cut,
    problem::Problem,
    windows::{WindowSchedule, Windows},
};

/// How much more than the best code may be expected to take at most to be worth a try.
const COST_CUTOFF: f64 = 1.3;
/// Most strategies to try in code.
const MAX_CANDIDATES: usize = 4;

/// How a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// By the library.
    Library,
    /// By code of this form, with `vectors` vectors in a tile; lanes are the right operand's or the left one's.
    Product {
        /// What the vectors are filled with.
        form: Form,
        /// Whose lines are in the lanes.
        right: bool,
        /// Vectors beside each other, or columns of dots.
        vectors: i64,
    },
    /// A convolution by code, with this number of vectors in a tile and of images in one row of panels.
    Windows {
        /// Vectors beside each other.
        vectors: i64,
        /// Images that share panels.
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
        // A number that is written otherwise would be another text for the same.
        strategy.filter(|strategy| strategy.to_string() == text).ok_or_else(|| format!("'{text}' is not a strategy for a product"))
    }
}

impl Strategy {
    /// Of a schedule.
    fn of(schedule: &Schedule) -> Self {
        Self::Product { form: schedule.form, right: schedule.right, vectors: schedule.vectors }
    }
    fn of_windows(schedule: &WindowSchedule) -> Self {
        Self::Windows { vectors: schedule.vectors, images: schedule.images }
    }
    /// Notes it on a primitive.
    pub fn mark(self, op: Op) {
        ops::CHOICE.set(op, &self.to_string());
    }
    /// That which a primitive names.
    pub fn on(op: Op) -> Result<Option<Self>, PassError> {
        let Some(attr) = op.attr(ops::CHOICE.name()) else { return Ok(None) };
        let text = attr.as_str().ok_or_else(|| PassError::at(op, format!("'{}' must be a string, got {attr}", ops::CHOICE.name())))?;
        text.parse().map(Some).map_err(|error| PassError::at(op, format!("'{}': {error}", ops::CHOICE.name())))
    }
}

/// The schedule for a product, by this strategy if that suits it.
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
/// Why there is none at all.
pub fn window_schedule(windows: &Windows, vector_bits: i64, strategy: Option<Strategy>) -> Result<WindowSchedule, &'static str> {
    let chosen = cut::choose(windows, vector_bits)?;
    let Some(Strategy::Windows { vectors, images }) = strategy else { return Ok(chosen) };
    Ok(cut::candidates(windows, vector_bits)
        .into_iter()
        .map(|(_, made)| made)
        .find(|made| (made.vectors, made.images) == (vectors, images))
        .unwrap_or(chosen))
}

/// One of the forms for few rows, if there are.
fn of_few(problem: &Problem, form: Form, right: bool, width: i64) -> Option<Schedule> {
    let (few, many) = (problem.side(!right).size, problem.side(right).size);
    let (fills, make) = match form {
        Form::Dots => (problem.k >= width, dots as fn(&Problem, bool, i64) -> Schedule),
        _ => (many >= width, stream as _),
    };
    (few < width && fills).then(|| make(problem, right, width)).filter(|made| made.suits(problem))
}

/// Code that is worth a try for a product, the expected one first.
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

/// What is not expected to take much more than the best, in order.
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
