//! Existing containers inside containers that the frame created, where C code inspects both: `[l] == [[1]]`, `any([l])`, `sorted([l, m])`.
//!
//! An item taken out of the frame's own containers is guarded when it is taken out. Items that C code compares, hashes, sums or prints
//! inside them are never taken out. For these, the contents of existing containers are guarded as if C code received the containers
//! themselves.

use dynamlir_guards::Facet;
use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple},
};
use rustc_hash::FxHashSet;

use crate::{
    floors::Reads,
    graph_break::{Outcome, reason},
    objects::{
        Tracked,
        callables::{COMPARISONS, receiver},
        contents::found_in,
        special_names, type_name,
    },
    state::number_places::Want,
};

/// C functions that return or store their arguments without inspecting them. All others inspect them.
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
    "batched",
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

/// C functions that inspect only keys, and return the values.
const OF_KEYS: &[&str] = &[
    "OrderedDict",
    "__delitem__",
    "__getitem__",
    "__ior__",
    "__or__",
    "__ror__",
    "__setitem__",
    "defaultdict",
    "dict",
    "fromkeys",
    "get",
    "pop",
    "setdefault",
    "update",
];

/// The functions in [`OF_KEYS`] that take pairs from an argument that is not a dict.
const OF_PAIRS: &[&str] = &["OrderedDict", "__ior__", "defaultdict", "dict", "update"];

/// Binary operators that compare or hash the contents of their operands, or format them as text.
const OPERATORS: &[&str] = &["and_", "iand", "ior", "isub", "ixor", "or_", "sub", "xor"];

/// Methods that also inspect their own object.
const OF_RECEIVER: &[&str] = &[
    "__contains__",
    "__eq__",
    "__format__",
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

impl<'py> Reads<'py> {
    /// Guards what a C function of this name inspects, and what it looks up in the classes of those objects, before it is called. `want`
    /// says if it receives existing containers themselves, or copies in which numbers may be replaced by stand-ins.
    pub(crate) fn guard_beneath(
        &self,
        object: &Bound<'py, PyAny>,
        name: &str,
        args: &[Tracked<'py>],
        keyed: bool,
        want: Want,
    ) -> Outcome<()> {
        let receiver = receiver(object);
        let own = self.effects.specials(object);
        // With a key function the keys are compared; without a predicate the truth of the items is tested.
        let by_key = keyed && matches!(name, "sorted" | "sort" | "max" | "min" | "groupby");
        let by_predicate = name == "filter" && args.first().is_some_and(|function| !function.object.is_none());
        if SHALLOW.contains(&name) || by_key || by_predicate {
            return args.iter().try_for_each(|arg| self.pin_specials(&arg.object, own.unwrap_or(&[])));
        }
        let looked_into = receiver.as_ref().filter(|_| OF_RECEIVER.contains(&name));
        let values = args.iter().map(|arg| &arg.object).chain(looked_into);
        if OF_KEYS.contains(&name) {
            args.iter().try_for_each(|arg| self.pin_specials(&arg.object, own.unwrap_or(special_names::SPREAD)))?;
            let (pairs, keyed): (Vec<_>, Vec<_>) = values.partition(|value| OF_PAIRS.contains(&name) && !value.is_instance_of::<PyDict>());
            self.guard_values(pairs, special_names::METHODS, true, want)?;
            return self.guard_values(keyed, special_names::HASH, false, want);
        }
        self.guard_values(values, own.unwrap_or(special_names::METHODS), true, want)
    }

    /// Guards the operands of a binary operator before they are inspected.
    pub(crate) fn guard_operands(&self, name: &str, operands: [&Bound<'py, PyAny>; 2]) -> Outcome<()> {
        let specials = match name {
            "mod" | "imod" => special_names::PERCENT,
            "mul" | "imul" => return operands.into_iter().try_for_each(|value| self.pin_specials(value, special_names::INDEX)),
            _ if COMPARISONS.contains(&name) => special_names::COMPARED,
            _ if OPERATORS.contains(&name) => special_names::HASH,
            _ => return Ok(()),
        };
        self.guard_inside(operands, specials)
    }

    /// Returns a value in the form to be formatted as text.
    pub(crate) fn printable(&self, value: &Tracked<'py>) -> Outcome<Bound<'py, PyAny>> {
        if self.torch.any_fake(&value.object) {
            return self.break_graph(reason::DATA_DEPENDENT_TEXT, "in a string");
        }
        self.guard_inside([&value.object], special_names::TEXT)?;
        self.readable(value)
    }

    /// Guards everything C code may find in these values: the contents of existing objects, and the existing objects inside the frame's
    /// own. `specials` are the methods that it looks up in their classes.
    pub(crate) fn guard_inside<'a>(&self, values: impl IntoIterator<Item = &'a Bound<'py, PyAny>>, specials: &[&str]) -> Outcome<()>
    where
        'py: 'a,
    {
        self.guard_values(values, specials, true, Want::Exact)
    }

    /// Like [`Self::guard_inside`]. Without `whole`, existing objects are guarded only as elements of a container, except those that may be
    /// keys. `want` applies to these values themselves; C code sees their contents as they are.
    pub(crate) fn guard_values<'a>(
        &self,
        values: impl IntoIterator<Item = &'a Bound<'py, PyAny>>,
        specials: &[&str],
        whole: bool,
        want: Want,
    ) -> Outcome<()>
    where
        'py: 'a,
    {
        let mut seen = FxHashSet::default();
        let is_text = specials.contains(&"__repr__");
        let mut given = Vec::new();
        for value in values {
            if self.torch.is_primitive(value) {
                self.guard_text_of(value, is_text)?;
            } else {
                given.push(value.clone());
            }
        }
        self.refuse_changed_within(&given)?;
        let mut waiting: Vec<_> = given.into_iter().map(|value| (value, want)).collect();
        let exactly = |values: Vec<Bound<'py, PyAny>>| values.into_iter().map(|value| (value, Want::Exact));
        while let Some((value, want)) = waiting.pop() {
            self.guard_text_of(&value, is_text)?;
            if self.torch.is_primitive(&value) || self.torch.is_fake(&value) || !seen.insert((value.as_ptr() as usize, want)) {
                continue;
            }
            self.pin_all_unseen(&value)?;
            self.pin_specials(&value, specials)?;
            if let Some(shown) = self.viewed(&value)? {
                waiting.push((shown.object, want));
                continue;
            }
            if let Some(source) = self.source_of(&value) {
                if self.torch.is_container(&value) {
                    let is_key = value.is_exact_instance_of::<PyTuple>();
                    if want == Want::Exact && (whole || is_key) {
                        self.guards.demand(source, Facet::Contents);
                        self.take_contents(&value, source)?;
                    }
                    let held = self.snapshot(&value, source)?;
                    if whole || is_key {
                        waiting.extend(exactly(found_in(&held)?));
                    }
                } else if !whole {
                    self.guard_element(&value, source)?;
                } else if self.all_contents(&value, source)? {
                    return self.break_graph(reason::UNGUARDABLE, format!("tensors in a {}", type_name(&value)));
                }
            } else {
                waiting.extend(exactly(found_in(&value)?));
            }
        }
        Ok(())
    }
}
