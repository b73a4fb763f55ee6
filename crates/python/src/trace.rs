//! `TraceBuilder`: receives a recorded graph.

use dynamlir_dialect::{Session, context::module_op};
use dynamlir_import::{Arg, Frame, OpCall, Output, TensorType, Trace};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyBool, PyFloat, PyInt, PyList, PyString, PyTuple},
};

use crate::errors::{NativeError, Unsupported};

/// Receives a recorded graph and writes it at stage aten.
#[pyclass]
pub struct TraceBuilder {
    trace: Trace,
}

impl TraceBuilder {
    /// What was received.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }
}

type Meta = (String, Vec<i64>, Vec<i64>, i64);

fn tensor_type((dtype, sizes, strides, offset): Meta) -> TensorType {
    TensorType { dtype, sizes, strides, offset }
}

#[pymethods]
impl TraceBuilder {
    #[new]
    fn new(name: String) -> Self {
        Self { trace: Trace::new(name) }
    }

    /// Says where the graph's tensors live: `cuda:0`.
    fn device(&mut self, device: String) {
        self.trace.device = Some(device);
    }

    fn input(&mut self, name: String, dtype: String, sizes: Vec<i64>, strides: Vec<i64>, offset: i64, storage: i64) -> usize {
        self.trace.input(name, tensor_type((dtype, sizes, strides, offset)), storage)
    }

    #[allow(clippy::too_many_arguments, reason = "one per field of a recorded call")]
    fn op(
        &mut self,
        schema: String,
        args: &Bound<'_, PyList>,
        results: Vec<Meta>,
        aliases: Vec<i64>,
        mutates: Vec<i64>,
        functional: Option<String>,
        grad_enabled: bool,
        decomposition: Option<PyRef<'_, TraceBuilder>>,
        location: Vec<(String, u32, String)>,
    ) -> PyResult<Vec<usize>> {
        let count = results.len();
        let call = OpCall {
            schema,
            args: args.iter().map(|arg| argument(&arg)).collect::<PyResult<_>>()?,
            results: results.into_iter().map(tensor_type).collect(),
            aliases,
            mutates,
            functional,
            grad_enabled,
            decomposition: decomposition.map(|builder| Box::new(builder.trace.clone())),
            location: location.into_iter().map(|(file, line, function)| Frame { file, line, function }).collect(),
        };
        let first = self.trace.op(call);
        Ok((first..first + count).collect())
    }

    #[pyo3(signature = (kind, *payload))]
    fn output(&mut self, kind: &str, payload: &Bound<'_, PyTuple>) -> PyResult<()> {
        let output = match kind {
            "value" => {
                let (id, version): (usize, i64) = payload.extract()?;
                Output::Value(id, version)
            }
            "none" => Output::None,
            "const" => {
                let value = payload.get_item(0)?;
                if value.is_instance_of::<PyBool>() || !value.is_instance_of::<PyInt>() {
                    return Err(Unsupported::new_err(("unsupported", format!("the graph returns {value}"), None::<()>)));
                }
                Output::Int(value.extract()?)
            }
            other => return Err(PyValueError::new_err(format!("unknown kind of output '{other}'"))),
        };
        self.trace.outputs.push(output);
        Ok(())
    }

    fn text(&self) -> PyResult<String> {
        let session = Session::new();
        let failed = |message: String| NativeError::new_err(message);
        let module = session.parse("module {}").map_err(|e| failed(e.to_string()))?;
        let body = module_op(&module).body().ok_or_else(|| failed("a module without a body".into()))?;
        self.trace.write(body, session.ctx()).map_err(|e| failed(e.to_string()))?;
        Ok(module_op(&module).text_with_locations())
    }
}

/// One schema argument: a plain value, a list of arguments, or a tagged pair.
fn argument(value: &Bound<'_, PyAny>) -> PyResult<Arg> {
    if value.is_none() {
        return Ok(Arg::None);
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(Arg::Bool(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(Arg::Int(value.extract()?));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Arg::Float(value.extract()?));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Arg::Str(value.extract()?));
    }
    if let Ok(list) = value.cast::<PyList>() {
        return Ok(Arg::List(list.iter().map(|item| argument(&item)).collect::<PyResult<_>>()?));
    }
    let pair = value.cast::<PyTuple>()?;
    let tag: String = pair.get_item(0)?.extract()?;
    let payload = pair.get_item(1)?;
    Ok(match tag.as_str() {
        "t" => Arg::Tensor(payload.extract()?),
        "dtype" => Arg::DType(payload.extract()?),
        "device" => Arg::Device(payload.extract()?),
        "memory_format" => Arg::MemoryFormat(payload.extract()?),
        "layout" => Arg::Layout(payload.extract()?),
        other => return Err(PyTypeError::new_err(format!("unknown kind of argument '{other}'"))),
    })
}
