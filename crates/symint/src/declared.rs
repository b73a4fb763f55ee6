//! Sizes that are declared before the capture, as by `dynamlir.export`: those that may be dynamic, their ranges, and those that are equal.
//! All others are static.
//!
//! A declared number becomes a symbol when the frame first uses it. A size may be a linear function of one, `3*n + 1`. The caller judges if
//! everything that the program needs was declared, by the guards and by the final expressions of the symbols.

use dynamlir_shapes::{Dim, Dimension, Interval, Predicate, Result as Shape, Symbol};
use pyo3::{prelude::*, types::PyTuple};
use rustc_hash::FxHashMap;

use crate::Sizes;

/// A number that may be dynamic.
#[derive(Clone, Copy, Debug)]
pub struct DeclaredSize {
    hint: i64,
    range: Interval,
    /// It is `step*n + rest` for an integer `n`, of which lines are functions.
    step: i64,
    rest: i64,
}

/// A linear function of a declared number.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    number: usize,
    factor: i64,
    offset: i64,
}

/// The declarations about the arguments of a call.
#[derive(Debug, Default)]
pub struct Declared {
    numbers: Vec<DeclaredSize>,
    /// Sizes of tensors, by the tensors' addresses.
    tensors: FxHashMap<usize, Vec<(usize, Line)>>,
    /// Ints, by the expressions that reach them.
    ints: FxHashMap<String, usize>,
}

/// The form in Python: numbers as `(hint, min, max, step, rest)`, tensors with `(dim, number, factor, offset)` each, ints as `(where,
/// number)`.
type Told<'py> = (Vec<(i64, i64, i64, i64, i64)>, Vec<(Bound<'py, PyAny>, Vec<(usize, usize, i64, i64)>)>, Vec<(String, usize)>);

impl Declared {
    /// Reads declarations from Python. The tensors have to live as long as this is used.
    ///
    /// # Errors
    /// If `told` has another form.
    pub fn of(told: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let (numbers, tensors, ints): Told<'_> = told.extract()?;
        let number = |(hint, min, max, step, rest)| DeclaredSize { hint, range: Interval::new(min, max), step, rest };
        let line = |(dim, number, factor, offset)| (dim, Line { number, factor, offset });
        Ok(Self {
            numbers: numbers.into_iter().map(number).collect(),
            tensors: tensors.into_iter().map(|(tensor, lines)| (tensor.as_ptr() as usize, lines.into_iter().map(line).collect())).collect(),
            ints: ints.into_iter().collect(),
        })
    }

    /// Returns the declaration of a tensor's size, if it may be dynamic.
    pub fn size(&self, tensor: &Bound<'_, PyAny>, d: usize) -> Option<Line> {
        let lines = self.tensors.get(&(tensor.as_ptr() as usize))?;
        lines.iter().find(|(at, _)| *at == d).map(|(_, line)| *line)
    }

    /// Returns the declaration of the int at an expression, if it may be dynamic.
    pub fn int(&self, expression: &str) -> Option<Line> {
        self.ints.get(expression).map(|&number| Line { number, factor: 1, offset: 0 })
    }

    /// Returns a line as an expression; its symbol is created at the first use.
    pub fn expression(&self, line: Line, sizes: &Sizes) -> Shape<Dim> {
        let Line { number: at, factor, offset } = line;
        let DeclaredSize { step, rest, .. } = self.numbers[at];
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
        let DeclaredSize { hint, range, step, rest } = self.numbers[at];
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
    /// Returns the symbols of declared numbers that were used, as the number, its symbol, and the symbol's final expression.
    pub(crate) fn declared_in_words(&self) -> Vec<(usize, String, String)> {
        self.with(|known| {
            let now = |symbol: Symbol| Dim::from(symbol).simplify(&known.scope).unwrap_or_else(|_| Dim::from(symbol));
            known.declared.iter().map(|(number, symbol)| (*number, symbol.to_string(), now(*symbol).to_string())).collect()
        })
    }
}
