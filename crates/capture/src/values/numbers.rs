//! Numbers that are known only at the call: floats that change from call to call, and values read from tensors of one element.
//!
//! The program sees a `dynamlir.scalars.Number`, whose arithmetic is recorded. It counts as a fake: an operation that is impossible on a
//! tensor with unknown contents is impossible on it. But its class is `float`, it does not answer attribute lookups, and C code receives it
//! only if it merely stores it. Reading its value ends the attempt: the floats it was computed from are constants from then on, and the
//! frame is captured again (`run.rs`).

use dynamlir_graph::Line;
use dynamlir_guards::{Comparison, Guard, SourceId};
use dynamlir_interpreter::Activation;
use dynamlir_symint::is_size;
use pyo3::{
    exceptions::{PyAttributeError, PyTypeError},
    intern,
    prelude::*,
    types::{PyBool, PyFloat, PyInt, PyTuple, PyType},
};

use crate::{
    floors::Numbers,
    graph_break::{GraphBreak, Halt, Outcome, reason},
    objects::{
        Tracked,
        callables::{Keywords, receiver},
        effects::{Effect, Special},
        lookup::lookup,
    },
};

/// Methods of containers that only store their arguments.
const KEEPS: &[&str] = &["__setitem__", "append", "appendleft", "get", "insert", "setdefault"];

/// Special methods that C code calls to get a number. It raises a `TypeError` if they return anything else.
const CONVERTING: &[&str] = &["__int__", "__float__", "__index__", "__complex__", "__len__", "__length_hint__", "__hash__"];

/// Comparisons, by their names in `operator`: the symbol, and the symbol with the operands swapped.
pub(crate) const COMPARING: &[(&str, &str, &str)] =
    &[("lt", "<", ">"), ("le", "<=", ">="), ("eq", "==", "=="), ("ne", "!=", "!="), ("ge", ">=", "<="), ("gt", ">", "<")];

impl<'py> Numbers<'py> {
    /// Returns the number that represents the object found at a source; `None` if it is not a float, or one that has not changed.
    pub(crate) fn number_at(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<Option<Bound<'py, PyAny>>> {
        let (Some(floats), Ok(float)) = (&self.history, object.cast_exact::<PyFloat>()) else { return Ok(None) };
        let place = self.guards.expression(source);
        if !floats.is_number(&place, float.value().to_bits()) {
            return Ok(None);
        }
        if let Some(known) = self.tensors.number_of(source) {
            return Ok(Some(known.bind(self.py).clone()));
        }
        let made = self.recorder().number(float.as_any(), &place);
        let (real, number) = made.or_else(|error| self.refused_input(error))?;
        self.guards.add(source, Guard::Type(self.py.get_type::<PyFloat>().into_any().unbind()));
        self.note_number(&number, &real, source);
        self.sizes.note_value(&place, &format!("{:?}", float.value()));
        self.layers.note_unrepeatable();
        Ok(Some(number))
    }

    /// Ends the attempt because Python needs the value of a number.
    pub(crate) fn needs_value<T>(&self, number: &Bound<'py, PyAny>, what: &str) -> Outcome<T> {
        self.recorder().blame(number)?;
        self.break_graph(reason::DATA_DEPENDENT, format!("{what} a number that is known at the call only"))
    }

