//! Tensors: the fakes that represent them, and the nodes that compute the fakes.

use std::cell::{Cell, RefCell};

use dynamlir_graph::{Argument, Example, NodeId};
use dynamlir_guards::{SourceId, TensorMatch};
use pyo3::{exceptions::PyException, prelude::*};

use crate::{
    floors::{Numbers, Record},
    graph_break::{GraphBreak, Halt, Outcome},
    state::{
        State,
        undo_map::{Mark, UndoMap},
    },
};

/// A tensor that the frame reads.
#[derive(Debug)]
pub struct Input {
    /// Its stand-in.
    pub fake: Py<PyAny>,
    /// The tensor itself.
    pub real: Py<PyAny>,
    /// Its first source.
    pub source: SourceId,
    /// Its placeholder.
    pub node: NodeId,
    /// True if the source holds a number: a float, which the stand-in represents, or an int, which is the length of the stand-in.
    pub number: bool,
}

/// The tensors that a capture knows.
#[derive(Default)]
pub struct Tensors {
    /// The tensors that were read, in order.
    pub inputs: RefCell<Vec<Input>>,
    /// Their positions, by the addresses of tensors and of fakes.
    places: RefCell<UndoMap<usize, usize>>,
    /// The node of each fake, by address, kept alive.
    nodes: RefCell<UndoMap<usize, (Py<PyAny>, NodeId)>>,
    /// True if the frame has seen a number.
    numbers: Cell<bool>,
    /// True if one of the inputs is a buffer whose contents may be read.
    buffers: Cell<bool>,
}

/// A savepoint of [`Tensors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TensorsMark {
    inputs: usize,
    places: Mark,
    nodes: Mark,
}

impl Tensors {
    /// Returns the node of the fake at an address.
    pub(crate) fn node_at(&self, fake: usize) -> Option<NodeId> {
        self.nodes.borrow().get(&fake).map(|(_, node)| *node)
    }

    /// Returns true if the frame has seen a number.
    pub(crate) fn has_numbers(&self) -> bool {
        self.numbers.get()
    }

    /// Returns true if one of the inputs is a buffer whose contents may be read.
    pub(crate) fn has_buffers(&self) -> bool {
        self.buffers.get()
    }

    /// Records that one of the inputs is such a buffer.
    pub(crate) fn note_buffer(&self) {
        self.buffers.set(true);
    }

    /// Returns the number that represents the float at a source.
    pub(crate) fn number_of(&self, source: SourceId) -> Option<Py<PyAny>> {
        let inputs = self.inputs.borrow();
        let found = inputs.iter().find(|input| input.number && input.source == source)?;
        Some(Python::attach(|py| found.fake.clone_ref(py)))
    }

    pub(crate) fn mark(&self) -> TensorsMark {
        TensorsMark { inputs: self.inputs.borrow().len(), places: self.places.borrow().mark(), nodes: self.nodes.borrow().mark() }
    }

    pub(crate) fn roll_back(&self, to: TensorsMark) {
        let inputs = self.inputs.borrow_mut().split_off(to.inputs);
        let places = self.places.borrow_mut().roll_back(to.places);
        let nodes = self.nodes.borrow_mut().roll_back(to.nodes);
        drop((inputs, places, nodes));
    }
}

impl State {
    /// Returns the node of the fake at an address.
    pub(crate) fn node_at(&self, fake: usize) -> Option<NodeId> {
        self.tensors.node_at(fake)
    }
}

impl<'py> Record<'py> {
    /// Returns the reason why a tensor cannot be an input.
    pub(crate) fn refused_input<T>(&self, error: PyErr) -> Outcome<T> {
        Err(match self.session_error(error) {
            // An internal error: no handler of the frame may see it.
            Halt::Raise(error) if error.is_instance_of::<PyException>(self.py) => {
                Halt::Break(GraphBreak { location: self.location(), ..GraphBreak::internal(&error) })
            }
            halt => halt,
        })
    }

    /// Records the number that represents the float at `source`; `real` is the tensor that the graph currently receives for it.
    pub(crate) fn note_number(&self, number: &Bound<'py, PyAny>, real: &Bound<'py, PyAny>, source: SourceId) {
        let expression = self.guards.expression(source);
        let node = {
            let mut graph = self.graph.borrow_mut();
            let node = graph.placeholder(&placeholder_name(&expression), &expression);
            graph.set_example(node, Example::Is(real.clone().unbind()));
            (node, graph.call_method("item", vec![Argument::Node(node)], Vec::new(), Some(self.location())))
        };
        self.bind(number, node.1);
        let mut inputs = self.tensors.inputs.borrow_mut();
        self.tensors.places.borrow_mut().insert(number.as_ptr() as usize, inputs.len());
        inputs.push(Input { fake: number.clone().unbind(), real: real.clone().unbind(), source, node: node.0, number: true });
    }

