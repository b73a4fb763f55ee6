//! Double backward (`create_graph=True`): the gradient graph, as a function of the inputs and the tangents, is run as a node of its own.
//!
//! It recomputes the needed part of the first graph from the inputs. Inputs that are not saved anyway are lent to the node: it holds them,
//! with their versions at the time, until gradients have been computed and the graph is not retained. Inputs on which no gradient depends
//! are not held. The values that a node takes from other nodes are lent in the same way. If gradients depend on an input's value before the
//! graph writes to it, a copy is made before the graph runs: vectors of a spectral norm, statistics. (Saving them all was considered: then
//! a write to any of them would be an error of the first gradients, where eager has none.)

use std::{collections::HashMap, sync::OnceLock};

use dynamlir_runtime::{Derived, Differentiable, NodeInput, Saved};
use pyo3::{
    exceptions::PyRuntimeError,
    intern,
    prelude::*,
    types::{PyDict, PyList, PyString, PyTuple},
};

use crate::{
    Calls,
    backward::{needed, refuse_detached},
    nodes::Run,
    retained::{self, Held, Retained},
    saved_values::Kept,
    torch::{self, untraced},
};

/// The node's attribute, besides torch's own, for the graph inputs [`Retained`] for it, copies of those that the graph has written, and the
/// values that it takes from other nodes and does not save.
const LENT: &str = "_lent";

/// The attribute for the state of torch's generator before the call, if its numbers are drawn again.
const STATE: &str = "_state";

/// Computes double backward, and lends the required values to nodes.
pub struct DoubleBackward {
    /// `f(inputs by number, tangents, gradients as pairs of an input's number and true if it is wanted, generator's state, values of
    /// symbols, values from other nodes, own results by place) -> gradients`; unset if the program is unavailable.
    function: OnceLock<Py<PyAny>>,
    /// Torch's function that returns true if the engine retains the graph that it runs, if torch has it.
    keeps: Option<Py<PyAny>>,
}

impl DoubleBackward {
    pub fn new(py: Python<'_>) -> PyResult<Self> {
        let keeps = dynamlir_cpython_abi::import(py, "torch._C._autograd")?.getattr_opt("_get_current_graph_task_keep_graph")?;
        Ok(Self { function: OnceLock::new(), keeps: keeps.map(Bound::unbind) })
    }

    /// Sets the function, once.
    pub fn set(&self, function: Py<PyAny>) {
        // The first one stays: both would compute the same.
        let _ = self.function.set(function);
    }

    /// Returns true if the program is available, and not only the code of its gradients.
    pub fn knows_the_program(&self) -> bool {
        self.function.get().is_some()
    }

    /// Returns true if that function accepts batches of tangents, on which torch's own operators can run.
    pub fn takes_batches(&self, py: Python<'_>) -> PyResult<bool> {
        let Some(function) = self.function.get() else { return Ok(false) };
        untraced(py, || function.bind(py).getattr(intern!(py, "takes_batches"))?.is_truthy())
    }

