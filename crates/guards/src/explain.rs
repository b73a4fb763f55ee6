//! Guards as text: as Python predicates, with a description of the difference when one fails.
//!
//! The predicates use `L` (parameters), `G` (globals), `B` (builtins), `C` (free variables) and `torch`, and a few helpers:
//! `___check_type_id(x, n)` is `id(type(x)) == n`, `___check_obj_id(x, n)` is `id(x) == n`, `___lookup(cls, name)` looks along the MRO and
//! returns `___nothing` for a missing attribute, `___made_of(x)` lists the class and the parts of a bound method, property or the like,
//! which is often created anew, `___is_watched(x)` is true if destroying `x` would run code or clear a weak reference. Relations and the state
//! of torch are `___any`, `___all_different`, `___storages`, `___autocast` and `___torch_state`. The guards themselves are stricter than `==`: types must be equal, too. Nothing here is fast.

use std::{fmt, sync::Arc};

use dynamlir_cpython_abi::shown;
use dynamlir_torch_abi::{Field, Meta, State as TorchState};
use dynamlir_trails::{Reached, Recorder, Spot};
use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    Comparison, Constant, DictKey, Guard, GuardSet, Relation, Roots, Source, SourceId, Sources, TensorMatch,
    builder::State,
    check::{handles_an_exception, holds},
    identity_pins::made_of,
    tree::{FUNCTION, PreparedGuard, Step},
};

/// A guard that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The Python expression that reaches the value.
    pub source: String,
    /// The predicate that is false.
    pub guard: String,
    /// A description of the expected value.
    pub expected: String,
    /// The actual value.
    pub seen: String,
}

/// `L['x'].shape == (3, 4): expected …, seen …`
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, seen {}", self.guard, self.expected, self.seen)
    }
}

/// The information needed to describe the guards of a set as text. Of objects, only their texts are kept.
pub struct Texts {
    pub(crate) sources: Sources,
    pub(crate) guards: Vec<(SourceId, DescribedGuard)>,
    pub(crate) relations: Vec<Relation>,
    pub(crate) torch: Option<TorchState>,
    pub(crate) handled: Option<bool>,
    pub(crate) registered: Vec<String>,
}

/// A guard without its object.
pub(crate) enum DescribedGuard {
    Type(usize, Arc<str>),
    Identity(usize, Arc<str>),
    /// The parts of an object that is held by its parts, and a description of the object.
    MadeOf(String, Arc<str>),
    Equals(Constant),
    Tensor(TensorMatch),
    Present,
    Absent,
    Length(usize),
    DictKeys(Arc<[DictKey]>),
    SetElements(Arc<[Constant]>),
    SetOrder(Arc<[Constant]>),
    Code(usize, Arc<str>),
    Compares(Comparison),
    Contents(i64),
    Unwatched,
}

struct Listed {
    source: String,
    /// One predicate, or for a tensor those of [`tensor_parts`].
    parts: Vec<String>,
    expected: String,
}

impl Texts {
    pub(crate) fn new(py: Python<'_>, state: State, registered: Vec<String>) -> Self {
        // Classes and functions are guarded many times.
        let mut known: FxHashMap<usize, Arc<str>> = FxHashMap::default();
        let mut text = |object: &Py<PyAny>| {
            let address = object.as_ptr() as usize;
            (address, known.entry(address).or_insert_with(|| text_of(object.bind(py)).into()).clone())
        };
        let mut said = |guard: &Guard| match guard {
            Guard::Type(class) => {
                let (address, text) = text(class);
                DescribedGuard::Type(address, text)
            }
            Guard::Identity(object) => {
                let (address, text) = text(object);
                made_of(object.bind(py))
                    .map_or_else(|| DescribedGuard::Identity(address, text.clone()), |parts| DescribedGuard::MadeOf(parts, text.clone()))
            }
            Guard::Code(code) => {
                let (address, text) = text(code);
                DescribedGuard::Code(address, text)
            }
            Guard::Equals(constant) => DescribedGuard::Equals(constant.clone()),
            Guard::Tensor(expected) => DescribedGuard::Tensor(expected.clone()),
            Guard::Present => DescribedGuard::Present,
            Guard::Absent => DescribedGuard::Absent,
            Guard::Length(length) => DescribedGuard::Length(*length),
            Guard::Compares(comparison) => DescribedGuard::Compares(*comparison),
            Guard::Contents(contents) => DescribedGuard::Contents(contents.number()),
            Guard::Unwatched => DescribedGuard::Unwatched,
            Guard::DictKeys(keys) => DescribedGuard::DictKeys(keys.clone()),
            Guard::SetElements(elements) => DescribedGuard::SetElements(elements.clone()),
            Guard::SetOrder(elements) => DescribedGuard::SetOrder(elements.clone()),
        };
        let guards = state.guards.iter().map(|(source, guard)| (*source, said(guard))).collect();
        Self { sources: state.sources, guards, relations: state.relations, torch: state.torch, handled: state.handled, registered }
    }

