//! Numbers that a program computes from existing numbers. They are kept as the computation, so that a counter that is only written back is
//! not guarded to have its former value.

use std::sync::Arc;

use dynamlir_cpython_abi::number::{BinaryOp, binary};
use pyo3::{basic::CompareOp, prelude::*};
use rustc_hash::FxHashMap;

use crate::{Constant, Source, SourceId, Sources};

/// `left op right`, for operand types with which Python never raises, regardless of the numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Computed {
    /// The operation.
    pub op: BinaryOp,
    /// The left operand.
    pub left: Operand,
    /// The right operand.
    pub right: Operand,
}

/// An operand of a [`Computed`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A number that is reached, or computed in the same way, with its value at the capture. Its type is guarded.
    Reached(SourceId, Constant),
    /// A literal number of the program.
    Constant(Constant),
}

/// Returns the result of Python's operator with this name: `<`, `<=`, `==`, `!=`, `>=` or `>`.
///
/// # Errors
/// Returns an exception raised by the comparison.
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

/// A comparison of two numbers and its result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Predicate {
    /// Python's operator: `<`, `<=`, `==`, `!=`, `>=` or `>`.
    pub operator: &'static str,
    /// The left operand.
    pub left: Operand,
    /// The right operand.
    pub right: Operand,
    /// The result.
    pub outcome: bool,
}

impl Predicate {
    /// Returns the sources that are read, in the order in which `holds` reads them.
    pub(crate) fn leaves(&self, sources: &Sources) -> Vec<SourceId> {
        let mut leaves = Vec::new();
        self.left.leaves(sources, &mut leaves);
        self.right.leaves(sources, &mut leaves);
        leaves
    }

    /// Returns true if the comparison has the same result for these values of the leaves.
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

    /// Returns the predicate as Python.
    pub(crate) fn text(&self, sources: &Sources) -> String {
        let operand = |operand: &Operand| operand.text(|source| sources.expression(source));
        let compared = format!("{} {} {}", operand(&self.left), self.operator, operand(&self.right));
        if self.outcome { compared } else { format!("not {compared}") }
    }
}

/// The computations that predicates refer to, by their sources.
#[derive(Debug, Clone, Default)]
pub(crate) struct Computations(FxHashMap<SourceId, Arc<Computed>>);

impl Computations {
    /// Returns the computations within a predicate.
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

    /// Returns the computation as Python, given the expression of each source.
    pub(crate) fn text(&self, expression: impl Fn(SourceId) -> String) -> String {
        match self {
            Self::Reached(source, _) => expression(*source),
            Self::Constant(constant) => constant.to_string(),
        }
    }
}

impl Computed {
    /// Returns the operands that are not constants, with their values at the capture.
    pub fn reached(&self) -> impl Iterator<Item = (SourceId, &Constant)> {
        [&self.left, &self.right].into_iter().filter_map(|operand| match operand {
            Operand::Reached(source, was) => Some((*source, was)),
            Operand::Constant(_) => None,
        })
    }
}
