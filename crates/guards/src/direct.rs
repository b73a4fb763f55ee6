//! Parameters that are checked directly: tensors, constants, and tuples, lists and dicts of them.
//!
//! The tuple of `*args` and the dict of `**kwargs` are created anew by each call, so remembering a walk over them is useless; and they are
//! small. A direct check runs no Python code: containers are exactly of the builtin types, keys are strings.

use pyo3::{
    prelude::*,
    types::{PyDict, PyList, PyString, PyTuple},
};

use crate::{
    DictKey,
    check::{Run, holds},
    tree::{Node, PreparedGuard, Step, Tree},
};

/// Trees with more values are walked, and the walk is remembered.
const LARGEST: usize = 48;

/// A builtin container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Container {
    Tuple,
    List,
    Dict,
}

impl Container {
    /// Returns the container implied by a guard on the exact type.
    fn of(py: Python<'_>, tree: &Tree, node: &Node) -> Option<Self> {
        let is = |class: Bound<'_, PyAny>| {
            node.checks.iter().any(|&check| match &tree.checks[check].1 {
                PreparedGuard::Type(held) => held.by_address() && held.is(&class).unwrap_or(false),
                _ => false,
            })
        };
        if is(py.get_type::<PyTuple>().into_any()) {
            Some(Self::Tuple)
        } else if is(py.get_type::<PyList>().into_any()) {
            Some(Self::List)
        } else {
            is(py.get_type::<PyDict>().into_any()).then_some(Self::Dict)
        }
    }
}

impl Tree {
    /// Finds the parameters that can be checked directly.
    pub fn find_direct(&mut self, py: Python<'_>) {
        for at in 0..self.locals.len() {
            let node = self.locals[at].1;
            self.nodes[node].direct = self.size_if_direct(py, node).is_some_and(|size| size <= LARGEST);
            let Node { checks, children, .. } = &self.nodes[node];
            if let ([check], []) = (checks.as_slice(), children.as_slice())
                && let PreparedGuard::Tensor(expected) = self.checks[*check].1
            {
                self.nodes[node].tensor = Some(expected);
            }
        }
    }

    /// Returns the number of values reached from a node; None if they cannot be checked directly.
    fn size_if_direct(&self, py: Python<'_>, at: usize) -> Option<usize> {
        let node = &self.nodes[at];
        let container = Container::of(py, self, node);
        let strings = |key: &DictKey| matches!(key, DictKey::Constant(key) if key.object().bind(py).is_exact_instance_of::<PyString>());
        let mut known_keys = false;
        for &check in &node.checks {
            let allowed = match &self.checks[check].1 {
                PreparedGuard::Tensor(_) => true,
                PreparedGuard::Length(_) => container.is_some(),
                PreparedGuard::DictKeys(keys) => {
                    known_keys = keys.iter().all(strings);
                    known_keys && container == Some(Container::Dict)
                }
                other => other.is_pure(),
            };
            if !allowed {
                return None;
            }
        }
        let mut size = 1;
        for &child in &node.children {
            let stepped = match (&self.nodes[child].step, container) {
                (Step::Index(_), Some(Container::Tuple | Container::List)) => true,
                (Step::Item(key), Some(Container::Dict)) => known_keys && key.bind(py).is_exact_instance_of::<PyString>(),
                _ => false,
            };
            if !stepped || size > LARGEST {
                return None;
            }
            size += self.size_if_direct(py, child)?;
        }
        Some(size)
    }
}

impl<'py> Run<'_, 'py> {
    /// Checks a value of a direct tree.
    ///
    /// # Errors
    /// If Python is out of memory.
    pub fn direct(&mut self, node: usize, value: &Bound<'py, PyAny>) -> PyResult<bool> {
        // Types are checked first, so the later checks can rely on them.
        for check in self.checks(node) {
            let same = match check {
                PreparedGuard::Tensor(expected) => self.tensor_matches(*expected, value),
                PreparedGuard::DictKeys(keys) => value.cast_exact::<PyDict>().is_ok_and(|dict| string_keys(dict, keys)),
                other => holds(self.set, other, value)?,
            };
            if !same {
                return Ok(false);
            }
        }
        let description = self.node(node);
        if let Some(output) = description.output {
            self.inputs.values[output] = Some(value.clone());
        }
        for &child in &description.children {
            let found = match &self.node(child).step {
                Step::Index(index) => match value.cast_exact::<PyTuple>() {
                    Ok(tuple) => tuple.get_item(*index).ok(),
                    Err(_) => value.cast_exact::<PyList>().ok().and_then(|list| list.get_item(*index).ok()),
                },
                Step::Item(key) => match value.cast_exact::<PyDict>() {
                    Ok(dict) => dict.get_item(key)?,
                    Err(_) => None,
                },
                _ => None,
            };
            let holds = match found {
                Some(found) => self.direct(child, &found)?,
                // The value is missing: only guards that require this pass, and nothing is collected.
                None => self.nothing(child),
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if the guards of a node and of those below it pass for a missing value.
    fn nothing(&self, node: usize) -> bool {
        let description = self.node(node);
        description.output.is_none()
            && self.checks(node).all(PreparedGuard::holds_of_nothing)
            && description.children.iter().all(|&child| self.nothing(child))
    }
}

/// Returns true if a dict has exactly these strings as keys, in this order.
fn string_keys(dict: &Bound<'_, PyDict>, expected: &[DictKey]) -> bool {
    let fits = |(seen, expected): (Bound<'_, PyAny>, &DictKey)| match expected {
        DictKey::Constant(key) => seen.is_exact_instance_of::<PyString>() && key.matches(&seen).unwrap_or(false),
        DictKey::Any => false,
    };
    dict.len() == expected.len() && dict.iter().map(|(key, _)| key).zip(expected).all(fits)
}