    fn listed(&self, guard: usize) -> Listed {
        let (source, said) = &self.guards[guard];
        Listed { source: self.sources.expression(*source), parts: predicates(&self.sources, *source, said), expected: expectation(said) }
    }

    /// Returns the members of a relation, and its predicate.
    fn relation(&self, relation: &Relation) -> (String, String) {
        let names: Vec<_> = crate::relation::members(relation, &self.sources).iter().map(|s| self.sources.expression(*s)).collect();
        let predicate = match relation {
            Relation::Same(..) => names.join(" is "),
            Relation::Compares(predicate) => predicate.text(&self.sources),
            Relation::Sizes(sizes) => sizes.texts(&self.sources).join(" and "),
            Relation::Distinct(_) => format!("___all_different({})", names.join(", ")),
            Relation::Storage(list) => {
                let groups: Vec<_> = list.iter().map(|member| format!("({}, {})", member.group, member.offset)).collect();
                format!("___storages([{}]) == [{}]", names.join(", "), groups.join(", "))
            }
        };
        (names.join(", "), predicate)
    }

    /// Returns the guards that two places hold one object, as Python predicates.
    pub fn identities(&self) -> impl Iterator<Item = String> {
        self.relations.iter().filter(|relation| matches!(relation, Relation::Same(..))).map(|relation| self.relation(relation).1)
    }

    /// Returns the source expression of a guard.
    pub(crate) fn source(&self, guard: usize) -> Option<String> {
        self.guards.get(guard).map(|(source, _)| self.sources.expression(*source))
    }

    /// Returns the expressions of places that were reached but are not checked by any guard, except for being distinct objects. At most,
    /// their values are returned.
    #[must_use]
    pub fn unasked(&self) -> Vec<String> {
        let mut asked = FxHashSet::default();
        let mut ask = |source: SourceId| {
            let mut at = Some(source);
            while let Some(id) = at.filter(|id| asked.insert(*id)) {
                at = self.sources.get(id).base();
            }
        };
        let asks = |said: &DescribedGuard| !matches!(said, DescribedGuard::Present | DescribedGuard::Unwatched);
        self.guards.iter().filter(|(_, said)| asks(said)).for_each(|(source, _)| ask(*source));
        let relations = self.relations.iter().filter(|relation| !matches!(relation, Relation::Distinct(_)));
        relations.flat_map(|relation| crate::relation::members(relation, &self.sources)).for_each(ask);
        let is_place =
            |source: &Source| !matches!(source, Source::Builtin(_) | Source::Function | Source::Held { .. } | Source::Computed(_));
        let unasked = self.sources.numbered().filter(|(id, source)| is_place(source) && !asked.contains(id));
        unasked.map(|(id, _)| self.sources.expression(id)).collect()
    }

    /// Returns the guards as Python predicates, in the order in which they were added.
    #[must_use]
    pub fn code_parts(&self) -> Vec<String> {
        let valid = std::iter::once("___guarded_code.valid".to_owned());
        let torch = self.torch.as_ref().map(torch_parts).unwrap_or_default().into_iter().map(|(_, _, predicate)| predicate);
        let guards = self.guards.iter().flat_map(|(source, said)| predicates(&self.sources, *source, said));
        let relations = self.relations.iter().flat_map(|relation| match relation {
            Relation::Sizes(sizes) => sizes.texts(&self.sources),
            other => vec![self.relation(other).1],
        });
        let handled = self.handled.map(handled_predicate);
        valid.chain(torch).chain(guards).chain(relations).chain(handled).chain(self.registered.iter().cloned()).collect()
    }
}

