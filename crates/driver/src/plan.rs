//! Reads planned entries (stage 04 and later) into the runtime's plans.
//!
//! The ops' verifiers have seen to what each op says by itself, and that a launch fits its kernel; the runtime checks bounds
//! and overlaps. Here stands what makes a function an entry: one block of known ops on memory that is known to the byte.

pub(crate) mod attributes;
mod effects;
mod training;

use std::collections::HashMap;

use dynamlir_dialect::{
    ir::{DYNAMIC, Op, Type, Value, sizes::find_expression},
    ops::{self, DynamoOp, ExternOp},
    program::kernels,
    upstream::{func, memref},
};
use dynamlir_runtime::{ExternCall, InputSpec, KernelSpec, Layout, Plan, Reg, Step};

use crate::{Error, placement};
use attributes::{arg, dtype, location, output, route};

/// The plan that an entry of the module writes down.
pub fn read(module: Op, main: Op) -> Result<Plan, Error> {
    let body = main.body().filter(|_| main.region(0).blocks().len() == 1);
    let body = body.ok_or_else(|| at(main, "expected an entry of one block"))?;
    if let Some((op, size)) = find_expression(main) {
        return Err(at(op, format!("says the size {size}: a plan runs where all sizes are numbers")));
    }
    let mut reader = Reader {
        plan: Plan { device: placement::device(module)?, ..Plan::default() },
        regs: HashMap::new(),
        functions: kernels(module).into_iter().filter_map(|op| Some((op.symbol()?, op))).collect(),
        kernels: HashMap::new(),
        workspace: None,
        next: 0,
    };
    for (i, arg) in body.args().into_iter().enumerate() {
        let storage = ops::STORAGE.of_arg(main, i).and_then(|s| u32::try_from(s).ok());
        let layout = layout(arg.ty()).map_err(|what| at(main, format!("argument {i} {what}")))?;
        reader.plan.inputs.push(InputSpec { layout, storage, mutated: false, version_bumps: 0 });
        reader.define(arg);
    }
    for op in body.ops() {
        reader.op(op)?;
    }
    reader.mark_mutated();
    let outputs = ops::OUTPUTS.of(main).ok_or_else(|| at(main, "the entry lacks dynamo.outputs"))?;
    reader.plan.outputs = outputs.into_iter().map(output).collect::<Result<_, _>>()?;
    effects::read(main, &mut reader.plan)?;
    training::read(main, &mut reader.plan)?;
    Ok(reader.plan)
}

/// An error about an op, with the place it comes from.
fn at(op: Op, what: impl std::fmt::Display) -> Error {
    Error::Plan(format!("{} ({}): {what}", op.name(), location(op)))
}

struct Reader {
    plan: Plan,
    regs: HashMap<Value, Reg>,
    /// The functions of `module @kernels`.
    functions: HashMap<String, Op>,
    /// Numbers of the kernels launched so far.
    kernels: HashMap<String, usize>,
    workspace: Option<Value>,
    next: Reg,
}

/// Sizes, strides, offset and torch element type of a memref, all of them numbers.
fn layout(ty: Type) -> Result<Layout, String> {
    let known = |numbers: &[i64]| !numbers.contains(&DYNAMIC);
    let (strides, offset) = ty
        .strided()
        .filter(|(strides, offset)| known(strides) && known(&[*offset]) && known(&ty.shape()))
        .ok_or_else(|| format!("has type {ty}, expected a memref whose sizes, strides and offset are numbers"))?;
    let dtype = dtype(ty.element()).ok_or_else(|| format!("has type {ty}, and {} is not one of torch's", ty.element()))?;
    Ok(Layout::contiguous(dtype, &ty.shape()).with_strides(&strides).with_offset(offset))
}

impl Reader {
    fn define(&mut self, value: Value) -> Reg {
        self.regs.insert(value, self.next);
        self.next += 1;
        self.next - 1
    }

    fn reg(&self, op: Op, value: Value) -> Result<Reg, Error> {
        self.regs.get(&value).copied().ok_or_else(|| at(op, "expected a buffer, not the workspace itself"))
    }

    fn regs(&self, op: Op, values: &[Value]) -> Result<Vec<Reg>, Error> {
        values.iter().map(|v| self.reg(op, *v)).collect()
    }

    fn step(&mut self, op: Op, what: &str, step: Step) {
        self.plan.origins.push(format!("{}{what} ({})", op.name(), location(op)));
        self.plan.steps.push(step);
    }

