//! `dynamo-to-gpu`: writes a kernel's phases as the code of one GPU thread, as `dynamo.gpu` specifies.
//!
//! Before: `func.func @k(%x: memref<…>, …)` of stage 05 with `dynamo.gpu = {class = "rows", …}` inside `module @kernels`.
//! After: `gpu.func @k(%x: memref<…>, …) kernel` inside `gpu.module @device`, with its [`Launch`] as `dynamo.launch`.
//!
//! The bodies of the phases stay scalar: each thread runs them once per element. Only memory accesses are vectorized. A value that one
//! phase yields and a later one reads is never stored between them: it is still in a register (`keep = 1`), or its element is recomputed
//! from its operands.
//!
//! In `@kernels` a declaration is left, `func.func private @k(…) attributes {dynamo.code = @device::@k}`. A kernel without `dynamo.gpu` is
//! not changed, for code that runs kernels elsewhere.

mod cell;
mod combine;
pub(crate) mod ops;
mod points;
mod rows;

use dynamlir_dialect::{
    ir::{Attr, Block, Builder, Ctx, Op, Type},
    ops as dynamo,
    pass::{Pass, PassError, PassResult, Run, Statistic, Takes},
    upstream::{func, gpu, llvm},
};

use crate::{
    kernel::Kernel,
    launch::{self, Argument, Launch},
    matmul,
    schedule::{Class, Schedule, bytes, kernels},
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-to-gpu",
    description: "Lower scheduled kernels to the code of one GPU thread",
    takes: Takes::Numbers,
    options: &[],
    statistics: &[WRITTEN],
    run,
};

const WRITTEN: Statistic = Statistic { name: "kernels", description: "kernels lowered to one thread's code" };

/// The name of the module that holds the device's code.
pub(crate) const DEVICE: &str = "device";

fn run(module: Op, pass: &Run) -> PassResult {
    for function in kernels(module) {
        if matmul::is_product(function) {
            if matmul::write(function, || device(module, function))? {
                declare(function);
                pass.count(&WRITTEN, 1);
            }
            continue;
        }
        let Some(attr) = dynamo::GPU.of(function) else { continue };
        let kernel = Kernel::read(function).map_err(|reason| PassError::at(function, reason))?;
        let schedule = Schedule::from_attr(attr, &kernel).map_err(|reason| PassError::at(function, reason))?;
        write(module, &kernel, schedule);
        declare(function);
        pass.count(&WRITTEN, 1);
    }
    Ok(())
}

/// Replaces a kernel by a declaration: the graph's launches name it, and `dynamo.code` refers to its code.
pub(crate) fn declare(function: Op) {
    let ctx = function.ctx();
    let name = function.symbol().unwrap_or_default();
    let mut attrs = vec![
        ("sym_name", Attr::str(ctx, &name)),
        ("sym_visibility", Attr::str(ctx, "private")),
        (dynamo::CODE.name(), Attr::nested_symbol(ctx, DEVICE, &name)),
    ];
    attrs.extend(["function_type", dynamo::SIGNATURE.name()].iter().filter_map(|name| Some((*name, function.attr(name)?))));
    let at = Builder::before(function);
    at.insert(at.detached(func::FUNC, &[], &[], &attrs, 1));
    function.erase();
}

/// The `gpu.module` next to a kernel, created if missing.
fn device(module: Op, function: Op) -> Builder {
    let mut found = None;
    let beside = function.parent().unwrap_or(module);
    for op in beside.body().into_iter().flat_map(Block::ops) {
        if op.is(gpu::MODULE) {
            found = op.body();
        }
    }
    let body = found.unwrap_or_else(|| {
        let name = ("sym_name", Attr::str(function.ctx(), DEVICE));
        Builder::before(function).op_with_body(gpu::MODULE, &[], &[], &[name], &[]).1
    });
    Builder::at_end(body, function.loc())
}

