//! `loss.backward()` within the frame, see `python/dynamlir/capture/gradients.py`: which leaves it reaches, and what outputs are once it
//! has freed their histories.

use dynamlir_frame::{AfterGraph, Recipe};
use dynamlir_guards::Source;
use pyo3::{
    prelude::*,
    types::{PyBool, PyList},
};

use crate::{
    graph_break::reason,
    outputs::Outputs,
    state::{Capture, Outcome, Tracked},
};

/// What torch calls when a leaf has got a gradient, by the attributes that hold it.
const HOOKS: &[&str] = &["_backward_hooks", "_post_accumulate_grad_hooks"];

impl<'py> Capture<'py> {
    /// The leaves whose gradients `backward` of these outputs gives: tensors that existed before the frame.
    pub(crate) fn reached(&self, outputs: &Tracked<'py>, inputs: &Tracked<'py>, differs: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        if self.truth(differs)? {
            return self.break_graph(reason::AUTOGRAD, "backward with create_graph=True, with grad_variables, or in anomaly mode");
        }
        // Somebody may be told of what is saved, and here nothing is.
        let hooks = dynamlir_cpython_abi::import(self.py, "torch._C._autograd")?.getattr("_top_saved_tensors_default_hooks")?;
        let also_while_tracing = Tracked::new(PyBool::new(self.py, true).to_owned().into_any());
        self.ask_again(&hooks, &[also_while_tracing], &Vec::new())?;
        let inputs = if inputs.object.is_none() {
            None
        } else {
            Some(PyList::new(self.py, self.unpack_any(inputs)?.into_iter().map(|one| one.object))?)
        };
        let found = self.ask("leaves", (&outputs.object, inputs));
        let found = found.map_err(|error| self.refused_by_torch(error))?;
        for leaf in found.try_iter()? {
            let leaf = leaf?;
            let Some((real, source)) = self.real_of(&leaf) else {
                return self.break_graph(reason::AUTOGRAD, "backward to a leaf that the function makes, or beyond what it is given");
            };
            if self.written_to_tensor(&real, "data").is_some() {
                return self.break_graph(reason::AUTOGRAD, "backward to a leaf whose data the function has set");
            }
            for name in HOOKS {
                let hooks = real.getattr(*name)?;
                let at = self.guards.source(Source::GetAttr(source, (*name).into()));
                if !hooks.is_none() {
                    self.guards.present(at);
                    return self.break_graph(reason::AUTOGRAD, "backward to a leaf that has hooks");
                }
                self.guarded(self.guards.equals(at, &hooks))?;
            }
        }
        self.note_new(&found);
        Ok(Tracked::new(found))
    }

    /// Has the graph return what the frame has called `backward` of without a history, and gives it one that is used up, as torch has it.
    pub(crate) fn use_up(&self, outputs: &mut Outputs<'py>, steps: &mut Vec<AfterGraph>) -> Outcome<()> {
        if !self.session().getattr("frees")?.is_truthy()? {
            return Ok(());
        }
        let mut first = Vec::new();
        for at in 0..outputs.fakes.len() {
            let fake = Tracked::new(outputs.fakes[at].clone());
            if self.ask("is_used_up", (&fake.object,)).map_err(|error| self.refused_by_torch(error))?.is_truthy()? {
                outputs.fakes[at] = self.method("detach", &[fake])?.object;
                let function = dynamlir_cpython_abi::import(self.py, "dynamlir.capture.gradients")?.getattr("use_up")?;
                first.push(AfterGraph::Call { method: function.unbind(), given: vec![Recipe::Output(at)] });
            }
        }
        steps.splice(0..0, first);
        Ok(())
    }
}
