//! Reads the planned graph function (stage 04 and later) into the runtime's plan.

use std::collections::HashMap;

use dynamlir_dialect::ir::{Attr, Op, Type, Value};
use dynamlir_runtime::{Const, ExternCall, InputSpec, Layout, Output, Plan, Reg, Step};
use dynamlir_torch_abi::{Arg, DType, Route};

use crate::Error;

/// The function with the attribute `dynamo.entry`.
pub fn entry(module: Op) -> Option<Op> {
    module.body()?.ops().into_iter().find(|op| op.is("func.func") && op.attr("dynamo.entry").is_some())
}

/// `module @kernels`.
pub fn kernels_module(module: Op) -> Option<Op> {
    module.body()?.ops().into_iter().find(|op| op.is("builtin.module") && op.symbol().as_deref() == Some("kernels"))
}

/// The plan that `main` writes down.
pub fn read(module: Op) -> Result<Plan, Error> {
    let main = entry(module).ok_or_else(|| Error::Plan("no function has the attribute dynamo.entry".into()))?;
    let body = main.body().ok_or_else(|| Error::Plan("the graph function has no body".into()))?;
    let mut reader = Reader { plan: Plan::default(), regs: HashMap::new(), kernels: HashMap::new(), next: 0 };
    let arg_attr = |i: usize, name: &str| main.attr("arg_attrs").and_then(|a| a.as_array()?.get(i)?.get(name));
    for (i, arg) in body.args().into_iter().enumerate() {
        let storage = arg_attr(i, "dynamo.storage").and_then(Attr::as_i64).and_then(|s| u32::try_from(s).ok());
        reader.plan.inputs.push(InputSpec { layout: layout(arg.ty())?, storage, mutated: false, version_bumps: 0 });
        reader.define(arg);
    }
    for op in body.ops() {
        reader.op(op)?;
    }
    reader.mark_mutated();
    let outputs = main.attr("dynamo.outputs").and_then(Attr::as_array).unwrap_or_default();
    reader.plan.outputs = outputs.into_iter().map(output).collect::<Result<_, _>>()?;
    Ok(reader.plan)
}

struct Reader {
    plan: Plan,
    regs: HashMap<Value, Reg>,
    kernels: HashMap<String, usize>,
    next: Reg,
}

/// Sizes, strides, offset and torch element type of a memref.
fn layout(ty: Type) -> Result<Layout, Error> {
    let element = ty.element().to_string();
    let dtype = DType::from_name(&element).ok_or_else(|| Error::Plan(format!("element type {element} is not torch's")))?;
    Ok(Layout { dtype, sizes: ty.shape(), strides: ty.strides(), offset: ty.offset() })
}

fn number(op: Op, name: &str) -> Result<usize, Error> {
    op.attr_i64(name).and_then(|n| usize::try_from(n).ok()).ok_or_else(|| Error::Plan(format!("{} lacks {name}", op.name())))
}

impl Reader {
    fn define(&mut self, value: Value) -> Reg {
        self.regs.insert(value, self.next);
        self.next += 1;
        self.next - 1
    }

    fn reg(&self, value: Value) -> Result<Reg, Error> {
        self.regs.get(&value).copied().ok_or_else(|| Error::Plan("a buffer is used before it is defined".into()))
    }

    fn regs(&self, values: &[Value]) -> Result<Vec<Reg>, Error> {
        values.iter().map(|v| self.reg(*v)).collect()
    }

