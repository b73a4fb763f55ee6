//! Gradients within the frame, see `python/dynamlir/capture/gradients.py`: the leaves that `loss.backward()` reaches, the histories and
//! hooks that arguments bring along, and the state of outputs once their histories have been freed.

use dynamlir_frame::{AfterGraph, Recipe};
use dynamlir_guards::{Source, SourceId};
use pyo3::{
    call::PyCallArgs,
    prelude::*,
    types::{PyBool, PyDict, PyList, PyTuple},
};

use crate::{
    floors::{Heap, Operations, Reads},
    graph_break::{Outcome, reason},
    objects::Tracked,
    state::outputs::Outputs,
};

/// The hooks that torch calls when a leaf has received a gradient, by the attributes that hold them.
const HOOKS: &[&str] = &["_backward_hooks", "_post_accumulate_grad_hooks"];

/// The Python module that knows which functions of the program are notified about tensors that autograd saves.
const SAVED_HOOKS: &str = "dynamlir.capture.saved_hooks";

impl<'py> Reads<'py> {
    /// Called before an operation on these `objects` within the frame: guards the histories and hooks that autograd knows and the graph
    /// does not show.
    pub(crate) fn guard_gradients(
        &self,
        operation: &str,
        objects: &[Bound<'py, PyAny>],
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
    ) -> Outcome<()> {
        if operation == "torch.autograd.grad" {
            self.guard_histories(args, kwargs)?;
        }
        self.refuse_hooks_of_the_frame(objects, kwargs)
    }

    /// Called before `torch.autograd.grad` within the frame: guards the histories that its arguments bring along, which the graph does not
    /// show.
    fn guard_histories(&self, args: &Bound<'py, PyTuple>, kwargs: &Bound<'py, PyDict>) -> Outcome<()> {
        let (inputs, reached) = self.recorder().asked(args, kwargs).map_err(|error| self.refused_by_torch(error))?;
        let inputs: Vec<_> = inputs.iter().filter_map(|input| self.real_of(&input)).collect();
        for (real, source) in &inputs {
            self.without_hooks(real, *source, &HOOKS[..1])?;
        }
        self.without_detours(&inputs, &reached)
    }

    /// Begins or ends one autograd level of a transform of `torch.func`. If the capture ends in between, CPython runs the whole transform.
    pub(crate) fn level(&self, begins: bool) -> Outcome<Tracked<'py>> {
        let levels = &self.progress.levels;
        if begins {
            self.without_saved_tensors_hooks()?;
            levels.set(levels.get() + 1);
        } else {
            levels.set(levels.get().saturating_sub(1));
        }
        self.layers.note_unrepeatable();
        self.recorder().level(begins)?;
        Ok(Tracked::new(self.py.None().into_bound(self.py)))
    }

    /// Guards that no function is notified about tensors that autograd saves.
    fn without_saved_tensors_hooks(&self) -> Outcome<()> {
        let hooks = self.saved_tensors_hooks()?;
        let also_while_tracing = Tracked::new(PyBool::new(self.py, true).to_owned().into_any());
        self.ask_again(&hooks, &[also_while_tracing], &Vec::new())?;
        Ok(())
    }

