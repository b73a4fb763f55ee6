//! Repeats the nodes of a [`RecordedCall`] on other tensors.
//!
//! Usually all at once: the results of a layer's operations on tensors with the same metadata are known, so the session [repeats
//! them](crate::floors::Recipes::repeat_ops) without calling torch. If that is not certain, torch's functions are called again, [one by
//! one](crate::floors::Recipes::replay).

use dynamlir_graph::{Argument, Example, Kind, Line, Node, NodeId, Target};
use dynamlir_guards::SourceId;
use pyo3::{
    prelude::*,
    types::{PyBool, PyDict, PyFloat, PyInt, PyList, PySlice, PyString, PyTuple},
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    floors::Recipes,
    graph_break::{Outcome, reason},
    recorder::RunAs,
    state::layers::{RecordedCall, Span, Template},
};

impl<'py> Recipes<'py> {
    /// Records a region's operations on other tensors. Returns the new fakes of the values that the frame sees, by the nodes of the old
    /// ones; `None` if torch's functions have to be called.
    pub(crate) fn repeat_ops(
        &self,
        region: &RecordedCall,
        template: &Template,
        inputs: &[(usize, Bound<'py, PyAny>, SourceId)],
        arguments: &[Bound<'py, PyAny>],
    ) -> Outcome<Option<FxHashMap<usize, Bound<'py, PyAny>>>> {
        let py = self.py;
        if template.span.get().is_none() {
            let span = self.span(region, template, inputs)?;
            template.span.get_or_init(|| span);
        }
        let Some(Some(Span { operations, same })) = template.span.get() else { return Ok(None) };
        let mut added = Vec::with_capacity(inputs.len());
        for (_, real, source) in inputs {
            self.refuse_dynamic(real, *source)?;
            added.push((real, self.guards.expression(*source)));
        }
        let given: Vec<_> = arguments.iter().cloned().chain(template.outside.iter().filter_map(|at| self.fake_of(*at))).collect();
        let made = self.recorder().repeat(operations.bind(py), added, &given).or_else(|error| self.refused_input(error))?;
        let Some((inputs_made, results)) = made else { return Ok(None) };
        let outer: Vec<_> = inputs_made.into_iter().chain(given).collect();
        let mut made: FxHashMap<_, _> = same.iter().map(|&(at, which)| (at, outer[which].clone())).collect();
        made.extend(inputs.iter().map(|(at, ..)| *at).zip(outer));
        made.extend(template.results.iter().copied().zip(results));
        Ok(Some(made))
    }

    /// Returns a region's operations in the form that the session can repeat; `None` if it cannot.
    fn span(&self, region: &RecordedCall, template: &Template, inputs: &[(usize, Bound<'py, PyAny>, SourceId)]) -> Outcome<Option<Span>> {
        if !template.is_whole {
            return Ok(None);
        }
        let fakes = |places: &mut dyn Iterator<Item = usize>| places.map(|at| self.fake_of(at)).collect::<Option<Vec<_>>>();
        let inputs = fakes(&mut inputs.iter().map(|(at, ..)| *at));
        let given = fakes(&mut region.arguments.iter().map(|node| node.index()).chain(template.outside.iter().copied()));
        let wanted = fakes(&mut template.results.iter().copied());
        let (Some(inputs), Some(given), Some(wanted)) = (inputs, given, wanted) else { return Ok(None) };
        let span = self.recorder().span(region.ops, &inputs, &given, wanted)?;
        let outer: Vec<_> = inputs.into_iter().chain(given).collect();
        let same = |at| self.fake_of(at).and_then(|fake| Some((at, outer.iter().position(|other| other.is(&fake))?)));
        let same = (region.nodes.0..region.nodes.1).filter_map(same).collect();
        Ok(span.map(|span| Span { operations: span.unbind(), same }))
    }

    /// Adds a copy of a node of a region whose operations are already recorded. Only values that the frame sees have fakes.
    pub(crate) fn copy_node(
        &self,
        region: &RecordedCall,
        template: &Template,
        (at, first): (usize, usize),
        arguments: &FxHashMap<usize, Bound<'py, PyAny>>,
        made: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<()> {
        let py = self.py;
        let place = |node: NodeId| match node.index() {
            at if at >= region.nodes.0 => self.graph.borrow().id_at(first + (at - region.nodes.0)),
            at => {
                let outside = || template.outside.contains(&at).then(|| self.fake_of(at)).flatten();
                arguments.get(&at).cloned().or_else(outside).and_then(|fake| self.node(&fake))
            }
        };
        let copy = |argument: &Argument<Py<PyAny>>| argument.map(&place, &|object| object.clone_ref(py));
        let parts = {
            let graph = self.graph.borrow();
            let node = &graph.nodes()[at];
            let args = node.args.iter().map(copy).collect::<Option<Vec<_>>>();
            let kwargs = node.kwargs.iter().map(|(name, value)| Some((name.clone(), copy(value)?))).collect::<Option<Vec<_>>>();
            let like = match node.example {
                Example::Like(other) => Some(other),
                _ => graph.id_at(at),
            };
            args.zip(kwargs)
                .zip(like)
                .map(|((args, kwargs), like)| (node.kind, self.target(node), args, kwargs, node.location.clone(), like))
        };
        let Some((kind, target, args, kwargs, location, like)) = parts else {
            return self.break_graph(reason::INTERNAL_ERROR, "a repeated call uses another's tensor");
        };
        let node = self.add_call(kind == Kind::CallMethod, target, args, kwargs, &location);
        match made {
            Some(fake) => self.bind(fake, node),
            None => self.graph.borrow_mut().set_example(node, Example::Like(like)),
        }
        Ok(())
    }

    fn target(&self, node: &Node<Py<PyAny>>) -> Target<Py<PyAny>> {
        Target {
            base: node.target.base.clone(),
            qualified: node.target.qualified.clone(),
            object: node.target.object.as_ref().map(|object| object.clone_ref(self.py)),
        }
    }

    /// Runs a node of a region again, and adds it.
    pub(crate) fn replay(
        &self,
        region: &RecordedCall,
        template: &Template,
        at: usize,
        first: usize,
        values: &mut FxHashMap<usize, Bound<'py, PyAny>>,
    ) -> Outcome<()> {
        let py = self.py;
        let mut pieces = Pieces { capture: self, from: region.nodes.0, first, outside: &template.outside, values };
        let (kind, target, args, kwargs, location) = {
            let graph = self.graph.borrow();
            let node = &graph.nodes()[at];
            let args = node.args.iter().map(|argument| pieces.both(argument)).collect::<Outcome<Vec<_>>>()?;
            let kwargs = node.kwargs.iter().map(|(name, value)| Ok((name.clone(), pieces.both(value)?))).collect::<Outcome<Vec<_>>>()?;
            (node.kind, self.target(node), args, kwargs, node.location.clone())
        };
        let (args, objects): (Vec<_>, Vec<_>) = args.into_iter().unzip();
        let keywords = PyDict::new(py);
        let mut named = Vec::with_capacity(kwargs.len());
        for (name, (argument, object)) in kwargs {
            keywords.set_item(&name, object)?;
            named.push((name, argument));
        }
        let is_method = kind == Kind::CallMethod;
        let callable = match &target.object {
            Some(object) if !is_method => object.bind(py).clone(),
            _ => objects[0].getattr(target.base.as_str())?,
        };
        let given = PyTuple::new(py, &objects[usize::from(is_method)..])?;
        let lines = template.lines[at - region.nodes.0].as_ref().map(|lines| lines.bind(py).clone());
        let result = match self.recorder().run(RunAs::Operation, &callable, &given, &keywords, lines.as_ref().map(Bound::as_any)) {
            Ok(result) => result,
            Err(error) => return Err(self.refused_by_torch(error)),
        };
        let node = self.add_call(is_method, target, args, named, &location);
        self.bind_result(&result, node, &location)
    }

    fn add_call(
        &self,
        is_method: bool,
        target: Target<Py<PyAny>>,
        args: Vec<Argument<Py<PyAny>>>,
        kwargs: Vec<(String, Argument<Py<PyAny>>)>,
        location: &[Line],
    ) -> NodeId {
        let mut graph = self.graph.borrow_mut();
        if is_method {
            graph.call_method(&target.base, args, kwargs, Some(location.to_vec()))
        } else {
            graph.call_function(target, args, kwargs, Some(location.to_vec()))
        }
    }
}

/// Arguments as graph arguments and as Python objects.
type Lists<'py> = (Vec<Argument<Py<PyAny>>>, Vec<Bound<'py, PyAny>>);

/// Rebuilds the arguments of a node, both as graph arguments and as Python objects.
struct Pieces<'a, 'py> {
    capture: &'a Recipes<'py>,
    /// The first node of the pattern, and of the repetition.
    from: usize,
    first: usize,
    outside: &'a FxHashSet<usize>,
    values: &'a mut FxHashMap<usize, Bound<'py, PyAny>>,
}

impl<'py> Pieces<'_, 'py> {
    fn both(&mut self, argument: &Argument<Py<PyAny>>) -> Outcome<(Argument<Py<PyAny>>, Bound<'py, PyAny>)> {
        let py = self.capture.py;
        Ok(match argument {
            Argument::Node(node) => {
                let at = node.index();
                let outside = self.outside.contains(&at).then(|| self.capture.fake_of(at)).flatten();
                let Some(fake) = self.values.get(&at).cloned().or(outside) else {
                    return self.capture.break_graph(reason::INTERNAL_ERROR, "a repeated call uses another's tensor");
                };
                let Some(node) = self.node(at, &fake) else {
                    return self.capture.break_graph(reason::INTERNAL_ERROR, "a repeated call uses a tensor without a node");
                };
                (Argument::Node(node), fake)
            }
            Argument::None => (Argument::None, py.None().into_bound(py)),
            Argument::Bool(value) => (Argument::Bool(*value), PyBool::new(py, *value).to_owned().into_any()),
            Argument::Int(value) => (Argument::Int(*value), PyInt::new(py, *value).into_any()),
            Argument::Float(value) => (Argument::Float(*value), PyFloat::new(py, *value).into_any()),
            Argument::Str(value) => (Argument::Str(value.clone()), PyString::new(py, value).into_any()),
            Argument::List(items) => {
                let (arguments, objects) = self.all(items)?;
                (Argument::List(arguments), PyList::new(py, objects)?.into_any())
            }
            Argument::Tuple(items) => {
                let (arguments, objects) = self.all(items)?;
                (Argument::Tuple(arguments), PyTuple::new(py, objects)?.into_any())
            }
            Argument::Dict(entries) => {
                let dict = PyDict::new(py);
                let mut made = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    let ((key, key_object), (value, value_object)) = (self.both(key)?, self.both(value)?);
                    dict.set_item(key_object, value_object)?;
                    made.push((key, value));
                }
                (Argument::Dict(made), dict.into_any())
            }
            Argument::Slice(parts) => {
                let (arguments, objects) = self.all(&parts[..])?;
                let made = py.get_type::<PySlice>().call1(PyTuple::new(py, objects)?)?;
                let parts = arguments.try_into().map_err(|_| pyo3::exceptions::PySystemError::new_err("a slice has three parts"))?;
                (Argument::Slice(Box::new(parts)), made)
            }
            Argument::Object(object, text) => (Argument::Object(object.clone_ref(py), text.clone()), object.bind(py).clone()),
        })
    }

    /// Returns the node of a value: the one at the same offset within the region, or the current node of an argument.
    fn node(&self, at: usize, fake: &Bound<'py, PyAny>) -> Option<NodeId> {
        if at >= self.from { self.capture.graph.borrow().id_at(self.first + (at - self.from)) } else { self.capture.node(fake) }
    }

    fn all(&mut self, items: &[Argument<Py<PyAny>>]) -> Outcome<Lists<'py>> {
        Ok(items.iter().map(|item| self.both(item)).collect::<Outcome<Vec<_>>>()?.into_iter().unzip())
    }
}