/// Returns the predicate that a caller of the function is, or is not, handling an exception.
fn handled_predicate(expected: bool) -> String {
    format!("sys.exc_info()[1] is {}None", if expected { "not " } else { "" })
}

/// Returns Python's spelling of a torch dtype, by number.
fn dtype_name(number: &str) -> String {
    let name = match number {
        "5" => "float16",
        "6" => "float32",
        "7" => "float64",
        "15" => "bfloat16",
        "9" => "complex64",
        "10" => "complex128",
        _ => return format!("<dtype {number}>"),
    };
    format!("torch.{name}")
}

/// Returns name, value and predicate of each part of torch's state.
fn torch_parts(state: &TorchState) -> Vec<(&'static str, String, String)> {
    let predicate = |name: &str, value: &str| match name {
        "grad mode" => format!("torch.is_grad_enabled() == {value}"),
        "inference mode" => format!("torch.is_inference_mode_enabled() == {value}"),
        "default dtype" => format!("torch.get_default_dtype() == {}", dtype_name(value)),
        "deterministic algorithms" => format!("torch.are_deterministic_algorithms_enabled() == {value}"),
        "deterministic warnings only" => format!("torch.is_deterministic_algorithms_warn_only_enabled() == {value}"),
        "deterministic fill of memory" => format!("torch.utils.deterministic.fill_uninitialized_memory == {value}"),
        "torch function modes" => format!("torch._C._len_torch_function_stack() == {value}"),
        "dispatch modes" => format!("torch._C._len_torch_dispatch_stack() == {value}"),
        "forward-mode gradients" => format!("(torch.autograd.forward_ad._current_level >= 0) == {value}"),
        "autocast" => format!("___autocast() == {value}"),
        other => format!("___torch_state('{other}') == {value}"),
    };
    state.parts().into_iter().map(|(name, value)| (name, value.clone(), predicate(name, &value))).collect()
}

/// Returns the differences between torch's states.
fn torch_failures(expected: &TorchState) -> Vec<Failure> {
    let now = TorchState::now().map(|now| now.parts()).unwrap_or_default();
    let parts = torch_parts(expected).into_iter().zip(now);
    let differing = parts.filter(|((_, value, _), (_, seen))| value != seen);
    let failure = |((name, expected, guard), (_, seen)): ((&str, String, String), (_, String))| Failure {
        source: name.to_owned(),
        guard,
        expected,
        seen,
    };
    // The keys of the thread change with the modes; on their own they explain little.
    let mut failures: Vec<_> = differing.map(failure).collect();
    if failures.len() > 1 {
        failures.retain(|failure| failure.source != "dispatch keys of the thread");
    }
    failures
}

/// Returns the predicates of a tensor, in the order in which a difference is searched for.
fn tensor_parts(value: &str, expected: &TensorMatch) -> Vec<String> {
    let python = |flag: bool| if flag { "True" } else { "False" };
    let meta = &expected.meta;
    let mut parts = vec![
        format!("___check_type_id({value}, {})  # {}", expected.class.address(), expected.class_name()),
        format!("{value}.dtype == {}", expected.dtype_name()),
        format!("{value}.device == torch.device('{}')", expected.device_name()),
        format!("{value}.requires_grad == {}", python(meta.requires_grad)),
        format!("{value}.shape == {}", expected.shape()),
        format!("{value}.stride() == {}", expected.strides()),
        format!("torch._C._dispatch_keys({value}).raw_repr() == {:#x}", meta.keys),
    ];
    if meta.sizes.iter().any(Option::is_none) {
        parts[4] = format!("___match({value}.shape, {})", expected.shape().replace('_', "None"));
    }
    if meta.strides.iter().any(Option::is_none) {
        parts[5] = format!("___match({value}.stride(), {})", expected.strides().replace('_', "None"));
    }
    // The first mark represents all of them.
    if expected.no_dynamic_indices {
        parts.push(format!("hasattr({value}, '_dynamo_dynamic_indices') == False"));
    }
    parts
}

