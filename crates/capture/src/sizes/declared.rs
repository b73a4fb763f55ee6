//! Sizes that are declared before the capture, as `dynamlir.export` has them declared: which may vary, in which range, and which of them
//! are one number. All others are numbers.
//!
//! A declared number is a symbol from when the frame first meets it. A size may be a line over one, `3*n + 1`. Whether all that the program
//! needs was declared is for the caller to judge, by the guards and by what became of the symbols.

use dynamlir_shapes::{Dim, Dimension, Interval, Predicate, Result as Shape, Symbol};
use pyo3::{prelude::*, types::PyTuple};
use rustc_hash::FxHashMap;

use super::Sizes;

/// A number that may vary.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    hint: i64,
    range: Interval,
    /// It is `step*n + rest` for a whole `n`, which is what lines are over.
    step: i64,
    rest: i64,
}

/// A line over a declared number.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    number: usize,
    factor: i64,
    offset: i64,
}

/// What is declared of the arguments of a call.
#[derive(Debug, Default)]
pub struct Declared {
    numbers: Vec<Number>,
    /// Sizes of tensors, by the addresses of those.
    tensors: FxHashMap<usize, Vec<(usize, Line)>>,
    /// Ints, by the expressions that reach them.
    ints: FxHashMap<String, usize>,
}

/// How Python says it: numbers as `(hint, min, max, step, rest)`, tensors with `(dim, number, factor, offset)` each, ints as `(where, number)`.
type Told<'py> = (Vec<(i64, i64, i64, i64, i64)>, Vec<(Bound<'py, PyAny>, Vec<(usize, usize, i64, i64)>)>, Vec<(String, usize)>);

impl Declared {
    /// Reads it. The tensors have to live as long as this is used.
    ///
    /// # Errors
    /// When it is something else.
    pub fn of(told: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let (numbers, tensors, ints): Told<'_> = told.extract()?;
        let number = |(hint, min, max, step, rest)| Number { hint, range: Interval::new(min, max), step, rest };
        let line = |(dim, number, factor, offset)| (dim, Line { number, factor, offset });
        Ok(Self {
            numbers: numbers.into_iter().map(number).collect(),
            tensors: tensors.into_iter().map(|(tensor, lines)| (tensor.as_ptr() as usize, lines.into_iter().map(line).collect())).collect(),
            ints: ints.into_iter().collect(),
        })
    }

    /// What a size of a tensor is, if it may vary.
    pub(super) fn size(&self, tensor: &Bound<'_, PyAny>, d: usize) -> Option<Line> {
        let lines = self.tensors.get(&(tensor.as_ptr() as usize))?;
        lines.iter().find(|(at, _)| *at == d).map(|(_, line)| *line)
    }

    /// The number that the int is which an expression reaches, if it may vary.
    pub(super) fn int(&self, expression: &str) -> Option<Line> {
        self.ints.get(expression).map(|&number| Line { number, factor: 1, offset: 0 })
    }

    /// A line as an expression; its symbol is made when it is first met.
    pub(super) fn expression(&self, line: Line, sizes: &Sizes) -> Shape<Dim> {
        let Line { number: at, factor, offset } = line;
        let Number { step, rest, .. } = self.numbers[at];
        let whole = Dim::from(self.symbol(at, sizes));
        if (factor, offset) == (step, rest) {
            return Ok(whole);
        }
        let root = whole.sub(&Dim::from(rest))?.floordiv(&Dim::from(step))?;
        root.mul(&Dim::from(factor))?.add(&Dim::from(offset))
    }

    fn symbol(&self, at: usize, sizes: &Sizes) -> Symbol {
        if let Some(known) = sizes.with(|known| known.declared.iter().find(|(number, _)| *number == at).map(|(_, symbol)| *symbol)) {
            return known;
        }
        let Number { hint, range, step, rest } = self.numbers[at];
        let symbol = sizes.declare(hint, range);
        sizes.with(|known| known.declared.push((at, symbol)));
        if step != 1 {
            let whole = Dim::from(symbol).sub(&Dim::from(rest)).and_then(|whole| Predicate::divisible(&whole, &Dim::from(step)));
            match whole {
                Ok(promise) => {
                    let before = sizes.with(|known| known.guards.len());
                    sizes.decide(&promise);
                    sizes.with(|known| known.promised.extend(before..known.guards.len()));
                }
                Err(error) => sizes.fail(&error),
            }
        }
        symbol
    }
}

impl Sizes {
    /// The symbols of what was declared and met, as the number, its symbol, and what that has turned out to be.
    pub(super) fn declared_in_words(&self) -> Vec<(usize, String, String)> {
        self.with(|known| {
            let now = |symbol: Symbol| Dim::from(symbol).simplify(&known.scope).unwrap_or_else(|_| Dim::from(symbol));
            known.declared.iter().map(|(number, symbol)| (*number, symbol.to_string(), now(*symbol).to_string())).collect()
        })
    }
}
