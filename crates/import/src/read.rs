//! Reads a trace from IR: the inverse of [`Trace::write`].

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use dynamlir_dialect::{
    ir::{self, Attr, AttrValue, Block, Device, Layout, Loc, MemoryFormat, Op, Type, Value, sizes},
    ops::{self, AtenOp},
};
use dynamlir_shapes::{Dim, Scope};

use crate::{Arg, Base, Creation, Error, Frame, Input, OpCall, Output, Returned, TensorType, Trace, ValueId};

impl Trace {
    /// Reads the entry of this name, with the decompositions and derivatives that it refers to.
    ///
    /// The text does not contain everything: the trace is named after the function, undefined results of operators are tensors without
    /// elements, and results of derivatives that are None are left out.
    ///
    /// # Errors
    /// If the module has no such entry, or is not at stage 00 (aten).
    pub fn read(module: Op, entry: &str) -> Result<Self, Error> {
        let functions: HashMap<String, Op> =
            module.body().map(Block::ops).unwrap_or_default().into_iter().filter_map(|op| Some((op.symbol()?, op))).collect();
        let mut reader = Reader { functions, made: HashMap::new(), open: HashSet::new() };
        let mut trace = reader.function(entry, Loc::unknown(module.ctx()))?;
        trace.device = ops::DEVICE.of(module);
        Ok(trace)
    }
}

struct Reader {
    functions: HashMap<String, Op>,
    /// The functions that were read: equal calls share their derivative.
    made: HashMap<String, Arc<Trace>>,
    /// The functions that are being read.
    open: HashSet<String>,
}

fn error(message: impl Into<String>, at: Loc) -> Error {
    Error { message: message.into(), location: frames(at) }
}

fn frames(at: Loc) -> Vec<Frame> {
    at.frames().into_iter().map(Frame::from).collect()
}

impl Reader {
    fn nested(&mut self, name: &str, at: Loc) -> Result<Arc<Trace>, Error> {
        if let Some(made) = self.made.get(name) {
            return Ok(Arc::clone(made));
        }
        let made = Arc::new(self.function(name, at)?);
        self.made.insert(name.to_owned(), Arc::clone(&made));
        Ok(made)
    }

    fn function(&mut self, name: &str, at: Loc) -> Result<Trace, Error> {
        let Some(body) = self.functions.get(name).and_then(|function| Some((*function, function.body()?))) else {
            return Err(error(format!("there is no function @{name} with a body"), at));
        };
        if !self.open.insert(name.to_owned()) {
            return Err(error(format!("@{name} refers to itself"), at));
        }
        let trace = self.body(name, body.0, body.1);
        self.open.remove(name);
        trace
    }

    fn body(&mut self, name: &str, function: Op, body: Block) -> Result<Trace, Error> {
        let scope = sizes::scope(function);
        let mut trace = Trace::new(name);
        trace.symbols = sizes::declared(function);
        trace.assumed = sizes::assumed(function).map_err(|message| error(message, function.loc()))?;
        trace.keeps = ops::ONCE.is_on(function);
        let mut values: HashMap<Value, ValueId> = HashMap::new();
        inputs(function, &scope, &body, &mut trace, &mut values)?;
        let mut libraries = HashSet::new();
        let mut returned = Vec::new();
        for op in body.ops() {
            if let Some(call) = AtenOp::cast(op) {
                let read = self.call(call, &scope, &values)?;
                if let [inner, _, ..] = &read.location[..] {
                    libraries.insert(inner.file.clone());
                }
                let first = trace.op(read);
                values.extend(op.results().into_iter().zip(first..));
            } else if Some(op) == body.terminator() {
                returned = op.operands().iter().map(|value| known(&values, *value, op)).collect::<Result<_, _>>()?;
            } else {
                return Err(error(format!("{} is not an operation of stage 00 (aten)", op.name()), op.loc()));
            }
        }
        trace.libraries = libraries.into_iter().collect();
        trace.libraries.sort_unstable();
        let described = ops::OUTPUTS.of(function).map(|described| outputs(function, &described, &returned));
        // A derivative does not describe its results, which are tensors.
        let plain = |(at, value): (usize, &ValueId)| {
            Output::Value(Returned { gradient: ops::GRADIENT.of_result(function, at), ..Returned::of(*value) })
        };
        trace.outputs = described.unwrap_or_else(|| Ok(returned.iter().enumerate().map(plain).collect()))?;
        trace.random = ops::RANDOM.is_on(function);
        trace.order = ops::ORDER.of(function).unwrap_or(1);
        if trace.order > 1 {
            // A path of zeros is not written.
            let nodes = usize::try_from(trace.order - 1).unwrap_or(0);
            trace.path = ops::PATH.of(function).unwrap_or_else(|| vec![0; nodes]);
            trace.given = ops::GIVEN.of(function).unwrap_or_default();
        }
        Ok(trace)
    }

