//! Numbers that a program computes from numbers that existed before: kept as the computation, so that a counter that is only
//! written back is not guarded to be what it was.

use std::sync::Arc;

use dynamlir_cpython_abi::number::{BinaryOp, binary};
use pyo3::{basic::CompareOp, prelude::*};
use rustc_hash::FxHashMap;

use crate::{Constant, Source, SourceId, Sources};

/// `left op right`, of which no operand can make Python raise, whatever numbers of their types they are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Computed {
    /// The operation.
    pub op: BinaryOp,
    /// What stands on its left.
    pub left: Operand,
    /// What stands on its right.
    pub right: Operand,
}

/// An operand of a [`Computed`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A number that is reached, or computed as well, and what it was in the capture. Its type is guarded.
    Reached(SourceId, Constant),
    /// A number of the program's.
    Constant(Constant),
}

/// What Python's operator of this name gives: `<`, `<=`, `==`, `!=`, `>=` or `>`.
///
/// # Errors
/// What comparing raised.
pub fn compare(left: &Bound<'_, PyAny>, operator: &str, right: &Bound<'_, PyAny>) -> PyResult<bool> {
    let operator = match operator {
        "<" => CompareOp::Lt,
        "<=" => CompareOp::Le,
        "==" => CompareOp::Eq,
        "!=" => CompareOp::Ne,
        ">=" => CompareOp::Ge,
        _ => CompareOp::Gt,
    };
    left.rich_compare(right, operator)?.is_truthy()
}

/// What comparing two numbers gives.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Predicate {
    /// Python's operator: `<`, `<=`, `==`, `!=`, `>=` or `>`.
    pub operator: &'static str,
    /// What stands on its left.
    pub left: Operand,
    /// What stands on its right.
    pub right: Operand,
    /// What it gives.
    pub outcome: bool,
}

impl Predicate {
    /// The sources that are looked at, in the order in which `holds` asks for them.
    pub(crate) fn leaves(&self, sources: &Sources) -> Vec<SourceId> {
        let mut leaves = Vec::new();
        self.left.leaves(sources, &mut leaves);
        self.right.leaves(sources, &mut leaves);
        leaves
    }

    /// Whether it gives the same for these values of the leaves.
    pub(crate) fn holds<'a, 'py: 'a>(
        &self,
        py: Python<'py>,
        computed: &Computations,
        value: &mut dyn FnMut() -> Option<&'a Bound<'py, PyAny>>,
    ) -> PyResult<bool> {
        let mut operand = |operand: &Operand| computed.value(py, operand, value);
        let (Some(left), Some(right)) = (operand(&self.left)?, operand(&self.right)?) else { return Ok(false) };
        Ok(compare(&left, self.operator, &right)? == self.outcome)
    }

    /// As Python.
    pub(crate) fn text(&self, sources: &Sources) -> String {
        let operand = |operand: &Operand| operand.text(|source| sources.expression(source));
        let compared = format!("{} {} {}", operand(&self.left), self.operator, operand(&self.right));
        if self.outcome { compared } else { format!("not {compared}") }
    }
}

/// The computations that predicates are about, by their sources.
#[derive(Debug, Clone, Default)]
pub(crate) struct Computations(FxHashMap<SourceId, Arc<Computed>>);

impl Computations {
    /// Those within a predicate.
    pub fn of(predicate: &Predicate, sources: &Sources) -> Self {
        let mut found = FxHashMap::default();
        let mut waiting = vec![&predicate.left, &predicate.right];
        while let Some(operand) = waiting.pop() {
            if let Operand::Reached(source, _) = operand
                && let Source::Computed(computed) = sources.get(*source)
            {
                found.insert(*source, Arc::clone(computed));
                waiting.extend([&computed.left, &computed.right]);
            }
        }
        Self(found)
    }

    fn value<'a, 'py: 'a>(
        &self,
        py: Python<'py>,
        operand: &Operand,
        leaf: &mut dyn FnMut() -> Option<&'a Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let source = match operand {
            Operand::Constant(constant) => return Ok(Some(constant.object().bind(py).clone())),
            Operand::Reached(source, _) => source,
        };
        let Some(computed) = self.0.get(source) else { return Ok(leaf().cloned()) };
        let (left, right) = (self.value(py, &computed.left, leaf)?, self.value(py, &computed.right, leaf)?);
        left.zip(right).map(|(left, right)| binary(computed.op, false, &left, &right)).transpose()
    }
}

impl Operand {
    fn leaves(&self, sources: &Sources, found: &mut Vec<SourceId>) {
        let Self::Reached(source, _) = self else { return };
        match sources.get(*source) {
            Source::Computed(computed) => {
                computed.left.leaves(sources, found);
                computed.right.leaves(sources, found);
            }
            _ => found.push(*source),
        }
    }

    /// As Python, given the expression of each source.
    pub(crate) fn text(&self, expression: impl Fn(SourceId) -> String) -> String {
        match self {
            Self::Reached(source, _) => expression(*source),
            Self::Constant(constant) => constant.to_string(),
        }
    }
}

impl Computed {
    /// The operands that are not constants, with what they were.
    pub fn reached(&self) -> impl Iterator<Item = (SourceId, &Constant)> {
        [&self.left, &self.right].into_iter().filter_map(|operand| match operand {
            Operand::Reached(source, was) => Some((*source, was)),
            Operand::Constant(_) => None,
        })
    }
}
