//! Callables around a Python function: what `functools.lru_cache` keeps, `torch.inference_mode`, `torch.autograd.Function`.

use pyo3::{
    prelude::*,
    types::{PyDict, PyString, PyTuple},
};

use crate::{
    calls::Keywords,
    state::{Capture, Outcome, Tracked},
    stop::reason,
};

impl<'py> Capture<'py> {
    /// A call of a function under `functools.lru_cache` as the cache answers it, such as a warning that is given once. None
    /// where an argument or the answer is more than numbers, text and existing objects: then the function is looked into.
    pub(crate) fn cached(&self, callable: &Tracked<'py>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Option<Tracked<'py>>> {
        let given = || args.iter().chain(kwargs.iter().map(|(_, value)| value));
        let plain = |value: &Tracked<'py>| {
            self.torch.is_primitive(&value.object)
                || self.source(value).is_some() && !self.torch.is_fake(&value.object) && !self.torch.is_container(&value.object)
        };
        let Some(source) = self.source(callable).filter(|_| given().all(plain)) else { return Ok(None) };
        for value in given() {
            self.settle(value)?;
            if let Some(source) = self.source_of(&value.object)
                && self.guards.identity(source, &value.object).is_err()
            {
                return Ok(None);
            }
        }
        if self.guards.identity(source, &callable.object).is_err() {
            return Ok(None);
        }
        let keywords = PyDict::new(self.py);
        for (name, value) in kwargs {
            keywords.set_item(name, &value.object)?;
        }
        let positional = PyTuple::new(self.py, args.iter().map(|arg| &arg.object))?;
        let answer = self.outside(|| callable.object.call(positional, Some(&keywords)))?;
        Ok(self.torch.is_plain(&answer).then(|| Tracked::new(answer)))
    }

    /// Whether the call that is captured is made in inference mode.
    pub(crate) fn in_inference_mode(&self) -> PyResult<bool> {
        self.session().getattr("inference")?.extract()
    }

    /// `torch.inference_mode(enabled)` within the frame: what it makes are tensors of another kind, unless the caller has the same mode.
    pub(crate) fn inference_mode(&self, enabled: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        self.settle(enabled)?;
        let enabled = enabled.object.is_truthy()?;
        if enabled != self.in_inference_mode()? {
            let called = if enabled { "True" } else { "False" };
            return self.stop(reason::STATE, format!("torch.inference_mode({called}) within the function"));
        }
        Ok(Tracked::new(self.ask("inference_mode", (enabled,))?))
    }

    /// `Function.apply`: without gradients it is the function's `forward`, given a context that nobody asks later.
    pub(crate) fn apply_function(
        &self,
        callable: &Bound<'py, PyAny>,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<Tracked<'py>> {
        if self.py.import("torch._C")?.call_method0("is_grad_enabled")?.is_truthy()? {
            return self.stop(reason::AUTOGRAD, "autograd.Function.apply");
        }
        let class = self.met(callable.getattr("__self__")?)?;
        let context = Tracked::new(self.ask("function_context", (args.len(),))?);
        let part = |name: &str| self.load_attr(&class, &PyString::new(self.py, name));
        let (forward, setup) = (part("forward")?, part("setup_context")?);
        let base = self.py.import("torch.autograd.function")?.getattr("_SingleLevelFunction")?.getattr("setup_context")?;
        let result = if setup.object.is(&base) {
            let all: Vec<_> = std::iter::once(context).chain(args.iter().cloned()).collect();
            self.call(&forward, &all, kwargs)?
        } else {
            let result = self.call(&forward, args, kwargs)?;
            let inputs = PyTuple::new(self.py, args.iter().map(|arg| &arg.object))?;
            self.call(&setup, &[context, Tracked::new(inputs.into_any()), result.clone()], &Vec::new())?;
            result
        };
        // Autograd makes a view of an input that is returned.
        let is_input = |value: &Bound<'py, PyAny>| args.iter().any(|arg| self.torch.is_fake(value) && arg.object.is(value));
        let passed =
            is_input(&result.object) || result.object.cast::<PyTuple>().is_ok_and(|items| items.iter().any(|item| is_input(&item)));
        if passed {
            return self.stop(reason::C_FUNCTION, "autograd.Function.apply, which returns its input");
        }
        Ok(result)
    }
}