    fn call(&mut self, call: AtenOp, scope: &Scope, values: &HashMap<Value, ValueId>) -> Result<OpCall, Error> {
        let (op, schema) = (call.op(), call.schema());
        let operands = call.inputs().iter().map(|value| known(values, *value, op)).collect::<Result<Vec<_>, _>>()?;
        let args = call.args().into_iter().map(|attr| arg(attr, &operands, op)).collect::<Result<_, _>>()?;
        let results = call.outputs().iter().map(|value| tensor(value.ty(), scope, op)).collect::<Result<_, _>>()?;
        let mut nested = |symbol: Option<ir::Symbol>| symbol.map(|symbol| self.nested(&symbol.name, op.loc())).transpose();
        Ok(OpCall {
            args,
            results,
            aliases: call.aliases().unwrap_or_else(|| vec![-1; op.num_results()]),
            mutates: call.mutates().unwrap_or_default(),
            functional: call.functional(),
            grad_enabled: call.grad_enabled(),
            decomposition: nested(call.decomposition())?,
            vjp: nested(call.vjp())?,
            recompute: ops::RECOMPUTE.of(op),
            materialized: ops::MATERIALIZED.is_on(op),
            not_linear: ops::NOT_LINEAR.is_on(op),
            once: ops::ONCE_DIFFERENTIABLE.is_on(op),
            unseen: ops::UNSEEN.is_on(op),
            location: frames(op.loc()).into(),
            schema,
        })
    }
}

fn inputs(function: Op, scope: &Scope, body: &Block, trace: &mut Trace, values: &mut HashMap<Value, ValueId>) -> Result<(), Error> {
    let shared: Vec<Option<i64>> = (0..body.args().len()).map(|at| ops::STORAGE.of_arg(function, at)).collect();
    // A storage that no other input shares has no number in the text.
    let mut alone = (0..).filter(|number| !shared.contains(&Some(*number)));
    for (at, value) in body.args().into_iter().enumerate() {
        let input = trace.input(Input {
            name: ops::NAME.of_arg(function, at).unwrap_or_else(|| format!("arg{at}")),
            ty: tensor(value.ty(), scope, function)?,
            storage: shared[at].or_else(|| alone.next()).unwrap_or(-1),
            version_bumps: ops::VERSION_BUMPS.of_arg(function, at).unwrap_or(0),
            requires_grad: ops::REQUIRES_GRAD.of_arg(function, at).is_some(),
            tangent: ops::TANGENT.of_arg(function, at),
        });
        values.insert(value, input);
    }
    Ok(())
}

fn outputs(function: Op, described: &[Attr], returned: &[ValueId]) -> Result<Vec<Output>, Error> {
    let bases = ops::BASES.of(function).unwrap_or_default();
    let versions = ops::VERSIONS.of(function).unwrap_or_default();
    let [differentiable, without_grad, one_of_several] =
        [ops::DIFFERENTIABLE, ops::WITHOUT_GRAD, ops::ONE_OF_SEVERAL].map(|named| named.of(function).unwrap_or_default());
    let output = |(at, attr): (usize, &Attr)| {
        let names = |positions: &[i64]| positions.iter().any(|position| usize::try_from(*position) == Ok(at));
        match ir::Output::read(*attr) {
            Some(ir::Output::Result(result)) if result < returned.len() => Ok(Output::Value(Returned {
                value: returned[result],
                version: versions.get(result).copied().unwrap_or(0),
                base: bases.get(at).and_then(|base| Base::read(*base)).unwrap_or(Base::None),
                requires_grad: names(&differentiable),
                creation: match (names(&without_grad), names(&one_of_several)) {
                    (true, _) => Creation::NoGrad,
                    (_, true) => Creation::OneOfSeveral,
                    _ => Creation::Default,
                },
                gradient: None,
            })),
            Some(ir::Output::None) => Ok(Output::None),
            Some(ir::Output::Constant(value)) => Ok(Output::Int(value)),
            _ => Err(error(format!("{attr} is not an output of stage 00 (aten)"), function.loc())),
        }
    };
    described.iter().enumerate().map(output).collect()
}

fn known(values: &HashMap<Value, ValueId>, value: Value, op: Op) -> Result<ValueId, Error> {
    values.get(&value).copied().ok_or_else(|| error(format!("{} uses a value from elsewhere", op.name()), op.loc()))
}

fn tensor(ty: Type, scope: &Scope, op: Op) -> Result<TensorType, Error> {
    let window = if ty.is_mutable() { ty.window(scope) } else { None };
    let Some(window) = window else { return Err(error(format!("{ty} is not a type of stage 00 (aten)"), op.loc())) };
    Ok(TensorType { dtype: ty.element().to_string(), sizes: window.sizes, strides: window.strides, offset: window.offset })
}

fn arg(attr: Attr, operands: &[ValueId], op: Op) -> Result<Arg, Error> {
    if attr.is_unit() {
        return Ok(Arg::None);
    }
    if let Some(index) = attr.as_operand() {
        let value = operands.get(index).copied();
        return value.map(Arg::Tensor).ok_or_else(|| error(format!("{} has no operand {index}", op.name()), op.loc()));
    }
    if let Some(list) = attr.as_array() {
        return list.into_iter().map(|item| arg(item, operands, op)).collect::<Result<_, _>>().map(Arg::List);
    }
    let read = attr
        .as_bool()
        .map(Arg::Bool)
        .or_else(|| attr.as_i64().map(Arg::Int))
        .or_else(|| attr.as_f64().map(Arg::Float))
        .or_else(|| attr.as_str().map(Arg::Str))
        .or_else(|| attr.as_type().map(|ty| Arg::DType(ty.to_string())))
        .or_else(|| Device::read(attr).map(|device| Arg::Device(device.0)))
        .or_else(|| MemoryFormat::read(attr).map(|format| Arg::MemoryFormat(format.0)))
        .or_else(|| Layout::read(attr).map(|layout| Arg::Layout(layout.0)))
        .or_else(|| Dim::read(attr).map(Arg::Size));
    read.ok_or_else(|| error(format!("{attr} is not an argument of an operator"), op.loc()))
}