    fn op(&mut self, op: Op) -> Result<(), Error> {
        match op.name().as_str() {
            "dynamo.workspace" => {
                self.plan.workspace_bytes = op.result(0).ty().numel().try_into().unwrap_or(0);
            }
            "dynamo.buffer" => {
                let (byte_offset, layout) = (number(op, "byte_offset")?, layout(op.result(0).ty())?);
                let dst = self.define(op.result(0));
                self.plan.steps.push(Step::Buffer { dst, byte_offset, layout });
            }
            "dynamo.output_buffer" => {
                let layout = layout(op.result(0).ty())?;
                let dst = self.define(op.result(0));
                self.plan.steps.push(Step::OutputBuffer { dst, layout });
            }
            "memref.reinterpret_cast" => {
                let layout = layout(op.result(0).ty())?;
                let src = self.reg(op.operand(0))?;
                let dst = self.define(op.result(0));
                self.plan.steps.push(Step::View { dst, src, layout });
            }
            "dynamo.launch" => {
                let name = op.attr("kernel").and_then(Attr::as_symbol).unwrap_or_default();
                let args = self.regs(&op.operands())?;
                let next = self.kernels.len();
                let kernel = *self.kernels.entry(name.clone()).or_insert(next);
                if kernel == next {
                    self.plan.kernels.push(name);
                }
                self.plan.steps.push(Step::Launch { kernel, args });
            }
            "dynamo.extern" => self.extern_op(op)?,
            "dynamo.check_range" => {
                let src = self.reg(op.operand(0))?;
                let bound = |name: &str| op.attr_i64(name).ok_or_else(|| Error::Plan(format!("{} lacks {name}", op.name())));
                let message = op.attr_str("message").unwrap_or_default();
                self.plan.steps.push(Step::CheckRange { src, low: bound("low")?, high: bound("high")?, message });
            }
            "dynamo.commit" => self.plan.steps.push(Step::Commit),
            "func.return" => self.plan.results = self.regs(&op.operands())?,
            other => return Err(Error::Plan(format!("{other} is not an op of the planned graph ({})", op.loc()))),
        }
        Ok(())
    }

    fn extern_op(&mut self, op: Op) -> Result<(), Error> {
        let operands = op.operands();
        let results = op.results();
        let outs = out_count(op);
        let (inputs, outs) = operands.split_at(operands.len().saturating_sub(outs));
        let made = if outs.is_empty() { &results[..] } else { outs };
        let args = op.attr("args").and_then(Attr::as_array).unwrap_or_default();
        let call = ExternCall {
            schema: op.attr_str("schema").unwrap_or_default(),
            args: args.into_iter().map(arg).collect::<Result<_, _>>()?,
            route: route(op),
            // What nobody uses may as well be undefined.
            result_layouts: made
                .iter()
                .map(|v| if v.has_uses() { layout(v.ty()).map(Some) } else { Ok(None) })
                .collect::<Result<_, _>>()?,
            location: location(op),
        };
        let (operands, outs) = (self.regs(inputs)?, self.regs(outs)?);
        let results = results.into_iter().map(|r| self.define(r)).collect();
        self.plan.externs.push(call);
        self.plan.steps.push(Step::Extern { call: self.plan.externs.len() - 1, operands, outs, results });
        Ok(())
    }

    /// Inputs whose memory a launch after the commit may write are mutated.
    fn mark_mutated(&mut self) {
        let Some(commit) = self.plan.steps.iter().position(|step| *step == Step::Commit) else { return };
        let mut root: HashMap<Reg, Reg> = (0..self.plan.inputs.len()).map(|i| (i, i)).collect();
        for step in &self.plan.steps {
            if let Step::View { dst, src, .. } = step
                && let Some(&input) = root.get(src)
            {
                root.insert(*dst, input);
            }
        }
        for step in &self.plan.steps[commit..] {
            if let Step::Launch { args, .. } = step
                && let Some(&input) = args.last().and_then(|reg| root.get(reg))
            {
                self.plan.inputs[input].mutated = true;
            }
        }
    }
}

