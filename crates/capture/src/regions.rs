//! `torch.cond` and `torch.while_loop`: what data decides, which Python has to look at.
//!
//! Of a number that Python knows, the branch that is taken is a part of the frame. Of a tensor the graph ends. Torch would have
//! Dynamo look at both branches, each time; where they are what torch wants them to be – they return the like tensors, new ones, and
//! do nothing else – Python decides and calls what is to be called instead, which is compiled like all that is called between graphs.
//! Otherwise torch itself is called, and says what is wrong.

use pyo3::{
    prelude::*,
    types::{PyBool, PyFloat, PyInt, PyList, PyTuple},
};

use crate::{
    calls::{Keywords, describe},
    graph_break::reason,
    state::{Capture, Halt, Instead, Outcome, Tracked},
};

impl<'py> Capture<'py> {
    /// A call of the function of this name.
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
                // Of one region within another, which is looked at again once it is called, only what all its branches return counts.
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

    /// Whether what is called by these arguments does what torch demands of it, and nothing else.
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
            self.ask("branches_agree", (&given[0].object, operands, first, second))
        } else {
            self.ask("loop_agrees", (operands, first, second))
        };
        Ok(agree?.is_truthy()?)
    }

    /// What can be told of what a function returns on fakes. None where it cannot be captured, raises, or does anything else. All of it
    /// is forgotten.
    fn tried(&self, function: &Tracked<'py>, operands: &[Tracked<'py>]) -> Outcome<Option<Bound<'py, PyAny>>> {
        let written = self.writes.now();
        let facts = self.tries(function, operands, &Vec::new(), |result| {
            if self.writes.now() != written {
                return Ok(None);
            }
            let operands = PyTuple::new(self.py, operands.iter().map(|operand| &operand.object))?;
            Ok(Some(self.ask("facts", (result.object, operands))?))
        })?;
        Ok(facts.flatten())
    }

    /// Whether a function can be captured, and what it computes is nothing or compiled when Python calls it: it is given a tensor or a
    /// module. Else it would run as plain Python.
    pub(crate) fn is_compiled_alone(&self, function: &Tracked<'py>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<bool> {
        let mut given = args.iter().chain(kwargs.iter().map(|(_, value)| value)).map(|value| &value.object);
        let concerns = given.any(|value| self.torch.any_fake(value) || self.torch.is_module(value));
        let nodes = || self.graph.borrow().nodes().len();
        let before = nodes();
        Ok(self.tries(function, args, kwargs, |_| Ok(concerns || nodes() == before))?.unwrap_or(false))
    }

    /// What is to be told of a function's result on fakes, before all of it is forgotten. None where it cannot be captured, or raises.
    fn tries<T>(
        &self,
        function: &Tracked<'py>,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
        tell: impl FnOnce(Tracked<'py>) -> Outcome<T>,
    ) -> Outcome<Option<T>> {
        let checkpoint = self.checkpoint()?;
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
        // The instructions of what was tried are not among the frame's.
        progress.step.set(step);
        progress.decided.set(decided);
        progress.outset.set(outset);
        self.roll_back(checkpoint)?;
        Ok(result)
    }
}