    /// Returns torch's function that reports which hooks are set.
    fn saved_tensors_hooks(&self) -> PyResult<Bound<'py, PyAny>> {
        dynamlir_cpython_abi::import(self.py, "torch._C._autograd")?.getattr("_top_saved_tensors_default_hooks")
    }

    /// Ends the capture at an operation whose tensors autograd saves, if the frame has set hooks for that: the hooks come before the rest
    /// of the frame, but the graph would run the rest first. Hooks that were set around the frame are called with its graph.
    fn refuse_hooks_of_the_frame(&self, objects: &[Bound<'py, PyAny>], kwargs: &Bound<'py, PyDict>) -> Outcome<()> {
        if !self.progress.is_resumed() || !self.saved_hooks("saves", (objects.to_vec(), kwargs))?.is_truthy()? {
            return Ok(());
        }
        if self.saved_tensors_hooks()?.call1((true,))?.is_none() {
            return self.without_saved_tensors_hooks();
        }
        let asked = dynamlir_cpython_abi::import(self.py, SAVED_HOOKS)?.getattr("are_of_a_frame")?;
        if self.ask_again(&asked, &[], &Vec::new())?.object.is_truthy()? {
            return self.break_graph(reason::AUTOGRAD, "an operation that calls hooks for saved tensors, which the function has set");
        }
        Ok(())
    }

    /// Calls a function of `dynamlir.capture.saved_hooks`.
    fn saved_hooks<A: PyCallArgs<'py>>(&self, name: &str, args: A) -> PyResult<Bound<'py, PyAny>> {
        dynamlir_interpreter::suspended(|| dynamlir_cpython_abi::import(self.py, SAVED_HOOKS)?.call_method1(name, args))
    }

    /// Guards that gradients of this tensor call no hooks.
    fn without_hooks(&self, real: &Bound<'py, PyAny>, source: SourceId, kinds: &[&str]) -> Outcome<()> {
        for name in kinds {
            let hooks = real.getattr(*name)?;
            let at = self.guards.source(Source::GetAttr(source, (*name).into()));
            if !hooks.is_none() {
                self.guards.present(at);
                return self.break_graph(reason::AUTOGRAD, "gradients of a tensor that has hooks");
            }
            self.guarded(self.guards.equals(at, &hooks))?;
        }
        Ok(())
    }

    /// Guards that gradients of `inputs` flow as the graph shows, and not through the history of another argument that is `reached`: a leaf
    /// does not have a history. No other guard checks that a tensor is a leaf.
    fn without_detours(&self, inputs: &[(Bound<'py, PyAny>, SourceId)], reached: &Bound<'py, PyAny>) -> Outcome<()> {
        if inputs.is_empty() {
            return Ok(());
        }
        for fake in reached.try_iter()? {
            let Some((real, source)) = self.real_of(&fake?) else { continue };
            if matches!(inputs, [(only, _)] if only.is(&real)) && !real.getattr("is_leaf")?.is_truthy()? {
                // Its own history does not lead back to it.
                continue;
            }
            let is_leaf = real.getattr("is_leaf")?;
            self.guarded(self.guards.equals(self.guards.source(Source::GetAttr(source, "is_leaf".into())), &is_leaf))?;
            if !is_leaf.is_truthy()? {
                return self.break_graph(reason::AUTOGRAD, "gradients of an argument that another one may have been made of");
            }
        }
        Ok(())
    }

    /// If the frame has called `backward` on an output, makes the graph return the output without a history, and gives it a freed history
    /// afterwards, as torch does.
    pub(crate) fn use_up(&self, outputs: &mut Outputs<'py>, steps: &mut Vec<AfterGraph>) -> Outcome<()> {
        if !self.recorder().frees()? {
            return Ok(());
        }
        let mut first = Vec::new();
        for at in 0..outputs.fakes.len() {
            let fake = Tracked::new(outputs.fakes[at].clone());
            if self.recorder().is_used_up(&fake.object).map_err(|error| self.refused_by_torch(error))? {
                let mut reached = Vec::new();
                for input in self.recorder().reached_inputs(PyList::new(self.py, [&fake.object])?)?.try_iter()? {
                    if let Some((_, source)) = self.real_of(&input?) {
                        reached.push(Recipe::Input(self.guards.collect(source)));
                    }
                }
                outputs.fakes[at] = self.method("detach", &[fake])?.object;
                let function = dynamlir_cpython_abi::import(self.py, "dynamlir.capture.gradients")?.getattr("use_up")?;
                first.push(AfterGraph::Call { method: function.unbind(), given: vec![Recipe::Output(at), Recipe::Tuple(reached)] });
            }
        }
        steps.splice(0..0, first);
        Ok(())
    }
}

impl Heap<'_> {
    /// Ends the capture within a transform of `torch.func`, torch's or ours, where torch refuses this operation.
    pub(crate) fn refuse_in_transform(&self, what: &str) -> Outcome<()> {
        if self.progress.levels.get() > 0 || self.torch.in_transform(self.py)? {
            return self.break_graph(reason::AUTOGRAD, format!("{what} within a transform of torch.func"));
        }
        Ok(())
    }
}

impl<'py> Operations<'py> {
    /// Returns the leaves that receive gradients from `backward` of these outputs: tensors that existed before the frame.
    pub(crate) fn reached(&self, outputs: &Tracked<'py>, inputs: &Tracked<'py>, differs: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        if self.truth(differs)? {
            return self.break_graph(reason::AUTOGRAD, "backward with create_graph=True, with grad_variables, or in anomaly mode");
        }
        self.without_saved_tensors_hooks()?;
        let given = PyList::new(self.py, self.unpack_any(outputs)?.into_iter().map(|one| one.object))?;
        let inputs = if inputs.object.is_none() {
            None
        } else {
            Some(PyList::new(self.py, self.unpack_any(inputs)?.into_iter().map(|one| one.object))?)
        };
        let found = self.recorder().leaves(&outputs.object, inputs);
        let found = found.map_err(|error| self.refused_by_torch(error))?;
        let mut reached = Vec::new();
        for leaf in found.try_iter()? {
            let leaf = leaf?;
            let Some((real, source)) = self.real_of(&leaf) else {
                return self.break_graph(reason::AUTOGRAD, "backward to a leaf that the function makes, or beyond what it is given");
            };
            if self.written_to_tensor(&real, "data").is_some() {
                return self.break_graph(reason::AUTOGRAD, "backward to a leaf whose data the function has set");
            }
            self.without_hooks(&real, source, HOOKS)?;
            reached.push((real, source));
        }
        self.without_detours(&reached, &self.recorder().reached_inputs(given)?)?;
        self.note_new(&found);
        Ok(Tracked::new(found))
    }

    /// Called when the frame sets hooks for saved tensors: CPython does that, and the hooks are noted as set by a frame.
    pub(crate) fn sets_saved_tensors_hooks(&self, function: &Tracked<'py>, pack: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        self.saved_hooks("note", (&pack.object,))?;
        self.stop_at_unknown(&function.object)
    }
}
