//! Operators, and the special methods that Python looks up for them.

use dynamlir_guards::SourceId;
use pyo3::{
    prelude::*,
    types::{PyFunction, PyString},
};

use crate::{
    floors::{Operations, Reads},
    graph_break::{Outcome, reason},
    objects::{Tracked, callables::methods_of, lookup::lookup, type_name},
    values::node_arguments::TAKEN_BY_TORCH,
};

impl<'py> Operations<'py> {
    /// Guards the methods that an operator finds in the classes of these values, unless they cannot change before the next call.
    pub(crate) fn pin_operands(&self, name: &str, values: [&Bound<'py, PyAny>; 2]) -> Outcome<()> {
        for value in values {
            if self.torch.is_primitive(value) || self.torch.is_tensor(value) {
                continue;
            }
            if let Some(class) = self.class_at(value)? {
                for method in methods_of(name) {
                    self.pin_entry(&value.get_type(), class, &PyString::new(self.py, method))?;
                }
            }
        }
        Ok(())
    }

    /// Applies an operator to a tensor and an object whose class implements it in Python: `tensor * length` is `length.__rmul__(tensor)`,
    /// because a tensor's method declines an operand that it cannot take for a number, sequence or array. `None` if it is not certain that
    /// Python would call that method.
    pub(crate) fn by_operand(&self, name: &str, lhs: &Tracked<'py>, rhs: &Tracked<'py>) -> Outcome<Option<Tracked<'py>>> {
        let (object, tensor, method) = match (self.torch.is_fake(&lhs.object), methods_of(name)) {
            (true, [_, reflected]) => (rhs, lhs, reflected),
            (true, [same @ ("__eq__" | "__ne__")]) => (rhs, lhs, same),
            (false, [own, ..]) => (lhs, rhs, own),
            _ => return Ok(None),
        };
        let class = object.object.get_type();
        if self.torch.is_primitive(&object.object) || self.torch.is_fake(&object.object) {
            return Ok(None);
        }
        let Some(found) = lookup(&class, method)?.filter(PyAnyMethods::is_exact_instance_of::<PyFunction>) else { return Ok(None) };
        // Python tries the left operand first, regardless of its type.
        let declined: &[&str] = if self.torch.is_fake(&lhs.object) { TAKEN_BY_TORCH } else { &[] };
        for taken in declined {
            if lookup(&class, taken)?.is_some() {
                return Ok(None);
            }
        }
        let function = match self.class_at(&object.object)? {
            None => Tracked::new(found),
            Some(class) => {
                self.absent_all(class, declined);
                self.wrap(found, self.guards.type_attr(class, method))?
            }
        };
        self.pin_operator(name, &[lhs.clone(), rhs.clone()])?;
        let result = self.call(&function, &[object.clone(), tensor.clone()], &Vec::new())?;
        if result.object.is(self.py.NotImplemented()) {
            return self.break_graph(
                reason::C_FUNCTION,
                format!("operator.{name}, for which {}.{method} returns NotImplemented", type_name(&object.object)),
            );
        }
        Ok(Some(result))
    }

    /// Guards that a class does not have any of these names.
    fn absent_all(&self, class: SourceId, names: &[&str]) {
        for name in names {
            self.guards.absent(self.guards.type_attr(class, name));
        }
    }
}

impl<'py> Reads<'py> {
    /// Guards the methods that an operator finds on the tensors among its operands.
    pub(crate) fn pin_operator(&self, name: &str, args: &[Tracked<'py>]) -> Outcome<()> {
        let methods = methods_of(name);
        if methods.is_empty() {
            return self.break_graph(reason::C_FUNCTION, format!("operator.{name} of a tensor"));
        }
        for arg in args.iter().filter(|arg| self.torch.is_fake(&arg.object) && !self.torch.is_number(&arg.object)) {
            let class = self.class_of_tensor(&arg.object)?;
            for method in methods {
                self.tensor_member(&class, method)?;
            }
        }
        Ok(())
    }
}