    /// Returns the current value of a symbolic number that one of the [`CONVERTING`] methods returns, because the caller may be C code;
    /// `None` for other frames and values.
    pub(crate) fn converted(&self, frame: &Activation<'py>, value: &Bound<'py, PyAny>) -> Outcome<Option<Bound<'py, PyAny>>> {
        if frame.locals_count() == 0 || !self.torch.is_number(value) && !is_size(value) {
            return Ok(None);
        }
        let (function, Some(first)) = (frame.function(), frame.local(0).object) else { return Ok(None) };
        let is_it = |found: &Bound<'py, PyAny>| function.as_ref().is_some_and(|function| found.is(function));
        for name in CONVERTING {
            if lookup(&first.get_type(), name)?.as_ref().is_some_and(is_it) {
                self.refuse_numbers(&format!("{name} returns"), [value])?;
                return Ok(Some(self.settle_size(&Tracked::new(value.clone()))?.object));
            }
        }
        Ok(None)
    }

    /// Returns true if an error may come from C code that received the stand-in of a symbolic number, such as an item of an argument. Eager
    /// would not raise it, and the program might catch it.
    pub(crate) fn may_be_of_numbers(&self, error: &PyErr) -> bool {
        if !self.sizes.any() && !self.tensors.has_numbers() {
            return false;
        }
        // An `AttributeError` names its object.
        let lacks = || error.value(self.py).getattr(intern!(self.py, "obj")).is_ok_and(|of| self.torch.is_number(&of) || is_size(&of));
        error.is_instance_of::<PyTypeError>(self.py) || error.is_instance_of::<PyAttributeError>(self.py) && lacks()
    }

    /// Like [`crate::floors::Numbers::needs_value`], if one of these values is a number, or a tuple, list or dict that holds one.
    pub(crate) fn refuse_numbers<'a>(&self, what: &str, values: impl IntoIterator<Item = &'a Bound<'py, PyAny>>) -> Outcome<()>
    where
        'py: 'a,
    {
        if !self.tensors.has_numbers() {
            return Ok(());
        }
        for value in values {
            if let Some(number) = self.torch.find_number(value) {
                return self.needs_value(&number, what);
            }
        }
        Ok(())
    }

    /// Ends the attempt where C code receives a number and does more than store it.
    pub(crate) fn refuse_numbers_in_c(
        &self,
        callable: &Bound<'py, PyAny>,
        effect: Effect,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<()> {
        if !self.tensors.has_numbers() {
            return Ok(());
        }
        let given = || args.iter().chain(kwargs.iter().map(|(_, value)| value)).map(|value| &value.object);
        let Some(number) = given().find(|value| self.torch.is_number(value)) else { return Ok(()) };
        let fine = match effect {
            Effect::Torch => true,
            Effect::Special(special) => matches!(
                special,
                Special::IsInstance
                    | Special::Type
                    | Special::Operator(_)
                    | Special::Sum
                    | Special::SetAttr
                    | Special::Annotates
                    | Special::Ignored
                    | Special::FunctionApply
            ),
            Effect::Pure | Effect::MutatesFirst => {
                let name: String = callable.getattr(intern!(self.py, "__name__")).and_then(|name| name.extract()).unwrap_or_default();
                // A key or an index is the first argument.
                let is_key = !name.starts_with("append") && args.first().is_some_and(|first| self.torch.is_number(&first.object));
                let keeps = KEEPS.contains(&name.as_str()) && receiver(callable).is_some_and(|owner| self.torch.is_container(&owner));
                keeps && !is_key || self.converts(callable, args, kwargs)
            }
            _ => false,
        };
        if fine { Ok(()) } else { self.needs_value(number, "C code is given") }
    }

    /// Returns true if one of a tensor's methods may read a number from it.
    pub(crate) fn may_be_read(&self, fake: &Bound<'py, PyAny>, method: &str) -> Outcome<bool> {
        Ok(self.recorder().may_read(fake, method)?)
    }

    /// Returns true if this is `float(value)` of a number, or of a tensor that a number may be read from.
    pub(crate) fn converts(&self, callable: &Bound<'py, PyAny>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> bool {
        let float = self.py.get_type::<PyFloat>();
        callable.is(&float) && args.len() == 1 && kwargs.is_empty() && self.torch.is_fake(&args[0].object)
    }

    /// Returns the result of a method of this name on a tensor created from Python values, such as `torch.tensor(2)`: the values were
    /// guarded where they came from. `None` for other tensors.
    pub(crate) fn known_contents(&self, fake: &Bound<'py, PyAny>, method: &str) -> Outcome<Option<Tracked<'py>>> {
        if self.torch.is_number(fake) {
            return Ok(None);
        }
        let Some(known) = self.recorder().known_contents(fake)? else { return Ok(None) };
        // If torch raises because the tensor has no such number, the error is torch's to report.
        Ok(self.outside(|| known.call_method0(method)).ok().map(Tracked::new))
    }

    /// Returns true if a number is an instance of one of these classes, as a float would be.
    pub(crate) fn number_is_instance(&self, number: &Bound<'py, PyAny>, class: &Bound<'py, PyAny>) -> Outcome<bool> {
        if let Ok(classes) = class.cast::<PyTuple>() {
            for class in classes {
                if self.number_is_instance(number, &class)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        let metaclass = class.get_type();
        if !metaclass.is(self.py.get_type::<PyType>()) && !self.torch.is_tensor_class(class) {
            // Its metaclass may give any answer.
            return self.needs_value(number, "isinstance() of");
        }
        Ok(self.py.get_type::<PyFloat>().mro().iter().any(|base| base.is(class)))
    }

    /// Compares a changing float with a constant and guards the result of the comparison, not the value. `None` if this is not such a
    /// comparison.
    pub(crate) fn compare_number(&self, name: &str, lhs: &Tracked<'py>, rhs: &Tracked<'py>) -> Outcome<Option<Tracked<'py>>> {
        const EXACT: i64 = 1 << 53;
        let Some((_, straight, turned)) = COMPARING.iter().find(|(known, _, _)| *known == name) else { return Ok(None) };
        let (number, operator, constant) = match (self.torch.is_number(&lhs.object), self.torch.is_number(&rhs.object)) {
            (true, false) => (lhs, *straight, rhs),
            (false, true) => (rhs, *turned, lhs),
            _ => return Ok(None),
        };
        let with = if let Ok(float) = constant.object.cast_exact::<PyFloat>() {
            float.value()
        } else if constant.object.is_exact_instance_of::<PyInt>()
            && let Ok(whole) = constant.object.extract::<i64>()
            && (-EXACT..=EXACT).contains(&whole)
        {
            constant.object.extract::<f64>()?
        } else {
            return Ok(None);
        };
        let Some(outcome) = self.guard_comparison(number, operator, with)? else { return Ok(None) };
        self.guard_value(constant)?;
        Ok(Some(Tracked::new(PyBool::new(self.py, outcome).to_owned().into_any())))
    }

    /// Returns the current result of comparing a changing float with a constant, and guards it; `None` if the float is computed from
    /// others.
    pub(crate) fn guard_comparison(&self, number: &Tracked<'py>, operator: &'static str, with: f64) -> Outcome<Option<bool>> {
        let Some((real, source)) = self.real_of(&number.object) else { return Ok(None) };
        let value: f64 = self.outside(|| real.call_method0("item")?.extract())?;
        let expected = Comparison { operator, with, outcome: true };
        let expected = Comparison { outcome: expected.holds(value), ..expected };
        self.guards.add(source, Guard::Compares(expected));
        Ok(Some(expected.outcome))
    }

    /// Evaluates `lhs is rhs` with a number among them; `None` if neither is a number.
    pub(crate) fn is_same_number(&self, lhs: &Tracked<'py>, rhs: &Tracked<'py>) -> Outcome<Option<bool>> {
        let (number, other) = match (self.torch.is_number(&lhs.object), self.torch.is_number(&rhs.object)) {
            (false, false) => return Ok(None),
            (true, _) => (lhs, rhs),
            (false, true) => (rhs, lhs),
        };
        if self.torch.is_number(&other.object) || other.object.is_exact_instance_of::<PyFloat>() {
            return self.needs_value(&number.object, "the identity of");
        }
        if self.torch.is_primitive(&other.object) {
            self.guard_value(other)?;
        }
        Ok(Some(false))
    }
}

/// Moves the end of an attempt to the line that created the number: when results are examined, no line is executing any more.
pub fn where_it_is_made(halt: Halt, number: &Bound<'_, PyAny>) -> Halt {
    let made = number.getattr("node").and_then(|node| node.getattr("location")?.extract::<Vec<Line>>());
    match (halt, made) {
        (Halt::Break(found), Ok(location)) if !location.is_empty() => Halt::Break(GraphBreak { location, ..found }),
        (halt, _) => halt,
    }
}