    /// Returns the state that a node must keep to draw the same random numbers again. Called before a call that draws them by torch's
    /// operators.
    pub fn state<'py>(&self, py: Python<'py>, training: &Differentiable) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.function.get().is_none() || !training.draws_by_state() {
            return Ok(None);
        }
        let generator = dynamlir_cpython_abi::import(py, "torch")?.getattr(intern!(py, "default_generator"))?;
        generator.call_method0(intern!(py, "get_state")).map(Some)
    }

    /// Stores the state in the node, for the node's lifetime.
    pub fn keep_state(ctx: &Bound<'_, PyAny>, state: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        state.map_or(Ok(()), |state| ctx.setattr(intern!(ctx.py(), STATE), state))
    }

    /// Called before the graph runs: copies the inputs that it writes, if the gradients of some node depend on their former values.
    pub(crate) fn copies<'py>(&self, training: &Differentiable, run: &Run<'_, 'py>) -> PyResult<Vec<(usize, Bound<'py, PyAny>)>> {
        let mut copies: Vec<(usize, Bound<'py, PyAny>)> = Vec::new();
        if self.function.get().is_none() {
            return Ok(copies);
        }
        for &at in training.nodes().iter().flat_map(Derived::lost) {
            if let Some(written) = (run.input)(at).filter(|_| copies.iter().all(|(known, _)| *known != at)) {
                copies.push((at, written.call_method0(intern!(written.py(), "clone"))?));
            }
        }
        Ok(copies)
    }

    /// Lends the inputs of a call to a node.
    pub(crate) fn lend<'py>(&self, ctx: &Bound<'py, PyAny>, node: &Derived, run: &Run<'_, 'py>) -> PyResult<()> {
        if retained::count(node) == 0 || self.function.get().is_none() {
            return Ok(());
        }
        let py = ctx.py();
        let calls = Calls { py, abi: torch::init(py)? };
        let mut held = Vec::with_capacity(retained::count(node));
        let mut hold = |tensor: Option<Bound<'py, PyAny>>| -> PyResult<()> {
            held.extend(tensor.map(|it| Held::new(&calls, it)).transpose()?);
            Ok(())
        };
        node.lent().iter().try_for_each(|at| hold((run.input)(*at)))?;
        node.lost().iter().try_for_each(|at| hold(run.copies.iter().find(|(known, _)| known == at).map(|(_, copy)| copy.clone())))?;
        for input in retained::taken(node) {
            hold(match input {
                NodeInput::Input(_) => None,
                NodeInput::Result(at) => run.made.get(at).cloned().flatten(),
                NodeInput::Output(at) => match run.views.iter().find(|(made, _)| *made == at) {
                    Some((_, view)) => Some(calls.wrap(view.as_ref())?),
                    None => None,
                },
            })?;
        }
        ctx.setattr(intern!(py, LENT), Bound::new(py, Retained::new(held))?)
    }

    /// Releases them once gradients are computed, unless the graph is retained. A node that is never used up keeps them: if there are
    /// several nodes, it is lent values that others need.
    pub fn give_back(&self, ctx: &Bound<'_, PyAny>, node: &Derived) -> PyResult<()> {
        if !node.is_used_up() {
            return Ok(());
        }
        let Some(keeps) = self.keeps.as_ref().filter(|_| retained::count(node) > 0 && self.function.get().is_some()) else { return Ok(()) };
        let py = ctx.py();
        if !keeps.bind(py).call0()?.is_truthy()?
            && let Some(lent) = ctx.getattr_opt(intern!(py, LENT))?
        {
            lent.cast::<Retained>()?.get().give_back();
        }
        Ok(())
    }

    /// Computes the gradients of a node's inputs with a history; returns a refusal if only the node itself can compute them.
    pub fn gradients<'py>(
        &self,
        ctx: &Bound<'py, PyAny>,
        node: &Derived,
        tangents: &[Bound<'py, PyAny>],
        wanted: &[Option<usize>],
    ) -> PyResult<Result<Bound<'py, PyTuple>, Refusal<'py>>> {
        let py = ctx.py();
        let Some(function) = self.function.get() else {
            return Err(PyRuntimeError::new_err(
                "trying to differentiate twice a graph that was loaded from a text after stage 00 (aten), where only the first gradients are \
                 known: load the text of stage 00, or compute them without create_graph=True",
            ));
        };
        let mut gradients: Vec<Bound<'py, PyAny>> = vec![py.None().into_bound(py); wanted.len() + 1];
        if wanted.iter().any(Option::is_some) {
            let NodeValues { inputs, taken, own, sizes } = inputs(ctx, node, tangents)?;
            let number = |input| if let NodeInput::Input(at) = input { Some(at) } else { None };
            let (places, wanted): (Vec<usize>, Vec<_>) =
                node.differentiated().map(|(place, input)| (place, (number(input), wanted[place].is_some()))).unzip();
            let made_of = inputs.values().iter().chain(taken.iter().cloned()).chain(own.values().iter()).chain(tangents.to_vec());
            let made_of: Vec<Bound<'py, PyAny>> = made_of.collect();
            let tangents = PyList::new(py, tangents)?;
            let state = ctx.getattr_opt(intern!(py, STATE))?;
            let found = untraced(py, || function.bind(py).call1((inputs, tangents, wanted, state, sizes, taken, own)))?;
            if found.is_instance_of::<PyString>() {
                return Ok(Err((found, made_of)));
            }
            let found: HashMap<usize, Bound<'py, PyAny>> =
                places.into_iter().zip(found.try_iter()?.collect::<PyResult<Vec<_>>>()?).collect();
            for (gradient, input) in gradients.iter_mut().zip(node.placed()) {
                *gradient = found.get(input).cloned().unwrap_or_else(|| py.None().into_bound(py));
            }
        }
        PyTuple::new(py, gradients).map(Ok)
    }
}

