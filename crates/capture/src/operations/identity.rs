//! Existing objects that are compared by identity: in `==`, in `in`, as keys and as elements, if their class has no `__eq__`.
//!
//! That two of them are the same object is guarded when the second is seen. That they are distinct is guarded here: all objects that C code
//! compared stay distinct. In sets, and where an address is shown, the object itself is pinned. The `==` of each class is guarded in all
//! cases, since it decides which of these rules applies.

use dynamlir_guards::{Relation, SourceId};
use pyo3::{
    intern,
    prelude::*,
    types::{PyDict, PyFrozenSet, PyFunction, PyList, PySet, PyTuple},
};
use rustc_hash::FxHashSet;

use crate::{
    floors::Reads,
    graph_break::{Outcome, reason},
    objects::{
        callables::receiver,
        callback_wrapper::{self, Wrapper},
        contents::{elements, is_named, referents},
        layout::Layout,
        lookup::{is_immutable, lookup},
        type_name,
    },
};

/// Methods, and functions without a row of their own in the effect table, that compare their arguments with each other, or with their
/// receiver or its contents. Of the others, the claims say it.
const COMPARING: &[&str] = &[
    "__contains__",
    "__delitem__",
    "__eq__",
    "__getitem__",
    "__ne__",
    "__setitem__",
    "_count_elements",
    "contains",
    "count",
    "countOf",
    "eq",
    "fromkeys",
    "get",
    "index",
    "indexOf",
    "ne",
    "pop",
    "remove",
    "setdefault",
    "sort",
    "update",
];

/// C functions and methods that find a place by the hash, or show the address.
const ADDRESSING: &[&str] = &[
    "__hash__",
    "__repr__",
    "__str__",
    "add",
    "difference",
    "difference_update",
    "discard",
    "format",
    "frozenset",
    "hash",
    "id",
    "intersection",
    "intersection_update",
    "isdisjoint",
    "issubset",
    "issuperset",
    "repr",
    "set",
    "str",
    "symmetric_difference",
    "symmetric_difference_update",
    "union",
];

/// Methods, and functions without a row of their own in the effect table, that hash or compare the items of an iterator.
const ITERATING: &[&str] = &[
    "__contains__",
    "_count_elements",
    "contains",
    "countOf",
    "difference",
    "difference_update",
    "fromkeys",
    "indexOf",
    "intersection",
    "intersection_update",
    "isdisjoint",
    "issubset",
    "issuperset",
    "symmetric_difference",
    "symmetric_difference_update",
    "union",
    "update",
];

impl<'py> Reads<'py> {
    /// Notes that these values are compared with each other.
    pub(crate) fn compared<'a>(&self, values: impl IntoIterator<Item = &'a Bound<'py, PyAny>>) -> Outcome<()>
    where
        'py: 'a,
    {
        let values: Vec<_> = values.into_iter().collect();
        self.refuse_nans(values.iter().copied(), false)?;
        for object in self.identities(values)? {
            if let Some(source) = self.source_of(&object) {
                if is_named(&object) {
                    self.pin(&object, source)?;
                } else {
                    self.existing.note_compared(source);
                }
            }
        }
        Ok(())
    }

    /// Notes that these values are used where their hash or address matters.
    pub(crate) fn addressed<'a>(&self, values: impl IntoIterator<Item = &'a Bound<'py, PyAny>>) -> Outcome<()>
    where
        'py: 'a,
    {
        let values: Vec<_> = values.into_iter().collect();
        self.refuse_nans(values.iter().copied(), true)?;
        for object in self.identities(values)? {
            if let Some(source) = self.source_of(&object) {
                self.pin(&object, source)?;
            }
        }
        Ok(())
    }

