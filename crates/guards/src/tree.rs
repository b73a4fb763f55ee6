//! Sources and guards as a tree: each node is one step from its parent, so a prefix shared by several paths is walked once.

use std::borrow::Cow;

use dynamlir_cpython_abi::{mapping, remembered};
use dynamlir_torch_abi::{Pattern, TorchError};
use dynamlir_trails::{Pin, Pins, Reached, Recorder, Spot};
use pyo3::{
    prelude::*,
    sync::PyOnceLock,
    types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType, PyWeakrefMethods, PyWeakrefReference},
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    Comparison, Constant, Contents, DictKey, Guard, GuardError, ModuleTable, Relation, Source, SourceId, TensorMatch, builder::State,
    identity_pins::Held,
};
use std::sync::Arc;

/// The step from a node's parent to its value.
pub(crate) enum Step {
    /// A root, without a step.
    Root,
    Pinned(Pin),
    Attr(Py<PyString>),
    Slot(Py<PyString>),
    TypeAttr(Py<PyString>),
    GetAttr(Py<PyString>),
    Type,
    Item(Py<PyAny>),
    Index(usize),
    DictKey(usize),
    DictValue(usize),
    Globals,
    Builtins,
    Defaults,
    KwDefaults,
    Mro,
    Answer(Py<PyTuple>),
    Remembers(Call),
    Remembered(Call),
    Closure,
    Cell,
    Code,
    MethodFunction,
    MethodSelf,
    ContextVar,
    ContextValue,
    Referent,
    Viewed,
}

/// The arguments of a call.
pub(crate) struct Call {
    args: Py<PyTuple>,
    kwargs: Py<PyDict>,
}

impl Call {
    /// Creates it from `(arguments, items of the keywords)`.
    fn new(py: Python<'_>, given: &Constant) -> PyResult<Self> {
        let (args, kwargs): (Bound<'_, PyTuple>, Bound<'_, PyTuple>) = given.object().bind(py).extract()?;
        Ok(Self { args: args.unbind(), kwargs: PyDict::from_sequence(&kwargs)?.unbind() })
    }

    fn is_remembered<'py>(&self, cached: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = cached.py();
        let known = remembered::remembers(cached, self.args.bind(py), self.kwargs.bind(py))?;
        Ok(PyBool::new(py, known).to_owned().into_any())
    }
}

/// A guard, prepared for checking.
pub(crate) enum PreparedGuard {
    Type(Held),
    Identity(Held),
    Equals(Constant),
    /// Index of the tensor description, which equal guards share.
    Tensor(usize),
    Present,
    Absent,
    Length(usize),
    DictKeys(Arc<[DictKey]>),
    SetElements(Arc<[Constant]>),
    SetOrder(Arc<[Constant]>),
    Code(Held),
    Compares(Comparison),
    Contents(Contents),
    Unwatched,
    /// The same object as in another identity check, given by its index.
    Like(usize),
}

/// One value.
pub(crate) struct Node {
    pub step: Step,
    pub parent: Option<usize>,
    /// Indices into the tree's checks.
    pub checks: Vec<usize>,
    pub children: Vec<usize>,
    /// The slot in which a passing check puts the value.
    pub output: Option<usize>,
    /// The number of the segment, if the subtree below has a trail of its own.
    pub segment: Option<usize>,
    /// True if the call writes to it, or if it holds a number that the graph takes: its words differ from call to call.
    pub changes: bool,
    /// True for a parameter that is checked directly.
    pub direct: bool,
    /// The only guard of a parameter from which nothing is reached, if it is a tensor guard.
    pub tensor: Option<usize>,
}

/// The tree of one guard set.
pub(crate) struct Tree {
    pub nodes: Vec<Node>,
    /// Each guard with its node, in the order in which they were added.
    pub checks: Vec<(usize, PreparedGuard)>,
    /// The slot and node of each checked parameter.
    pub locals: Vec<(usize, usize)>,
    pub tensors: Vec<TensorMatch>,
    /// The tensors, prepared for comparison.
    pub patterns: Vec<Pattern>,
    pub segments: usize,
    /// True if any value is reached from another.
    branches: bool,
    /// Relations implied by the members' own guards.
    pub implied: FxHashSet<Relation>,
    /// The node of each guarded or collected source.
    pub of_source: FxHashMap<SourceId, usize>,
}

