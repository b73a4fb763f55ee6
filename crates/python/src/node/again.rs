//! Gradients that are differentiated in turn (`create_graph=True`): the graph of the gradients, as a function of the inputs and the
//! tangents, is run as a node of its own.
//!
//! It computes what it needs of the first graph once more, from the inputs. Those that are not saved anyway are lent to the node: it
//! holds them, and what their versions were, until gradients have been computed and the graph is not kept. Inputs that no
//! gradient is made of are not held. What a node takes from other nodes is lent in the same way. Of an input that the graph writes, and of
//! whose value before that gradients are made, a copy is made before the graph runs: vectors of a spectral norm, statistics. (Saving them all was weighed: then a write to any of them would be an error of the first
//! gradients, where eager has none.)

use std::{collections::HashMap, sync::OnceLock};

use dynamlir_runtime::{Derived, Differentiable, NodeInput, Saved};
use pyo3::{
    exceptions::PyRuntimeError,
    intern,
    prelude::*,
    types::{PyDict, PyList, PyString, PyTuple},
};

use super::{
    Run,
    backward::{needed, refuse_detached},
    kept::Kept,
    lent::{self, Held, Lent},
};
use crate::torch::{self, Calls, untraced};

/// What a node has beside torch's own attributes: the inputs of the graph that are [`Lent`] to it, copies of those that the graph has
/// written, and what it takes from other nodes and does not save.
const LENT: &str = "_lent";

/// And the state of torch's generator before the call, where its numbers are drawn again.
const STATE: &str = "_state";

/// Who computes them, and for whom what is lent.
pub struct Again {
    /// `f(inputs by number, tangents, gradients as pairs of an input's number and true if it is wanted, generator's state, values of symbols,
    /// values from other nodes, own results by place) -> gradients`; unset where nobody has the program.
    function: OnceLock<Py<PyAny>>,
    /// Whether the engine keeps the graph that it runs: a function of torch's, where there is one.
    keeps: Option<Py<PyAny>>,
}

impl Again {
    pub fn new(py: Python<'_>) -> PyResult<Self> {
        let keeps = dynamlir_cpython_abi::import(py, "torch._C._autograd")?.getattr_opt("_get_current_graph_task_keep_graph")?;
        Ok(Self { function: OnceLock::new(), keeps: keeps.map(Bound::unbind) })
    }

    /// Says who computes them, once.
    pub fn set(&self, function: Py<PyAny>) {
        // The first one stays: both would compute the same.
        let _ = self.function.set(function);
    }

    /// Whether somebody has the program, and not only the code of its gradients.
    pub fn knows_the_program(&self) -> bool {
        self.function.get().is_some()
    }

    /// Returns true if that function takes batches of tangents, which torch's own operators can be run on.
    pub fn takes_batches(&self, py: Python<'_>) -> PyResult<bool> {
        let Some(function) = self.function.get() else { return Ok(false) };
        untraced(py, || function.bind(py).getattr(intern!(py, "takes_batches"))?.is_truthy())
    }

