//! The builder: it records the guards while a capture runs.
//!
//! All methods take `&self`, so that a policy that is called re-entrantly can share one builder. Nothing is evaluated here.

use std::cell::RefCell;

use dynamlir_cpython_abi::{kind, types};
use dynamlir_torch_abi::State as TorchState;
use pyo3::{
    intern,
    prelude::*,
    types::{PyDict, PyFunction, PyList, PyType},
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    Constant, DictKey, Facet, Guard, GuardError, GuardSet, HeldId, ModuleTable, Name, Relation, Source, SourceId, Sources, TensorMatch,
    Texts, abc_registrations::RegistryAnswer, check::ordered_keys, identity_pins::Held,
};

/// Collects sources and guards of one capture.
#[derive(Debug, Default)]
pub struct GuardBuilder {
    pub(crate) state: RefCell<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub sources: Sources,
    /// The guards in the order in which they were added.
    pub guards: Vec<(SourceId, Guard)>,
    pub relations: Vec<Relation>,
    /// The tensors that a passing check collects, in order.
    pub collected: Vec<SourceId>,
    /// The objects that the call writes to after its graph.
    pub written: Vec<SourceId>,
    pub held: Vec<Py<PyAny>>,
    pub torch: Option<TorchState>,
    pub handled: Option<bool>,
    pub registered: Vec<RegistryAnswer>,
    /// The demands: the uses of the objects at sources, in order; see `ledger.rs`.
    pub demands: Vec<(SourceId, Facet)>,
    /// The guards added so far, so that a value queried twice is guarded once.
    known: FxHashSet<(SourceId, String)>,
    known_relations: FxHashSet<Relation>,
    known_registered: FxHashSet<(usize, usize)>,
    known_held: FxHashMap<usize, HeldId>,
    known_collected: FxHashMap<SourceId, usize>,
}

/// A point to which [`GuardBuilder::roll_back`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Savepoint {
    sources: usize,
    guards: usize,
    relations: usize,
    collected: usize,
    written: usize,
    held: usize,
    registered: usize,
    demands: usize,
    handled: Option<bool>,
}

impl State {
    /// Drops presence guards that are implied by another guard on the same source, or on one reached from it.
    fn drop_implied(&mut self) {
        let mut reached = FxHashSet::default();
        for (id, guard) in &self.guards {
            if guard.holds_of_nothing() {
                continue;
            }
            let mut at = if matches!(guard, Guard::Present) { self.sources.get(*id).base() } else { Some(*id) };
            while let Some(id) = at.filter(|id| reached.insert(*id)) {
                at = self.sources.get(id).base();
            }
        }
        self.guards.retain(|(id, guard)| !matches!(guard, Guard::Present) || !reached.contains(id));
    }
}

/// Returns the class to which a C method or attribute belongs, if it is found there, and its name.
fn class_member<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<(Bound<'py, PyType>, String)>> {
    if !kind::is_class_member(object) {
        return Ok(None);
    }
    let (class, name) = (object.getattr("__objclass__")?.cast_into::<PyType>()?, object.getattr("__name__")?);
    let found = types::dict(&class)?.get_item(&name).ok().filter(|found| found.is(object));
    found.map(|_| Ok((class, name.extract()?))).transpose()
}

impl GuardBuilder {
    /// Creates an empty builder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of a source, new or known.
    pub fn source(&self, source: Source) -> SourceId {
        self.state.borrow_mut().sources.intern(source)
    }

    /// Returns the source with a number.
    #[must_use]
    pub fn source_at(&self, number: usize) -> Option<SourceId> {
        (number < self.state.borrow().sources.len()).then_some(SourceId(number as u32))
    }

    /// Returns the source of a parameter of the frame's function.
    pub fn local(&self, slot: usize, name: &str) -> SourceId {
        self.source(Source::Local { slot: slot as u32, name: name.into() })
    }

    /// Returns the source of a global of the frame's function.
    pub fn global(&self, name: &str) -> SourceId {
        self.source(Source::Global(name.into()))
    }