/// Creates a `gpu.func` with a kernel's arguments and these buffers of shared memory.
pub(crate) fn gpu_func(at: &Builder, function: Op, shared: &[Type], launch: &Launch) -> (Op, Builder) {
    let ctx = function.ctx();
    let inputs = func::function_type(function).function_inputs();
    let types: Vec<_> = inputs.iter().chain(shared).copied().collect();
    let given: Vec<Attr> = function.optional("arg_attrs").unwrap_or_default();
    let attrs: Vec<_> =
        launch.arguments.iter().enumerate().map(|(i, argument)| argument_attrs(given.get(i).copied(), argument, ctx)).collect();
    let three = |values: [i64; 3]| Attr::i32s(ctx, &values.map(|value| value as i32));
    let name = function.symbol().unwrap_or_default();
    let (op, body) = at.op_with_body(
        gpu::FUNC,
        &[],
        &[],
        &[
            ("sym_name", Attr::str(ctx, &name)),
            ("function_type", Type::function(ctx, &inputs, &[]).as_attr()),
            ("arg_attrs", Attr::array(ctx, &attrs)),
            ("workgroup_attributions", Attr::i64(ctx, shared.len() as i64)),
            (gpu::KERNEL, Attr::unit(ctx)),
            ("known_block_size", three(launch.block)),
            ("known_grid_size", three(launch.grid)),
            dynamo::LAUNCH.with(ctx, launch::to_attr(launch, ctx)),
        ],
        &types,
    );
    (op, Builder::at_end(body, function.loc()))
}

/// The attributes of an argument: those given by the plan, and the alignment that the launch requires.
fn argument_attrs(given: Option<Attr>, argument: &Argument, ctx: Ctx) -> Attr {
    let mut entries: Vec<(String, Attr)> = given.map(Attr::entries).unwrap_or_default();
    entries.retain(|(name, _)| name == llvm::NOALIAS);
    entries.push((llvm::ALIGN.into(), Attr::i64(ctx, argument.alignment)));
    if !argument.written {
        entries.push((llvm::READONLY.into(), Attr::unit(ctx)));
    }
    let entries: Vec<_> = entries.iter().map(|(name, attr)| (name.as_str(), *attr)).collect();
    Attr::dict(ctx, &entries)
}

fn write(module: Op, kernel: &Kernel, schedule: Schedule) {
    let at = device(module, kernel.function);
    let launch = Launch {
        name: kernel.function.symbol().unwrap_or_default(),
        grid: [schedule.blocks(kernel), 1, 1],
        block: match schedule.class {
            Class::Points | Class::Rows => [schedule.threads, schedule.across, 1],
            Class::Columns => [schedule.across, schedule.threads, 1],
        },
        shared_bytes: 0,
        arguments: arguments(kernel, schedule),
    };
    let shared = combine::buffers(kernel, schedule);
    let (op, builder) = gpu_func(&at, kernel.function, &shared, &launch);
    let args = builder.block().args();
    let (arguments, shared) = args.split_at(launch.arguments.len());
    let ops = ops::Ops::new(builder);
    if schedule.class == Class::Points {
        points::write(kernel, schedule, ops, arguments);
    } else {
        rows::write(kernel, schedule, ops, arguments, shared);
    }
    builder.gpu_return();
    debug_assert!(op.verify(), "a kernel that does not verify");
}

/// The requirements on a kernel's arguments at launch.
fn arguments(kernel: &Kernel, schedule: Schedule) -> Vec<Argument> {
    let count = kernel.function.body().map_or(0, |body| body.args().len());
    let written: Vec<_> = kernel.stores.iter().map(|store| store.argument).collect();
    let mut arguments: Vec<_> =
        (0..count).map(|index| Argument { alignment: bytes(kernel, index), written: written.contains(&index) }).collect();
    for (argument, access) in kernel.accesses() {
        let wide = cell::moved_together(kernel, schedule, argument, access);
        let alignment = &mut arguments[argument].alignment;
        *alignment = (*alignment).max(wide * bytes(kernel, argument));
    }
    arguments
}
