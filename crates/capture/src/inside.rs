//! Existing containers within what the frame has made, where C code looks into both: `[l] == [[1]]`, `any([l])`, `sorted([l, m])`.
//!
//! What comes out of the frame's own containers is looked at when it comes out. What C code compares, hashes, sums up or prints beneath
//! does not come out: there the contents of existing containers are guarded as where C code is given them themselves.

use std::collections::HashSet;

use pyo3::{
    prelude::*,
    types::{PyDict, PyFrozenSet, PyList, PySet, PyTuple},
};

use crate::state::{Capture, Outcome, Tracked};

/// C functions that hand out what they are given, or keep it, and do not look into it. All others do.
const SHALLOW: &[&str] = &[
    "CellType",
    "FunctionType",
    "MethodType",
    "SimpleNamespace",
    "Size",
    "__init__",
    "__init_subclass__",
    "__iter__",
    "__len__",
    "__new__",
    "__next__",
    "append",
    "appendleft",
    "callable",
    "cast",
    "chain",
    "classmethod",
    "combinations",
    "copy",
    "cycle",
    "deque",
    "dropwhile",
    "enumerate",
    "extend",
    "extendleft",
    "filterfalse",
    "insert",
    "islice",
    "items",
    "iter",
    "keys",
    "len",
    "list",
    "map",
    "object",
    "pairwise",
    "partial",
    "permutations",
    "popitem",
    "product",
    "property",
    "range",
    "reduce",
    "repeat",
    "reverse",
    "reversed",
    "slice",
    "staticmethod",
    "super",
    "takewhile",
    "tee",
    "tuple",
    "type",
    "values",
    "zip",
    "zip_longest",
];

/// Methods that look into their own object as well.
const OF_RECEIVER: &[&str] = &[
    "__contains__",
    "__eq__",
    "__ge__",
    "__gt__",
    "__hash__",
    "__le__",
    "__lt__",
    "__ne__",
    "__repr__",
    "__str__",
    "count",
    "index",
    "remove",
    "sort",
];

impl<'py> Capture<'py> {
    /// Before C code is called, by the name of the function: guards what it looks into.
    pub(crate) fn guard_beneath(
        &self,
        name: &str,
        receiver: Option<&Bound<'py, PyAny>>,
        args: &[Tracked<'py>],
        keyed: bool,
    ) -> Outcome<()> {
        // With a key function it is the keys that are compared, without a predicate the items are asked whether they are true.
        let by_key = keyed && matches!(name, "sorted" | "sort" | "max" | "min" | "groupby");
        let by_predicate = name == "filter" && args.first().is_some_and(|function| !function.object.is_none());
        if SHALLOW.contains(&name) || by_key || by_predicate {
            return Ok(());
        }
        let own = receiver.filter(|_| OF_RECEIVER.contains(&name));
        self.guard_inside(args.iter().map(|arg| &arg.object).chain(own))
    }

    /// Guards the contents of existing containers in these values, where these are the frame's own.
    pub(crate) fn guard_inside<'a>(&self, values: impl IntoIterator<Item = &'a Bound<'py, PyAny>>) -> Outcome<()>
    where
        'py: 'a,
    {
        let mut seen = HashSet::new();
        let mut waiting: Vec<_> = values.into_iter().filter(|value| !self.torch.is_primitive(value)).cloned().collect();
        while let Some(value) = waiting.pop() {
            if self.torch.is_primitive(&value) || self.torch.is_fake(&value) || !seen.insert(value.as_ptr() as usize) {
                continue;
            }
            if let Some(source) = self.source_of(&value) {
                if self.torch.is_container(&value) {
                    self.snapshot(&value, source)?;
                } else {
                    self.guard_element(&value, source)?;
                }
            } else if let Ok(items) = value.cast::<PyTuple>() {
                waiting.extend(items.iter());
            } else if let Ok(items) = value.cast::<PyList>() {
                waiting.extend(items.iter());
            } else if let Ok(items) = value.cast::<PyDict>() {
                waiting.extend(items.iter().flat_map(|(key, value)| [key, value]));
            } else if value.is_exact_instance_of::<PySet>() || value.is_exact_instance_of::<PyFrozenSet>() {
                waiting.extend(value.try_iter()?.collect::<PyResult<Vec<_>>>()?);
            }
        }
        Ok(())
    }
}
