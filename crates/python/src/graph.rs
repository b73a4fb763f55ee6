//! `NativeGraph`: an executable with everything that belongs to a call of it, without Python in between.

use dynamlir_cpython_abi::objects::tensor_of;
use dynamlir_frame::{Failed, Graph, Objects};
use dynamlir_runtime::{Base, Const, Finish, OutputValue, RunError as Refused};
use dynamlir_torch_abi::{TensorRef, TorchAbi};
use pyo3::{
    exceptions::{PyRuntimeError, PyTypeError, PyValueError},
    prelude::*,
    types::{PyList, PyTuple},
};
use smallvec::SmallVec;

use crate::{
    errors::{NativeError, RunError},
    executable::Executable,
    guards,
    torch::{self, Calls},
};

/// A graph that is called with its inputs and returns its outputs.
#[pyclass(frozen)]
pub struct NativeGraph {
    executable: Py<Executable>,
    /// Tensors that the graph is given after the caller's.
    constants: Vec<Py<PyAny>>,
    finish: Finish,
    abi: &'static TorchAbi,
}

/// A base as Python describes it: `("none" | "input" | "output" | "hidden", number)`.
fn base((kind, number): (&str, usize)) -> PyResult<Base> {
    Ok(match kind {
        "none" => Base::None,
        "input" => Base::Input(number),
        "output" => Base::Output(number),
        "hidden" => Base::Hidden(number),
        _ => return Err(PyValueError::new_err(format!("no kind of base: {kind}"))),
    })
}

#[pymethods]
impl NativeGraph {
    /// `bases` are `(output, kind, number)`; the others as in the runtime's `Finish`.
    #[new]
    #[pyo3(signature = (executable, constants, *, no_grad=false, random=false, bumps=vec![], bases=vec![], copies=vec![], versions=vec![]))]
    #[expect(clippy::too_many_arguments, reason = "keywords from Python")]
    fn new(
        py: Python<'_>,
        executable: Py<Executable>,
        constants: Vec<Py<PyAny>>,
        no_grad: bool,
        random: bool,
        bumps: Vec<(usize, i64)>,
        bases: Vec<(usize, String, usize)>,
        copies: Vec<(usize, usize)>,
        versions: Vec<(usize, i64)>,
    ) -> PyResult<Self> {
        guards::prepare(py)?;
        let bases = bases.iter().map(|(at, kind, number)| Ok((*at, base((kind, *number))?))).collect::<PyResult<_>>()?;
        let finish = Finish { no_grad, random, bumps, bases, copies, versions };
        Ok(Self { executable, constants, finish, abi: torch::init(py)? })
    }

    #[pyo3(signature = (*tensors))]
    fn __call__<'py>(&self, py: Python<'py>, tensors: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyList>> {
        let inputs: Vec<_> = tensors.iter().collect();
        let inputs: Vec<_> = inputs.iter().collect();
        let mut results = Objects::new();
        match self.call(py, &inputs, &mut results) {
            Ok(()) => PyList::new(py, results),
            Err(Failed::Before(error) | Failed::Raise(error)) => Err(error),
        }
    }
}

impl NativeGraph {
    fn call<'py>(&self, py: Python<'py>, inputs: &[&Bound<'py, PyAny>], results: &mut Objects<'py>) -> Result<(), Failed> {
        let constants: SmallVec<[&Bound<'py, PyAny>; 2]> = self.constants.iter().map(|constant| constant.bind(py)).collect();
        let mut tensors: SmallVec<[TensorRef<'_>; 8]> = SmallVec::with_capacity(inputs.len() + constants.len());
        for object in inputs.iter().chain(&constants) {
            match tensor_of(object) {
                Ok(Some(tensor)) => tensors.push(tensor),
                Ok(None) => return Err(Failed::Before(PyTypeError::new_err(format!("expected tensors, got {}", object.get_type())))),
                Err(error) => return Err(Failed::Before(error)),
            }
        }
        let mut calls = Calls { py, abi: self.abi };
        let outcome = self.executable.get().inner().run_finished(self.abi, &self.finish, &tensors, &mut calls);
        let made = outcome.map_err(|refused| match refused {
            Refused::Guard(_) | Refused::Failed(_) => Failed::Before(RunError::new_err(refused.to_string())),
            Refused::AfterCommit(_) => Failed::Raise(PyRuntimeError::new_err(refused.to_string())),
        })?;
        let input = |at: usize| inputs.get(at).or_else(|| constants.get(at - inputs.len())).map(|object| (*object).clone());
        let lost = || Failed::Raise(NativeError::new_err("an output refers to what is not there"));
        for value in made {
            let object = match value {
                OutputValue::Tensor(tensor) => calls.wrap(tensor.as_ref()).map_err(Failed::Raise)?,
                OutputValue::Arg(at) => input(at).ok_or_else(lost)?,
                OutputValue::None => py.None().into_bound(py),
                OutputValue::Same(at) => results.get(at).cloned().ok_or_else(lost)?,
                OutputValue::Const(value) => constant(py, &value).map_err(Failed::Raise)?,
            };
            results.push(object);
        }
        Ok(())
    }
}

/// A constant as a Python object.
pub fn constant<'py>(py: Python<'py>, value: &Const) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Const::Int(value) => Ok(value.into_pyobject(py)?.into_any()),
        other => Err(NativeError::new_err(format!("constant {other:?} has no Python form"))),
    }
}

/// A [`NativeGraph`] as an entry of a cache runs it.
pub struct Held(pub Py<NativeGraph>);

impl Graph for Held {
    fn run<'py>(&self, py: Python<'py>, inputs: &[&Bound<'py, PyAny>], results: &mut Objects<'py>) -> Result<(), Failed> {
        self.0.get().call(py, inputs, results)
    }

    fn callable(&self, py: Python<'_>) -> Py<PyAny> {
        self.0.clone_ref(py).into_any()
    }
}