    /// Before a call that draws random numbers by torch's operators: what its node has to keep, to draw them again.
    pub fn state<'py>(&self, py: Python<'py>, training: &Differentiable) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.function.get().is_none() || !training.draws_by_state() {
            return Ok(None);
        }
        let generator = dynamlir_cpython_abi::import(py, "torch")?.getattr(intern!(py, "default_generator"))?;
        generator.call_method0(intern!(py, "get_state")).map(Some)
    }

    /// Leaves the state with the node, for as long as it is there.
    pub fn keep_state(ctx: &Bound<'_, PyAny>, state: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        state.map_or(Ok(()), |state| ctx.setattr(intern!(ctx.py(), STATE), state))
    }

    /// Before the graph runs: copies of inputs that it writes, and of whose values before that gradients of some node are made.
    pub(super) fn copies<'py>(&self, training: &Differentiable, run: &Run<'_, 'py>) -> PyResult<Vec<(usize, Bound<'py, PyAny>)>> {
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
    pub(super) fn lend<'py>(&self, ctx: &Bound<'py, PyAny>, node: &Derived, run: &Run<'_, 'py>) -> PyResult<()> {
        if lent::count(node) == 0 || self.function.get().is_none() {
            return Ok(());
        }
        let py = ctx.py();
        let calls = Calls { py, abi: super::abi(py)? };
        let mut held = Vec::with_capacity(lent::count(node));
        let mut hold = |tensor: Option<Bound<'py, PyAny>>| -> PyResult<()> {
            held.extend(tensor.map(|it| Held::new(&calls, it)).transpose()?);
            Ok(())
        };
        node.lent().iter().try_for_each(|at| hold((run.input)(*at)))?;
        node.lost().iter().try_for_each(|at| hold(run.copies.iter().find(|(known, _)| known == at).map(|(_, copy)| copy.clone())))?;
        for input in lent::taken(node) {
            hold(match input {
                NodeInput::Input(_) => None,
                NodeInput::Result(at) => run.made.get(at).cloned().flatten(),
                NodeInput::Output(at) => match run.views.iter().find(|(made, _)| *made == at) {
                    Some((_, view)) => Some(calls.wrap(view.as_ref())?),
                    None => None,
                },
            })?;
        }
        ctx.setattr(intern!(py, LENT), Bound::new(py, Lent::new(held))?)
    }

    /// Lets go of them once gradients are computed, unless the graph is kept. A node that is never used up keeps them: among several it
    /// is lent what others need.
    pub fn give_back(&self, ctx: &Bound<'_, PyAny>, node: &Derived) -> PyResult<()> {
        if !node.is_used_up() {
            return Ok(());
        }
        let Some(keeps) = self.keeps.as_ref().filter(|_| lent::count(node) > 0 && self.function.get().is_some()) else { return Ok(()) };
        let py = ctx.py();
        if !keeps.bind(py).call0()?.is_truthy()?
            && let Some(lent) = ctx.getattr_opt(intern!(py, LENT))?
        {
            lent.cast::<Lent>()?.get().give_back();
        }
        Ok(())
    }

    /// Computes the gradients of a node's inputs so that they have a history; a refusal where the node alone can compute them.
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
                "trying to differentiate twice a graph that was compiled from text, of which only the first gradients are known: \
                 compute them without create_graph=True",
            ));
        };
        let mut gradients: Vec<Bound<'py, PyAny>> = vec![py.None().into_bound(py); wanted.len() + 1];
        if wanted.iter().any(Option::is_some) {
            let Known { inputs, taken, own, sizes } = inputs(ctx, node, tangents)?;
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

/// Why gradients cannot be differentiated, and what they are made of.
pub type Refusal<'py> = (Bound<'py, PyAny>, Vec<Bound<'py, PyAny>>);

/// The values that the gradients of a node are made of.
struct Known<'py> {
    /// The inputs of the graph that are saved or lent, by their numbers, and by None the keys of the random numbers that it drew.
    inputs: Bound<'py, PyDict>,
    /// What the node takes from others, in the order of its inputs.
    taken: Vec<Bound<'py, PyAny>>,
    /// The results of the node that eager keeps, by their places among these, with the history that they have.
    own: Bound<'py, PyDict>,
    /// The values of symbols.
    sizes: Vec<i64>,
}

fn inputs<'py>(ctx: &Bound<'py, PyAny>, node: &Derived, tangents: &[Bound<'py, PyAny>]) -> PyResult<Known<'py>> {
    let py = ctx.py();
    let found = PyDict::new(py);
    let all = Kept::of(ctx, node)?;
    let kept = &all.taken;
    let calls = Calls { py, abi: super::abi(py)? };
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
    if lent::count(node) > 0 {
        let calls = Calls { py, abi: super::abi(py)? };
        let lent = ctx.getattr(intern!(py, LENT))?.cast_into::<Lent>()?;
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
    let taken = lent::made_by_others(node).map(|input| match lent::saved(node, input) {
        Some(at) => kept.get(at).cloned(),
        None => held.next(),
    });
    let missing = || PyRuntimeError::new_err("what a node takes from another is missing");
    let taken = taken.collect::<Option<Vec<_>>>().ok_or_else(missing)?;
    Ok(Known { inputs: found, taken, own: all.own(py, node)?, sizes })
}

/// The leaf that an input of a node is, if it is one. What nobody lends may still be what eager's gradients lead to.
fn leaf<'py>(ctx: &Bound<'py, PyAny>, node: &Derived, at: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = ctx.py();
    let Some(place) = node.placed().iter().position(|placed| *placed == at) else { return Ok(None) };
    let edge = ctx.getattr(intern!(py, "next_functions"))?.get_item(place)?.get_item(0)?;
    edge.getattr_opt(intern!(py, "variable"))
}

/// The values of symbols in the call that a node belongs to.
fn sizes<'py>(py: Python<'py>, node: &Derived, kept: &[Bound<'py, PyAny>], tangents: &[Bound<'py, PyAny>]) -> PyResult<Vec<i64>> {
    if !node.varies() {
        return Ok(Vec::new());
    }
    let calls = Calls { py, abi: super::abi(py)? };
    let saved = kept.iter().map(|object| calls.unwrap(object)).collect::<PyResult<Vec<_>>>()?;
    let given = |object| if torch::is_tensor(object)? { calls.unwrap(object).map(Some) } else { Ok(None) };
    let tangents = tangents.iter().map(given).collect::<PyResult<Vec<_>>>()?;
    node.sizes(&saved, &tangents).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}