    /// Returns the source of a builtin of the frame's function; guards that it is not hidden by a global.
    pub fn builtin(&self, name: &str) -> SourceId {
        self.add(self.global(name), Guard::Absent);
        self.source(Source::Builtin(name.into()))
    }

    /// Returns the source of a free variable of the frame's function.
    pub fn free(&self, index: usize, name: &str) -> SourceId {
        self.source(Source::Free { index: index as u32, name: name.into() })
    }

    /// Returns the modules and tables in which members were looked up.
    #[must_use]
    pub fn tables(&self) -> Vec<(SourceId, ModuleTable)> {
        let state = self.state.borrow();
        let mut found: Vec<_> = state
            .sources
            .iter()
            .filter_map(|source| match source {
                Source::Member(module, table, _) => Some((*module, *table)),
                _ => None,
            })
            .collect();
        found.sort_unstable_by_key(|(module, table)| (*module, table.attribute()));
        found.dedup();
        found
    }

    /// Returns the sources on which attributes were looked up, in order.
    #[must_use]
    pub fn readers_of_attributes(&self) -> Vec<SourceId> {
        let state = self.state.borrow();
        let owner = |source: &Source| if let Source::Attr(owner, _) = source { Some(*owner) } else { None };
        let mut found: Vec<_> = state.sources.iter().filter_map(owner).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns the functions whose globals were looked up; None for the captured function.
    #[must_use]
    pub fn readers_of_globals(&self) -> Vec<Option<SourceId>> {
        let state = self.state.borrow();
        let mut found: Vec<_> = state
            .sources
            .iter()
            .filter_map(|source| match source {
                Source::Global(_) => Some(None),
                Source::GlobalOf(function, _) => Some(Some(*function)),
                _ => None,
            })
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns the source of the value that an instance stores under a name.
    pub fn attr(&self, base: SourceId, name: &str) -> SourceId {
        self.source(Source::Attr(base, name.into()))
    }

    /// Returns the source of a raw class attribute, looked up along the MRO.
    pub fn type_attr(&self, class: SourceId, name: &str) -> SourceId {
        self.source(Source::TypeAttr(class, name.into()))
    }

    /// Returns the source of a value of a dict.
    ///
    /// # Errors
    /// If the key is not a constant: use [`Source::DictValue`] and guard the keys.
    pub fn item(&self, base: SourceId, key: &Bound<'_, PyAny>) -> Result<SourceId, GuardError> {
        // A `repr` of the key would run user code.
        let class = key.get_type();
        let named = || class.name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        let key = Constant::new(key)?.ok_or_else(|| GuardError::NotWeak(format!("a key of type {}", named())))?;
        Ok(self.source(Source::Item(base, key)))
    }

    /// Returns the source of an object that the guards hold directly, by a weak reference: a function, class or module reached through C
    /// code.
    ///
    /// # Errors
    /// If the object does not support weak references.
    pub fn hold(&self, object: &Bound<'_, PyAny>, name: &str) -> Result<SourceId, GuardError> {
        if let Some((class, name)) = class_member(object)? {
            // The object may not support weak references. Its class does, and has the object as an attribute.
            let label = class.fully_qualified_name()?.to_string();
            return Ok(self.type_attr(self.hold(&class, &label)?, &name));
        }
        Held::possible(object)?;
        let mut state = self.state.borrow_mut();
        let address = object.as_ptr() as usize;
        let next = HeldId(state.held.len() as u32);
        let id = *state.known_held.entry(address).or_insert(next);
        if id == next {
            state.held.push(object.clone().unbind());
        }
        Ok(state.sources.intern(Source::Held { id, name: Name::from(name) }))
    }

    /// Returns the Python expression that reaches a source's value.
    #[must_use]
    pub fn expression(&self, id: SourceId) -> String {
        self.state.borrow().sources.expression(id)
    }

    /// Returns the expression with the table that contains a parameter or buffer of a module: `L['self']._buffers['scale']`.
    pub fn stored_expression(&self, id: SourceId) -> String {
        match self.get(id) {
            Source::Member(base, table, name) => format!("{}.{}['{name}']", self.expression(base), table.attribute()),
            _ => self.expression(id),
        }
    }

    /// Returns the number of steps from a root to a source.
    #[must_use]
    pub fn depth(&self, id: SourceId) -> usize {
        self.state.borrow().sources.depth(id)
    }

    /// Returns the source with a number.
    #[must_use]
    pub fn get(&self, id: SourceId) -> Source {
        self.state.borrow().sources.get(id).clone()
    }

    /// Adds a guard unless it already exists. For a computed number, guards that its operands are unchanged. That the number exists and
    /// which type it has follows anyway from the guards on the operands.
    pub fn add(&self, id: SourceId, guard: Guard) {
        if matches!(self.get(id), Source::Computed(_)) {
            if !matches!(guard, Guard::Present | Guard::Type(_)) {
                self.settle(id);
            }
            return;
        }
        let mut state = self.state.borrow_mut();
        if state.known.insert((id, guard.canon())) {
            state.guards.push((id, guard));
        }
    }

    /// For a computed number, guards that its operands are unchanged.
    pub fn settle(&self, id: SourceId) {
        if let Source::Computed(computed) = self.get(id) {
            computed.reached().for_each(|(source, was)| self.add(source, Guard::Equals(was.clone())));
        }
    }

    /// Guards that a value has exactly the class of this one.
    pub fn type_match(&self, id: SourceId, value: &Bound<'_, PyAny>) -> Result<(), GuardError> {
        self.add(id, Guard::Type(value.get_type().into_any().unbind()));
        Ok(())
    }

    /// Guards that a value is this object; for a constant, an equal object passes as well.
    ///
    /// # Errors
    /// If neither the object nor the parts that define it support weak references.
    pub fn identity(&self, id: SourceId, value: &Bound<'_, PyAny>) -> Result<(), GuardError> {
        if self.equals(id, value)? { Ok(()) } else { self.this_object(id, value) }
    }

    /// Guards that a value is this very object, where equality does not suffice.
    ///
    /// # Errors
    /// See [`GuardBuilder::identity`].
    pub fn this_object(&self, id: SourceId, value: &Bound<'_, PyAny>) -> Result<(), GuardError> {
        Held::possible(value)?;
        self.add(id, Guard::Identity(value.clone().unbind()));
        Ok(())
    }

    /// Guards that a value is this constant: exact type and value. Returns false if it does not have one of the types of [`Constant`].
    pub fn equals(&self, id: SourceId, value: &Bound<'_, PyAny>) -> Result<bool, GuardError> {
        let Some(constant) = Constant::new(value)? else { return Ok(false) };
        self.add(id, Guard::Equals(constant));
        Ok(true)
    }

    /// Guards the metadata of a tensor.
    pub fn tensor(&self, id: SourceId, expected: TensorMatch) {
        self.add(id, Guard::Tensor(expected));
    }

    /// Records that the program looked something up; Python would raise if it were missing. A value that is guarded in another way exists,
    /// so only values without another guard cost one.
    pub fn looked_up(&self, id: SourceId) {
        let stored = matches!(
            self.state.borrow().sources.get(id),
            Source::Global(_)
                | Source::Builtin(_)
                | Source::Free { .. }
                | Source::GlobalOf(..)
                | Source::BuiltinOf(..)
                | Source::Attr(..)
                | Source::Slot(..)
                | Source::TypeAttr(..)
                | Source::Item(..)
                | Source::Index(..)
                | Source::Closure { .. }
                | Source::Cell(_)
                | Source::Member(..)
        );
        if stored {
            self.present(id);
        }
    }

    /// Guards that a source reaches an object.
    pub fn present(&self, id: SourceId) {
        self.add(id, Guard::Present);
    }

    /// Guards that a source does not reach an object.
    pub fn absent(&self, id: SourceId) {
        self.add(id, Guard::Absent);
    }

    /// Guards the length of a container.
    pub fn length(&self, id: SourceId, length: usize) {
        self.add(id, Guard::Length(length));
    }

    /// Guards the keys of a dict and their order. Keys that are not constants are guarded by identity of their positions' values, or left
    /// to the caller if they do not support weak references.
    pub fn dict_keys(&self, id: SourceId, dict: &Bound<'_, PyDict>) -> Result<(), GuardError> {
        let mut keys = Vec::with_capacity(dict.len());
        // An `OrderedDict` keeps its own order, which only C code can see.
        let by_c = !dict.get_type().getattr(intern!(dict.py(), "__iter__"))?.is_exact_instance_of::<PyFunction>();
        let listed = if by_c { PyList::new(dict.py(), ordered_keys(dict)?)? } else { dict.keys() };
        for (position, key) in listed.iter().enumerate() {
            let constant = Constant::new(&key)?;
            if constant.is_none() {
                self.identity(self.source(Source::DictKey(id, position as u32)), &key)?;
            }
            keys.push(constant.map_or(DictKey::Any, DictKey::Constant));
        }
        self.add(id, Guard::DictKeys(keys.into()));
        Ok(())
    }

    /// Guards the elements of a set. Returns false if one of them is not a constant.
    pub fn set_elements(&self, id: SourceId, set: &Bound<'_, PyAny>) -> Result<bool, GuardError> {
        let mut elements = Vec::new();
        for element in set.try_iter()? {
            let Some(constant) = Constant::new(&element?)? else { return Ok(false) };
            elements.push(constant);
        }
        self.add(id, Guard::SetElements(elements.into()));
        Ok(true)
    }

    /// Guards the elements of a set and their order. Returns false if one of them is neither a constant nor a C class.
    pub fn set_order(&self, id: SourceId, set: &Bound<'_, PyAny>) -> Result<bool, GuardError> {
        let mut elements = Vec::new();
        for element in set.try_iter()? {
            let element = element?;
            let constant = Constant::new(&element)?;
            let Some(known) = constant.map_or_else(|| Constant::lasting_class(&element), |constant| Ok(Some(constant)))? else {
                return Ok(false);
            };
            elements.push(known);
        }
        self.add(id, Guard::SetOrder(elements.into()));
        Ok(true)
    }

    /// Guards a function's code object.
    pub fn code(&self, id: SourceId, code: &Bound<'_, PyAny>) -> Result<(), GuardError> {
        Held::possible(code)?;
        self.add(id, Guard::Code(code.clone().unbind()));
        Ok(())
    }

    /// Guards torch's state, of the thread and of the process, as it was when the capture began.
    pub fn torch_state(&self, state: TorchState) {
        self.state.borrow_mut().torch = Some(state);
    }

    /// Guards that a caller of the function is, or is not, handling an exception.
    pub fn handled(&self, expected: bool) {
        self.state.borrow_mut().handled = Some(expected);
    }

    /// Guards the answer of an abstract base class to whether a class is its subclass. Both must be guarded to be these classes.
    pub fn registered(&self, class: &Bound<'_, PyType>, base: &Bound<'_, PyAny>, expected: bool) {
        let mut state = self.state.borrow_mut();
        if state.known_registered.insert((class.as_ptr() as usize, base.as_ptr() as usize)) {
            state.registered.push(RegistryAnswer { class: class.clone().unbind(), base: base.clone().unbind(), expected });
        }
    }

    /// Guards a relation between several values.
    pub fn relate(&self, relation: Relation) {
        let mut state = self.state.borrow_mut();
        if state.known_relations.insert(relation.clone()) {
            state.relations.push(relation);
        }
    }

    /// Returns the constant that a source is guarded to equal.
    #[must_use]
    pub fn equal_to(&self, id: SourceId) -> Option<Constant> {
        let state = self.state.borrow();
        state.guards.iter().find_map(|(known, guard)| match guard {
            Guard::Equals(constant) if *known == id => Some(constant.clone()),
            _ => None,
        })
    }

    /// Returns the numbers that are guarded by value, including those in tensors: the expressions that reach them, and
    /// [`Constant::number`].
    #[must_use]
    pub fn numbers(&self) -> Vec<(String, u64)> {
        let state = self.state.borrow();
        let number = |(id, guard): &(SourceId, Guard)| match guard {
            Guard::Equals(constant) => Some((constant.number()?, state.sources.expression(*id))),
            Guard::Contents(contents) => Some((contents.number().cast_unsigned(), contents.place(&state.sources.expression(*id)))),
            _ => None,
        };
        state.guards.iter().filter_map(number).map(|(bits, place)| (place, bits)).collect()
    }

    /// Passes a tensor to the graph. Returns its number among the inputs that a passing check collects.
    pub fn collect(&self, id: SourceId) -> usize {
        let mut state = self.state.borrow_mut();
        let next = state.collected.len();
        let place = *state.known_collected.entry(id).or_insert(next);
        if place == next {
            state.collected.push(id);
        }
        place
    }

    /// Records that the call writes to this object after its graph: its stored contents differ from call to call.
    pub fn written(&self, id: SourceId) {
        let mut state = self.state.borrow_mut();
        if !state.written.contains(&id) {
            state.written.push(id);
        }
    }

    /// Returns the nesting depth of the computations at a source.
    #[must_use]
    pub fn computations(&self, id: SourceId) -> usize {
        match self.get(id) {
            Source::Computed(computed) => 1 + computed.reached().map(|(source, _)| self.computations(source)).max().unwrap_or(0),
            _ => 0,
        }
    }

    /// Returns a savepoint for an attempt that may have to be rolled back.
    #[must_use]
    pub fn savepoint(&self) -> Savepoint {
        let state = self.state.borrow();
        Savepoint {
            sources: state.sources.len(),
            guards: state.guards.len(),
            relations: state.relations.len(),
            collected: state.collected.len(),
            written: state.written.len(),
            held: state.held.len(),
            registered: state.registered.len(),
            demands: state.demands.len(),
            handled: state.handled,
        }
    }

    /// Rolls back everything recorded since the savepoint. The numbers of sources created since will be reused for other sources.
    pub fn roll_back(&self, to: Savepoint) {
        let mut borrowed = self.state.borrow_mut();
        let state = &mut *borrowed;
        let guards = state.guards.split_off(to.guards);
        for (id, guard) in &guards {
            state.known.remove(&(*id, guard.canon()));
        }
        for relation in state.relations.drain(to.relations..) {
            state.known_relations.remove(&relation);
        }
        for id in state.collected.drain(to.collected..) {
            state.known_collected.remove(&id);
        }
        state.written.truncate(to.written);
        state.demands.truncate(to.demands);
        for object in &state.held[to.held..] {
            state.known_held.remove(&(object.as_ptr() as usize));
        }
        for answer in &state.registered[to.registered..] {
            state.known_registered.remove(&(answer.class.as_ptr() as usize, answer.base.as_ptr() as usize));
        }
        state.sources.truncate(to.sources);
        state.handled = to.handled;
        let dropped = (guards, state.held.split_off(to.held), state.registered.split_off(to.registered));
        // Dropping these may run Python code, which may re-enter the builder.
        drop(borrowed);
        drop(dropped);
    }

    /// Returns the expressions that reach the objects collected by a passing check, in order.
    #[must_use]
    pub fn collected(&self) -> Vec<String> {
        let state = self.state.borrow();
        state.collected.iter().map(|source| state.sources.expression(*source)).collect()
    }

    /// Returns the guards as text, the same as the built set would give. Nothing is held, so nothing has to be released.
    ///
    /// # Errors
    /// If a class does not have a name.
    pub fn into_texts(self, py: Python<'_>) -> PyResult<Texts> {
        let mut state = self.state.into_inner();
        state.drop_implied();
        let registered = state.registered.iter().map(|answer| answer.text(py)).collect::<PyResult<_>>()?;
        Ok(Texts::new(py, state, registered))
    }

    /// Builds the guard set. Nothing is checked yet: the values may have changed during the capture.
    ///
    /// # Errors
    /// If an object cannot be held weakly, or if Python is out of memory.
    pub fn build(self, py: Python<'_>) -> Result<GuardSet, GuardError> {
        let mut state = self.state.into_inner();
        state.drop_implied();
        GuardSet::new(py, state)
    }
}