/// Returns the index in [`tensor_parts`] that a field belongs to.
fn tensor_part(field: Field) -> usize {
    match field {
        Field::DType => 1,
        Field::Device => 2,
        Field::RequiresGrad => 3,
        Field::Dims | Field::Size(_) => 4,
        Field::Stride(_) => 5,
        Field::Keys => 6,
    }
}

fn list(constants: &[Constant]) -> String {
    constants.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn key_list(keys: &[DictKey]) -> String {
    let text = |key: &DictKey| match key {
        DictKey::Constant(constant) => constant.to_string(),
        DictKey::Any => "___any".to_owned(),
    };
    format!("[{}]", keys.iter().map(text).collect::<Vec<_>>().join(", "))
}

fn text_of(object: &Bound<'_, PyAny>) -> String {
    const LONGEST: usize = 100;
    let line = shown(object).replace('\n', " ");
    if line.chars().count() <= LONGEST { line } else { line.chars().take(LONGEST).chain("…".chars()).collect() }
}

/// Returns a guard as Python expressions; a tensor's are several.
fn predicates(sources: &Sources, source: SourceId, guard: &DescribedGuard) -> Vec<String> {
    let value = sources.expression(source);
    vec![match guard {
        DescribedGuard::Tensor(expected) => return tensor_parts(&value, expected),
        DescribedGuard::Type(address, text) => format!("___check_type_id({value}, {address})  # {text}"),
        DescribedGuard::Identity(address, text) => format!("___check_obj_id({value}, {address})  # {text}"),
        DescribedGuard::MadeOf(parts, _) => format!("___made_of({value}) == {parts}"),
        DescribedGuard::Equals(constant) if constant.is_singleton() => format!("{value} is {constant}"),
        DescribedGuard::Equals(constant) if constant.is_nan() => format!("{value} != {value}"),
        DescribedGuard::Equals(constant) => format!("{value} == {constant}"),
        DescribedGuard::Present => presence(sources, source, ""),
        DescribedGuard::Absent => presence(sources, source, "not "),
        DescribedGuard::Length(length) => format!("len({value}) == {length}"),
        DescribedGuard::DictKeys(keys) => format!("list({value}) == {}", key_list(keys)),
        DescribedGuard::SetElements(elements) if elements.is_empty() => format!("{value} == set()"),
        DescribedGuard::SetElements(elements) => format!("{value} == {{{}}}", list(elements)),
        DescribedGuard::SetOrder(elements) => format!("list({value}) == [{}]", list(elements)),
        DescribedGuard::Code(address, text) => format!("___check_obj_id({value}.__code__, {address})  # {text}"),
        DescribedGuard::Compares(comparison) => comparison.text(&value),
        DescribedGuard::Contents(number) => format!("{value}.item() == {number}"),
        DescribedGuard::Unwatched => format!("not ___is_watched({value})"),
    }]
}

fn presence(sources: &Sources, source: SourceId, negation: &str) -> String {
    match sources.get(source) {
        Source::Global(name) => format!("'{name}' {negation}in G"),
        Source::Builtin(name) => format!("'{name}' {negation}in B"),
        Source::Attr(base, name) => format!("'{name}' {negation}in {}.__dict__", sources.expression(*base)),
        Source::Item(base, key) => format!("{key} {negation}in {}", sources.expression(*base)),
        Source::GlobalOf(base, name) => format!("'{name}' {negation}in {}.__globals__", sources.expression(*base)),
        Source::BuiltinOf(base, name) => format!("'{name}' {negation}in {}.__builtins__", sources.expression(*base)),
        Source::Member(base, table, name) => format!("'{name}' {negation}in {}.{table}", sources.expression(*base)),
        Source::Slot(base, name) | Source::GetAttr(base, name) => format!("{negation}hasattr({}, '{name}')", sources.expression(*base)),
        _ if negation.is_empty() => format!("{} is not ___nothing", sources.expression(source)),
        _ => format!("{} is ___nothing", sources.expression(source)),
    }
}

/// Describes what a guard expects.
fn expectation(guard: &DescribedGuard) -> String {
    match guard {
        DescribedGuard::Tensor(expected) => format!("{expected:?}"),
        DescribedGuard::Type(_, text)
        | DescribedGuard::Identity(_, text)
        | DescribedGuard::MadeOf(_, text)
        | DescribedGuard::Code(_, text) => text.to_string(),
        DescribedGuard::Equals(constant) => constant.to_string(),
        DescribedGuard::Compares(comparison) => comparison.text("a float"),
        DescribedGuard::Contents(number) => format!("the contents {number}"),
        DescribedGuard::Unwatched => "an object without finalizers and weak references".to_owned(),
        DescribedGuard::Present => "something".to_owned(),
        DescribedGuard::Absent => "nothing".to_owned(),
        DescribedGuard::Length(length) => format!("{length} elements"),
        DescribedGuard::DictKeys(keys) => format!("the keys {}", key_list(keys)),
        DescribedGuard::SetElements(elements) => format!("the elements {{{}}}", list(elements)),
        DescribedGuard::SetOrder(elements) => format!("the elements [{}], in this order", list(elements)),
    }
}

impl GuardSet {
    /// Returns the guards as Python predicates, in the order in which they were added.
    #[must_use]
    pub fn code_parts(&self) -> Vec<String> {
        self.texts.code_parts()
    }

    /// Returns the guards as text, which outlives the set.
    #[must_use]
    pub fn texts(&self) -> Arc<Texts> {
        self.texts.clone()
    }

    /// Returns the first guard that fails.
    ///
    /// # Errors
    /// Returns an exception raised by Python code that had to be run.
    pub fn explain(&self, roots: Roots<'_, '_>) -> PyResult<Option<Failure>> {
        Ok(self.search(roots, true)?.into_iter().next())
    }

    /// Returns all guards that fail.
    ///
    /// # Errors
    /// See `explain`.
    pub fn failures(&self, roots: Roots<'_, '_>) -> PyResult<Vec<Failure>> {
        self.search(roots, false)
    }

    fn search(&self, roots: Roots<'_, '_>, first: bool) -> PyResult<Vec<Failure>> {
        let py = roots.function.py();
        if !self.is_valid() {
            let word = |text: &str| text.to_owned();
            let (expected, seen) = (word("everything it refers to is alive"), word("something has died"));
            return Ok(vec![Failure { source: word("entry"), guard: word("___guarded_code.valid"), expected, seen }]);
        }
        let mut found = Vec::new();
        if let Some(torch) = &self.torch {
            found = torch_failures(torch);
            if found.is_empty() && !crate::check::same_modes(py, self)? {
                let text = |text: &str| text.to_owned();
                let (guard, expected) = (text("___same_torch_modes()"), text("the modes it was captured under"));
                found.push(Failure { source: text("torch modes"), guard, expected, seen: text("others of the same number") });
            }
        }
        // The checks after those of the guards belong to relations.
        for (number, (node, check)) in self.tree.checks.iter().enumerate().take(self.texts.guards.len()) {
            if first && !found.is_empty() {
                return Ok(found);
            }
            let value = self.value(*node, roots)?;
            found.extend(self.failure(check, number, value.as_ref())?);
        }
        if !found.is_empty() {
            return Ok(found);
        }
        // Relations compare the objects that the guards have found.
        for (relation, told) in self.relations.iter().zip(&self.texts.relations) {
            let members = relation.nodes.iter().map(|&node| self.value(node, roots)).collect::<PyResult<Vec<_>>>()?;
            if !relation.holds_for(py, &|member| members[member].as_ref())? {
                let (source, guard) = self.texts.relation(told);
                if let Relation::Sizes(sizes) = told
                    && let Some((guard, seen)) = sizes.failure(&self.texts.sources, &|member| members[member].as_ref())?
                {
                    found.push(Failure { source, expected: guard.clone(), guard, seen });
                    continue;
                }
                found.push(Failure { source, guard, expected: "as captured".to_owned(), seen: "otherwise".to_owned() });
            }
        }
        if let Some(expected) = self.handled.filter(|expected| *expected != handles_an_exception(py)) {
            let text = |handled: bool| if handled { "an exception" } else { "none" }.to_owned();
            found.push(Failure {
                source: "exception being handled".to_owned(),
                guard: handled_predicate(expected),
                expected: text(expected),
                seen: text(!expected),
            });
        }
        if let Some(text) = self.registered.changed(py)? {
            let word = |text: &str| text.to_owned();
            found.push(Failure {
                source: word("registered classes"),
                guard: word(text),
                expected: word("as captured"),
                seen: word("otherwise"),
            });
        }
        Ok(found)
    }

    /// Walks to a node, without remembering the walk.
    pub(crate) fn value<'py>(&self, node: usize, roots: Roots<'_, 'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let description = &self.tree.nodes[node];
        if node == FUNCTION {
            return Ok(Some(roots.function.clone()));
        }
        let Some(parent) = description.parent else {
            let slot = self.tree.locals.iter().find(|(_, local)| *local == node).map(|(slot, _)| *slot);
            return Ok(slot.and_then(|slot| roots.locals.get(slot).copied().flatten()).cloned());
        };
        let Some(from) = self.value(parent, roots)? else { return Ok(None) };
        let mut recorder = Recorder::off(from.py(), self.abi);
        let reached: Reached<'py> = match &description.step {
            Step::Root => Reached::unproven(None),
            step => step.take(&Spot::unproven(from), &mut recorder)?,
        };
        Ok(reached.object)
    }

    fn failure(&self, check: &PreparedGuard, number: usize, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Failure>> {
        let holds = match value {
            Some(value) => holds(self, check, value)?,
            None => check.holds_of_nothing(),
        };
        if holds {
            return Ok(None);
        }
        let listed = self.texts.listed(number);
        let part = |part: usize, expected: String, seen: String| {
            let guard = listed.parts.get(part).or(listed.parts.last()).cloned().unwrap_or_default();
            Some(Failure { source: listed.source.clone(), guard, expected, seen })
        };
        let Some(value) = value else { return Ok(part(0, listed.expected.clone(), "nothing".to_owned())) };
        if let PreparedGuard::Tensor(expected) = check {
            let (index, expected, seen) = tensor_difference(&self.tree.tensors[*expected], value);
            return Ok(part(index, expected, seen));
        }
        let seen = match check {
            PreparedGuard::Type(_) => text_of(value.get_type().as_any()),
            PreparedGuard::Length(_) => format!("{} elements", value.len().map_or_else(|_| "no".to_owned(), |n| n.to_string())),
            _ => text_of(value),
        };
        Ok(part(0, listed.expected.clone(), seen))
    }
}