/// The reason that gradients cannot be differentiated, and the values on which they depend.
pub type Refusal<'py> = (Bound<'py, PyAny>, Vec<Bound<'py, PyAny>>);

/// The values on which the gradients of a node depend.
struct NodeValues<'py> {
    /// The graph inputs that are saved or lent, by number, and under None the keys of the random numbers that the graph drew.
    inputs: Bound<'py, PyDict>,
    /// The values that the node takes from others, in the order of its inputs.
    taken: Vec<Bound<'py, PyAny>>,
    /// The results of the node that eager saves, by their index among its results, with their history.
    own: Bound<'py, PyDict>,
    /// The values of symbols.
    sizes: Vec<i64>,
}

fn inputs<'py>(ctx: &Bound<'py, PyAny>, node: &Derived, tangents: &[Bound<'py, PyAny>]) -> PyResult<NodeValues<'py>> {
    let py = ctx.py();
    let found = PyDict::new(py);
    let all = Kept::of(ctx, node)?;
    let kept = &all.taken;
    let calls = Calls { py, abi: torch::init(py)? };
    refuse_detached(&calls, ctx, node, kept, &needed(ctx, node)?)?;
    let sizes = sizes(py, node, kept, tangents)?;
    for (at, (saved, object)) in node.saved().iter().zip(kept).enumerate() {
        if node.keys() == Some(at) {
            found.set_item(py.None(), object)?;
        } else if let Saved::Arg(input) = saved {
            found.set_item(input, object)?;
        }
    }
    let of_graph: Vec<usize> = node.lent().iter().chain(node.lost()).copied().collect();
    let mut held = Vec::new();
    if retained::count(node) > 0 {
        let calls = Calls { py, abi: torch::init(py)? };
        let lent = ctx.getattr(intern!(py, LENT))?.cast_into::<Retained>()?;
        held = lent.get().tensors(&calls, |at| of_graph.get(at).map_or_else(|| "a result".to_owned(), |input| format!("input {input}")))?;
    }
    let mut held = held.into_iter();
    for (input, tensor) in of_graph.iter().zip(held.by_ref()) {
        found.set_item(input, tensor)?;
    }
    for (at, input) in node.differentiated() {
        let NodeInput::Input(input) = input else { continue };
        if let (false, Some(leaf)) = (found.contains(input)?, leaf(ctx, node, at)?) {
            found.set_item(input, leaf)?;
        }
    }
    let taken = retained::made_by_others(node).map(|input| match retained::saved(node, input) {
        Some(at) => kept.get(at).cloned(),
        None => held.next(),
    });
    let missing = || PyRuntimeError::new_err("what a node takes from another is missing");
    let taken = taken.collect::<Option<Vec<_>>>().ok_or_else(missing)?;
    Ok(NodeValues { inputs: found, taken, own: all.own(py, node)?, sizes })
}

/// Returns the leaf tensor of a node's input, if it is one. An input that is not lent may still be one to which eager's gradients lead.
fn leaf<'py>(ctx: &Bound<'py, PyAny>, node: &Derived, at: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = ctx.py();
    let Some(place) = node.placed().iter().position(|placed| *placed == at) else { return Ok(None) };
    let edge = ctx.getattr(intern!(py, "next_functions"))?.get_item(place)?.get_item(0)?;
    edge.getattr_opt(intern!(py, "variable"))
}

/// Returns the values of symbols in the call to which a node belongs.
fn sizes<'py>(py: Python<'py>, node: &Derived, kept: &[Bound<'py, PyAny>], tangents: &[Bound<'py, PyAny>]) -> PyResult<Vec<i64>> {
    if !node.varies() {
        return Ok(Vec::new());
    }
    let calls = Calls { py, abi: torch::init(py)? };
    let saved = kept.iter().map(|object| calls.unwrap(object)).collect::<PyResult<Vec<_>>>()?;
    let given = |object| if torch::is_tensor(object)? { calls.unwrap(object).map(Some) } else { Ok(None) };
    let tangents = tangents.iter().map(given).collect::<PyResult<Vec<_>>>()?;
    node.sizes(&saved, &tangents).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}
