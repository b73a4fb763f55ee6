//! A trace as plain data for Python, in the form in which `TraceBuilder` receives it. Values have numbers, in order of definition.

use std::{collections::HashMap, sync::Arc};

use dynamlir_import::{Arg, Base, Creation, Frame, Output, TensorType, Trace};
use dynamlir_shapes::Dim;
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};

/// Derivatives and decompositions by address: those that several calls share are one object.
type Nested<'py> = HashMap<*const Trace, Bound<'py, PyDict>>;

/// Returns a trace with static sizes as a dictionary.
pub fn of<'py>(py: Python<'py>, trace: &Trace) -> PyResult<Bound<'py, PyDict>> {
    Writer { py, nested: Nested::new(), results: HashMap::new() }.trace(trace)
}

struct Writer<'py> {
    py: Python<'py>,
    nested: Nested<'py>,
    results: HashMap<*const TensorType, Bound<'py, PyList>>,
}

impl<'py> Writer<'py> {
    fn trace(&mut self, trace: &Trace) -> PyResult<Bound<'py, PyDict>> {
        let made = PyDict::new(self.py);
        made.set_item("name", &trace.name)?;
        made.set_item("device", &trace.device)?;
        made.set_item("keeps", trace.keeps)?;
        made.set_item("order", trace.order.max(1))?;
        made.set_item("path", PyTuple::new(self.py, &trace.path)?)?;
        made.set_item("given", PyTuple::new(self.py, &trace.given)?)?;
        let inputs = PyList::empty(self.py);
        for input in &trace.inputs {
            let ty = self.ty(&input.ty)?;
            inputs.append((&input.name, ty, input.storage, input.requires_grad, input.version_bumps, input.tangent))?;
        }
        made.set_item("inputs", inputs)?;
        let ops = PyList::empty(self.py);
        for call in &trace.ops {
            let op = PyDict::new(self.py);
            op.set_item("schema", &call.schema)?;
            op.set_item("args", self.args(&call.args)?)?;
            op.set_item("results", self.results(&call.results)?)?;
            op.set_item("aliases", &call.aliases)?;
            op.set_item("mutates", &call.mutates)?;
            op.set_item("functional", &call.functional)?;
            op.set_item("grad_enabled", call.grad_enabled)?;
            op.set_item("location", call.location.iter().map(line).collect::<Vec<_>>())?;
            op.set_item("recompute", call.recompute)?;
            op.set_item("materialized", call.materialized)?;
            op.set_item("not_linear", call.not_linear)?;
            op.set_item("once", call.once)?;
            op.set_item("unseen", call.unseen)?;
            op.set_item("decomposition", self.nested(call.decomposition.as_ref())?)?;
            op.set_item("vjp", self.nested(call.vjp.as_ref())?)?;
            ops.append(op)?;
        }
        made.set_item("ops", ops)?;
        made.set_item("outputs", trace.outputs.iter().map(|output| self.output(output)).collect::<PyResult<Vec<_>>>()?)?;
        Ok(made)
    }

    fn nested(&mut self, trace: Option<&Arc<Trace>>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(trace) = trace else { return Ok(None) };
        if let Some(made) = self.nested.get(&Arc::as_ptr(trace)) {
            return Ok(Some(made.clone()));
        }
        let made = self.trace(trace)?;
        self.nested.insert(Arc::as_ptr(trace), made.clone());
        Ok(Some(made))
    }

    fn results(&mut self, types: &Arc<[TensorType]>) -> PyResult<Bound<'py, PyList>> {
        if let Some(made) = self.results.get(&types.as_ptr()).filter(|_| !types.is_empty()) {
            return Ok(made.clone());
        }
        let made = PyList::new(self.py, types.iter().map(|ty| self.ty(ty)).collect::<PyResult<Vec<_>>>()?)?;
        self.results.insert(types.as_ptr(), made.clone());
        Ok(made)
    }

    /// `(element type, sizes, strides, offset)`
    fn ty(&self, ty: &TensorType) -> PyResult<Bound<'py, PyTuple>> {
        let all = |sizes: &[Dim]| PyTuple::new(self.py, sizes.iter().map(number).collect::<PyResult<Vec<_>>>()?);
        (&ty.dtype, all(&ty.sizes)?, all(&ty.strides)?, number(&ty.offset)?).into_pyobject(self.py)
    }

    fn args(&self, args: &[Arg]) -> PyResult<Bound<'py, PyList>> {
        PyList::new(self.py, args.iter().map(|arg| self.arg(arg)).collect::<PyResult<Vec<_>>>()?)
    }

    fn arg(&self, arg: &Arg) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        let tagged = |tag: &str, text: &str| Ok((tag, text).into_pyobject(py)?.into_any());
        match arg {
            Arg::Tensor(value) => Ok(("t", *value).into_pyobject(py)?.into_any()),
            Arg::List(list) => Ok(self.args(list)?.into_any()),
            Arg::None => Ok(py.None().into_bound(py)),
            Arg::Int(value) => Ok(value.into_pyobject(py)?.into_any()),
            Arg::Size(size) => Ok(number(size)?.into_pyobject(py)?.into_any()),
            Arg::Float(value) => Ok(value.into_pyobject(py)?.into_any()),
            Arg::Bool(value) => Ok(value.into_pyobject(py)?.to_owned().into_any()),
            Arg::Str(text) => Ok(text.into_pyobject(py)?.into_any()),
            Arg::DType(name) => tagged("dtype", name),
            Arg::Device(name) => tagged("device", name),
            Arg::MemoryFormat(name) => tagged("memory_format", name),
            Arg::Layout(name) => tagged("layout", name),
        }
    }

    /// `("value", value, version, base, requires_grad, creation, gradient)`, `("const", number)` or `("none",)`
    fn output(&self, output: &Output) -> PyResult<Bound<'py, PyTuple>> {
        match output {
            Output::None => ("none",).into_pyobject(self.py),
            Output::Int(value) => ("const", *value).into_pyobject(self.py),
            Output::Value(of) => {
                let base = match of.base {
                    Base::None => None,
                    Base::Arg(at) => Some(("arg", at)),
                    Base::Output(at) => Some(("output", at)),
                    Base::Hidden(at) => Some(("hidden", at)),
                };
                let creation = match of.creation {
                    Creation::Default => None,
                    Creation::NoGrad => Some("no_grad"),
                    Creation::OneOfSeveral => Some("one_of_several"),
                };
                ("value", of.value, of.version, base, of.requires_grad, creation, of.gradient).into_pyobject(self.py)
            }
        }
    }
}

fn line(frame: &Frame) -> (&str, u32, &str, u32) {
    (&frame.file, frame.line, &frame.function, frame.column)
}

fn number(size: &Dim) -> PyResult<i64> {
    size.known().ok_or_else(|| PyValueError::new_err(format!("the size {size} is not a number: give its symbols values first")))
}
