//! Numbers that the frame computes from numbers that existed before.
//!
//! `self.step + 1` that is only written back requires of `self.step` only that it is an integer: the result carries the computation as its
//! source. If the program decides by a number that has changed since an earlier capture, the outcome of the decision is guarded. Otherwise,
//! and where a number goes anywhere that does not follow its source, the numbers are guarded to have their current values.

use dynamlir_frame::Recipe;
use dynamlir_guards::{Computed, Constant, Operand, Predicate, Relation, Source, SourceId, compare};
use dynamlir_interpreter::BinaryOp;
use pyo3::{
    prelude::*,
    types::{PyBool, PyFloat, PyInt},
};

use crate::{
    floors::{Numbers, Recipes, Sources},
    graph_break::{Outcome, reason},
    objects::Tracked,
    state::outputs::Outputs,
    values::numbers::COMPARING,
};

/// The nesting depth beyond which computed numbers become constants.
const DEEPEST: usize = 16;

/// Operators that never raise for numbers, by their names in `operator`.
const TOTAL: &[(&str, BinaryOp)] = &[
    ("add", BinaryOp::Add),
    ("and_", BinaryOp::And),
    ("mul", BinaryOp::Multiply),
    ("or_", BinaryOp::Or),
    ("sub", BinaryOp::Subtract),
    ("xor", BinaryOp::Xor),
];

/// Operators that raise only if the right operand is zero.
const DIVIDING: &[(&str, BinaryOp)] = &[("floordiv", BinaryOp::FloorDivide), ("mod", BinaryOp::Remainder)];

