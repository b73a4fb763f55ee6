//! Captures from Python: returns a frame's graph, guards and everything a backend needs.

use std::rc::Rc;

use dynamlir_autograd::torch;
use dynamlir_capture::{
    CaptureRequest, CapturedPiece, Dynamic, Tables,
    effects::{
        Effect,
        claim::{Calls, Claim},
        claims,
    },
    graph_break::GraphBreak,
};
use dynamlir_cpython_abi::collector;
use dynamlir_graph::{Argument, Kind, Line};
use dynamlir_symint::Declared;
use pyo3::{
    prelude::*,
    types::{PyDict, PyList, PySlice, PyTuple},
};

use crate::bytecode;

/// Returns the claims about the C functions that may be called during a capture, for tests: module, name, effect, what it reads and writes,
/// which special methods it may call, whether it may call functions, what keeps its arguments.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "a row, for Python")]
pub fn effect_claims() -> Vec<(&'static str, String, String, String, String, &'static [&'static str], bool, String)> {
    let row = |(module, name, effect, claim): (_, _, Effect, Claim)| {
        let (specials, functions) = match claim.calls {
            Calls::Specials(names) => (names, false),
            Calls::Functions(names) => (names, true),
        };
        let (reads, writes, keeps) = (format!("{:?}", claim.reads), format!("{:?}", claim.writes), format!("{:?}", claim.keeps));
        (module, name, format!("{effect:?}"), reads, writes, specials, functions, keeps)
    };
    claims().into_iter().map(row).collect()
}

/// Makes each capture forget the guard with this number, or none: for tests.
#[pyfunction]
#[pyo3(signature = (number=None))]
pub fn forget_guard(number: Option<usize>) {
    dynamlir_capture::forget_guard(number);
}

/// Returns the guard forgotten by a capture since the last query: as text, and true if it follows from the others; for tests.
#[pyfunction]
pub fn forgotten_guard() -> Option<(String, bool)> {
    dynamlir_capture::forgotten_guard()
}

/// Returns, as text, the uses by captures since the last query that are not covered by their guards: for tests.
#[pyfunction]
pub fn unproven() -> Vec<String> {
    dynamlir_capture::unproven()
}

/// A frame that was captured as a whole.
#[pyclass(frozen)]
pub struct CapturedFrame(CapturedPiece);

/// Captures one call. With `shows`, its outcome is kept for `CapturedFrame.ends`. With `dynamic`, all sizes are dynamic that may be; with
/// `declared` (see `Declared`), those are. Returns a `CapturedFrame`, or why the capture failed, as `(reason, message, location)`.
#[pyfunction]
#[pyo3(signature = (function, args=None, kwargs=None, steps=None, *, shows=false, dynamic=false, declared=None))]
pub fn capture<'py>(
    function: &Bound<'py, PyAny>,
    args: Option<&Bound<'py, PyTuple>>,
    kwargs: Option<&Bound<'py, PyDict>>,
    steps: Option<Py<PyAny>>,
    shows: bool,
    dynamic: bool,
    declared: Option<&Bound<'py, PyTuple>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = function.py();
    torch::prepare_guards(py)?;
    let _no_collection = collector::pause(py);
    let empty = PyTuple::empty(py);
    let declared = declared.map(Declared::of).transpose()?.map(Rc::new);
    let floats = (dynamic || declared.is_some()).then(Default::default);
    let sizes = if declared.is_some() { Dynamic::Declared } else { Dynamic::of(Some(dynamic)) };
    let call = CaptureRequest::new(function, args.unwrap_or(&empty), kwargs);
    let request = CaptureRequest { steps: steps.as_ref(), shows, history: floats.as_ref(), sizes, declared: declared.as_ref(), ..call };
    match dynamlir_capture::capture(&Tables::of(py)?, request)? {
        Ok(captured) => Ok(Bound::new(py, CapturedFrame::from(captured.take_apart(py)?.0))?.into_any()),
        Err(failure) => Ok(break_tuple(py, failure.graph_break)?.into_any()),
    }
}

impl From<CapturedPiece> for CapturedFrame {
    fn from(frame: CapturedPiece) -> Self {
        Self(frame)
    }
}