/// The frame's function is the first node.
pub(crate) const FUNCTION: usize = 0;

/// Subtrees with at least this many nodes get a segment of their own: a change in one is then verified only there.
const SEGMENT: usize = 48;

/// The minimum size of a segment below a node that changes at each call (no other segment covers such nodes), or below objects that are
/// created anew: methods, results of calls.
const SMALL: usize = 4;

struct Builder<'a, 'py> {
    py: Python<'py>,
    pins: &'a Pins,
    state: &'a State,
    tree: Tree,
    known: FxHashMap<(usize, Key<'a>), usize>,
    tensors: FxHashMap<String, usize>,
    outputs: usize,
}

/// Distinguishes a step from its siblings.
#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Only(&'static str),
    Named(&'static str, &'a str),
    Numbered(&'static str, usize),
    Item(Cow<'a, str>),
}

impl Tree {
    /// Builds the tree for the guards of a capture.
    pub fn new(py: Python<'_>, pins: &Pins, state: &State) -> Result<Self, GuardError> {
        let root = Node {
            step: Step::Root,
            parent: None,
            checks: Vec::new(),
            children: Vec::new(),
            output: None,
            segment: Some(0),
            changes: false,
            direct: false,
            tensor: None,
        };
        let tree = Self {
            nodes: vec![root],
            checks: Vec::new(),
            locals: Vec::new(),
            tensors: Vec::new(),
            patterns: Vec::new(),
            segments: 1,
            branches: false,
            implied: FxHashSet::default(),
            of_source: FxHashMap::default(),
        };
        let mut builder = Builder { py, pins, state, tree, known: FxHashMap::default(), tensors: FxHashMap::default(), outputs: 0 };
        for (source, guard) in &state.guards {
            builder.guard(*source, guard)?;
        }
        for relation in &state.relations {
            builder.imply(relation)?;
        }
        let open: Vec<_> = state.relations.iter().filter(|relation| !builder.tree.implied.contains(*relation)).collect();
        let related = open.into_iter().flat_map(|relation| crate::relation::members(relation, &state.sources));
        for source in state.collected.iter().copied().chain(related) {
            let node = builder.node(source)?;
            builder.collect(node);
        }
        for source in &state.written {
            let node = builder.node(*source)?;
            builder.tree.nodes[node].changes = true;
        }
        let mut tree = builder.tree;
        for node in &mut tree.nodes {
            node.checks.sort_by_key(|&check| tree.checks[check].1.cost());
        }
        tree.find_direct(py);
        tree.find_changing(py)?;
        tree.cut();
        let walked = |(_, local): &(usize, usize)| !tree.nodes[*local].direct && !tree.nodes[*local].children.is_empty();
        tree.branches = !tree.nodes[FUNCTION].children.is_empty() || tree.locals.iter().any(walked);
        Ok(tree)
    }

    /// Returns true if there are paths whose walk is worth remembering.
    pub fn remembers(&self) -> bool {
        self.branches
    }

    /// Marks objects that hold numbers of the graph: the parameter group in which a schedule writes `lr`.
    fn find_changing(&mut self, py: Python<'_>) -> PyResult<()> {
        let (float, int) = (py.get_type::<PyFloat>(), py.get_type::<PyInt>());
        for node in 1..self.nodes.len() {
            let Node { parent: Some(parent), output: Some(_), checks, .. } = &self.nodes[node] else { continue };
            let (parent, mut number) = (*parent, false);
            for &check in checks {
                number |= matches!(&self.checks[check].1, PreparedGuard::Type(class) if class.is(&float)? || class.is(&int)?);
            }
            self.nodes[parent].changes |= number;
        }
        Ok(())
    }

    /// Gives large subtrees segments of their own.
    fn cut(&mut self) {
        let mut sizes = vec![1; self.nodes.len()];
        let mut answered = vec![false; self.nodes.len()];
        for (node, description) in self.nodes.iter().enumerate() {
            answered[node] = match description.step {
                Step::Answer(_) => true,
                Step::Index(_) => description.parent.is_some_and(|parent| answered[parent]),
                _ => false,
            };
        }
        // Children come after their parents.
        for node in (1..self.nodes.len()).rev() {
            sizes[node] += self.nodes[node]
                .children
                .iter()
                .map(|&child| if self.nodes[child].segment.is_some() { 1 } else { sizes[child] })
                .sum::<usize>();
            let stores = |child: &usize| matches!(self.nodes[*child].step, Step::Attr(_));
            let is_local = self.locals.iter().any(|(_, local)| *local == node);
            // No other segment covers nodes below such a node.
            let below_changing = self.nodes[node].parent.is_some_and(|parent| self.nodes[parent].changes);
            let has_stores = self.nodes[node].children.iter().any(stores);
            let below_new = matches!(self.nodes[node].step, Step::MethodFunction | Step::MethodSelf) || (answered[node] && has_stores);
            if is_local || (sizes[node] >= SEGMENT && has_stores) || (sizes[node] >= SMALL && (below_changing || below_new)) {
                self.nodes[node].segment = Some(self.segments);
                self.segments += 1;
            }
        }
    }
}

impl<'a> Builder<'a, '_> {
    fn guard(&mut self, source: SourceId, guard: &Guard) -> Result<(), GuardError> {
        let node = self.node(source)?;
        let hold = |object: &Py<PyAny>| Held::new(self.pins, object.bind(self.py));
        let check = match guard {
            Guard::Type(class) => PreparedGuard::Type(hold(class)?),
            Guard::Identity(object) => PreparedGuard::Identity(hold(object)?),
            Guard::Equals(constant) => PreparedGuard::Equals(constant.clone()),
            Guard::Tensor(expected) => {
                let next = self.tree.tensors.len();
                let index = *self.tensors.entry(expected.canon()).or_insert(next);
                if index == next {
                    let torch = |error: TorchError| GuardError::NotATensor(error.message().to_owned());
                    self.tree.patterns.push(Pattern::new(expected.meta.clone()).map_err(torch)?);
                    self.tree.tensors.push(expected.clone());
                }
                PreparedGuard::Tensor(index)
            }
            Guard::Present => PreparedGuard::Present,
            Guard::Absent => PreparedGuard::Absent,
            Guard::Length(length) => PreparedGuard::Length(*length),
            Guard::DictKeys(keys) => PreparedGuard::DictKeys(keys.clone()),
            Guard::SetElements(elements) => PreparedGuard::SetElements(elements.clone()),
            Guard::SetOrder(elements) => PreparedGuard::SetOrder(elements.clone()),
            Guard::Code(code) => PreparedGuard::Code(hold(code)?),
            Guard::Compares(comparison) => PreparedGuard::Compares(*comparison),
            Guard::Contents(contents) => PreparedGuard::Contents(contents.clone()),
            Guard::Unwatched => PreparedGuard::Unwatched,
        };
        self.tree.nodes[node].checks.push(self.tree.checks.len());
        self.tree.checks.push((node, check));
        Ok(())
    }

    /// Makes a check collect a node's value.
    fn collect(&mut self, node: usize) {
        if self.tree.nodes[node].output.is_none() {
            self.tree.nodes[node].output = Some(self.outputs);
            self.outputs += 1;
        }
    }

    /// A value that is the same as one guarded by identity is guarded by identity itself: it is then checked where it is reached, and
    /// remembered with the path.
    fn imply(&mut self, relation: &Relation) -> Result<(), GuardError> {
        let Relation::Same(first, second) = relation else { return Ok(()) };
        let (first, second) = (self.node(*first)?, self.node(*second)?);
        let identity = |&check: &usize| matches!(&self.tree.checks[check].1, PreparedGuard::Identity(held) if held.by_address());
        if let Some(known) = self.tree.nodes[first].checks.iter().copied().find(identity) {
            self.tree.nodes[second].checks.push(self.tree.checks.len());
            self.tree.checks.push((second, PreparedGuard::Like(known)));
            self.tree.implied.insert(relation.clone());
        }
        Ok(())
    }

    /// Returns the node of a source, creating it and its bases if needed.
    fn node(&mut self, source: SourceId) -> Result<usize, GuardError> {
        if let Some(&node) = self.tree.of_source.get(&source) {
            return Ok(node);
        }
        let node = self.make(source)?;
        self.tree.of_source.insert(source, node);
        Ok(node)
    }

    fn make(&mut self, source: SourceId) -> Result<usize, GuardError> {
        let state = self.state;
        let source = state.sources.get(source);
        let base = match source.base() {
            Some(base) => self.node(base)?,
            None => FUNCTION,
        };
        let py = self.py;
        let string = |name: &str| PyString::intern(py, name).unbind();
        Ok(match source {
            Source::Local { slot, .. } => {
                let slot = *slot as usize;
                if let Some((_, node)) = self.tree.locals.iter().find(|(known, _)| *known == slot) {
                    return Ok(*node);
                }
                let node = self.push(Step::Root);
                self.tree.locals.push((slot, node));
                node
            }
            Source::Function => FUNCTION,
            Source::Globals(_) => self.child(base, Key::Only("globals"), || Step::Globals),
            Source::Global(name) | Source::GlobalOf(_, name) => {
                let globals = self.child(base, Key::Only("globals"), || Step::Globals);
                self.named(globals, name)
            }
            Source::Builtin(name) | Source::BuiltinOf(_, name) => {
                let builtins = self.child(base, Key::Only("builtins"), || Step::Builtins);
                self.named(builtins, name)
            }
            Source::Free { index, .. } | Source::Closure { index, .. } => {
                let closure = self.child(base, Key::Only("closure"), || Step::Closure);
                let cell = self.index(closure, *index);
                self.child(cell, Key::Only("cell"), || Step::Cell)
            }
            Source::ClosureCell(_, index) => {
                let closure = self.child(base, Key::Only("closure"), || Step::Closure);
                self.index(closure, *index)
            }
            Source::Held { id, .. } => {
                let pin = self.pins.pin(state.held[id.0 as usize].bind(py))?;
                self.child(FUNCTION, Key::Numbered("held", id.0 as usize), || Step::Pinned(pin))
            }
            Source::Attr(_, name) => self.child(base, Key::Named("attr", name), || Step::Attr(string(name))),
            Source::Slot(_, name) => self.child(base, Key::Named("slot", name), || Step::Slot(string(name))),
            Source::TypeAttr(_, name) => self.child(base, Key::Named("type attr", name), || Step::TypeAttr(string(name))),
            Source::GetAttr(_, name) => self.child(base, Key::Named("getattr", name), || Step::GetAttr(string(name))),
            Source::Type(_) => self.child(base, Key::Only("type"), || Step::Type),
            Source::Item(_, key) => self.item(base, key, Cow::Borrowed(key.canon())),
            Source::Index(_, index) => self.index(base, *index),
            Source::DictKey(_, index) => self.child(base, Key::Numbered("key", *index as usize), || Step::DictKey(*index as usize)),
            Source::DictValue(_, index) => self.child(base, Key::Numbered("value", *index as usize), || Step::DictValue(*index as usize)),
            Source::Default(_, index) => {
                let defaults = self.child(base, Key::Only("defaults"), || Step::Defaults);
                self.index(defaults, *index)
            }
            Source::KwDefault(_, name) => {
                let defaults = self.child(base, Key::Only("kwdefaults"), || Step::KwDefaults);
                self.named(defaults, name)
            }
            Source::Defaults(_) => self.child(base, Key::Only("defaults"), || Step::Defaults),
            Source::KwDefaults(_) => self.child(base, Key::Only("kwdefaults"), || Step::KwDefaults),
            Source::Mro(_) => self.child(base, Key::Only("mro"), || Step::Mro),
            Source::Answer(_, arguments) => {
                let given = arguments.object().bind(py).cast::<PyTuple>().map_err(PyErr::from)?.clone().unbind();
                self.child(base, Key::Named("answer", arguments.canon()), || Step::Answer(given))
            }
            Source::Remembers(_, given) => {
                let call = Call::new(py, given)?;
                self.child(base, Key::Named("remembers", given.canon()), || Step::Remembers(call))
            }
            Source::Remembered(_, given) => {
                let call = Call::new(py, given)?;
                self.child(base, Key::Named("remembered", given.canon()), || Step::Remembered(call))
            }
            Source::Cell(_) => self.child(base, Key::Only("cell"), || Step::Cell),
            Source::Code(_) => self.child(base, Key::Only("code"), || Step::Code),
            Source::MethodFunction(_) => self.child(base, Key::Only("function"), || Step::MethodFunction),
            Source::MethodSelf(_) => self.child(base, Key::Only("self"), || Step::MethodSelf),
            Source::Member(_, table, name) => self.member(base, *table, name),
            Source::ContextVar(_) => self.child(base, Key::Only("context"), || Step::ContextVar),
            Source::ContextValue(_) => self.child(base, Key::Only("context value"), || Step::ContextValue),
            Source::Referent(_) => self.child(base, Key::Only("referent"), || Step::Referent),
            Source::Viewed(_) => self.child(base, Key::Only("viewed"), || Step::Viewed),
            Source::Computed(_) => return Err(GuardError::Computed),
        })
    }

    fn push(&mut self, step: Step) -> usize {
        self.tree.nodes.push(Node {
            step,
            parent: None,
            checks: Vec::new(),
            children: Vec::new(),
            output: None,
            segment: None,
            changes: false,
            direct: false,
            tensor: None,
        });
        self.tree.nodes.len() - 1
    }

    fn child(&mut self, parent: usize, key: Key<'a>, step: impl FnOnce() -> Step) -> usize {
        let next = self.tree.nodes.len();
        let node = *self.known.entry((parent, key)).or_insert(next);
        if node == next {
            self.push(step());
            self.tree.nodes[parent].children.push(node);
            self.tree.nodes[node].parent = Some(parent);
        }
        node
    }

    fn item(&mut self, parent: usize, key: &Constant, text: Cow<'a, str>) -> usize {
        let object = key.object();
        let py = self.py;
        self.child(parent, Key::Item(text), || Step::Item(object.clone_ref(py)))
    }

    fn named(&mut self, parent: usize, name: &str) -> usize {
        let key = Constant::string(self.py, name);
        self.item(parent, &key, Cow::Owned(key.canon().to_owned()))
    }

    fn index(&mut self, parent: usize, index: u32) -> usize {
        let index = index as usize;
        self.child(parent, Key::Numbered("index", index), || Step::Index(index))
    }

    fn member(&mut self, parent: usize, table: ModuleTable, name: &str) -> usize {
        let attribute = PyString::intern(self.py, table.attribute()).unbind();
        let table = self.child(parent, Key::Named("attr", table.attribute()), || Step::Attr(attribute));
        self.named(table, name)
    }
}

impl PreparedGuard {
    /// Returns true if it passes for a missing value.
    pub fn holds_of_nothing(&self) -> bool {
        matches!(self, Self::Absent | Self::Unwatched)
    }

