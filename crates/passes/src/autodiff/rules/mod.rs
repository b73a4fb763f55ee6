//! The derivatives of ``ATen`` operators, by schema.
//!
//! They are those of torch's `derivatives.yaml`, so that gradients are computed by the same operators as in eager. Formulas there use
//! Python-like operators; here they use those of [`Aten`](super::aten::Aten), and primitives where elements only move.

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

/// The results in which an operator is differentiable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Results {
    /// The first.
    First,
    /// All.
    All,
    /// None: no gradient passes through.
    None,
}

impl Results {
    /// Returns true if the operator is differentiable in this result.
    pub fn contains(self, index: usize) -> bool {
        match self {
            Self::First => index == 0,
            Self::All => true,
            Self::None => false,
        }
    }
}

/// The condition under which autograd's node of an operator saves a tensor, even one that the gradients here do not use. A backward pass
/// frees it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// Always.
    Something,
    /// If one of these arguments requires a gradient.
    For(&'static [usize]),
    /// Never: it saves at most sizes and numbers.
    Nothing,
}

/// The derivative of an operator.
#[derive(Clone, Copy)]
pub struct Row {
    /// `aten.<op>.<overload>`.
    pub schema: &'static str,
    /// The results in which it is differentiable.
    pub results: Results,
    /// Emits the gradients of the arguments.
    pub rule: Rule,
    /// The condition under which eager saves a tensor for these gradients.
    pub keeps: Keeps,
    /// True if a recording of torch's formula serves better: it comes with torch's decomposition of the backward operator, or with its
    /// derivative, which this compiler does not have.
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

/// Marks rows of operators for whose gradients eager saves nothing.
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

/// The tables for real numbers; each schema is in exactly one.
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

/// Returns the row of an operator, if it has one.
pub fn find(schema: &str) -> Option<Row> {
    static ROWS: OnceLock<HashMap<&str, Row>> = OnceLock::new();
    let rows = ROWS.get_or_init(|| TABLES.iter().flat_map(|table| table.iter().map(|row| (row.schema, *row))).collect());
    rows.get(schema).copied()
}

/// Returns the rule of an operator with complex operands or results, if it has one.
pub fn of_complex(schema: &str) -> Option<Rule> {
    complex::TABLE.iter().find(|(known, _)| *known == schema).map(|(_, rule)| *rule)
}

/// Returns true if the results of an operator never have a gradient.
pub fn is_constant(schema: &str) -> bool {
    find(schema).is_some_and(|row| row.results == Results::None)
}

/// Returns the schemas with a rule: those for which a recording serves better, or the others.
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
