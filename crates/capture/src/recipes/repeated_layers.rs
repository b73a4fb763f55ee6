//! Repeated calls: a frame often calls another module of the same kind, such as the layers of a model.
//!
//! The effect of a module call during a capture depends on its arguments, on the thread's state and on objects that existed before the
//! frame, and everything assumed about these is guarded. So if the guards recorded by one module's call (a [`SharedGuards`](dynamlir_guards::SharedGuards))
//! hold for another module, called at the same location with the same arguments as far as they can be distinguished, the other call does
//! the same: its Python is not interpreted again. The nodes that the first call created are added again, on the other module's tensors
//! ([`repeat_nodes`](crate::recipes::repeat_nodes)), and the guards are recorded for the objects reached from it.
//!
//! ```text
//! first call   as any other
//! second call  as any other; the nodes that it creates are recorded                 (RecordedCall)
//! later ones   guards of the second hold?  its nodes again, its guards on new sources  (Template)
//! ```
//!
//! The first call is not a pattern, because it also records what all of the calls share. A call is interpreted like any other if something
//! is unusual: an argument that the frame created and that can be written, a write to an existing object, a change of the thread's state,
//! operations without a node, objects or tensors that are shared in another way than in the second call.

use std::{
    cell::{Cell, OnceCell},
    fmt::Write,
    rc::Rc,
};

use dynamlir_cpython_abi::shown;
use dynamlir_graph::{Argument, Example, Kind, NodeId};
use dynamlir_guards::{GuardError, SourceId};
use dynamlir_torch_abi::State as TorchState;
use pyo3::{
    intern,
    prelude::*,
    types::{PyList, PyTuple},
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    floors::Recipes,
    graph_break::{Halt, Outcome, reason},
    objects::{Tracked, callables::Keywords},
    state::{
        WritesNow,
        layers::{Made, RecordedCall, SeenCalls, Template},
    },
};

/// The maximum number of enclosing frames of a call that is identified by its location.
const DEEPEST: usize = 500;

/// The text that distinguishes a call from others, and the objects it was derived from.
struct Key<'py> {
    text: String,
    /// The tensors among the arguments, each once.
    fakes: Vec<Bound<'py, PyAny>>,
    /// The first sources of the arguments that are existing objects.
    existing: Vec<SourceId>,
}

/// The state of a capture, compared to detect what a call has changed.
#[derive(PartialEq, Eq)]
struct Marks {
    compared: usize,
    cells: usize,
    classes: usize,
    unrepeatable: usize,
    written: WritesNow,
}

