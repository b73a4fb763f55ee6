//! `dynamo-gpu-math`: writes math functions as what the GPU has.
//!
//! - What is one instruction becomes LLVM's intrinsic for it. Upstream would call libdevice, whose `sqrt` is the approximate
//!   one unless it is told otherwise.
//! - `rsqrt` becomes a division by the root, as on the CPU.
//! - The rest is calls of libdevice. Where there is none, `exp` and `erf` on `f32` become the arithmetic that the CPU computes
//!   them by. What then still needs a function is refused when code is made, by name: LLVM's own `llvm.exp` and its like
//!   have no code for this target.
//!
//! Before: `%1 = math.sqrt %0 : f32`
//! After: `%1 = llvm.call_intrinsic "llvm.sqrt.f32"(%0) : (f32) -> f32`

use std::path::PathBuf;

use dynamlir_dialect::{
    ir::{Attr, Builder, Op, Type, Value},
    pass::{Options, Pass, PassResult, Run, Statistic},
    pass_options,
};
use dynamlir_passes::approximate_math;

use crate::libdevice;

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-gpu-math",
    description: "Write math functions as what the GPU has",
    options: MathOptions::DECLARED,
    statistics: &[REWRITTEN],
    run,
};

const REWRITTEN: Statistic = Statistic { name: "rewritten", description: "functions written as intrinsics" };

/// Functions and the intrinsics that are one instruction.
const INTRINSICS: &[(&str, &str)] = &[
    ("math.absf", "llvm.fabs"),
    ("math.ceil", "llvm.ceil"),
    ("math.copysign", "llvm.copysign"),
    ("math.floor", "llvm.floor"),
    ("math.fma", "llvm.fma"),
    ("math.roundeven", "llvm.roundeven"),
    ("math.sqrt", "llvm.sqrt"),
    ("math.trunc", "llvm.trunc"),
];

pass_options! {
    /// Options of `dynamo-gpu-math`.
    pub struct MathOptions {
        /// CUDA's libdevice: `none`, or its path; found where it is not given
        libdevice: Option<String> = None,
    }
}

fn run(module: Op, pass: &Run) -> PassResult {
    if library(pass.options::<MathOptions>()?.libdevice.as_deref()).is_none() {
        for device in devices(module) {
            pass.count(&REWRITTEN, approximate_math::expand(device));
        }
    }
    let mut found = Vec::new();
    for device in devices(module) {
        device.walk(&mut |op| {
            if op.name().starts_with("math.") && [Type::f32(op.ctx()), Type::f64(op.ctx())].contains(&op.result(0).ty()) {
                found.push(op);
            }
        });
    }
    for op in found {
        let value = if op.is("math.rsqrt") { reciprocal_root(op) } else { intrinsic(op) };
        if let Some(value) = value {
            op.result(0).replace_all_uses_with(value);
            op.erase();
            pass.count(&REWRITTEN, 1);
        }
    }
    Ok(())
}

fn intrinsic(op: Op) -> Option<Value> {
    let &(_, intrinsic) = INTRINSICS.iter().find(|(name, _)| op.is(name))?;
    Some(call(&Builder::before(op), intrinsic, op))
}

/// A call of an intrinsic with an operation's operands. Upstream's conversion refuses the operations that stand for these
/// intrinsics, since it wants to make calls of libdevice itself; calls by name it leaves alone.
fn call(builder: &Builder, intrinsic: &str, op: Op) -> Value {
    let (ctx, ty) = (op.ctx(), op.result(0).ty());
    let array = |numbers: &str| Attr::parse(ctx, &format!("array<i32{numbers}>")).expect("well-formed");
    let attrs = [
        ("intrin", Attr::str(ctx, &format!("{intrinsic}.{ty}"))),
        ("op_bundle_sizes", array("")),
        ("operandSegmentSizes", array(&format!(": {}, 0", op.num_operands()))),
    ];
    builder.value("llvm.call_intrinsic", &op.operands(), ty, &attrs)
}

fn reciprocal_root(op: Op) -> Option<Value> {
    let (builder, ty) = (Builder::before(op), op.result(0).ty());
    let root = call(&builder, "llvm.sqrt", op);
    let one = builder.value("arith.constant", &[], ty, &[("value", Attr::float_of(ty, 1.0))]);
    Some(builder.value("arith.divf", &[one, root], ty, &[]))
}

/// The GPU modules inside a module.
pub(crate) fn devices(module: Op) -> Vec<Op> {
    let mut found = Vec::new();
    module.walk(&mut |op| {
        if op.is("gpu.module") {
            found.push(op);
        }
    });
    found
}

/// The library that an option names, or that is found.
pub(crate) fn library(option: Option<&str>) -> Option<PathBuf> {
    match option {
        Some("none") => None,
        Some(path) => Some(path.into()),
        None => libdevice::find(None),
    }
}
