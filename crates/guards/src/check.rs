//! Checks guards: by trails where these hold, otherwise by walking.
//!
//! A *segment* is a part of the tree with a root of its own: a parameter, the function, a large submodule. For each segment, everything
//! that a passing walk has read, including the metadata of tensors, is remembered as a [`Trail`]. Its *leaves* are remembered with it:
//! objects to be collected, and facts that the trail cannot prove, such as the values of objects that may be replaced by others at the same
//! address. A later check compares the trail's words and then checks the leaves. If a word differs, the segment is walked again, with real
//! look-ups, and if it passes the new trail is remembered. So an unrelated change costs time once, and never a recompilation.

use dynamlir_cpython_abi::{Attributes, Thread, function, mapping::iterates_as_dict};
use dynamlir_torch_abi::State as TorchState;
use dynamlir_trails::{Proof, Reached, Recorder, Spot};
use pyo3::{
    exceptions::PyAttributeError,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyFloat, PyFrozenSet, PyList, PySet, PyString, PyTuple},
};

use crate::{
    Constant, DictKey, GuardSet, Inputs,
    death_watchers::is_watched,
    remembered_checks::{Leaf, Memos, Record},
    tree::{FUNCTION, Node, PreparedGuard, Step},
};

/// One check.
pub(crate) struct Run<'a, 'py> {
    pub set: &'a GuardSet,
    py: Python<'py>,
    memos: Option<&'a mut Memos>,
    pub inputs: &'a mut Inputs<'py>,
}

impl<'a, 'py> Run<'a, 'py> {
    pub fn new(set: &'a GuardSet, py: Python<'py>, memos: Option<&'a mut Memos>, inputs: &'a mut Inputs<'py>) -> Self {
        Self { set, py, memos, inputs }
    }

