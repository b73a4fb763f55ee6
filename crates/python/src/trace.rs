//! `TraceBuilder`: receives a recorded graph.

use std::{collections::HashMap, sync::Arc};

use dynamlir_dialect::{
    Session,
    context::module_op,
    ir::{
        PythonLine,
        sizes::{SizeSymbol, SymbolSite},
    },
    program::write_format,
};
use dynamlir_import::{Arg, Base, Creation, Frame, Input, OpCall, Output, Returned, TensorType, Trace, ValueId};
use dynamlir_reasons::NON_TENSOR_OUTPUT;
use dynamlir_shapes::{Dim, Symbol};
use dynamlir_symint::{Sizes, expression, expression_as_recorded};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple},
};

use crate::{
    errors::{NativeError, Unsupported},
    recorded,
};

/// Receives a recorded graph and writes it at stage aten. Values are identified by the numbers with which they are passed.
#[pyclass]
pub struct TraceBuilder {
    trace: Arc<Trace>,
    values: HashMap<i64, ValueId>,
    results: Shared<TensorType>,
    locations: Shared<Frame>,
    /// Translates sizes.
    size: Sizing,
}

/// Returns a size as an expression; `None` for other values.
type Sizing = fn(&Bound<'_, PyAny>) -> PyResult<Option<Dim>>;

impl TraceBuilder {
    fn of(trace: Trace) -> Self {
        Self { trace: Arc::new(trace), values: HashMap::new(), results: Shared::new(), locations: Shared::new(), size: expression }
    }

    /// Returns the received trace.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Checks that values are new before they are added.
    fn check_new(&self, numbers: &[i64]) -> PyResult<()> {
        match numbers.iter().find(|number| self.values.contains_key(number)) {
            None => Ok(()),
            Some(number) => Err(PyValueError::new_err(format!("value {number} is given twice"))),
        }
    }
}

/// Lists that Python passes repeatedly, since equal layers share them: each is translated once. They are not changed meanwhile.
struct Shared<T> {
    known: HashMap<usize, (Py<PyAny>, Arc<[T]>)>,
}

impl<T> Shared<T> {
    fn new() -> Self {
        Self { known: HashMap::new() }
    }

    fn get(&mut self, list: &Bound<'_, PyAny>, translate: impl Fn(&Bound<'_, PyAny>) -> PyResult<T>) -> PyResult<Arc<[T]>> {
        // By address, which is unique as long as the list is kept.
        let key = list.as_ptr() as usize;
        if let Some((_, made)) = self.known.get(&key) {
            return Ok(made.clone());
        }
        let made: Arc<[T]> = list.try_iter()?.map(|item| translate(&item?)).collect::<PyResult<_>>()?;
        self.known.insert(key, (list.clone().unbind(), made.clone()));
        Ok(made)
    }
}

