//! `torch.autograd.Function` and `torch.utils.checkpoint`.
//!
//! The `forward` of a Function is interpreted. If gradients are needed, its `backward` is interpreted right after it and becomes the
//! derivative of one operation (`python/dynamlir/autograd_functions.py`). Both are the user's code, traced into like any other: what they read is
//! guarded, and where they write or print, the capture ends.

use dynamlir_graph::Target;
use pyo3::{
    prelude::*,
    types::{PyBool, PyTuple},
};

use crate::{
    floors::Operations,
    graph_break::{Halt, Outcome, reason},
    objects::{
        Tracked,
        callables::{Keywords, describe},
    },
};

/// The options that `torch.utils.checkpoint.checkpoint` takes for itself.
const CHECKPOINT_OPTIONS: &[&str] =
    &["use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop", "respect_saved_tensors_hooks"];

impl<'py> Operations<'py> {
    /// `Function.apply`.
    pub(crate) fn apply_function(
        &self,
        callable: &Bound<'py, PyAny>,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<Tracked<'py>> {
        let step = self.progress.step.get();
        let class = self.wrap_untracked(callable.getattr("__self__")?)?;
        let given = PyTuple::new(self.py, args.iter().map(|arg| &arg.object))?;
        let application = self.recorder().apply_function(&given, self.location()).map_err(|error| self.session_error(error))?;
        let context = Tracked::new(application.getattr("context")?);
        let result = self.forward(&class, &application, &context, args, kwargs);
        // Grad mode is restored, regardless of the outcome.
        self.application(&application, "leave", ())?;
        let result = result?;
        if !application.getattr("is_differentiated")?.is_truthy()? {
            self.application(&application, "mark_views", (&result.object,))?;
            return Ok(result);
        }
        self.layers.note_unrepeatable();
        let tangents = self.application(&application, "results", (&result.object,))?;
        if tangents.is_none() {
            return Ok(result);
        }
        let graph = self.graph.borrow().savepoint();
        let inputs = self.tensors.inputs.borrow().len();
        let written = self.writes.now();
        // Higher derivatives are recorded along with the first one. They would never end if the Function's own backward applies it.
        let at = class.object.as_ptr() as usize;
        if self.progress.differentiated.borrow().contains(&at) {
            return self.break_graph(reason::AUTOGRAD, format!("{}, which its own backward applies", describe(&class.object)));
        }
        self.progress.differentiated.borrow_mut().push(at);
        let recorded = self.writes.later(|| self.backward(&class, &application, context, &tangents));
        self.progress.differentiated.borrow_mut().pop();
        recorded?;
        if self.writes.now() != written {
            return self.break_graph(reason::SIDE_EFFECT, "the backward of a torch.autograd.Function writes");
        }
        self.writes.close(step);
        if self.tensors.inputs.borrow().len() == inputs {
            self.graph.borrow_mut().roll_back(graph);
        }
        Ok(result)
    }

    /// `torch.utils.checkpoint.checkpoint(function, *args)`: calls the function; backward recomputes its activations.
    pub(crate) fn checkpointed(
        &self,
        checkpoint: &Bound<'py, PyAny>,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<Tracked<'py>> {
        let step = self.progress.step.get();
        let refused = |what: &str| self.break_graph(reason::AUTOGRAD, format!("{} {what}", describe(checkpoint)));
        let [function, args @ ..] = args else { return refused("without a function") };
        for (_, value) in kwargs.iter().filter(|(name, _)| CHECKPOINT_OPTIONS.contains(&name.as_str())) {
            self.guard_value(value)?;
        }
        let option = |wanted: &str| kwargs.iter().find(|(name, _)| name == wanted).map(|(_, value)| &value.object);
        if option("context_fn").is_some() {
            return refused("with context_fn");
        }
        if option("debug").is_some_and(|value| !value.is(PyBool::new(self.py, false)))
            || option("respect_saved_tensors_hooks").is_some_and(|value| !value.is_none())
            || option("determinism_check").is_some_and(|value| !value.eq("default").unwrap_or(false) && !value.eq("none").unwrap_or(false))
        {
            return refused("with options for debugging");
        }
        let Some(is_reentrant) = option("use_reentrant").and_then(|value| value.cast::<PyBool>().ok()).map(PyBoolMethods::is_true) else {
            return self.break_graph(reason::PRINT, format!("{} without use_reentrant, which warns", describe(checkpoint)));
        };
        let own: Keywords<'py> = kwargs.iter().filter(|(name, _)| !CHECKPOINT_OPTIONS.contains(&name.as_str())).cloned().collect();
        let grad = dynamlir_cpython_abi::import(self.py, "torch._C")?.call_method0("is_grad_enabled")?.is_truthy()?;
        let wants = |arg: &Tracked<'py>| {
            self.torch.is_fake(&arg.object) && arg.object.getattr("requires_grad").is_ok_and(|it| it.is_truthy().unwrap_or(false))
        };
        if is_reentrant && (!own.is_empty() || grad && !args.iter().any(wants)) {
            return refused("with use_reentrant=True, and no arguments that want gradients");
        }
        if !grad {
            return self.call(function, args, &own);
        }
        self.layers.note_unrepeatable();
        let before = self.recorder().enter_checkpoint()?;
        let written = self.writes.now();
        let result = self.writes.later(|| self.call(function, args, &own));
        self.recorder().leave_checkpoint(before)?;
        if self.writes.now() != written {
            return self.break_graph(reason::SIDE_EFFECT, "what is checkpointed writes, and is computed again");
        }
        self.writes.close(step);
        result
    }

    /// Returns the result of `forward`. An input that it returns unchanged becomes a view of that input, as in autograd.
    fn forward(
        &self,
        class: &Tracked<'py>,
        application: &Bound<'py, PyAny>,
        context: &Tracked<'py>,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<Tracked<'py>> {
        let (forward, setup) = (self.part_of(class, "forward")?, self.part_of(class, "setup_context")?);
        let result = if setup.object.is(&self.base_of_functions("setup_context")?) {
            self.refuse_in_transform("a torch.autograd.Function without setup_context")?;
            let all: Vec<_> = std::iter::once(context.clone()).chain(args.iter().cloned()).collect();
            self.call(&forward, &all, kwargs)?
        } else {
            let result = self.call(&forward, args, kwargs)?;
            let inputs = PyTuple::new(self.py, args.iter().map(|arg| &arg.object))?;
            self.call(&setup, &[context.clone(), Tracked::new(inputs.into_any()), result.clone()], &Vec::new())?;
            result
        };
        let is_input = |value: &Bound<'py, PyAny>| args.iter().any(|arg| self.torch.is_fake(value) && arg.object.is(value));
        let passed =
            is_input(&result.object) || result.object.cast::<PyTuple>().is_ok_and(|items| items.iter().any(|item| is_input(&item)));
        if !passed {
            return Ok(result);
        }
        if !application.getattr("is_differentiated")?.is_truthy()? {
            return self.break_graph(reason::C_FUNCTION, "autograd.Function.apply, which returns its input");
        }
        let shown = |value: &Bound<'py, PyAny>| {
            let tensor = Tracked::new(value.clone());
            if is_input(value) { self.method("view_as", &[tensor.clone(), tensor]).map(|view| view.object) } else { Ok(tensor.object) }
        };
        match result.object.cast::<PyTuple>() {
            Ok(items) => {
                let items = items.iter().map(|item| shown(&item)).collect::<Outcome<Vec<_>>>()?;
                Ok(Tracked::new(PyTuple::new(self.py, items)?.into_any()))
            }
            Err(_) => shown(&result.object).map(Tracked::new),
        }
    }

    /// Runs `backward` on tangents to record the derivative.
    fn backward(
        &self,
        class: &Tracked<'py>,
        application: &Bound<'py, PyAny>,
        context: Tracked<'py>,
        tangents: &Bound<'py, PyAny>,
    ) -> Outcome<()> {
        let (mut backward, other) = (self.part_of(class, "backward")?, self.part_of(class, "vjp")?);
        if backward.object.is(&self.base_of_functions("backward")?) || !other.object.is(&self.base_of_functions("vjp")?) {
            return self.break_graph(reason::AUTOGRAD, format!("{}, which has no backward of its own", describe(&class.object)));
        }
        if application.call_method1("is_once", (&backward.object,))?.is_truthy()? {
            self.pin_function(&backward)?;
            backward = self.part(&backward.object, "__wrapped__")?;
        }
        let mut all = vec![context];
        let name = dynamlir_cpython_abi::import(self.py, "torch")?.getattr("empty_like")?;
        let location = self.location();
        for tangent in tangents.try_iter()? {
            let tangent = tangent?;
            if self.torch.is_fake(&tangent) {
                let target = Target::new("tangent", "torch.empty_like", name.clone().unbind());
                let node = self.graph.borrow_mut().call_function(target, vec![], vec![], Some(location.clone()));
                self.bind(&tangent, node);
            }
            all.push(Tracked::new(tangent));
        }
        let gradients = match self.call(&backward, &all, &Vec::new()) {
            Ok(gradients) => gradients,
            Err(Halt::Raise(error)) => return Err(self.refused_by_torch(error)),
            Err(halt) => return Err(halt),
        };
        self.application(application, "derivative", (&gradients.object,)).map(drop)
    }

    /// Calls a method of the Python object that tracks this application.
    fn application(
        &self,
        application: &Bound<'py, PyAny>,
        method: &str,
        args: impl pyo3::call::PyCallArgs<'py>,
    ) -> Outcome<Bound<'py, PyAny>> {
        dynamlir_interpreter::suspended(|| application.call_method1(method, args)).map_err(|error| self.refused_by_torch(error))
    }

    fn part_of(&self, class: &Tracked<'py>, name: &str) -> Outcome<Tracked<'py>> {
        self.load_attr(class, &pyo3::types::PyString::new(self.py, name))
    }

    fn base_of_functions(&self, name: &str) -> PyResult<Bound<'py, PyAny>> {
        dynamlir_cpython_abi::import(self.py, "torch.autograd.function")?.getattr("_SingleLevelFunction")?.getattr(name)
    }
}
