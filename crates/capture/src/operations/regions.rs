//! `torch.cond` and `torch.while_loop`: data-dependent control flow, for which Python has to read the data.
//!
//! If Python knows the predicate, the branch taken is part of the frame. If the predicate is a tensor, the graph breaks. Torch would have
//! Dynamo trace both branches, each time. If the branches meet torch's requirements – they return alike tensors, new ones, and do nothing
//! else – Python decides and calls a replacement, which is compiled like every function that is called between graphs. Otherwise torch
//! itself is called, and reports what is wrong.

use pyo3::{
    prelude::*,
    types::{PyBool, PyFloat, PyInt, PyList, PyTuple},
};

use crate::{
    floors::Operations,
    graph_break::{Halt, Outcome, reason},
    objects::{
        Tracked,
        callables::{Keywords, describe},
    },
    state::Instead,
};

impl<'py> Operations<'py> {
    /// Calls the region function of this name.
    pub(crate) fn region(
        &self,
        function: &Bound<'py, PyAny>,
        name: &str,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<Tracked<'py>> {
        let parameters: &[&str] =
            if name == "cond" { &["pred", "true_fn", "false_fn", "operands"] } else { &["cond_fn", "body_fn", "carried_inputs"] };
        let named = |parameter: &str| kwargs.iter().find(|(name, _)| name == parameter).map(|(_, value)| value.clone());
        let mut given: Vec<_> = args.iter().cloned().map(Some).collect();
        given.extend(parameters.iter().skip(args.len()).map(|parameter| named(parameter)));
        if name == "cond" && given.len() == 4 && given[3].is_none() {
            given[3] = Some(Tracked::new(PyTuple::empty(self.py).into_any()));
        }
        let fits = given.len() == parameters.len() && args.len() + kwargs.len() <= parameters.len();
        let Some(given) = given.into_iter().collect::<Option<Vec<_>>>().filter(|_| fits) else {
            return self.break_graph(reason::C_FUNCTION, describe(function));
        };
        let operands = &given[given.len() - 1];
        let listed = operands.object.is_exact_instance_of::<PyTuple>() || operands.object.is_exact_instance_of::<PyList>();
        if let [pred, taken, other, _] = &given[..] {
            let known = &pred.object;
            let is_known =
                known.is_exact_instance_of::<PyBool>() || known.is_exact_instance_of::<PyInt>() || known.is_exact_instance_of::<PyFloat>();
            if is_known && listed {
                let branch = if self.truth(pred)? { taken } else { other };
                return self.call(branch, &self.unpack_any(operands)?, &Vec::new());
            }
        }
        if let Some(place) = dynamlir_interpreter::here()
            && listed
            && self.is_as_torch_wants(name, &given)?
        {
            if self.progress.tries.get() {
                // For a nested region, which is checked again when it is called, only the result common to all its branches matters.
                let called = if name == "cond" { 1 } else { given.len() - 2 };
                return self.call(&given[called], &self.unpack_any(operands)?, &Vec::new());
            }
            let own = dynamlir_cpython_abi::import(self.py, "dynamlir.capture.regions")?.getattr(name)?.unbind();
            let code = place.code(self.py).clone().into_any().unbind();
            self.progress.instead.replace(Some(Instead { called: function.clone().unbind(), own, code }));
            return self.break_graph(reason::REGION, describe(function));
        }
        self.break_graph(reason::DATA_DEPENDENT_BRANCH, describe(function))
    }

    /// Returns true if the functions among these arguments meet torch's requirements and have no other effects.
    fn is_as_torch_wants(&self, name: &str, given: &[Tracked<'py>]) -> Outcome<bool> {
        let operands = self.unpack_any(&given[given.len() - 1])?;
        let functions = if name == "cond" { &given[1..3] } else { &given[0..2] };
        let mut results = Vec::with_capacity(2);
        for function in functions {
            match self.tried(function, &operands)? {
                Some(result) => results.push(result),
                None => return Ok(false),
            }
        }
        let operands = PyTuple::new(self.py, operands.iter().map(|operand| &operand.object))?;
        let (first, second) = (results.swap_remove(0), results.pop());
        let agree = if name == "cond" {
            self.recorder().branches_agree(&given[0].object, operands, first, second)
        } else {
            self.recorder().loop_agrees(operands, first, second)
        };
        Ok(agree?)
    }

    /// Returns the facts known about a function's result on fakes. `None` if the function cannot be captured, raises, or has other effects.
    /// The trial is rolled back.
    fn tried(&self, function: &Tracked<'py>, operands: &[Tracked<'py>]) -> Outcome<Option<Bound<'py, PyAny>>> {
        let written = self.writes.now();
        let facts = self.tries(function, operands, &Vec::new(), |result| {
            if self.writes.now() != written {
                return Ok(None);
            }
            let operands = PyTuple::new(self.py, operands.iter().map(|operand| &operand.object))?;
            Ok(Some(self.recorder().facts(result.object, operands)?))
        })?;
        Ok(facts.flatten())
    }

    /// Returns true if a function can be captured, and either records no operations or is compiled when Python calls it because it receives
    /// a tensor or a module. Otherwise it would run as plain Python.
    pub(crate) fn is_compiled_alone(&self, function: &Tracked<'py>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<bool> {
        let mut given = args.iter().chain(kwargs.iter().map(|(_, value)| value)).map(|value| &value.object);
        let concerns = given.any(|value| self.torch.any_fake(value) || self.torch.is_module(value));
        let nodes = || self.graph.borrow().nodes().len();
        let before = nodes();
        Ok(self.tries(function, args, kwargs, |_| Ok(concerns || nodes() == before))?.unwrap_or(false))
    }

    /// Calls a function on fakes, passes its result to `tell`, and rolls everything back. `None` if the function cannot be captured, or
    /// raises.
    fn tries<T>(
        &self,
        function: &Tracked<'py>,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
        tell: impl FnOnce(Tracked<'py>) -> Outcome<T>,
    ) -> Outcome<Option<T>> {
        let savepoint = self.savepoint()?;
        let progress = &self.progress;
        let (step, decided, outset) = (progress.step.get(), progress.decided.get(), progress.outset.get());
        let outermost = !progress.tries.replace(true);
        let called = self.call(function, args, kwargs);
        progress.tries.set(!outermost);
        let result = match called {
            Ok(result) => Some(tell(result)?),
            Err(Halt::Break(_)) if self.interruption.borrow().is_some() => return called.map(|_| None),
            Err(Halt::Raise(error)) => {
                self.interruption(&error);
                None
            }
            Err(Halt::Break(_)) => None,
        };
        // The instructions of the trial do not count as the frame's.
        progress.step.set(step);
        progress.decided.set(decided);
        progress.outset.set(outset);
        self.roll_back(savepoint)?;
        Ok(result)
    }
}