    /// Notes a call of C code that may compare its arguments, given the function and its name.
    pub(crate) fn compared_by(
        &self,
        function: &Bound<'py, PyAny>,
        name: &str,
        receiver: Option<&Bound<'py, PyAny>>,
        args: &[Bound<'py, PyAny>],
    ) -> Outcome<()> {
        let in_set = receiver.is_some_and(|object| object.is_instance_of::<PySet>() || object.is_instance_of::<PyFrozenSet>());
        let compares = COMPARING.contains(&name) || self.effects.specials(function).is_some_and(|called| called.contains(&"__eq__"));
        if ADDRESSING.contains(&name) || in_set && compares {
            self.addressed(args)
        } else if compares {
            self.compared(&compared_ones(name, receiver, args))
        } else {
            Ok(())
        }
    }

    /// Returns wrappers for the functions that compute the items which C code gets from an iterator and compares; None if it compares none.
    pub(crate) fn notes_for_items(&self, function: &Bound<'py, PyAny>, name: &str) -> PyResult<Option<&'static Wrapper>> {
        let claims = |called: &[&str]| called.contains(&"__eq__") && called.contains(&"__next__");
        if !ITERATING.contains(&name) && !self.effects.specials(function).is_some_and(claims) {
            return Ok(None);
        }
        let in_set = receiver(function).is_some_and(|object| object.is_instance_of::<PySet>() || object.is_instance_of::<PyFrozenSet>());
        let noting = if ADDRESSING.contains(&name) || in_set { callback_wrapper::addressed } else { callback_wrapper::compared };
        noting(self.py).map(Some)
    }

    /// Guards that the compared objects stay distinct.
    pub(crate) fn settle_compared(&self) {
        let sources = self.existing.compared();
        if sources.len() > 1 {
            self.guards.relate(Relation::Distinct(sources));
        }
    }

    /// Returns the existing objects that are compared by identity, among these values and inside objects that the frame created from them.
    /// Guards how each is compared.
    fn identities<'a>(&self, values: impl IntoIterator<Item = &'a Bound<'py, PyAny>>) -> Outcome<Vec<Bound<'py, PyAny>>>
    where
        'py: 'a,
    {
        let mut found = Vec::new();
        let mut seen = FxHashSet::default();
        let mut waiting: Vec<_> = values.into_iter().cloned().collect();
        while let Some(value) = waiting.pop() {
            if self.torch.is_primitive(&value) || self.torch.is_tensor(&value) || !seen.insert(value.as_ptr() as usize) {
                continue;
            }
            if let Some(items) = elements(&value).or_else(|| values_of(&value)) {
                waiting.extend(items);
                continue;
            }
            if let Some(source) = self.source_of(&value) {
                if self.guard_equality(&value, source)? {
                    found.push(value);
                }
                continue;
            }
            if let Some(class) = self.class_at(&value)? {
                // The class may get an `__eq__`.
                self.pin_entry(&value.get_type(), class, intern!(self.py, "__eq__"))?;
            }
            if !is_named(&value) && compares_contents(&value)? {
                waiting.extend(referents(&value)?);
            }
        }
        Ok(found)
    }

    /// Guards how an existing object is compared. Returns true if it is by identity.
    fn guard_equality(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<bool> {
        let Some(own) = lookup(&object.get_type(), "__eq__")? else { return Ok(false) };
        let at = self.guards.type_attr(self.class_source(object, source)?, "__eq__");
        self.pin_class_attr(at, &own)?;
        if has_no_equality(object)? {
            return Ok(true);
        }
        // Python code is followed when it is called; reads by C code are not seen. C code may be called if Python code declines.
        let by_python = own.is_exact_instance_of::<PyFunction>() && Layout::of(&object.get_type())?.base.is(self.py.get_type::<PyAny>());
        if !by_python && self.guard_contents(object, source)? {
            return self.break_graph(reason::UNGUARDABLE, format!("tensors in a {}", type_name(object)));
        }
        Ok(false)
    }
}

/// Returns the values that C code of this name compares with each other: for dicts only the keys, and nothing if it uses an index.
fn compared_ones<'py>(name: &str, receiver: Option<&Bound<'py, PyAny>>, args: &[Bound<'py, PyAny>]) -> Vec<Bound<'py, PyAny>> {
    const BY_INDEX: &[&str] = &["__delitem__", "__getitem__", "__setitem__", "pop"];
    /// Functions whose first argument is a key. The other arguments are not compared.
    const BY_KEY: &[&str] = &["__contains__", "__delitem__", "__getitem__", "__setitem__", "fromkeys", "get", "pop", "setdefault"];
    let keys = |value: &Bound<'py, PyAny>| match value.cast::<PyDict>() {
        Ok(dict) => dict.iter().map(|(key, _)| key).collect(),
        Err(_) => vec![value.clone()],
    };
    match receiver {
        Some(sequence) if BY_INDEX.contains(&name) && (sequence.is_instance_of::<PyList>() || sequence.is_instance_of::<PyTuple>()) => {
            Vec::new()
        }
        Some(dict) if dict.is_instance_of::<PyDict>() && BY_KEY.contains(&name) => {
            args.first().cloned().into_iter().chain(keys(dict)).collect()
        }
        Some(dict) if dict.is_instance_of::<PyDict>() && name == "update" => args.iter().chain([dict]).flat_map(keys).collect(),
        None if matches!(name, "dict" | "OrderedDict" | "defaultdict" | "frozendict") => args.iter().flat_map(keys).collect(),
        // They compare items by `<`. The elements of items that are tuples or lists are compared by `==` before.
        None if matches!(name, "max" | "min" | "sorted") => ordered(args),
        Some(list) if name == "sort" => ordered(std::slice::from_ref(list)),
        _ => args.iter().chain(receiver).cloned().collect(),
    }
}

/// Returns the elements of sequences among values that are put in order: among the arguments, or among the items of a single one.
fn ordered<'py>(args: &[Bound<'py, PyAny>]) -> Vec<Bound<'py, PyAny>> {
    let items = match args {
        [all] => elements(all).or_else(|| values_of(all)).unwrap_or_default(),
        several => several.to_vec(),
    };
    let sequence = |item: &Bound<'py, PyAny>| item.cast::<PyTuple>().map_or_else(|_| elements(item), |named| Some(named.iter().collect()));
    items.iter().filter_map(sequence).flatten().collect()
}

/// Returns the items of `dict.values()` and of a deque, which iterate without Python code; None for other objects.
fn values_of<'py>(value: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    let class = value.get_type();
    let is_known = is_immutable(&class) && class.name().is_ok_and(|name| name == "dict_values" || name == "deque");
    is_known.then(|| value.try_iter()?.collect::<PyResult<_>>()).and_then(Result::ok)
}

/// Returns true if C code compares the contents of an object: a named tuple, a method, a view of a dict.
fn compares_contents(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let own = lookup(&object.get_type(), "__eq__")?;
    Ok(!own.is_some_and(|own| own.is_exact_instance_of::<PyFunction>()) && !has_no_equality(object)?)
}

/// Returns true if the class of an object inherits `==` from `object`.
fn has_no_equality(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let own = lookup(&object.get_type(), "__eq__")?;
    let generic = lookup(&object.py().get_type::<PyAny>(), "__eq__")?;
    Ok(own.zip(generic).is_some_and(|(own, generic)| own.is(&generic)))
}
