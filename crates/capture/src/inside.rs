//! Existing containers within what the frame has made, where C code looks into both: `[l] == [[1]]`, `any([l])`, `sorted([l, m])`.
//!
//! What comes out of the frame's own containers is looked at when it comes out. What C code compares, hashes, sums up or prints beneath
//! does not come out: there the contents of existing containers are guarded as where C code is given them themselves.

use dynamlir_cpython_abi::kind;
use dynamlir_guards::Facet;
use pyo3::{
    exceptions::PyBaseException,
    prelude::*,
    types::{PyDict, PyTuple},
};
use rustc_hash::FxHashSet;

use crate::{
    calls::{COMPARISONS, receiver},
    consulted,
    graph_break::reason,
    identity::{elements, is_named, referents},
    places::Want,
    reduce::Layout,
    state::{Capture, Outcome, Tracked, type_name},
};

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

/// Those that look at keys alone, and hand out the values.
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

/// Of those, the ones that take pairs from what is not a dict.
const OF_PAIRS: &[&str] = &["OrderedDict", "__ior__", "defaultdict", "dict", "update"];

/// Binary operators that compare or hash what is in their operands, or write it as text.
const OPERATORS: &[&str] = &["and_", "iand", "ior", "isub", "ixor", "or_", "sub", "xor"];

/// Methods that look into their own object as well.
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

impl<'py> Capture<'py> {
    /// Before a C function of this name is called: guards what it looks into, and what it looks up in the classes of that. `want` says
    /// whether it is given existing containers themselves, or copies in which something stands for numbers.
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
        // With a key function it is the keys that are compared, without a predicate the items are asked whether they are true.
        let by_key = keyed && matches!(name, "sorted" | "sort" | "max" | "min" | "groupby");
        let by_predicate = name == "filter" && args.first().is_some_and(|function| !function.object.is_none());
        if SHALLOW.contains(&name) || by_key || by_predicate {
            return args.iter().try_for_each(|arg| self.pin_specials(&arg.object, own.unwrap_or(&[])));
        }
        let looked_into = receiver.as_ref().filter(|_| OF_RECEIVER.contains(&name));
        let values = args.iter().map(|arg| &arg.object).chain(looked_into);
        if OF_KEYS.contains(&name) {
            args.iter().try_for_each(|arg| self.pin_specials(&arg.object, own.unwrap_or(consulted::SPREAD)))?;
            let (pairs, keyed): (Vec<_>, Vec<_>) = values.partition(|value| OF_PAIRS.contains(&name) && !value.is_instance_of::<PyDict>());
            self.guard_values(pairs, consulted::METHODS, true, want)?;
            return self.guard_values(keyed, consulted::HASH, false, want);
        }
        self.guard_values(values, own.unwrap_or(consulted::METHODS), true, want)
    }

    /// Before the operands of a binary operator are looked into.
    pub(crate) fn guard_operands(&self, name: &str, operands: [&Bound<'py, PyAny>; 2]) -> Outcome<()> {
        let specials = match name {
            "mod" | "imod" => consulted::PERCENT,
            "mul" | "imul" => return operands.into_iter().try_for_each(|value| self.pin_specials(value, consulted::INDEX)),
            _ if COMPARISONS.contains(&name) => consulted::COMPARED,
            _ if OPERATORS.contains(&name) => consulted::HASH,
            _ => return Ok(()),
        };
        self.guard_inside(operands, specials)
    }

    /// A value about to become text.
    pub(crate) fn printable(&self, value: &Tracked<'py>) -> Outcome<Bound<'py, PyAny>> {
        if self.torch.any_fake(&value.object) {
            return self.break_graph(reason::DATA_DEPENDENT_TEXT, "in a string");
        }
        self.guard_inside([&value.object], consulted::TEXT)?;
        self.readable(value)
    }

    /// Guards all that C code may find in these values: of existing objects what they hold, of the frame's own what is existing in
    /// them. `specials` are what it looks up in their classes.
    pub(crate) fn guard_inside<'a>(&self, values: impl IntoIterator<Item = &'a Bound<'py, PyAny>>, specials: &[&str]) -> Outcome<()>
    where
        'py: 'a,
    {
        self.guard_values(values, specials, true, Want::Exact)
    }

    /// As [`Self::guard_inside`]; without `whole` existing objects are looked at no closer than as elements of a container, but for those
    /// that may be keys. Of these values themselves C code is given what `want` says; what is in them it finds as it is.
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

/// What C code finds in a container, a view of a dict or an exception.
pub(crate) fn found_in<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if let Some(items) = elements(value) {
        return Ok(items);
    }
    if value.is_instance_of::<PyBaseException>() {
        return Ok(vec![value.getattr("args")?]);
    }
    // What Python code looks at is seen.
    let by_python = is_named(value) || kind::is_generator(value) || Layout::of(&value.get_type())?.base.is(value.py().get_type::<PyAny>());
    if by_python { Ok(Vec::new()) } else { referents(value) }
}