/// Returns the part of a tensor's guard that fails, with the expected and the actual value.
fn tensor_difference(expected: &TensorMatch, value: &Bound<'_, PyAny>) -> (usize, String, String) {
    let class = || (0, expected.class_name().to_owned(), text_of(value.get_type().as_any()));
    let Some(seen) = expected.class.tensor(value).and_then(|tensor| Meta::of(tensor).ok()) else { return class() };
    let Some(field) = expected.meta.difference(&seen) else {
        return (7, "no dimensions marked dynamic".to_owned(), "some are".to_owned());
    };
    let attribute = |name: &str| value.getattr(name).map_or_else(|_| "?".to_owned(), |value| text_of(&value));
    let python = |flag: bool| if flag { "True" } else { "False" }.to_owned();
    let (wanted, found) = match field {
        Field::DType => (expected.dtype_name().to_owned(), attribute("dtype")),
        Field::Device => (expected.device_name().to_owned(), attribute("device")),
        Field::RequiresGrad => (python(expected.meta.requires_grad), python(seen.requires_grad)),
        Field::Dims | Field::Size(_) => (expected.shape(), attribute("shape")),
        Field::Stride(_) => {
            let strides = value.call_method0("stride").map_or_else(|_| "?".to_owned(), |value| text_of(&value));
            (expected.strides(), strides)
        }
        Field::Keys => (format!("{:#x}", expected.meta.keys), format!("{:#x}", seen.keys)),
    };
    (tensor_part(field), wanted, found)
}