    /// Records the fake whose length is the int at `source`; `real` is the tensor that the graph currently receives for it.
    pub(crate) fn note_length(&self, fake: &Bound<'py, PyAny>, real: &Bound<'py, PyAny>, source: SourceId) {
        let expression = self.guards.expression(source);
        let node = {
            let mut graph = self.graph.borrow_mut();
            let node = graph.placeholder(&placeholder_name(&expression), &expression);
            graph.set_example(node, Example::Is(fake.clone().unbind()));
            node
        };
        let mut inputs = self.tensors.inputs.borrow_mut();
        self.tensors.places.borrow_mut().insert(fake.as_ptr() as usize, inputs.len());
        inputs.push(Input { fake: fake.clone().unbind(), real: real.clone().unbind(), source, node, number: true });
    }

    /// Records the node that computes a fake.
    pub fn bind(&self, fake: &Bound<'py, PyAny>, node: NodeId) {
        if self.torch.is_number(fake) {
            self.tensors.numbers.set(true);
            self.layers.note_unrepeatable();
        }
        self.tensors.nodes.borrow_mut().insert(fake.as_ptr() as usize, (fake.clone().unbind(), node));
        self.graph.borrow_mut().set_example(node, Example::Is(fake.clone().unbind()));
    }

    /// Returns the fake computed by the node at a position.
    pub(crate) fn fake_of(&self, place: usize) -> Option<Bound<'py, PyAny>> {
        match &self.graph.borrow().nodes().get(place)?.example {
            Example::Is(fake) => Some(fake.bind(self.py).clone()),
            _ => None,
        }
    }

    /// Returns the node of a fake.
    pub fn node(&self, fake: &Bound<'py, PyAny>) -> Option<NodeId> {
        self.node_at(fake.as_ptr() as usize)
    }

    /// Returns the first source of a tensor, given the tensor itself or its fake.
    pub(crate) fn input_source(&self, tensor: &Bound<'py, PyAny>) -> Option<SourceId> {
        let place = *self.tensors.places.borrow().get(&(tensor.as_ptr() as usize))?;
        Some(self.tensors.inputs.borrow()[place].source)
    }

    /// Returns the fake of a tensor that was read.
    pub(crate) fn fake_of_real(&self, real: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        let place = *self.tensors.places.borrow().get(&(real.as_ptr() as usize))?;
        let inputs = self.tensors.inputs.borrow();
        inputs[place].real.is(real).then(|| inputs[place].fake.bind(self.py).clone())
    }

    /// Returns the tensor that a fake represents, if the fake was not computed by the frame.
    pub fn real_of(&self, fake: &Bound<'py, PyAny>) -> Option<(Bound<'py, PyAny>, SourceId)> {
        let place = *self.tensors.places.borrow().get(&(fake.as_ptr() as usize))?;
        let inputs = self.tensors.inputs.borrow();
        inputs[place].fake.is(fake).then(|| (inputs[place].real.bind(self.py).clone(), inputs[place].source))
    }
}

impl<'py> Numbers<'py> {
    /// Returns the fake of a tensor reached at `source`.
    pub(crate) fn input(&self, real: &Bound<'py, PyAny>, source: SourceId) -> Outcome<Bound<'py, PyAny>> {
        let is_new = self.fake_of_real(real).is_none();
        self.refuse_dynamic(real, source)?;
        let expression = self.guards.expression(source);
        let sized = if is_new { self.dynamic_sizes(real, source, &expression)? } else { None };
        let sized = sized.map(|sized| self.as_lists(sized)).transpose()?;
        let fake = self.recorder().input(real, &expression, sized).or_else(|error| self.refused_input(error))?;
        self.note_input(&fake, real, source)?;
        if is_new {
            self.note_buffer(&fake, real, source)?;
        }
        Ok(fake)
    }

    /// Records the tensor that a fake represents, and its source; the first time this adds a placeholder.
    pub(crate) fn note_input(&self, fake: &Bound<'py, PyAny>, real: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        match self.input_source(fake) {
            Some(first) if first != source => {
                self.guards.relate(dynamlir_guards::Relation::Same(first, source));
            }
            Some(_) => {}
            None => {
                // A function mode would observe these queries.
                let matched = self.guarded(dynamlir_interpreter::suspended(|| TensorMatch::of(real)))?;
                self.guards.tensor(source, self.loosened(matched, source));
                let expression = self.guards.expression(source);
                let node = self.graph.borrow_mut().placeholder(&placeholder_name(&expression), &expression);
                self.bind(fake, node);
                let mut inputs = self.tensors.inputs.borrow_mut();
                for object in [fake, real] {
                    self.tensors.places.borrow_mut().insert(object.as_ptr() as usize, inputs.len());
                }
                inputs.push(Input { fake: fake.clone().unbind(), real: real.clone().unbind(), source, node, number: false });
            }
        }
        Ok(())
    }
}

/// Converts an expression to a name: `L['x']` → `x`; `L['self']._modules['fc'].weight` → `self_modules_fc_weight`.
fn placeholder_name(expression: &str) -> String {
    let plain = expression.strip_prefix("L['").and_then(|rest| rest.strip_suffix("']")).filter(|name| !name.contains('['));
    if let Some(name) = plain {
        return name.to_owned();
    }
    let mut out = String::new();
    for c in expression.strip_prefix("L").unwrap_or(expression).chars() {
        if c.is_alphanumeric() || c == '_' {
            out.push(c);
        } else if !out.is_empty() && !out.ends_with('_') {
            out.push('_');
        }
    }
    out.trim_end_matches('_').to_owned()
}
