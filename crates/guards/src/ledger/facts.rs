//! A summary of a capture's guards on each place, in a few bits.

use dynamlir_cpython_abi::types;
use pyo3::{
    prelude::*,
    types::{PyByteArray, PyBytes, PyComplex, PyDict, PyFloat, PyFrozenSet, PyFunction, PyInt, PyList, PySet, PyString, PyTuple, PyType},
};
use rustc_hash::FxHashMap;

use crate::{Guard, Relation, Source, SourceId, builder::State, relation::members};

/// The facts that guards establish about a place.
pub(super) mod says {
    /// The identity of an immutable object, or that it is missing.
    pub const EXACT: u16 = 1;
    /// The type.
    pub const TYPED: u16 = 1 << 1;
    /// The length.
    pub const COUNTED: u16 = 1 << 2;
    /// The keys, or the elements of a set.
    pub const KEYED: u16 = 1 << 3;
    /// It is a constant, and so are all its parts.
    pub const CONSTANT: u16 = 1 << 4;
    /// The identity.
    pub const PINNED: u16 = 1 << 5;
    /// The code of a function.
    pub const CODE: u16 = 1 << 6;
    /// The metadata of a tensor.
    pub const TENSOR: u16 = 1 << 7;
    /// The answers to the program's questions about it.
    pub const ASKED: u16 = 1 << 8;
    /// It is present.
    pub const PRESENT: u16 = 1 << 9;
    /// It is missing.
    pub const ABSENT: u16 = 1 << 10;
    /// Its class cannot be changed.
    pub const FIXED: u16 = 1 << 11;
    /// Its class's instances store no attributes.
    pub const BARE: u16 = 1 << 12;
    /// A class whose instances behave in one way as class attributes: either they are not descriptors, or they are functions and partials,
    /// which a class returns bound to its instances.
    pub const UNBOUND: u16 = 1 << 13;
    /// It is a class itself, and cannot be changed.
    pub const FIXED_CLASS: u16 = 1 << 14;
    /// Its death is unobserved.
    pub const UNWATCHED: u16 = 1 << 15;
}

/// The content that C code finds in an instance of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// No content beyond what Python code can see.
    #[default]
    Plain,
    /// The value: numbers, strings.
    Value,
    /// Items by their positions.
    Sequence,
    /// Values by keys.
    Dict,
    /// Elements.
    Set,
}

/// The facts that the guards establish about one source.
#[derive(Clone, Copy, Default)]
pub(super) struct Covered {
    /// Bits of [`says`].
    pub says: u16,
    pub kind: Kind,
    /// True if the class is a Python builtin.
    pub builtin: bool,
    pub length: u32,
    /// The index of the guard on the keys among all guards.
    pub keys: u32,
}

/// Returns the facts that all guards establish about each source, and the sources that are one object. Facts about one of these sources
/// apply to all of them.
pub(super) fn covered(py: Python<'_>, state: &State) -> (Vec<Covered>, FxHashMap<SourceId, Vec<SourceId>>) {
    let mut covered = vec![Covered::default(); state.sources.len()];
    let mut kinds = FxHashMap::default();
    let mut kind = |class: &Bound<'_, PyAny>| *kinds.entry(class.as_ptr() as usize).or_insert_with(|| (kind_of(class), traits_of(class)));
    for (number, (id, guard)) in state.guards.iter().enumerate() {
        let at = &mut covered[id.index()];
        match guard {
            Guard::Equals(_) => at.says |= says::EXACT | says::CONSTANT,
            Guard::Tensor(_) => at.says |= says::EXACT | says::TENSOR,
            Guard::Absent => at.says |= says::EXACT | says::ABSENT,
            Guard::Identity(object) => {
                let object = object.bind(py);
                let traits;
                ((at.kind, at.builtin), traits) = kind(object.get_type().as_any());
                at.says |= traits;
                if object.cast::<PyType>().is_ok_and(is_fixed) {
                    at.says |= says::FIXED_CLASS;
                }
                let changes = matches!(at.kind, Kind::Sequence | Kind::Dict | Kind::Set) && !object.is_exact_instance_of::<PyFrozenSet>();
                at.says |= if changes { says::TYPED } else { says::EXACT | says::TYPED } | says::PINNED;
            }
            Guard::Type(class) => {
                let traits;
                ((at.kind, at.builtin), traits) = kind(class.bind(py));
                at.says |= says::TYPED | traits;
            }
            Guard::Length(length) => {
                at.says |= says::COUNTED;
                at.length = *length as u32;
            }
            Guard::DictKeys(_) => {
                at.says |= says::KEYED;
                at.keys = number as u32;
            }
            Guard::SetElements(_) | Guard::SetOrder(_) => at.says |= says::KEYED,
            Guard::Code(_) => at.says |= says::CODE,
            Guard::Compares(_) => at.says |= says::ASKED,
            Guard::Present | Guard::Contents(_) => at.says |= says::PRESENT,
            Guard::Unwatched => at.says |= says::UNWATCHED,
        }
    }
    for (id, source) in state.sources.numbered() {
        if let Source::Held { id: held, .. } = source
            && state.held[held.0 as usize].bind(py).cast::<PyType>().is_ok_and(is_fixed)
        {
            covered[id.index()].says |= says::FIXED_CLASS;
        }
    }
    for relation in &state.relations {
        let said = match relation {
            Relation::Compares(_) | Relation::Sizes(_) => says::ASKED,
            Relation::Same(..) | Relation::Distinct(_) | Relation::Storage(_) => says::PRESENT,
        };
        for id in members(relation, &state.sources) {
            covered[id.index()].says |= said;
        }
    }
    let twins = twins(state);
    for all in twins.values() {
        let said = all.iter().fold(0, |said, twin| said | covered[twin.index()].says);
        let find = |wanted: u16| all.iter().map(|twin| covered[twin.index()]).find(|at| at.says & wanted != 0).unwrap_or_default();
        let (typed, counted, keyed) = (find(says::TYPED), find(says::COUNTED), find(says::KEYED));
        let merged = Covered { says: said, kind: typed.kind, builtin: typed.builtin, length: counted.length, keys: keyed.keys };
        for twin in all {
            covered[twin.index()] = merged;
        }
    }
    (covered, twins)
}

