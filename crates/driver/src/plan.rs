//! Reads planned entries (stage 04 and later) into the runtime's plans.
//!
//! If sizes are expressions, the plan contains their values at the hints of the symbols; a separate record lists the numbers that are
//! expressions ([`open`]).
//!
//! The ops' verifiers have checked each op separately, and that a launch fits its kernel; the runtime checks bounds and overlaps. This
//! module checks that a function is an entry: one block of known ops on memory of known layout.

pub(crate) mod attributes;
mod effects;
mod open;
mod training;

use std::collections::HashMap;

use dynamlir_dialect::{
    ir::{Op, Type, Value},
    ops::{self, DynamoOp, ExternOp},
    program::kernels,
    upstream::{func, memref},
};
use dynamlir_runtime::{ExternCall, InputSpec, KernelSpec, Layout, LayoutField, OpenPlan, Plan, PlanSlot, Reg, Step};
use dynamlir_shapes::{Dim, Window};

use crate::{Error, placement};
use attributes::{dtype, location, output, route};
use open::{Opened, window_of};

/// The plan of an entry of the module.
pub fn read(module: Op, main: Op) -> Result<OpenPlan, Error> {
    let body = main.body().filter(|_| main.region(0).blocks().len() == 1);
    let body = body.ok_or_else(|| at(main, "expected an entry of one block"))?;
    let mut reader = Reader {
        plan: Plan { device: placement::device(module)?, ..Plan::default() },
        regs: HashMap::new(),
        functions: kernels(module).into_iter().filter_map(|op| Some((op.symbol()?, op))).collect(),
        kernels: HashMap::new(),
        opened: Opened::of(main).map_err(|what| at(main, what))?,
        workspace: None,
        next: 0,
    };
    for (i, arg) in body.args().into_iter().enumerate() {
        let storage = ops::STORAGE.of_arg(main, i).and_then(|s| u32::try_from(s).ok());
        let window = open::argument(main, i, arg.ty(), &reader.opened.scope);
        let layout = reader.layout(arg.ty(), window, |part| PlanSlot::Input(i, part));
        let layout = layout.map_err(|what| at(main, format!("argument {i} {what}")))?;
        reader.plan.inputs.push(InputSpec { layout, storage, mutated: false, version_bumps: 0 });
        reader.define(arg);
    }
    for op in body.ops() {
        reader.op(op)?;
    }
    reader.mark_mutated();
    let outputs = ops::OUTPUTS.of(main).ok_or_else(|| at(main, "the entry lacks dynamo.outputs"))?;
    let all = outputs.into_iter().enumerate().map(|(i, attr)| output(attr, i, &mut reader.opened));
    reader.plan.outputs = all.collect::<Result<_, _>>()?;
    effects::read(main, &mut reader.plan)?;
    training::read(main, &mut reader.plan, &mut reader.opened)?;
    Ok((reader.plan, reader.opened.open))
}

/// An error about an op, with its source location.
fn at(op: Op, what: impl std::fmt::Display) -> Error {
    Error::Plan(format!("{} ({}): {what}", op.name(), location(op)))
}

struct Reader {
    plan: Plan,
    regs: HashMap<Value, Reg>,
    /// The functions of `module @kernels`.
    functions: HashMap<String, Op>,
    /// The numbers of the kernels launched so far.
    kernels: HashMap<String, usize>,
    /// The numbers that are expressions.
    opened: Opened,
    workspace: Option<Value>,
    next: Reg,
}

