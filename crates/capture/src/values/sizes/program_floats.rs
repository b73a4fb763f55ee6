//! Floats that the program computes from dynamic sizes: `n / 2`, `n ** 0.5`, `math.sqrt(n)`, `n * 0.1`.
//!
//! Such a float is a number of the graph, like a float input (`numbers.rs`): the graph computes it, in doubles, from the size. So the scale
//! of an attention with growing rows does not require another entry. If Python needs the value, the attempt is discarded; floats of that
//! size are then computed by Python, from the number at the call.

use dynamlir_graph::Target;
use dynamlir_shapes::{Dim, Dimension, Predicate, Relation};
use dynamlir_symint::{is_size, node_of, sym_int::wrap};
use pyo3::{
    prelude::*,
    types::{PyFloat, PyInt},
};

use crate::{
    floors::Reads,
    graph_break::Outcome,
    objects::{
        Tracked, callable_kinds,
        callables::{Keywords, in_place},
    },
};

/// Integers up to this magnitude are exact doubles.
const EXACT: i64 = 1 << 53;

impl<'py> Reads<'py> {
    /// Returns true if an operator, by its name in `operator`, computes a float from a dynamic size.
    pub(crate) fn makes_float(&self, name: &str, lhs: &Bound<'py, PyAny>, rhs: &Bound<'py, PyAny>) -> bool {
        if !self.sizes.any() || !(is_size(lhs) || is_size(rhs)) {
            return false;
        }
        let other = if is_size(lhs) { rhs } else { lhs };
        let is_float = other.is_exact_instance_of::<PyFloat>() || self.torch.is_number(other);
        let exact = || other.extract::<i64>().is_ok_and(|value| (-EXACT..=EXACT).contains(&value));
        match in_place(name).unwrap_or(name) {
            "add" | "sub" | "mul" => is_float,
            "truediv" => is_float || is_size(other) || other.is_exact_instance_of::<PyInt>() && exact(),
            "pow" => is_size(lhs) && rhs.is_exact_instance_of::<PyFloat>(),
            _ => false,
        }
    }

    /// Returns the operands of such an operator, with numbers of the graph in place of sizes; `None` if its result is not such a float.
    pub(crate) fn as_floats(&self, name: &str, lhs: &Tracked<'py>, rhs: &Tracked<'py>) -> Outcome<Option<[Tracked<'py>; 2]>> {
        if !self.makes_float(name, &lhs.object, &rhs.object) {
            return Ok(None);
        }
        let [Some(left), Some(right)] = [self.as_number(lhs)?, self.as_number(rhs)?] else { return Ok(None) };
        Ok(Some([left, right]))
    }

    /// Evaluates `math.sqrt(size)`, also of a number computed from sizes, and `float(size)`; `None` for another call.
    pub(crate) fn float_of_size(
        &self,
        callable: &Bound<'py, PyAny>,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<Option<Tracked<'py>>> {
        let [value] = args else { return Ok(None) };
        let is_made = self.torch.is_number(&value.object);
        if !self.sizes.any() || !kwargs.is_empty() || !is_size(&value.object) && !is_made {
            return Ok(None);
        }
        let is_conversion = callable.is(self.py.get_type::<PyFloat>());
        let root = dynamlir_cpython_abi::import(self.py, "math")?.getattr("sqrt")?;
        if !(callable.is(&root) || is_conversion && !is_made) {
            return Ok(None);
        }
        if is_made && !dynamlir_interpreter::suspended(|| value.object.getattr("node")?.getattr("positive")?.is_truthy())? {
            return Ok(None);
        }
        let Some(number) = self.as_number(value)? else { return Ok(None) };
        if is_conversion {
            return Ok(Some(number));
        }
        let compute = dynamlir_cpython_abi::import(self.py, "dynamlir.scalars")?.getattr("root")?;
        self.call_shown_as(&compute, Target::new("sqrt", "math.sqrt", root.unbind()), &[number]).map(Some)
    }

    /// Evaluates torch's functions for sizes, `torch.sym_max` and its relatives, for a dynamic one; `None` for another call.
    pub(crate) fn call_of_sizes(
        &self,
        function: &Bound<'py, PyAny>,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<Option<Tracked<'py>>> {
        const NAMES: &[&str] = &["sym_float", "sym_int", "sym_max", "sym_min"];
        if !self.sizes.any() || !kwargs.is_empty() || !args.iter().any(|value| is_size(&value.object)) {
            return Ok(None);
        }
        let is = |name: &str| callable_kinds::is_of(function, "torch", &[name]);
        let Some(name) = dynamlir_interpreter::suspended(|| {
            NAMES.iter().map(|name| is(name).map(|found| found.then_some(*name))).find_map(Result::transpose).transpose()
        })?
        else {
            return Ok(None);
        };
        match (name, args) {
            ("sym_int", [size]) => Ok(Some(size.clone())),
            ("sym_float", [size]) => self.as_number(size),
            ("sym_max" | "sym_min", [left, right]) => {
                let (Some(a), Some(b)) = (self.as_dim(left)?, self.as_dim(right)?) else { return Ok(None) };
                let sizes = node_of(if is_size(&left.object) { &left.object } else { &right.object })?.get().sizes.bind(self.py).clone();
                let made = if name == "sym_max" { a.max(&b) } else { a.min(&b) };
                Ok(Some(Tracked::new(wrap(&sizes, sizes.get().made(made))?)))
            }
            _ => Ok(None),
        }
    }

    /// Returns a size or an int as an expression.
    fn as_dim(&self, value: &Tracked<'py>) -> Outcome<Option<Dim>> {
        if is_size(&value.object) {
            return Ok(Some(node_of(&value.object)?.get().dim(self.py)));
        }
        if !value.object.is_exact_instance_of::<PyInt>() {
            return Ok(None);
        }
        self.guard_value(value)?;
        Ok(value.object.extract::<i64>().ok().map(Dim::from))
    }

    /// Returns a number of the graph for a size, and any other value unchanged; `None` if Python computes the floats of this size.
    fn as_number(&self, value: &Tracked<'py>) -> Outcome<Option<Tracked<'py>>> {
        if !is_size(&value.object) {
            self.guard_value(value)?;
            return Ok(Some(value.clone()));
        }
        let node = node_of(&value.object)?;
        let size = node.get().dim(self.py);
        let positive = node.get().sizes.get().surely(&Predicate::new(size.clone(), Relation::Gt, 0));
        let places = self.sizes.places_of(&size);
        let origins: Vec<_> = places.into_iter().map(|place| format!("{place} as a float")).collect();
        let Some(floats) = &self.history else { return Ok(None) };
        if !origins.iter().all(|origin| floats.may_be_number(origin)) {
            return Ok(None);
        }
        let partial = dynamlir_cpython_abi::import(self.py, "functools")?.getattr("partial")?;
        let make = dynamlir_cpython_abi::import(self.py, "dynamlir.scalars")?.getattr("of_size")?;
        let make = partial.call1((make, self.recorder().operations()?, origins, positive))?;
        let float = dynamlir_cpython_abi::import(self.py, "torch")?.getattr("sym_float")?;
        let size = Tracked::new(value.object.clone());
        self.call_shown_as(&make, Target::new("sym_float", "torch.sym_float", float.unbind()), &[size]).map(Some)
    }
}