/// `(reason, message, location)`
pub fn break_tuple(py: Python<'_>, found: GraphBreak) -> PyResult<Bound<'_, PyTuple>> {
    (found.reason, found.message, found.location).into_pyobject(py)
}

#[pymethods]
impl CapturedFrame {
    /// Returns the torch-level graph.
    #[getter]
    fn text(&self) -> String {
        self.0.graph.to_string()
    }

    /// Returns the graph as a table.
    #[getter]
    fn table(&self) -> String {
        self.0.graph.table()
    }

    /// Returns the graph as Python source, with the objects for its free names.
    fn python_source<'py>(&self, py: Python<'py>) -> PyResult<(String, Bound<'py, PyDict>)> {
        let source = self.0.graph.python_source();
        let namespace = PyDict::new(py);
        for (name, object) in source.globals {
            namespace.set_item(name, object)?;
        }
        Ok((source.text, namespace))
    }

    /// Returns the nodes, as `dynamlir.capture.fx.GraphNode`s.
    fn nodes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let fx = dynamlir_cpython_abi::import(py, "dynamlir.capture.fx")?;
        let (node_class, reference) = (fx.getattr("GraphNode")?, fx.getattr("Ref")?);
        let list = PyList::empty(py);
        for id in self.0.graph.ids() {
            let node = self.0.graph.node(id);
            let args: Vec<_> = node.args.iter().map(|argument| object(py, argument, &reference)).collect::<PyResult<_>>()?;
            let kwargs = PyDict::new(py);
            for (name, argument) in &node.kwargs {
                kwargs.set_item(name, object(py, argument, &reference)?)?;
            }
            let target = match node.kind {
                Kind::CallFunction | Kind::CallModule => node.target.object.as_ref().map(|object| object.clone_ref(py)),
                _ => None,
            };
            let location = node.location.clone();
            let example = self.0.graph.example(id).map(|(example, own)| (example.clone_ref(py), own));
            let fields = (node.kind.name(), self.0.graph.name(id), &node.target.base, &node.target.qualified, target);
            list.append(node_class.call1((
                fields.0,
                fields.1,
                fields.2,
                fields.3,
                fields.4,
                PyTuple::new(py, args)?,
                kwargs,
                location,
                example,
            ))?)?;
        }
        Ok(list)
    }

    /// Returns the values that the frame stored in variables, in order: `(node, number of earlier nodes, variable)`.
    fn stores(&self, py: Python<'_>) -> Vec<(usize, usize, Py<PyAny>)> {
        self.0.graph.stores().iter().map(|store| (store.node.index(), store.at, store.name.clone_ref(py))).collect()
    }

    /// Returns the input tensors of the graph.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.0.inputs.iter().map(|input| input.bind(py)))
    }

    /// Returns their sources, as Python expressions.
    #[getter]
    fn sources(&self) -> Vec<String> {
        self.0.sources.clone()
    }

    /// Returns the side effects of the call after the graph, as text, each with the lines that cause it, innermost first.
    #[getter]
    fn effects(&self) -> Vec<(String, Vec<Line>)> {
        self.0.effects.clone()
    }

    /// Returns the outcome of the call, if it was captured with `shows`: its result, with fakes for tensors; the fakes of the graph's
    /// results; and the side effects, each as `(owner, action, key, value, words, lines)`.
    #[getter]
    fn ends<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let Some(ends) = &self.0.ends else { return Ok(None) };
        let effects = ends.effects.iter().map(|seen| {
            let lines: Vec<&Line> = seen.location.iter().collect();
            (&seen.owner, seen.action.as_str(), seen.key.as_ref(), seen.value.as_ref(), seen.told.as_str(), lines).into_pyobject(py)
        });
        let effects = effects.collect::<PyResult<Vec<_>>>()?;
        Ok(Some((&ends.returned, &ends.results, effects).into_pyobject(py)?))
    }

    /// Returns the session, with the finished recording.
    #[getter]
    fn session<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.0.session.bind(py).clone()
    }

    /// Returns the continuation of a graph break as Python functions, innermost frame first; none at the beginning of a frame.
    fn continuation(&self, py: Python<'_>, index: usize) -> PyResult<Vec<String>> {
        self.0.from.iter().rev().map(|(code, place)| bytecode::rest_of(code.bind(py), place, index)).collect()
    }

    /// Returns the guards as Python predicates.
    #[getter]
    fn code_parts(&self) -> Vec<String> {
        self.0.guards.code_parts()
    }
}

/// Returns an argument as a Python object; `reference` creates the object for a node.
fn object<'py>(py: Python<'py>, argument: &Argument<Py<PyAny>>, reference: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let all = |items: &[Argument<Py<PyAny>>]| items.iter().map(|item| object(py, item, reference)).collect::<PyResult<Vec<_>>>();
    Ok(match argument {
        Argument::Node(id) => reference.call1((id.index(),))?,
        Argument::None => py.None().into_bound(py),
        Argument::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
        Argument::Int(value) => value.into_pyobject(py)?.into_any(),
        Argument::Float(value) => value.into_pyobject(py)?.into_any(),
        Argument::Str(value) => value.into_pyobject(py)?.into_any(),
        Argument::List(items) => PyList::new(py, all(items)?)?.into_any(),
        Argument::Tuple(items) => PyTuple::new(py, all(items)?)?.into_any(),
        Argument::Dict(entries) => {
            let dict = PyDict::new(py);
            for (key, value) in entries {
                dict.set_item(object(py, key, reference)?, object(py, value, reference)?)?;
            }
            dict.into_any()
        }
        Argument::Slice(parts) => {
            let parts = all(&parts[..])?;
            py.get_type::<PySlice>().call1(PyTuple::new(py, parts)?)?
        }
        Argument::Object(value, _) => value.bind(py).clone(),
    })
}