/// How many operands of `dynamo.extern` are written.
fn out_count(op: Op) -> usize {
    let segments = op.attr("operandSegmentSizes").map(|a| a.to_string()).unwrap_or_default();
    segments.trim_end_matches('>').rsplit([',', ':']).next().and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

fn route(op: Op) -> Route {
    let text = op.attr("route").map(|a| a.to_string()).unwrap_or_default();
    if text.contains("python") {
        Route::Python
    } else if text.contains("dispatcher") {
        Route::Dispatcher
    } else {
        Route::CShim
    }
}

/// `file:line` where the user called the op.
fn location(op: Op) -> String {
    let text = op.loc().to_string();
    let inner = text.trim_start_matches("loc(").trim_end_matches(')');
    // loc("function"("file":line:col)) → file:line
    let file = inner.rsplit_once('(').map_or(inner, |(_, file)| file);
    match file.rsplit_once(':') {
        Some((file_line, _)) => file_line.replace('"', ""),
        None => file.replace('"', ""),
    }
}

fn arg(attr: Attr) -> Result<Arg, Error> {
    if let Some(operand) = attr.as_operand() {
        return Ok(Arg::Operand(operand));
    }
    if let Some(list) = attr.as_array() {
        return Ok(Arg::List(list.into_iter().map(arg).collect::<Result<_, _>>()?));
    }
    if attr.is_unit() {
        return Ok(Arg::None);
    }
    if let Some(value) = attr.as_bool() {
        return Ok(Arg::Bool(value));
    }
    if let Some(value) = attr.as_i64() {
        return Ok(Arg::Int(value));
    }
    if let Some(value) = attr.as_f64() {
        return Ok(Arg::Float(value));
    }
    if let Some(value) = attr.as_str() {
        return Ok(Arg::Str(value));
    }
    if let Some(ty) = attr.as_type() {
        let name = ty.to_string();
        return DType::from_name(&name).map(Arg::DType).ok_or_else(|| Error::Plan(format!("element type {name} is not torch's")));
    }
    let text = attr.to_string();
    let inner = |kind: &str| text.strip_prefix(&format!("#dynamo.{kind}<\""))?.strip_suffix("\">").map(str::to_owned);
    inner("device")
        .map(Arg::Device)
        .or_else(|| inner("memory_format").map(Arg::MemoryFormat))
        .or_else(|| inner("layout").map(Arg::Layout))
        .ok_or_else(|| Error::Plan(format!("{text} is not an argument")))
}

/// `#dynamo.output<…>`.
fn output(attr: Attr) -> Result<Output, Error> {
    let text = attr.to_string();
    let bad = || Error::Plan(format!("{text} is not an output"));
    let inner = text.strip_prefix("#dynamo.output<").and_then(|t| t.strip_suffix('>')).ok_or_else(bad)?;
    let (head, rest) = inner.split_once(',').unwrap_or((inner, ""));
    let mut words = head.split_whitespace();
    let kind = words.next().unwrap_or_default();
    let index: i64 = words.next().map_or(Ok(0), str::parse).map_err(|_| bad())?;
    let at = usize::try_from(index).unwrap_or(usize::MAX);
    let view = || -> Option<(Vec<i64>, Vec<i64>, i64)> {
        let (sizes, rest) = rest.trim().strip_prefix('[')?.split_once(']')?;
        let (strides, offset) = rest.trim().strip_prefix(',')?.trim().strip_prefix('[')?.split_once(']')?;
        let list =
            |text: &str| text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(|t| t.parse().ok()).collect::<Option<Vec<i64>>>();
        Some((list(sizes)?, list(strides)?, offset.trim().strip_prefix(',')?.trim().parse().ok()?))
    };
    Ok(match kind {
        "result" => Output::Result(at),
        "arg" => Output::Arg(at),
        "arg_view" => {
            let (sizes, strides, offset) = view().ok_or_else(bad)?;
            Output::ArgView { arg: at, sizes, strides, offset }
        }
        "result_view" => {
            let (sizes, strides, offset) = view().ok_or_else(bad)?;
            Output::ResultView { result: at, sizes, strides, offset }
        }
        "none" => Output::None,
        "same" => Output::Same(at),
        "constant" => Output::Const(Const::Int(index)),
        _ => return Err(bad()),
    })
}