    pub fn node(&self, node: usize) -> &'a Node {
        &self.set.tree.nodes[node]
    }

    /// Returns the guards of a node.
    pub fn checks(&self, node: usize) -> impl Iterator<Item = &'a PreparedGuard> + use<'a> {
        let tree = &self.set.tree;
        tree.nodes[node].checks.iter().map(|&check| &tree.checks[check].1)
    }

    /// Checks a root.
    pub fn root(&mut self, node: usize, value: Option<&Bound<'py, PyAny>>) -> PyResult<bool> {
        let Some(value) = value else {
            return self.visit(node, &Reached::unproven(None), &mut Recorder::off(self.py, self.set.abi), &mut Vec::new());
        };
        let description = self.node(node);
        if let Some(expected) = description.tensor {
            // The usual kind of parameter, on the short path.
            let same = self.tensor_matches(expected, value);
            if let Some(output) = description.output.filter(|_| same) {
                self.inputs.values[output] = Some(value.clone());
            }
            return Ok(same);
        }
        if description.direct {
            return self.direct(node, value);
        }
        if let Some(segment) = description.segment.filter(|_| !description.children.is_empty()) {
            return self.segment(node, segment, value);
        }
        self.visit(node, &Reached::unproven(Some(value.clone())), &mut Recorder::off(self.py, self.set.abi), &mut Vec::new())
    }

    /// Returns the slot of a segment's record, if checks are remembered at all.
    fn record_of(&mut self, segment: usize, record: usize) -> Option<&mut Option<Record>> {
        Some(&mut self.memos.as_mut()?.0[segment].records[record])
    }

    /// Checks a segment.
    fn segment(&mut self, node: usize, segment: usize, root: &Bound<'py, PyAny>) -> PyResult<bool> {
        for index in 0..2 {
            // If objects only go to their output slots, nothing is called meanwhile, so the record may stay in its slot.
            if let Some(memos) = &self.memos
                && let memo = &memos.0[segment]
                && let Some(Record { trail, outputs: Some(outputs), .. }) = &memo.records[index]
            {
                let values = &mut self.inputs.values;
                if trail.holds(root, |number, object| values[outputs[number]] = object) {
                    memo.walks.set(0);
                    return Ok(true);
                }
                continue;
            }
            let first = self.inputs.passing.len();
            // Taken out, since checking leaves uses the records of other segments.
            let Some(known) = self.record_of(segment, index).and_then(Option::take) else { continue };
            let passing = &mut self.inputs.passing;
            let holds = known.trail.holds(root, |_, object| passing.push(object));
            let outcome = holds.then(|| self.leaves(&known.leaves, first));
            self.inputs.passing.truncate(first);
            if let Some(place) = self.record_of(segment, index) {
                *place = Some(known);
            }
            if let Some(outcome) = outcome {
                if let Some(memos) = &self.memos {
                    memos.0[segment].walks.set(0);
                }
                return outcome;
            }
        }
        self.walk(node, segment, root)
    }

    /// Checks the leaves of a trail that holds; their objects begin at `first`.
    fn leaves(&mut self, leaves: &[Leaf], first: usize) -> PyResult<bool> {
        for (index, leaf) in leaves.iter().enumerate() {
            let Some(object) = self.inputs.passing.get_mut(first + index).and_then(Option::take) else { return Ok(false) };
            let holds = match *leaf {
                Leaf::Output(output) => {
                    self.inputs.values[output] = Some(object);
                    true
                }
                Leaf::Tensor { expected, output } => {
                    let same = self.tensor_matches(expected, &object);
                    if let Some(output) = output {
                        self.inputs.values[output] = Some(object);
                    }
                    same
                }
                Leaf::Recheck(node) => {
                    self.inputs.disturbed |= !self.checks(node).all(PreparedGuard::is_pure);
                    self.guards_hold(node, &object)?
                }
                Leaf::Subtree(node) => {
                    self.inputs.disturbed = true;
                    self.descend(node, &Spot::unproven(object), &mut Recorder::off(self.py, self.set.abi), &mut Vec::new())?
                }
                Leaf::Portal(node) => {
                    let segment = self.node(node).segment.unwrap_or(FUNCTION);
                    self.segment(node, segment, &object)?
                }
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if a tensor matches a pattern.
    #[inline]
    pub fn tensor_matches(&mut self, pattern: usize, object: &Bound<'py, PyAny>) -> bool {
        let expected = &self.set.tree.tensors[pattern];
        let Some(tensor) = expected.class.tensor(object) else { return false };
        if !self.set.tree.patterns[pattern].matches(tensor) {
            return false;
        }
        let attributes = if expected.no_dynamic_indices { expected.class.attributes(object) } else { Attributes::None };
        if attributes == Attributes::None {
            return true;
        }
        self.inputs.disturbed |= attributes == Attributes::Unknown;
        dynamic_marks(self.py).into_iter().all(|mark| expected.class.lacks(object, mark).unwrap_or(false))
    }

    /// Walks a segment, and remembers the walk if that is likely to be useful.
    fn walk(&mut self, node: usize, segment: usize, root: &Bound<'py, PyAny>) -> PyResult<bool> {
        let worth = match &mut self.memos {
            Some(memos) => {
                let memo = &mut memos.0[segment];
                let known = memo.records.iter().flatten().any(|record| record.trail.starts_at(root));
                memo.may_record() && (known || node == FUNCTION || memo.returns(root.as_ptr() as usize))
            }
            None => false,
        };
        let mut leaves = Vec::new();
        if !worth {
            let reached = Reached::unproven(Some(root.clone()));
            return self.visit(node, &reached, &mut Recorder::off(self.py, self.set.abi), &mut leaves);
        }
        let (mut recorder, spot) = Recorder::on(self.set.abi, root);
        if !self.visit(node, &Reached::from(spot), &mut recorder, &mut leaves)? {
            return Ok(false);
        }
        if let (Some(trail), Some(memos)) = (recorder.finish(root), &mut self.memos) {
            let records = &mut memos.0[segment].records;
            // Replaces the record of this root if it is the latest, otherwise the older record; the latest is tried first.
            let same = records[0].as_ref().is_some_and(|record| record.trail.starts_at(root));
            if !same {
                records.swap(0, 1);
            }
            records[0] = Some(Record::new(trail, leaves));
        }
        Ok(true)
    }

    /// Checks a node and what is below it.
    fn visit(&mut self, node: usize, reached: &Reached<'py>, recorder: &mut Recorder<'py>, leaves: &mut Vec<Leaf>) -> PyResult<bool> {
        let description = self.node(node);
        // Other steps and guards may run Python code.
        let quiet = matches!(description.step, Step::Root | Step::Pinned(_) | Step::TypeAttr(_) | Step::Type | Step::Mro);
        self.inputs.disturbed |= !quiet || !self.checks(node).all(PreparedGuard::is_pure);
        let Some(mut spot) = reached.spot() else {
            // There is no object here, so there is none below.
            if description.output.is_some() || !self.checks(node).all(PreparedGuard::holds_of_nothing) {
                return Ok(false);
            }
            for &child in &description.children {
                if !self.visit(child, reached, recorder, leaves)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        };
        // The first of several tensor guards on one value becomes a leaf of its own; the others are rechecked.
        let mut tensor = None;
        let mut covered = true;
        let mut pinned = false;
        for check in self.checks(node) {
            if !holds(self.set, check, spot.object())? {
                return Ok(false);
            }
            // The state of an object that changes would be a different word at each call.
            let lasts = !description.changes || !matches!(check, PreparedGuard::Length(_) | PreparedGuard::DictKeys(_));
            if recorder.records() && !(lasts && record(self.set, check, &spot, recorder)?) {
                match check {
                    PreparedGuard::Tensor(expected) if tensor.is_none() => tensor = Some(*expected),
                    _ => covered = false,
                }
            } else {
                pinned |= match check {
                    PreparedGuard::Identity(held) => held.by_address(),
                    PreparedGuard::Like(_) => true,
                    _ => false,
                };
            }
        }
        if pinned {
            // A pinned object is alive while the guards are valid, so its address is its identity.
            spot.identify();
        }
        let object = spot.object();
        if let Some(output) = description.output {
            self.inputs.values[output] = Some(object.clone());
        }
        if recorder.records() {
            let mut leaf = |leaf: Leaf| {
                recorder.expose(&spot);
                leaves.push(leaf);
            };
            if !covered {
                leaf(Leaf::Recheck(node));
            }
            match (tensor, description.output) {
                (Some(expected), output) => leaf(Leaf::Tensor { expected, output }),
                (None, Some(output)) => leaf(Leaf::Output(output)),
                (None, None) => {}
            }
        }
        for &child in &description.children {
            if !self.descend(child, &spot, recorder, leaves)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Steps to a child and checks it.
    fn descend(&mut self, child: usize, from: &Spot<'py>, recorder: &mut Recorder<'py>, leaves: &mut Vec<Leaf>) -> PyResult<bool> {
        let description = self.node(child);
        // The class of an object that is written to does not change.
        let may_change = !matches!(description.step, Step::Type) && description.parent.is_some_and(|parent| self.node(parent).changes);
        if recorder.records() && may_change {
            recorder.expose(from);
            leaves.push(Leaf::Subtree(child));
            let from = Spot::unproven(from.object().clone());
            return self.descend(child, &from, &mut Recorder::off(self.py, self.set.abi), &mut Vec::new());
        }
        let mut reached = description.step.take(from, recorder)?;
        if reached.proof == Proof::Address && matches!(description.step, Step::Code | Step::GetAttr(_)) {
            // A guard of the function may have pinned its code. Of the objects read by `getattr`, only code and dicts are proven.
            let mut guards = description.parent.into_iter().flat_map(|parent| self.checks(parent));
            if reached.is_code() && guards.any(|check| matches!(check, PreparedGuard::Code(held) if held.by_address())) {
                reached.proof = Proof::Object;
            }
        }
        if recorder.records() && reached.proof == Proof::None {
            if !self.is_settled(child, from) {
                recorder.expose(from);
                leaves.push(Leaf::Subtree(child));
            }
            return self.visit(child, &reached, &mut Recorder::off(self.py, self.set.abi), &mut Vec::new());
        }
        match (description.segment, &reached.object, reached.spot()) {
            (Some(segment), Some(object), Some(spot)) if self.memos.is_some() => {
                if recorder.records() {
                    recorder.expose(&spot);
                    leaves.push(Leaf::Portal(child));
                }
                self.segment(child, segment, object)
            }
            _ => self.visit(child, &reached, recorder, leaves),
        }
    }

    /// Returns true if everything below a node is immutable: attributes of one code object, which may be created anew by each access.
    fn is_settled(&self, node: usize, from: &Spot<'py>) -> bool {
        let collects = |set: &GuardSet| {
            let mut below = vec![node];
            while let Some(node) = below.pop() {
                let node = &set.tree.nodes[node];
                if node.output.is_some() {
                    return true;
                }
                below.extend(&node.children);
            }
            false
        };
        matches!(self.node(node).step, Step::GetAttr(_)) && from.proof() == Proof::Object && from.is_code() && !collects(self.set)
    }

    /// Returns true if all guards of a node pass for an object.
    fn guards_hold(&self, node: usize, object: &Bound<'py, PyAny>) -> PyResult<bool> {
        for check in self.checks(node) {
            if !holds(self.set, check, object)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[inline]
fn tensor_matches(set: &GuardSet, pattern: usize, object: &Bound<'_, PyAny>) -> bool {
    let expected = &set.tree.tensors[pattern];
    let Some(tensor) = expected.class.tensor(object) else { return false };
    if !set.tree.patterns[pattern].matches(tensor) {
        return false;
    }
    let unmarked = |mark| expected.class.lacks(object, mark).unwrap_or(false);
    !expected.no_dynamic_indices || dynamic_marks(object.py()).into_iter().all(unmarked)
}

/// Returns the [`crate::DYNAMIC_MARKS`], interned.
fn dynamic_marks(py: Python<'_>) -> [&Bound<'_, PyString>; 3] {
    static MARKS: PyOnceLock<[Py<PyString>; 3]> = PyOnceLock::new();
    MARKS.get_or_init(py, || crate::DYNAMIC_MARKS.map(|mark| PyString::intern(py, mark).unbind())).each_ref().map(|mark| mark.bind(py))
}

/// Returns true if a guard passes for an object.
pub(crate) fn holds(set: &GuardSet, check: &PreparedGuard, object: &Bound<'_, PyAny>) -> PyResult<bool> {
    match check {
        PreparedGuard::Type(class) => class.is(&object.get_type()),
        PreparedGuard::Identity(held) => held.is(object),
        PreparedGuard::Like(known) => match &set.tree.checks[*known].1 {
            PreparedGuard::Identity(held) => held.is(object),
            _ => Ok(false),
        },
        PreparedGuard::Equals(constant) => constant.matches(object),
        PreparedGuard::Tensor(expected) => Ok(tensor_matches(set, *expected, object)),
        PreparedGuard::Compares(comparison) => Ok(object.cast_exact::<PyFloat>().is_ok_and(|float| comparison.holds(float.value()))),
        PreparedGuard::Contents(contents) => Ok(contents.holds(object)),
        PreparedGuard::Present => Ok(true),
        PreparedGuard::Absent => Ok(false),
        PreparedGuard::Unwatched => Ok(!is_watched(object)?),
        PreparedGuard::Length(length) => Ok(length_of(object)? == *length),
        PreparedGuard::DictKeys(keys) => dict_keys(keys, object),
        PreparedGuard::SetElements(elements) => set_elements(elements, object),
        PreparedGuard::SetOrder(elements) => set_order(elements, object),
        PreparedGuard::Code(code) => match code_of(object)? {
            Some(seen) => code.is(&seen),
            None => Ok(false),
        },
    }
}

/// Returns the code of an object; None if it has none.
fn code_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    if let Some(code) = function::code(object) {
        return Ok(Some(code));
    }
    match object.getattr(pyo3::intern!(object.py(), "__code__")) {
        Ok(code) => Ok(Some(code)),
        Err(error) if error.is_instance_of::<PyAttributeError>(object.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Records the state that makes a guard pass; returns false if the trail does not prove it.
fn record<'py>(set: &GuardSet, check: &PreparedGuard, spot: &Spot<'py>, recorder: &mut Recorder<'py>) -> PyResult<bool> {
    let same_object = spot.proof() == Proof::Object;
    Ok(match check {
        PreparedGuard::Type(_) => recorder.class(spot),
        PreparedGuard::Identity(held) => same_object || held.by_address(),
        // The constant keeps its own object alive.
        PreparedGuard::Equals(constant) => same_object || constant.is_singleton() || constant.object().is(spot.object()),
        PreparedGuard::Present | PreparedGuard::Like(_) => true,
        PreparedGuard::Length(_) => recorder.length(spot) || recorder.dict_content(spot),
        // A single key has only one order.
        PreparedGuard::DictKeys(keys) if keys.len() < 2 => recorder.dict_content(spot),
        PreparedGuard::DictKeys(_) => recorder.dict_unchanged(spot),
        // The trail contains the whole table, and so the order.
        PreparedGuard::SetElements(elements) | PreparedGuard::SetOrder(elements) => {
            let known: Vec<_> = elements.iter().map(|element| element.object().bind(spot.object().py())).collect();
            same_object && spot.object().is_exact_instance_of::<PyFrozenSet>() || recorder.set_content(spot, &known)
        }
        PreparedGuard::Code(_) => recorder.code(spot)?.proof != Proof::None,
        PreparedGuard::Compares(_) => same_object,
        PreparedGuard::Tensor(pattern) => {
            let (expected, pattern) = (&set.tree.tensors[*pattern], &set.tree.patterns[*pattern]);
            let marks = expected.no_dynamic_indices.then(|| dynamic_marks(spot.object().py())).into_iter().flatten();
            let mut recorded = recorder.tensor(spot, &expected.class, pattern);
            for mark in marks {
                recorded = recorded && recorder.tensor_lacks(spot, &expected.class, mark)?;
            }
            recorded
        }
        // A trail does not see writes to a tensor's memory.
        PreparedGuard::Absent | PreparedGuard::Unwatched | PreparedGuard::Contents(_) => false,
    })
}

/// Returns the length according to the container's own type, not an overridden `__len__`.
fn length_of(object: &Bound<'_, PyAny>) -> PyResult<usize> {
    if let Ok(list) = object.cast::<PyList>() {
        return Ok(list.len());
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return Ok(tuple.len());
    }
    if let Ok(dict) = object.cast::<PyDict>() {
        return Ok(dict.len());
    }
    if let Ok(set) = object.cast::<PySet>() {
        return Ok(set.len());
    }
    object.len()
}

fn dict_keys(expected: &[DictKey], object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Ok(dict) = object.cast::<PyDict>() else { return Ok(false) };
    if dict.len() != expected.len() {
        return Ok(false);
    }
    let fits = |(expected, seen): (&DictKey, Bound<'_, PyAny>)| match expected {
        DictKey::Constant(constant) => constant.matches(&seen),
        DictKey::Any => Ok(true),
    };
    if iterates_as_dict(dict)? {
        return dict.keys().iter().zip(expected).try_fold(true, |same, (seen, expected)| Ok(same && fits((expected, seen))?));
    }
    // An OrderedDict keeps its own order.
    ordered_keys(dict)?.into_iter().zip(expected).try_fold(true, |same, (seen, expected)| Ok(same && fits((expected, seen))?))
}

fn set_elements(expected: &[Constant], object: &Bound<'_, PyAny>) -> PyResult<bool> {
    if !object.is_instance_of::<PySet>() && !object.is_instance_of::<PyFrozenSet>() {
        return Ok(false);
    }
    if object.len()? != expected.len() {
        return Ok(false);
    }
    for element in object.try_iter()? {
        let element = element?;
        if !expected.iter().try_fold(false, |found, constant| Ok::<_, PyErr>(found || constant.matches(&element)?))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn set_order(expected: &[Constant], object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is_set = object.is_instance_of::<PySet>() || object.is_instance_of::<PyFrozenSet>();
    if !is_set || object.len()? != expected.len() {
        return Ok(false);
    }
    object.try_iter()?.zip(expected).try_fold(true, |same, (seen, expected)| Ok(same && expected.matches(&seen?)?))
}

/// Returns the keys in iteration order.
pub(crate) fn ordered_keys<'py>(dict: &Bound<'py, PyDict>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    dict.as_any().try_iter()?.collect()
}

/// Returns true if this thread is handling an exception: in the calling Python code, since guards are checked outside of frames.
pub(crate) fn handles_an_exception(py: Python<'_>) -> bool {
    Thread::current(py).is_ok_and(|thread| thread.topmost_handled_exception().is_some())
}

/// Returns torch's mode objects on this thread, as many as the state counts.
pub(crate) fn modes<'py>(py: Python<'py>, state: &TorchState) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let (functions, dispatches) = state.modes();
    if functions == 0 && dispatches == 0 {
        return Ok(Vec::new());
    }
    let torch = dynamlir_cpython_abi::import(py, "torch")?.getattr("_C")?;
    let at = |name: &str, count: i64| (0..count).map(|i| torch.call_method1(name, (i,))).collect::<PyResult<Vec<_>>>();
    let mut all = at("_get_function_stack_at", functions)?;
    all.extend(at("_get_dispatch_stack_at", dispatches)?);
    Ok(all)
}

/// Returns true if torch's modes are those that were active at the capture. Their numbers are known to be equal.
pub(crate) fn same_modes(py: Python<'_>, set: &GuardSet) -> PyResult<bool> {
    let Some(state) = &set.torch else { return Ok(true) };
    let now = modes(py, state)?;
    set.modes.iter().zip(&now).try_fold(true, |same, (held, mode)| Ok(same && held.is(mode)?))
}