fn tensor_type(meta: &Bound<'_, PyAny>, size: Sizing) -> PyResult<TensorType> {
    let (dtype, sizes, strides, offset): (_, Bound<'_, PyTuple>, Bound<'_, PyTuple>, Bound<'_, PyAny>) = meta.extract()?;
    let all = |sizes: &Bound<'_, PyTuple>| sizes.iter().map(|value| size_of(&value, size)).collect::<PyResult<_>>();
    Ok(TensorType { dtype, sizes: all(&sizes)?, strides: all(&strides)?, offset: size_of(&offset, size)? })
}

fn size_of(value: &Bound<'_, PyAny>, size: Sizing) -> PyResult<Dim> {
    size(value)?.ok_or_else(|| PyTypeError::new_err(format!("expected a size, got a {}", value.get_type())))
}

fn frame(line: &Bound<'_, PyAny>) -> PyResult<Frame> {
    line.extract::<PythonLine>().map(Frame::from)
}

#[pymethods]
impl TraceBuilder {
    /// With `as_recorded`, sizes do not use the facts that have become known since they were recorded.
    #[new]
    #[pyo3(signature = (name, as_recorded=false))]
    fn new(name: String, as_recorded: bool) -> Self {
        Self { size: if as_recorded { expression_as_recorded } else { expression }, ..Self::of(Trace::new(name)) }
    }

    /// Sets the device of the graph's tensors: `cuda:0`.
    fn device(&mut self, device: String) {
        Arc::make_mut(&mut self.trace).device = Some(device);
    }

    /// Sets the folders of libraries whose frames users do not inspect, such as torch: each ends with the separator.
    fn libraries(&mut self, folders: Vec<String>) {
        Arc::make_mut(&mut self.trace).libraries = folders;
    }

    /// Sets how often the graph is differentiated: with 2, its gradients and their gradients are compiled.
    fn order(&mut self, order: i64, path: Vec<i64>, given: Vec<i64>) {
        let trace = Arc::make_mut(&mut self.trace);
        (trace.order, trace.path, trace.given) = (order, path, given);
    }

    /// Sets the dynamic sizes: the symbols among these, each with the input and the dimension whose size it is. Symbols without a place are
    /// in another graph.
    fn symbols(&mut self, sizes: &Bound<'_, Sizes>, bound: Vec<Option<(usize, usize)>>) {
        let declared = |(symbol, info): (Symbol, _)| {
            let (argument, dim) = bound.get(symbol.0 as usize).copied().flatten()?;
            Some(SizeSymbol { symbol, place: Some(SymbolSite::Size { argument, dim }), info })
        };
        let (sizes, trace) = (sizes.get(), Arc::make_mut(&mut self.trace));
        trace.symbols = sizes.free().into_iter().filter_map(declared).collect();
        let is_here = |size: &Dim| size.to_expr().symbols().iter().all(|named| trace.symbols.iter().any(|here| here.symbol == *named));
        trace.assumed = sizes.assumed().into_iter().filter(|assumed| is_here(&assumed.left) && is_here(&assumed.right)).collect();
    }

    /// Records that the graph draws random numbers.
    fn random(&mut self) {
        Arc::make_mut(&mut self.trace).random = true;
    }

    /// Records, for a derivative, that eager saves something for it.
    fn keeps(&mut self) {
        Arc::make_mut(&mut self.trace).keeps = true;
    }

    #[expect(clippy::too_many_arguments, reason = "one per field of a recorded input")]
    #[pyo3(signature = (value, name, meta, storage, version_bumps=0, requires_grad=false, tangent=None))]
    fn input(
        &mut self,
        value: i64,
        name: String,
        meta: &Bound<'_, PyAny>,
        storage: i64,
        version_bumps: i64,
        requires_grad: bool,
        tangent: Option<i64>,
    ) -> PyResult<()> {
        self.check_new(&[value])?;
        let input = Input { name, ty: tensor_type(meta, self.size)?, storage, version_bumps, requires_grad, tangent };
        let made = Arc::make_mut(&mut self.trace).input(input);
        self.values.insert(value, made);
        Ok(())
    }

    #[expect(clippy::too_many_arguments, clippy::fn_params_excessive_bools, reason = "one per field of a recorded call")]
    #[pyo3(signature = (schema, args, values, results, aliases, mutates, functional, grad_enabled, decomposition, vjp, location, recompute=None, materialized=false, not_linear=false, once=false, unseen=false))]
    fn op(
        &mut self,
        schema: String,
        args: &Bound<'_, PyList>,
        values: Vec<i64>,
        results: &Bound<'_, PyAny>,
        aliases: Vec<i64>,
        mutates: Vec<i64>,
        functional: Option<String>,
        grad_enabled: bool,
        decomposition: Option<PyRef<'_, TraceBuilder>>,
        vjp: Option<PyRef<'_, TraceBuilder>>,
        location: &Bound<'_, PyAny>,
        recompute: Option<i64>,
        materialized: bool,
        not_linear: bool,
        once: bool,
        unseen: bool,
    ) -> PyResult<()> {
        let size = self.size;
        let results = self.results.get(results, |meta| tensor_type(meta, size))?;
        if values.len() != results.len() || aliases.len() != results.len() {
            let counts = (results.len(), values.len(), aliases.len());
            return Err(PyValueError::new_err(format!("{schema} has {} results, {} values and {} aliases", counts.0, counts.1, counts.2)));
        }
        self.check_new(&values)?;
        let call = OpCall {
            schema,
            args: args.iter().map(|arg| argument(&arg, &self.values, self.size)).collect::<PyResult<_>>()?,
            results,
            aliases,
            mutates,
            functional,
            grad_enabled,
            decomposition: decomposition.map(|builder| builder.trace.clone()),
            vjp: vjp.map(|builder| builder.trace.clone()),
            recompute,
            materialized,
            not_linear,
            once,
            unseen,
            location: self.locations.get(location, frame)?,
        };
        let first = Arc::make_mut(&mut self.trace).op(call);
        self.values.extend(values.into_iter().zip(first..));
        Ok(())
    }

    #[pyo3(signature = (kind, *payload))]
    fn output(&mut self, kind: &str, payload: &Bound<'_, PyTuple>) -> PyResult<()> {
        let output = match kind {
            "value" => {
                let (number, version, of, requires_grad, made, gradient): ReturnedTuple = payload.extract()?;
                let value = value_of(number, &self.values)?;
                Output::Value(Returned { value, version, base: base(of)?, requires_grad, creation: creation(made.as_deref())?, gradient })
            }
            "none" => Output::None,
            "const" => {
                let value = payload.get_item(0)?;
                if value.is_instance_of::<PyBool>() || !value.is_instance_of::<PyInt>() {
                    return Err(Unsupported::new_err((NON_TENSOR_OUTPUT, format!("the graph returns {value}"), None::<()>)));
                }
                Output::Int(value.extract()?)
            }
            other => return Err(PyValueError::new_err(format!("unknown kind of output '{other}'"))),
        };
        Arc::make_mut(&mut self.trace).outputs.push(output);
        Ok(())
    }

    /// Reads an entry of a text at stage 00 (aten).
    #[staticmethod]
    #[pyo3(signature = (text, entry="main"))]
    fn read(text: &str, entry: &str) -> PyResult<Self> {
        let session = Session::new();
        let module = session.parse(text).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let read = Trace::read(module_op(&module), entry);
        read.map(Self::of).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Returns the trace for these values of its symbols, each as `(symbol, value)`.
    fn at(&self, values: Vec<(u32, i64)>) -> PyResult<Self> {
        let values = values.into_iter().map(|(symbol, value)| (Symbol(symbol), value)).collect();
        self.trace.at(&values).map(Self::of).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// The declared symbols, in order.
    #[getter]
    fn declared(&self) -> Vec<u32> {
        self.trace.symbols.iter().map(|declared| declared.symbol.0).collect()
    }

    /// For each input: true if it requires a gradient.
    #[getter]
    fn requires_grad(&self) -> Vec<bool> {
        self.trace.inputs.iter().map(|input| input.requires_grad).collect()
    }

    /// The number of times that it is differentiated.
    #[getter]
    fn times(&self) -> i64 {
        self.trace.order.max(1)
    }

    /// Returns the trace as plain data: see `recorded.rs`.
    fn recorded<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        recorded::of(py, &self.trace)
    }

    fn text(&self) -> PyResult<String> {
        let session = Session::new();
        let failed = |message: String| NativeError::new_err(message);
        let module = session.parse("module {}").map_err(|e| failed(e.to_string()))?;
        let body = module_op(&module).body().ok_or_else(|| failed("a module without a body".into()))?;
        self.trace.write(body, session.ctx()).map_err(|e| failed(e.to_string()))?;
        write_format(module_op(&module));
        Ok(module_op(&module).text_with_locations())
    }
}

fn value_of(number: i64, values: &HashMap<i64, ValueId>) -> PyResult<ValueId> {
    values.get(&number).copied().ok_or_else(|| PyValueError::new_err(format!("value {number} is used before it is given")))
}

/// A returned tensor: value, version, base, whether it requires a gradient, how it was created if it is a view, and for a derivative the
/// operand whose gradient it is.
type ReturnedTuple = (i64, i64, Option<(String, usize)>, bool, Option<String>, Option<i64>);

/// Converts how a view was created: None, or `"no_grad"` or `"one_of_several"`.
fn creation(of: Option<&str>) -> PyResult<Creation> {
    Ok(match of {
        None => Creation::Default,
        Some("no_grad") => Creation::NoGrad,
        Some("one_of_several") => Creation::OneOfSeveral,
        Some(other) => return Err(PyValueError::new_err(format!("unknown way of making a view '{other}'"))),
    })
}

/// Converts the base of an output: None, or `("arg" | "output" | "hidden", number)`.
fn base(of: Option<(String, usize)>) -> PyResult<Base> {
    let Some((kind, number)) = of else { return Ok(Base::None) };
    match kind.as_str() {
        "arg" => Ok(Base::Arg(number)),
        "output" => Ok(Base::Output(number)),
        "hidden" => Ok(Base::Hidden(number)),
        other => Err(PyValueError::new_err(format!("unknown kind of base '{other}'"))),
    }
}

/// Converts one schema argument: a plain value, a list of arguments, or a tagged pair.
fn argument(value: &Bound<'_, PyAny>, values: &HashMap<i64, ValueId>, size: Sizing) -> PyResult<Arg> {
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
        return Ok(Arg::List(list.iter().map(|item| argument(&item, values, size)).collect::<PyResult<_>>()?));
    }
    if let Some(size) = size(value)? {
        return Ok(Arg::Size(size));
    }
    let pair = value.cast::<PyTuple>()?;
    let (tag, payload) = (pair.get_item(0)?, pair.get_item(1)?);
    Ok(match tag.cast::<PyString>()?.to_str()? {
        "t" => Arg::Tensor(value_of(payload.extract()?, values)?),
        "dtype" => Arg::DType(payload.extract()?),
        "device" => Arg::Device(payload.extract()?),
        "memory_format" => Arg::MemoryFormat(payload.extract()?),
        "layout" => Arg::Layout(payload.extract()?),
        other => return Err(PyTypeError::new_err(format!("unknown kind of argument '{other}'"))),
    })
}
