//! A graph with the tensors that it captured, as an entry of a cache runs it: without Python in between.

use std::sync::Arc;

use dynamlir_frame::{Failed, Objects};
use dynamlir_guards::{TensorMatch, size_in};
use dynamlir_torch_abi::{Meta, Pattern, TensorRef, TorchAbi, TorchError};
use dynamlir_trails::tensor_of;
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyFloat, PyInt},
};
use smallvec::SmallVec;

use crate::{Calls, GraphWithNodes, errors::NativeError, torch};

/// A graph that is called with its inputs and returns its outputs.
pub struct BoundGraph {
    graph: Arc<GraphWithNodes>,
    /// Tensors that are passed to the graph after the caller's.
    constants: Vec<Py<PyAny>>,
    /// The metadata of the constants when the graph was created; None if unknown.
    patterns: Option<Vec<Pattern>>,
    abi: &'static TorchAbi,
}

impl BoundGraph {
    /// Binds the last inputs of a graph.
    pub fn new(py: Python<'_>, graph: Arc<GraphWithNodes>, constants: Vec<Py<PyAny>>) -> PyResult<Self> {
        torch::prepare_guards(py)?;
        let pattern = |constant: &Py<PyAny>| Pattern::new(Meta::of(tensor_of(constant.bind(py)).ok()??).ok()?).ok();
        let patterns = constants.iter().map(pattern).collect();
        Ok(Self { graph, constants, patterns, abi: torch::init(py)? })
    }

    /// Returns the graph.
    pub fn graph(&self) -> &GraphWithNodes {
        &self.graph
    }

    /// Runs it. The inputs are `known` if their metadata is approved by [`BoundGraph::accepts`].
    pub fn run<'py>(&self, py: Python<'py>, inputs: &[&Bound<'py, PyAny>], known: bool, results: &mut Objects<'py>) -> Result<(), Failed> {
        if inputs.iter().any(|object| object.is_exact_instance_of::<PyFloat>() || object.is_exact_instance_of::<PyInt>()) {
            let made: SmallVec<[_; 12]> = inputs.iter().map(|object| self.number(object)).collect::<Result<_, _>>()?;
            let inputs: SmallVec<[_; 12]> = made.iter().collect();
            return self.call_on_tensors(py, &inputs, known, results);
        }
        self.call_on_tensors(py, inputs, known, results)
    }

    /// Converts an input for the graph: a float, which is a number of the graph, becomes a tensor with its value; an int, which is a size,
    /// becomes a tensor of that length.
    fn number<'py>(&self, object: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>, Failed> {
        let failed = |error: TorchError| Failed::Before(NativeError::new_err(error.to_string()));
        let tensor = if let Ok(float) = object.cast_exact::<PyFloat>() {
            self.abi.scalar(float.value()).map_err(failed)?
        } else if object.is_exact_instance_of::<PyInt>() {
            let length = size_in(object, 0).map_err(Failed::Before)?;
            let length = length.ok_or_else(|| Failed::Before(NativeError::new_err("an int that is no size")))?;
            self.abi.of_length(length).map_err(failed)?
        } else {
            return Ok(object.clone());
        };
        Calls { py: object.py(), abi: self.abi }.wrap_owned(tensor).map_err(Failed::Before)
    }

    fn call_on_tensors<'py>(
        &self,
        py: Python<'py>,
        inputs: &[&Bound<'py, PyAny>],
        known: bool,
        results: &mut Objects<'py>,
    ) -> Result<(), Failed> {
        let mut tensors: SmallVec<[TensorRef<'_>; 12]> = SmallVec::with_capacity(inputs.len() + self.constants.len());
        for object in inputs {
            tensors.push(if known { self.handle(object) } else { tensor(object) }?);
        }
        for constant in &self.constants {
            tensors.push(tensor(constant.bind(py))?);
        }
        let patterns = self.patterns.as_deref().unwrap_or_default();
        let known = known && patterns.iter().zip(&tensors[inputs.len()..]).all(|(pattern, constant)| pattern.matches(*constant));
        let mut calls = Calls { py, abi: self.abi };
        let input = |at: usize| match inputs.get(at) {
            Some(object) => Some((*object).clone()),
            None => self.constants.get(at - inputs.len()).map(|object| object.bind(py).clone()),
        };
        // SAFETY: guards on the metadata that `accepts` has approved have passed for these inputs, and the constants' metadata was
        // compared.
        unsafe { self.graph.run(&mut calls, &tensors, known, &input, results) }
    }

    /// Returns the handle of an input that is known to be a tensor.
    fn handle<'a>(&self, object: &'a Bound<'_, PyAny>) -> Result<TensorRef<'a>, Failed> {
        // SAFETY: the object is alive for 'a, and a guard has compared its class.
        unsafe { self.abi.tensor_of(object.as_ptr().cast()) }.map_err(|error| Failed::Before(NativeError::new_err(error.to_string())))
    }

    /// Returns true if guards of the inputs establish everything that the executable needs to know.
    pub fn accepts(&self, guards: &[Option<&TensorMatch>]) -> bool {
        let Some(patterns) = &self.patterns else { return false };
        let metas: Vec<_> =
            guards.iter().map(|guard| guard.map(|guard| &guard.meta)).chain(patterns.iter().map(|p| Some(p.meta()))).collect();
        self.graph.accepts(&metas)
    }
}

/// Returns the handle of an object that should be a tensor.
fn tensor<'a>(object: &'a Bound<'_, PyAny>) -> Result<TensorRef<'a>, Failed> {
    match tensor_of(object) {
        Ok(Some(tensor)) => Ok(tensor),
        Ok(None) => Err(Failed::Before(PyTypeError::new_err(format!("expected tensors, got {}", object.get_type())))),
        Err(error) => Err(Failed::Before(error)),
    }
}