impl<'py> Recipes<'py> {
    /// Calls an existing module's `__call__`: `run` interprets it, unless the call can be repeated.
    pub(crate) fn repeated(
        &self,
        module: &Bound<'py, PyAny>,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
        run: impl FnOnce() -> Outcome<Tracked<'py>>,
    ) -> Outcome<Tracked<'py>> {
        let Some(root) = self.source_of(module).filter(|_| self.layers.repeat && !self.tensors.has_numbers() && !self.sizes.any()) else {
            return run();
        };
        if self.torch.in_transform(self.py)? {
            return run();
        }
        let Some(Key { text: key, fakes, existing }) = self.call_key(module, args, kwargs)? else { return run() };
        // Not borrowed while the call runs, because the call itself contains calls.
        let known = self.layers.calls.borrow().get(&key).cloned();
        match known {
            None => {
                let result = run()?;
                self.layers.calls.borrow_mut().insert(key, SeenCalls::Once);
                Ok(result)
            }
            Some(SeenCalls::Once) => {
                let arguments = fakes.iter().filter_map(|fake| self.node(fake)).collect();
                let (result, region) = self.observed(root, arguments, existing, run)?;
                self.layers.calls.borrow_mut().insert(key, region.map_or(SeenCalls::Never, |region| SeenCalls::Twice(Rc::new(region))));
                Ok(result)
            }
            Some(SeenCalls::Twice(region)) => match self.repeat(&region, module, root, args, kwargs, &fakes)? {
                Some(result) => Ok(result),
                None => run(),
            },
            Some(SeenCalls::Never) => run(),
        }
    }

    /// Returns everything that distinguishes a call from another and cannot be guarded; `None` if that cannot be expressed as text.
    fn call_key(&self, module: &Bound<'py, PyAny>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Option<Key<'py>>> {
        let mut key = Key { text: format!("{}", module.get_type_ptr() as usize), fakes: Vec::new(), existing: Vec::new() };
        let mut place = dynamlir_interpreter::here();
        let mut depth = 0;
        while let Some(at) = place {
            depth += 1;
            if depth > DEEPEST {
                return Ok(None);
            }
            let _ = write!(key.text, " {}:{}", at.code(self.py).as_ptr() as usize, at.unit());
            place = at.outer().cloned();
        }
        for arg in args {
            if !self.argument_key(arg, &mut key)? {
                return Ok(None);
            }
        }
        for (name, value) in kwargs {
            let _ = write!(key.text, " {name}=");
            if !self.argument_key(value, &mut key)? {
                return Ok(None);
            }
        }
        Ok(Some(key))
    }

    fn argument_key(&self, value: &Tracked<'py>, key: &mut Key<'py>) -> Outcome<bool> {
        let (py, object) = (self.py, &value.object);
        let Key { text, fakes, existing } = key;
        if self.torch.is_number(object) {
            return Ok(false);
        }
        if self.torch.is_fake(object) {
            let Some(node) = self.node(object) else { return Ok(false) };
            if let Some(same) = fakes.iter().position(|fake| fake.is(object)) {
                let _ = write!(text, " again {same}");
                return Ok(true);
            }
            fakes.push(object.clone());
            if self.real_of(object).is_some() {
                let (version, grad) = (object.getattr(intern!(py, "_version"))?, object.getattr(intern!(py, "requires_grad"))?);
                let _ = write!(text, " input {} {version} {grad}", node.index());
                return Ok(true);
            }
            let Some(described) = self.recorder().described(object, fakes)? else { return Ok(false) };
            let _ = write!(text, " tensor {described}");
            return Ok(true);
        }
        if self.torch.is_primitive(object) && !self.torch.any_fake(object) {
            let _ = write!(text, " {} {}", object.get_type_ptr() as usize, shown::repr(object)?.to_str()?);
            return Ok(true);
        }
        if let Some(source) = self.source_of(object) {
            let _ = write!(text, " existing {}", source.index());
            existing.push(source);
            return Ok(true);
        }
        let Ok(items) = object.cast_exact::<PyTuple>() else { return Ok(false) };
        let _deeper = self.deeper(object)?;
        let _ = write!(text, " tuple {}", items.len());
        for item in items.iter() {
            if !self.argument_key(&Tracked::new(item), key)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn marks(&self) -> PyResult<Marks> {
        Ok(Marks {
            compared: self.existing.compared_count(),
            cells: self.own.cell_count(),
            classes: self.existing.class_count(),
            unrepeatable: self.layers.unrepeatable() + self.count_of_buffers_read()?,
            written: self.writes.now(),
        })
    }

    /// Runs a call, and records what it did if it can be repeated.
    fn observed(
        &self,
        root: SourceId,
        arguments: Vec<NodeId>,
        existing: Vec<SourceId>,
        run: impl FnOnce() -> Outcome<Tracked<'py>>,
    ) -> Outcome<(Tracked<'py>, Option<RecordedCall>)> {
        let Ok(state) = TorchState::now() else { return Ok((run()?, None)) };
        let (marks, nodes, ops) = (self.marks()?, self.graph.borrow().nodes().len(), self.op_count());
        let stores = self.store_count();
        let result = run()?;
        let usual = self.marks()? == marks && state.holds();
        let made = if usual && result.source.is_none() { self.made(&result.object) } else { None };
        let nodes = (nodes, self.graph.borrow().nodes().len());
        let region = made.map(|made| RecordedCall {
            root,
            nodes,
            stores: (stores, self.store_count()),
            ops: (ops, self.op_count()),
            arguments,
            existing,
            result: made,
            written: marks.written,
            state,
            template: OnceCell::new(),
            fails: Cell::new(false),
        });
        Ok((result, region))
    }

    /// Returns a result in a form that can be rebuilt: from tensors, constants and tuples.
    fn made(&self, object: &Bound<'py, PyAny>) -> Option<Made> {
        if self.torch.is_fake(object) {
            return self.node(object).map(Made::Node);
        }
        if self.torch.is_primitive(object) {
            return Some(Made::Constant(object.clone().unbind()));
        }
        let items = object.cast_exact::<PyTuple>().ok().filter(|_| self.source_of(object).is_none())?;
        let _deeper = self.deeper(object).ok()?;
        items.iter().map(|item| self.made(&item)).collect::<Option<_>>().map(Made::Tuple)
    }

    /// Repeats the call for another module without interpreting it; `None` if it is not known to do the same.
    fn repeat(
        &self,
        region: &RecordedCall,
        module: &Bound<'py, PyAny>,
        root: SourceId,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
        fakes: &[Bound<'py, PyAny>],
    ) -> Outcome<Option<Tracked<'py>>> {
        let Some(template) = region.template.get_or_init(|| dynamlir_interpreter::suspended(|| self.template(region))) else {
            return Ok(None);
        };
        if region.fails.get() || !region.state.holds() || self.writes.now() != region.written {
            return Ok(None);
        }
        // The same module again: the assumptions about it still hold.
        let again = root == region.root && template.inputs.is_empty();
        let found = if again {
            FxHashMap::default()
        } else {
            let checked = dynamlir_interpreter::suspended(|| template.part.check(module));
            let checked = checked.or_else(|error| self.interruption(&error).map_or(Ok(None), Err))?;
            let Some(found) = checked.filter(|found| !template.reads_known && self.is_new(template, module, found)) else {
                return Ok(None);
            };
            found
        };
        let savepoint = self.savepoint()?;
        for value in args.iter().chain(kwargs.iter().map(|(_, value)| value)) {
            self.guard_value(value)?;
        }
        match self.repeat_found(region, template, module, root, fakes, &found) {
            // If the call is interpreted, it may still be captured; if not, interpreting it shows where the capture ends.
            Err(Halt::Break(_)) if self.interruption.borrow().is_none() => {
                region.fails.set(true);
                self.roll_back(savepoint)?;
                Ok(None)
            }
            repeated => repeated.map(Some),
        }
    }

    /// Repeats the call, given the other module's objects at the guarded sources.
    fn repeat_found(
        &self,
        region: &RecordedCall,
        template: &Template,
        module: &Bound<'py, PyAny>,
        root: SourceId,
        fakes: &[Bound<'py, PyAny>],
        found: &FxHashMap<SourceId, Bound<'py, PyAny>>,
    ) -> Outcome<Tracked<'py>> {
        let again = found.is_empty() && root == region.root && template.inputs.is_empty();
        let sources = if again { FxHashMap::default() } else { self.guards.repeat(self.py, &template.part, root) };
        for (source, object) in template.objects.iter().filter_map(|source| Some((source, found.get(source)?))) {
            self.note_existing(object, sources[source]);
        }
        let mut values: FxHashMap<usize, Bound<'py, PyAny>> =
            region.arguments.iter().zip(fakes).map(|(node, fake)| (node.index(), fake.clone())).collect();
        // A node that returns an argument unchanged represents it from then on.
        let given: Vec<_> = fakes.iter().map(|fake| self.node(fake)).collect();
        let ops = self.op_count();
        let first = self.graph.borrow().nodes().len();
        let inputs = (region.nodes.0..region.nodes.1).filter_map(|at| template.inputs.get_key_value(&at));
        let inputs: Vec<_> = inputs.map(|(at, source)| (*at, found[source].clone(), sources[source])).collect();
        let made = self.repeat_ops(region, template, &inputs, fakes)?;
        for at in region.nodes.0..region.nodes.1 {
            let place = first + (at - region.nodes.0);
            if self.graph.borrow().nodes().len() == place {
                match (template.inputs.get(&at), &made) {
                    (Some(source), Some(made)) => self.note_input(&made[&at], &found[source], sources[source])?,
                    (Some(source), None) => drop(self.input(&found[source], sources[source])?),
                    (None, Some(made)) => self.copy_node(region, template, (at, first), &values, made.get(&at))?,
                    (None, None) => self.replay(region, template, at, first, &mut values)?,
                }
            }
            if let Some(fake) = self.fake_of(place) {
                values.insert(at, fake);
            }
        }
        if self.graph.borrow().nodes().len() - first != region.nodes.1 - region.nodes.0
            || self.op_count() - ops != region.ops.1 - region.ops.0
        {
            return self.break_graph(reason::INTERNAL_ERROR, "a repeated call has done something else");
        }
        self.repeat_stores(region, first, &given);
        self.recorder().note_repeated(module, self.location())?;
        Ok(Tracked::new(self.remade(&region.result, &values)?))
    }

    /// Returns true if the objects and tensors that were new in the pattern are new here, and those already known are the same here.
    fn is_new(&self, template: &Template, module: &Bound<'py, PyAny>, found: &FxHashMap<SourceId, Bound<'py, PyAny>>) -> bool {
        let mut seen = FxHashSet::from_iter([module.as_ptr() as usize]);
        let tensors = template
            .inputs
            .values()
            .all(|source| found.get(source).is_some_and(|real| seen.insert(real.as_ptr() as usize) && self.fake_of_real(real).is_none()));
        let objects = template.objects.iter().all(|source| {
            found.get(source).is_some_and(|object| seen.insert(object.as_ptr() as usize) && self.source_of(object).is_none())
        });
        let outside = |source: &SourceId, object: &Bound<'py, PyAny>| {
            self.source_of(object) == Some(*source) || self.input_source(object) == Some(*source)
        };
        let same = template.part.same().iter().all(|(a, b)| match (found.get(a), found.get(b)) {
            (Some(a), Some(b)) => a.is(b),
            (None, Some(object)) => !template.part.contains(*a) && outside(a, object),
            (Some(object), None) => !template.part.contains(*b) && outside(b, object),
            (None, None) => false,
        });
        let untouched = self.writes.now().1.iter().all(|(owner, ..)| !seen.contains(owner));
        tensors && objects && same && untouched
    }

    /// Returns the data needed to repeat a region; `None` if that is not possible.
    fn template(&self, region: &RecordedCall) -> Option<Template> {
        // The first sources of objects and tensors, among those reached from the module.
        let existing = self.existing_sources();
        let reached: FxHashMap<usize, SourceId> =
            self.tensors.inputs.borrow().iter().map(|input| (input.node.index(), input.source)).collect();
        let wanted: Vec<_> = existing.iter().copied().chain(reached.values().copied()).collect();
        let within = self.guards.beneath(region.root);
        let wanted: Vec<_> = wanted.into_iter().filter(|source| *source != region.root && within(*source)).collect();
        let part = match self.guards.part(self.py, region.root, &wanted) {
            Ok(part) => part?,
            Err(error) => {
                if let GuardError::Python(raised) = error {
                    // The error is stored, and ends the capture.
                    self.interruption(&raised);
                }
                return None;
            }
        };
        let objects: Vec<_> = existing.into_iter().filter(|source| *source != region.root && part.contains(*source)).collect();
        let graph = self.graph.borrow();
        let mut inputs = FxHashMap::default();
        let mut outside = FxHashSet::default();
        let arguments = region.arguments.iter().filter_map(|node| reached.get(&node.index()));
        let mut reads_known = region.existing.iter().chain(arguments).any(|source| part.contains(*source));
        let mut lines = Vec::new();
        let mut taken_apart = FxHashSet::default();
        for at in region.nodes.0..region.nodes.1 {
            let node = &graph.nodes()[at];
            lines.push(match node.kind {
                Kind::CallFunction | Kind::CallMethod => Some(PyList::new(self.py, node.location.iter().cloned()).ok()?.unbind()),
                Kind::Placeholder => {
                    let source = reached.get(&at).copied().filter(|source| part.contains(*source))?;
                    inputs.insert(at, source);
                    None
                }
                _ => return None,
            });
            if let ("getitem", Some(Argument::Node(whole))) = (node.target.base.as_str(), node.args.first()) {
                taken_apart.insert(whole.index());
            }
            for argument in node.args.iter().chain(node.kwargs.iter().map(|(_, value)| value)) {
                let mut right = true;
                argument.nodes(&mut |used| {
                    let used_at = used.index();
                    if used_at >= region.nodes.0 || region.arguments.contains(&used) {
                        return;
                    }
                    // A tensor that was read before.
                    match reached.get(&used_at) {
                        Some(source) => reads_known |= part.contains(*source),
                        None => right = false,
                    }
                    outside.insert(used_at);
                });
                if !right || self.names_existing(argument) {
                    return None;
                }
            }
        }
        let calls = (region.nodes.0..region.nodes.1).filter(|at| !inputs.contains_key(at));
        let is_tensor = |at: &usize| self.fake_of(*at).is_some() || matches!(graph.nodes()[*at].example, Example::Like(_));
        let is_whole = calls.into_iter().all(|at| taken_apart.contains(&at) || is_tensor(&at));
        let mut results = Vec::new();
        for at in region.result.nodes() {
            if at < region.nodes.0 && !region.arguments.iter().any(|argument| argument.index() == at) {
                reads_known |= part.contains(*reached.get(&at)?);
            } else if at >= region.nodes.0 && !inputs.contains_key(&at) && !results.contains(&at) {
                results.push(at);
            }
        }
        Some(Template { part, objects, inputs, outside, reads_known, lines, is_whole, results, span: OnceCell::new() })
    }

    /// Returns true if an argument holds an existing object, for which another module may have a different one.
    fn names_existing(&self, argument: &Argument<Py<PyAny>>) -> bool {
        match argument {
            Argument::Object(object, _) => self.source_of(object.bind(self.py)).is_some(),
            Argument::List(items) | Argument::Tuple(items) => items.iter().any(|item| self.names_existing(item)),
            Argument::Dict(entries) => entries.iter().any(|(key, value)| self.names_existing(key) || self.names_existing(value)),
            Argument::Slice(parts) => parts.iter().any(|part| self.names_existing(part)),
            _ => false,
        }
    }

    fn remade(&self, made: &Made, values: &FxHashMap<usize, Bound<'py, PyAny>>) -> Outcome<Bound<'py, PyAny>> {
        match made {
            Made::Constant(object) => Ok(object.bind(self.py).clone()),
            Made::Tuple(items) => {
                let items = items.iter().map(|item| self.remade(item, values)).collect::<Outcome<Vec<_>>>()?;
                Ok(PyTuple::new(self.py, items)?.into_any())
            }
            Made::Node(node) => match values.get(&node.index()).cloned().or_else(|| self.fake_of(node.index())) {
                Some(fake) => Ok(fake),
                None => self.break_graph(reason::INTERNAL_ERROR, "a repeated call returns another's tensor"),
            },
        }
    }
}