    /// Returns true if checking it runs no Python code.
    pub fn is_pure(&self) -> bool {
        match self {
            Self::Type(held) | Self::Identity(held) => held.by_address(),
            Self::Equals(constant) => constant.matches_quickly(),
            Self::Present | Self::Absent | Self::Like(_) | Self::Compares(_) | Self::Contents(_) | Self::Unwatched => true,
            Self::Tensor(_) | Self::Length(_) | Self::DictKeys(_) | Self::SetElements(_) | Self::SetOrder(_) | Self::Code(_) => false,
        }
    }

    /// Returns the rank of the check: cheap checks, and those that others rely on, come first.
    fn cost(&self) -> u8 {
        match self {
            Self::Present | Self::Absent => 0,
            Self::Type(_) => 1,
            Self::Identity(_) | Self::Code(_) | Self::Like(_) => 2,
            Self::Tensor(_) | Self::Compares(_) => 3,
            Self::Length(_) | Self::Unwatched | Self::Contents(_) => 4,
            Self::Equals(_) => 5,
            Self::DictKeys(_) | Self::SetElements(_) | Self::SetOrder(_) => 6,
        }
    }
}

impl Step {
    /// Takes the step.
    ///
    /// # Errors
    /// Returns an exception raised by Python.
    pub fn take<'py>(&self, from: &Spot<'py>, recorder: &mut Recorder<'py>) -> PyResult<Reached<'py>> {
        let py = from.object().py();
        match self {
            Self::Root => Ok(Reached::unproven(None)),
            Self::Pinned(pin) => Ok(recorder.pinned(pin)),
            Self::Attr(name) => recorder.instance_attr(from, name.bind(py)),
            Self::Slot(name) => recorder.slot(from, name.bind(py)),
            Self::TypeAttr(name) => Ok(recorder.type_attr(from, name.bind(py))),
            Self::GetAttr(name) if name.bind(py) == "__dict__" => recorder.dict_of(from),
            Self::GetAttr(name) if name.bind(py) == "__class__" => recorder.class_of(from),
            Self::GetAttr(name) if name.bind(py) == "__name__" => recorder.class_name(from),
            Self::GetAttr(name) if from.is_function() && name.bind(py) == "__code__" => recorder.code(from),
            Self::GetAttr(name) => recorder.attribute(from, name.bind(py)),
            Self::Type => Ok(recorder.type_of(from)),
            Self::Item(key) => recorder.dict_item(from, key.bind(py)),
            Self::Index(index) if is_deque(from.object())? => Ok(Reached::unproven(from.object().get_item(*index).ok())),
            Self::Index(index) => Ok(recorder.index(from, *index)),
            Self::DictKey(index) => recorder.dict_entry(from, *index, false),
            Self::DictValue(index) => recorder.dict_entry(from, *index, true),
            Self::Globals => recorder.globals(from),
            Self::Builtins => recorder.builtins(from),
            Self::Defaults => recorder.defaults(from),
            Self::KwDefaults => recorder.kwdefaults(from),
            Self::Mro => Ok(recorder.mro(from)),
            Self::Answer(arguments) => Ok(Reached::unproven(Some(from.object().call1(arguments.bind(py))?))),
            Self::Remembers(call) => Ok(Reached::unproven(Some(call.is_remembered(from.object())?))),
            Self::Remembered(call) => {
                let known = call.is_remembered(from.object())?.is_truthy()?;
                Ok(Reached::unproven(if known { Some(from.object().call(call.args.bind(py), Some(call.kwargs.bind(py)))?) } else { None }))
            }
            Self::Closure => recorder.closure(from),
            Self::Cell => recorder.cell(from),
            Self::Code => recorder.code(from),
            Self::MethodFunction => recorder.method_function(from),
            Self::MethodSelf => recorder.method_self(from),
            Self::ContextVar => match from.object().call_method0("get") {
                Ok(value) => Ok(Reached::unproven(Some(value))),
                Err(error) if error.is_instance_of::<pyo3::exceptions::PyLookupError>(py) => Ok(Reached::unproven(None)),
                Err(error) => Err(error),
            },
            Self::ContextValue => {
                let unset = PyDict::new(py).into_any();
                let value = from.object().call_method1("get", (&unset,))?;
                Ok(Reached::unproven(Some(value).filter(|value| !value.is(&unset))))
            }
            Self::Viewed => Ok(Reached::unproven(mapping::viewed(from.object()))),
            Self::Referent => {
                let reference = from.object().cast::<PyWeakrefReference>();
                Ok(Reached::unproven(reference.ok().and_then(PyWeakrefMethods::upgrade)))
            }
        }
    }
}

/// Returns true if an object is exactly a `collections.deque`.
fn is_deque(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static DEQUE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>() {
        return Ok(false);
    }
    Ok(object.get_type().is(dynamlir_cpython_abi::import_once(object.py(), &DEQUE, "collections", "deque")?))
}