    fn op(&mut self, op: Op) -> Result<(), Error> {
        let result_layout = || layout(op.result(0).ty()).map_err(|what| at(op, format!("its result {what}")));
        match DynamoOp::of(op) {
            Some(DynamoOp::Workspace(workspace)) => {
                if self.workspace.replace(workspace.result()).is_some() {
                    return Err(at(op, "a second workspace"));
                }
                let bytes = workspace.result().ty().numel();
                self.plan.workspace_bytes = usize::try_from(bytes).map_err(|_| at(op, "expected a number of bytes"))?;
            }
            Some(DynamoOp::Buffer(buffer)) => {
                if self.workspace != Some(buffer.workspace()) {
                    return Err(at(op, "expected the graph's workspace"));
                }
                let byte_offset = usize::try_from(buffer.byte_offset()).map_err(|_| at(op, "a negative byte offset"))?;
                let (layout, dst) = (result_layout()?, self.define(buffer.result()));
                self.step(op, "", Step::Buffer { dst, byte_offset, layout });
            }
            Some(DynamoOp::OutputBuffer(buffer)) => {
                let (layout, dst) = (result_layout()?, self.define(buffer.result()));
                self.step(op, "", Step::OutputBuffer { dst, layout });
            }
            Some(DynamoOp::Launch(launch)) => {
                let name = launch.kernel().name;
                if launch.sizes().is_some() {
                    return Err(at(op, format!("hands sizes to @{name}: a plan runs where all sizes are numbers")));
                }
                let args = self.regs(op, &launch.inputs())?;
                let kernel = self.kernel(op, &name)?;
                self.step(op, &format!(" @{name}"), Step::Launch { kernel, args });
            }
            Some(DynamoOp::Extern(call)) => self.extern_op(call)?,
            Some(DynamoOp::CheckRange(check)) => {
                let src = self.reg(op, check.operand())?;
                self.step(op, "", Step::CheckRange { src, low: check.low(), high: check.high(), message: check.message() });
            }
            Some(DynamoOp::Commit(_)) => self.step(op, "", Step::Commit),
            None if op.is(memref::REINTERPRET_CAST) => {
                let (layout, src) = (result_layout()?, self.reg(op, op.operand(0))?);
                let dst = self.define(op.result(0));
                self.step(op, "", Step::View { dst, src, layout });
            }
            None if op.is(func::RETURN) => self.plan.results = self.regs(op, &op.operands())?,
            _ => return Err(at(op, "is not an op of the planned graph")),
        }
        Ok(())
    }

    /// The number of a kernel, which gets one when it is launched first.
    fn kernel(&mut self, launch: Op, name: &str) -> Result<usize, Error> {
        if let Some(&number) = self.kernels.get(name) {
            return Ok(number);
        }
        let function = self.functions.get(name).copied().filter(|function| function.body().is_some());
        let function = function.ok_or_else(|| at(launch, format!("there is no kernel @{name} with a body")))?;
        let signature = ops::SIGNATURE.of(function).ok_or_else(|| at(launch, format!("kernel @{name} lacks dynamo.signature")))?;
        let written = signature.function_results().len();
        let arguments = signature.function_inputs().len() + written;
        self.plan.kernels.push(KernelSpec { name: name.to_owned(), arguments, written });
        self.kernels.insert(name.to_owned(), self.plan.kernels.len() - 1);
        Ok(self.plan.kernels.len() - 1)
    }

    fn extern_op(&mut self, call: ExternOp) -> Result<(), Error> {
        let (op, outs, results) = (call.op(), call.outs(), call.outputs());
        let made = if outs.is_empty() { &results } else { &outs };
        let described = |value: &Value| layout(value.ty()).map_err(|what| at(op, format!("a result {what}")));
        let (operands, written) = (self.regs(op, &call.inputs())?, self.regs(op, &outs)?);
        let what = format!(" {}", call.schema());
        self.plan.externs.push(ExternCall {
            schema: call.schema(),
            args: call.args().into_iter().map(arg).collect::<Result<_, _>>().map_err(|what| at(op, what))?,
            route: route(call.route()),
            // What nobody uses may as well be undefined.
            result_layouts: made.iter().map(|v| v.has_uses().then(|| described(v)).transpose()).collect::<Result<_, _>>()?,
            location: location(op),
        });
        let results = results.into_iter().map(|r| self.define(r)).collect();
        let call = self.plan.externs.len() - 1;
        self.step(op, &what, Step::Extern { call, operands, outs: written, results });
        Ok(())
    }

    /// Inputs whose memory a launch writes are mutated.
    fn mark_mutated(&mut self) {
        let mut root: HashMap<Reg, Reg> = (0..self.plan.inputs.len()).map(|i| (i, i)).collect();
        for step in &self.plan.steps {
            match step {
                Step::View { dst, src, .. } => {
                    if let Some(&input) = root.get(src) {
                        root.insert(*dst, input);
                    }
                }
                Step::Launch { kernel, args } => {
                    let written = self.plan.kernels[*kernel].written;
                    for input in args.iter().rev().take(written).filter_map(|reg| root.get(reg)) {
                        self.plan.inputs[*input].mutated = true;
                    }
                }
                _ => {}
            }
        }
    }
}