impl<'py> Numbers<'py> {
    /// `lhs op rhs` of numbers, by the operator's name; None for other operands, or if it may raise.
    pub(crate) fn computed(&self, name: &str, lhs: &Tracked<'py>, rhs: &Tracked<'py>) -> Outcome<Option<Tracked<'py>>> {
        let name = crate::objects::callables::in_place(name).unwrap_or(name);
        let find = |table: &[(&str, BinaryOp)]| table.iter().find(|(known, _)| *known == name).map(|(_, op)| *op);
        let ints = is_int(lhs) && is_int(rhs);
        let floats = lhs.object.is_exact_instance_of::<PyFloat>() && rhs.object.is_exact_instance_of::<PyFloat>();
        if !ints && !floats {
            return Ok(None);
        }
        let divides = || rhs.source.is_none() && rhs.object.is_truthy().unwrap_or(false);
        let Some(op) = find(TOTAL).or_else(|| find(DIVIDING).filter(|_| divides())) else { return Ok(None) };
        if floats && matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor) {
            return Ok(None);
        }
        let deep = |value: &Tracked<'py>| value.source.is_some_and(|source| self.guards.computations(source) >= DEEPEST);
        if lhs.source.is_none() && rhs.source.is_none() || deep(lhs) || deep(rhs) {
            return Ok(None);
        }
        let object = dynamlir_interpreter::semantics::binary_op(op, false, &lhs.object, &rhs.object)?;
        let computed = Computed { op, left: self.operand(lhs)?, right: self.operand(rhs)? };
        Ok(Some(Tracked { object, source: Some(self.guards.source(Source::Computed(computed.into()))) }))
    }

    /// Compares numbers of which at least one has changed, and guards the outcome; None for other operands.
    pub(crate) fn compared_numbers(&self, name: &str, lhs: &Tracked<'py>, rhs: &Tracked<'py>) -> Outcome<Option<Tracked<'py>>> {
        let Some((_, operator, _)) = COMPARING.iter().find(|(known, ..)| *known == name) else { return Ok(None) };
        let is_number = |value: &Tracked<'py>| is_int(value) || value.object.is_exact_instance_of::<PyFloat>();
        if !is_number(lhs) || !is_number(rhs) || !(self.changes(lhs) || self.changes(rhs)) {
            return Ok(None);
        }
        let outcome = compare(&lhs.object, operator, &rhs.object)?;
        let predicate = Predicate { operator, left: self.operand(lhs)?, right: self.operand(rhs)?, outcome };
        self.guards.relate(Relation::Compares(predicate));
        self.layers.note_unrepeatable();
        Ok(Some(Tracked::new(PyBool::new(self.py, outcome).to_owned().into_any())))
    }

    /// Returns the truth value of a number that has changed, and guards it; None for other values.
    pub(crate) fn truth_of_number(&self, value: &Tracked<'py>) -> Outcome<Option<bool>> {
        if value.source.is_none() || !is_int(value) {
            return Ok(None);
        }
        let zero = Tracked::new(PyInt::new(self.py, 0).into_any());
        self.compared_numbers("ne", value, &zero)?.map(|outcome| Ok(outcome.object.is_truthy()?)).transpose()
    }

    fn operand(&self, value: &Tracked<'py>) -> Outcome<Operand> {
        let constant = self.guarded(Constant::new(&value.object).map_err(Into::into))?;
        let Some(constant) = constant else { unreachable!("numbers are constants") };
        Ok(match value.source {
            Some(source) => {
                self.pin_type(&value.object, source)?;
                Operand::Reached(source, constant)
            }
            None => Operand::Constant(constant),
        })
    }

    /// Returns true if a number differs from an earlier capture, or is computed from one that does.
    fn changes(&self, value: &Tracked<'py>) -> bool {
        let (Some(source), Ok(Some(now))) = (value.source, Constant::new(&value.object)) else { return false };
        self.has_changed(source, &now)
    }

    /// Ends the capture where the value of an integer is needed that CPython has put into the frame between two graphs and that changes.
    /// CPython runs the instruction, since each value would need its own entry.
    pub(crate) fn refuse_outside(&self, value: &Tracked<'py>, source: SourceId) -> Outcome<()> {
        if !self.progress.is_resumed() || !is_int(value) || !self.is_variable(source) || !self.changes(value) {
            return Ok(());
        }
        self.break_graph(
            reason::DATA_DEPENDENT,
            format!("the value of {}, which Python computes between graphs", self.guards.expression(source)),
        )
    }

    /// Returns true if a number is a variable of the frame, or computed from variables and constants alone.
    pub(crate) fn is_variable(&self, source: SourceId) -> bool {
        match self.guards.get(source) {
            Source::Local { .. } => true,
            Source::Computed(computed) => computed.reached().all(|(source, _)| self.is_variable(source)),
            _ => false,
        }
    }

    pub(crate) fn has_changed(&self, source: SourceId, now: &Constant) -> bool {
        if let Source::Computed(computed) = self.guards.get(source) {
            return computed.reached().any(|(source, was)| self.has_changed(source, was));
        }
        let Some(floats) = &self.history else { return false };
        floats.is_number(&self.guards.expression(source), now.number())
    }
}

impl Sources<'_> {
    /// Returns true if a number is computed.
    pub(crate) fn is_computed(&self, source: SourceId) -> bool {
        matches!(self.guards.get(source), Source::Computed(_))
    }
}

impl<'py> Recipes<'py> {
    /// Returns the recipe that computes a number again.
    pub(crate) fn computation(&self, source: SourceId, outputs: &mut Outputs<'py>) -> Outcome<Recipe> {
        let Source::Computed(computed) = self.guards.get(source) else { return Ok(Recipe::Input(self.guards.collect(source))) };
        let mut operand = |operand: &Operand| match operand {
            Operand::Constant(constant) => Ok(Recipe::Constant(constant.object().clone_ref(self.py))),
            Operand::Reached(source, was) => {
                self.recipe(&Tracked { object: was.object().bind(self.py).clone(), source: Some(*source) }, outputs)
            }
        };
        Ok(Recipe::Computed(computed.op, Box::new([operand(&computed.left)?, operand(&computed.right)?])))
    }
}

fn is_int(value: &Tracked<'_>) -> bool {
    value.object.is_exact_instance_of::<PyInt>()
}