/// Returns the groups of sources that are guarded to be one object, by each member.
fn twins(state: &State) -> FxHashMap<SourceId, Vec<SourceId>> {
    let mut found: FxHashMap<SourceId, Vec<SourceId>> = FxHashMap::default();
    for relation in &state.relations {
        let Relation::Same(a, b) = relation else { continue };
        let mut all = found.get(a).cloned().unwrap_or_else(|| vec![*a]);
        all.extend(found.get(b).cloned().unwrap_or_else(|| vec![*b]));
        all.sort_unstable();
        all.dedup();
        for twin in all.clone() {
            found.insert(twin, all.clone());
        }
    }
    found
}

/// `Py_TPFLAGS_IMMUTABLETYPE`
const IMMUTABLE: std::ffi::c_ulong = 1 << 8;

/// Returns true for a class whose attributes cannot be set: those of C.
fn is_fixed(class: &Bound<'_, PyType>) -> bool {
    types::flags(class) & IMMUTABLE != 0
}

/// Returns the facts that hold for all instances of a class.
fn traits_of(class: &Bound<'_, PyAny>) -> u16 {
    let Ok(class) = class.cast::<PyType>() else { return 0 };
    let mut found = 0;
    if is_fixed(class) {
        found |= says::FIXED;
    }
    if !types::has_instance_dict(class) {
        found |= says::BARE;
    }
    let binds = types::mro(class)
        .is_ok_and(|mro| mro.iter().any(|base| types::dict(base).and_then(|dict| dict.contains("__get__")).unwrap_or(true)));
    let partial = || dynamlir_cpython_abi::import(class.py(), "functools").and_then(|module| module.getattr("partial"));
    let is_usual = || class.is(class.py().get_type::<PyFunction>()) || partial().is_ok_and(|partial| class.is(partial));
    if !binds || is_usual() || types::name_of(class) == "instancemethod" {
        found |= says::UNBOUND;
    }
    found
}

/// Returns the content that C code finds in instances of a class, and true if the class is exactly a Python builtin.
fn kind_of(class: &Bound<'_, PyAny>) -> (Kind, bool) {
    let py = class.py();
    let Ok(class) = class.cast::<PyType>() else { return (Kind::Plain, false) };
    let of = |bases: &[Bound<'_, PyType>]| {
        let exact = bases.iter().any(|base| base.is(class));
        (exact || bases.iter().any(|base| class.is_subclass(base).unwrap_or(false)), exact)
    };
    let deque = dynamlir_cpython_abi::import(py, "collections").and_then(|module| Ok(module.getattr("deque")?.cast_into::<PyType>()?));
    let sequences = [py.get_type::<PyTuple>(), py.get_type::<PyList>()].into_iter().chain(deque).collect();
    let kinds = [
        (Kind::Sequence, sequences),
        (Kind::Dict, vec![py.get_type::<PyDict>()]),
        (Kind::Set, vec![py.get_type::<PySet>(), py.get_type::<PyFrozenSet>()]),
        (
            Kind::Value,
            vec![
                py.get_type::<PyInt>(),
                py.get_type::<PyFloat>(),
                py.get_type::<PyString>(),
                py.get_type::<PyBytes>(),
                py.get_type::<PyComplex>(),
                py.get_type::<PyByteArray>(),
            ],
        ),
    ];
    kinds.into_iter().find_map(|(kind, bases)| Some(of(&bases)).filter(|(is, _)| *is).map(|(_, exact)| (kind, exact))).unwrap_or_default()
}