impl Reader {
    /// The layout of a memref seen through a window, with torch's element type; `number` gives the plan slots of the numbers that are
    /// expressions.
    fn layout(&mut self, ty: Type, window: Option<Window<Dim>>, number: impl Fn(LayoutField) -> PlanSlot) -> Result<Layout, String> {
        let window = window.ok_or_else(|| format!("has type {ty}, expected a memref whose sizes, strides and offset are said"))?;
        let dtype = dtype(ty.element()).ok_or_else(|| format!("has type {ty}, and {} is not one of torch's", ty.element()))?;
        Ok(Layout { dtype, window: self.opened.window(&window, number)? })
    }

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
        match DynamoOp::of(op) {
            Some(DynamoOp::Workspace(workspace)) => {
                if self.workspace.replace(workspace.result()).is_some() {
                    return Err(at(op, "a second workspace"));
                }
                let bytes = workspace.bytes().unwrap_or_else(|| workspace.result().ty().numel().into());
                let bytes = self.opened.number(&bytes, || PlanSlot::Workspace).map_err(|what| at(op, what))?;
                self.plan.workspace_bytes = usize::try_from(bytes).map_err(|_| at(op, "expected a number of bytes"))?;
            }
            Some(DynamoOp::Buffer(buffer)) => {
                if self.workspace != Some(buffer.workspace()) {
                    return Err(at(op, "expected the graph's workspace"));
                }
                let step = self.plan.steps.len();
                let byte_offset =
                    self.opened.number(&buffer.byte_offset_dims(), || PlanSlot::ByteOffset(step)).map_err(|what| at(op, what))?;
                let byte_offset = usize::try_from(byte_offset).map_err(|_| at(op, "a negative byte offset"))?;
                let (layout, dst) = (self.result_layout(op)?, self.define(buffer.result()));
                self.step(op, "", Step::Buffer { dst, byte_offset, layout });
            }
            Some(DynamoOp::OutputBuffer(buffer)) => {
                let (layout, dst) = (self.result_layout(op)?, self.define(buffer.result()));
                self.step(op, "", Step::OutputBuffer { dst, layout });
            }
            Some(DynamoOp::Launch(launch)) => {
                let name = launch.kernel().name;
                let args = self.regs(op, &launch.inputs())?;
                let kernel = self.kernel(op, &name)?;
                let step = self.plan.steps.len();
                let size = |(place, size)| self.opened.number(&size, || PlanSlot::LaunchSize(step, place));
                let sizes = launch.sizes().unwrap_or_default().into_iter().enumerate().map(size).collect::<Result<_, _>>();
                let sizes = sizes.map_err(|what| at(op, what))?;
                self.step(op, &format!(" @{name}"), Step::Launch { kernel, args, sizes });
            }
            Some(DynamoOp::Extern(call)) => self.extern_op(call)?,
            Some(DynamoOp::CheckRange(check)) => {
                let src = self.reg(op, check.operand())?;
                let step = self.plan.steps.len();
                let low = self.opened.number(&check.low_dims(), || PlanSlot::Low(step)).map_err(|what| at(op, what))?;
                let high = self.opened.number(&check.high_dims(), || PlanSlot::High(step)).map_err(|what| at(op, what))?;
                self.step(op, "", Step::CheckRange { src, low, high, message: check.message() });
            }
            Some(DynamoOp::Commit(_)) => self.step(op, "", Step::Commit),
            Some(DynamoOp::View(view)) => {
                let (layout, src) = (self.result_layout(op)?, self.reg(op, view.source())?);
                let dst = self.define(view.result());
                self.step(op, "", Step::View { dst, src, layout });
            }
            None if op.is(memref::REINTERPRET_CAST) => {
                let (layout, src) = (self.result_layout(op)?, self.reg(op, op.operand(0))?);
                let dst = self.define(op.result(0));
                self.step(op, "", Step::View { dst, src, layout });
            }
            None if op.is(func::RETURN) => self.plan.results = self.regs(op, &op.operands())?,
            _ => return Err(at(op, "is not an op of the planned graph")),
        }
        Ok(())
    }

    /// The layout of an op's only result, for the step that is read next.
    fn result_layout(&mut self, op: Op) -> Result<Layout, Error> {
        let step = self.plan.steps.len();
        let window = window_of(op, &self.opened.scope);
        let layout = self.layout(op.result(0).ty(), window, |part| PlanSlot::Step(step, part));
        layout.map_err(|what| at(op, format!("its result {what}")))
    }

    /// The number of a kernel, assigned at its first launch.
    fn kernel(&mut self, launch: Op, name: &str) -> Result<usize, Error> {
        if let Some(&number) = self.kernels.get(name) {
            return Ok(number);
        }
        let function = self.functions.get(name).copied().filter(|function| function.body().is_some());
        let function = function.ok_or_else(|| at(launch, format!("there is no kernel @{name} with a body")))?;
        let signature = ops::SIGNATURE.of(function).ok_or_else(|| at(launch, format!("kernel @{name} lacks dynamo.signature")))?;
        let written = signature.function_results().len();
        let arguments = signature.function_inputs().len() + written;
        let sizes = function.body().map_or(0, |body| body.args().len()).saturating_sub(arguments);
        self.plan.kernels.push(KernelSpec { name: name.to_owned(), arguments, written, sizes });
        self.kernels.insert(name.to_owned(), self.plan.kernels.len() - 1);
        Ok(self.plan.kernels.len() - 1)
    }

    fn extern_op(&mut self, call: ExternOp) -> Result<(), Error> {
        let (op, outs, results) = (call.op(), call.outs(), call.outputs());
        let made = if outs.is_empty() { &results } else { &outs };
        let number = self.plan.externs.len();
        let mut result_layouts = Vec::with_capacity(made.len());
        for (result, value) in made.iter().enumerate() {
            // An unused result may be undefined.
            if !value.has_uses() {
                result_layouts.push(None);
                continue;
            }
            let window = if outs.is_empty() {
                open::extern_result(call, result, value.ty())
            } else {
                value.def().and_then(|def| window_of(def, &self.opened.scope))
            };
            let layout = self.layout(value.ty(), window, |part| PlanSlot::ExternResult(number, result, part));
            result_layouts.push(Some(layout.map_err(|what| at(op, format!("a result {what}")))?));
        }
        let args = call.args().into_iter().enumerate();
        let args = args.map(|(place, attr)| self.opened.argument(attr, number, vec![place])).collect::<Result<_, _>>();
        let (operands, written) = (self.regs(op, &call.inputs())?, self.regs(op, &outs)?);
        let what = format!(" {}", call.schema());
        self.plan.externs.push(ExternCall {
            schema: call.schema(),
            args: args.map_err(|what| at(op, what))?,
            route: route(call.route()),
            result_layouts,
            location: location(op),
        });
        let results = results.into_iter().map(|r| self.define(r)).collect();
        let call = self.plan.externs.len() - 1;
        self.step(op, &what, Step::Extern { call, operands, outs: written, results });
        Ok(())
    }

    /// Marks inputs whose memory a launch writes as mutated.
    fn mark_mutated(&mut self) {
        let mut root: HashMap<Reg, Reg> = (0..self.plan.inputs.len()).map(|i| (i, i)).collect();
        for step in &self.plan.steps {
            match step {
                Step::View { dst, src, .. } => {
                    if let Some(&input) = root.get(src) {
                        root.insert(*dst, input);
                    }
                }
                Step::Launch { kernel, args, .. } => {
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
