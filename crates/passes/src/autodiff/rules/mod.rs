//! The derivatives of ``ATen`` operators, by schema.
//!
//! They are those of torch's `derivatives.yaml`, so that a gradient is made by the operators that eager makes it by. What a formula
//! there writes with Python-like operators is written here with those of [`Aten`](super::aten::Aten); where it only moves elements, with primitives.

mod activation;
mod arith;
mod complex;
mod condition;
mod convolution;
mod index;
mod join;
mod linear;
mod loss;
mod math;
mod norm;
mod reduce;
mod twice;
mod view;

use std::{collections::HashMap, sync::OnceLock};

use super::at::Rule;

/// In which results an operator is differentiable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Results {
    /// In the first.
    First,
    /// In all.
    All,
    /// In none: no gradient goes through.
    None,
}

impl Results {
    /// Whether it is in this one.
    pub fn contains(self, index: usize) -> bool {
        match self {
            Self::First => index == 0,
            Self::All => true,
            Self::None => false,
        }
    }
}

/// Says if autograd's node of an operator keeps a tensor, also one that no gradient here is made of: one walk uses it up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// In any case.
    Something,
    /// Where one of these arguments requires a gradient.
    For(&'static [usize]),
    /// Never: sizes and numbers at most.
    Nothing,
}

/// What is known of an operator.
#[derive(Clone, Copy)]
pub struct Row {
    /// `aten.<op>.<overload>`.
    pub schema: &'static str,
    /// In which results it is differentiable.
    pub results: Results,
    /// Gives the gradients of the arguments.
    pub rule: Rule,
    /// Says if eager keeps a tensor for these gradients.
    pub keeps: Keeps,
    /// Whether a recording of torch's formula serves better: it comes with torch's decomposition of the backward operator, or with
    /// its derivative, of which this compiler has none.
    pub is_better_recorded: bool,
}

impl Row {
    const fn better_recorded(self) -> Self {
        Self { is_better_recorded: true, ..self }
    }

    const fn keeping(self, keeps: Keeps) -> Self {
        Self { keeps, ..self }
    }
}

/// Rows of operators for whose gradients eager keeps nothing.
const fn keeping_nothing<const N: usize>(mut rows: [Row; N]) -> [Row; N] {
    let mut at = 0;
    while at < N {
        rows[at] = rows[at].keeping(Keeps::Nothing);
        at += 1;
    }
    rows
}

const fn first(schema: &'static str, rule: Rule) -> Row {
    Row { schema, results: Results::First, rule, keeps: Keeps::Something, is_better_recorded: false }
}

const fn all(schema: &'static str, rule: Rule) -> Row {
    Row { schema, results: Results::All, rule, keeps: Keeps::Something, is_better_recorded: false }
}

const fn none(schema: &'static str) -> Row {
    Row { schema, results: Results::None, rule: |_| Some(()), keeps: Keeps::Nothing, is_better_recorded: false }
}

/// The tables, for real numbers; each schema stands in one.
const TABLES: &[&[Row]] = &[
    activation::TABLE,
    arith::TABLE,
    condition::TABLE,
    convolution::TABLE,
    index::TABLE,
    join::TABLE,
    linear::TABLE,
    loss::TABLE,
    math::TABLE,
    norm::TABLE,
    reduce::TABLE,
    twice::TABLE,
    view::TABLE,
];

/// What is known of an operator, if anything.
pub fn find(schema: &str) -> Option<Row> {
    static ROWS: OnceLock<HashMap<&str, Row>> = OnceLock::new();
    let rows = ROWS.get_or_init(|| TABLES.iter().flat_map(|table| table.iter().map(|row| (row.schema, *row))).collect());
    rows.get(schema).copied()
}

/// The rule of an operator that takes or gives complex numbers, where it has one.
pub fn of_complex(schema: &str) -> Option<Rule> {
    complex::TABLE.iter().find(|(known, _)| *known == schema).map(|(_, rule)| *rule)
}

/// Whether an operator gives something that has no gradient, whatever it is given.
pub fn is_constant(schema: &str) -> bool {
    find(schema).is_some_and(|row| row.results == Results::None)
}

/// Every schema with a rule of which a recording serves better, or those of which none does.
pub fn schemas(better_recorded: bool) -> impl Iterator<Item = &'static str> {
    TABLES.iter().flat_map(|table| table.iter()).filter(move |row| row.is_better_recorded == better_recorded).map(|row| row.schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_schema_has_one_place() {
        let mut seen = HashSet::new();
        for schema in schemas(false).chain(schemas(true)) {
            assert!(seen.insert(schema), "{schema} stands in two tables");
            assert_eq!(schema.split('.').count(), 3, "{schema} is not `aten.<op>.<overload>`");
        }
    }

    #[test]
    fn what_is_known_is_found() {
        assert!(find("aten.max_pool2d_with_indices.default").is_some_and(|row| row.results.contains(0) && !row.results.contains(1)));
        assert!(find("aten.split.Tensor").is_some_and(|row| row.results.contains(7)));
        assert!(find("aten.rand_like.default").is_some_and(|row| !row.results.contains(0)));
        assert!(find("aten.nothing.default").is_none());
    }
}
