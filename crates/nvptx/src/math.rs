//! `dynamo-gpu-math`: lowers math functions to those that the GPU has.
//!
//! - A function that is one instruction becomes LLVM's intrinsic for it. Upstream would call libdevice, whose `sqrt` is by default the
//!   approximate one.
//! - `rsqrt` becomes a division by the root, as on the CPU.
//! - The rest become calls of libdevice. Without libdevice, `exp` and `erf` on `f32` become the arithmetic that computes them on the CPU.
//!   If a function is still needed then, code generation is refused with its name: LLVM's own `llvm.exp` and similar intrinsics cannot be
//!   compiled for this target.
//!
//! Before: `%1 = math.sqrt %0 : f32`
//! After: `%1 = llvm.call_intrinsic "llvm.sqrt.f32"(%0) : (f32) -> f32`

use std::path::PathBuf;

use dynamlir_dialect::{
    ir::{Builder, Op, Value},
    pass::{Options, Pass, PassResult, Run, Statistic, Takes},
    pass_options,
    upstream::{gpu, math},
};
use dynamlir_passes::approximate_math;

use crate::libdevice;

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-gpu-math",
    description: "Lower math functions to GPU intrinsics, or to arithmetic if there is no libdevice",
    takes: Takes::Lowered,
    options: MathOptions::DECLARED,
    statistics: &[REWRITTEN],
    run,
};

const REWRITTEN: Statistic = Statistic { name: "rewritten", description: "functions lowered to intrinsics or arithmetic" };

/// Functions and the intrinsics that compile to one instruction.
const INTRINSICS: &[(&str, &str)] = &[
    (math::ABSF, "llvm.fabs"),
    (math::CEIL, "llvm.ceil"),
    (math::COPYSIGN, "llvm.copysign"),
    (math::FLOOR, "llvm.floor"),
    (math::FMA, "llvm.fma"),
    (math::ROUNDEVEN, "llvm.roundeven"),
    (math::SQRT, "llvm.sqrt"),
    (math::TRUNC, "llvm.trunc"),
];

pass_options! {
    /// Options of `dynamo-gpu-math`.
    pub struct MathOptions {
        /// path of CUDA's libdevice, or `none` (searched for)
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
            if op.is_of(math::DIALECT) && (op.result(0).ty().is_f32() || op.result(0).ty().is_f64()) {
                found.push(op);
            }
        });
    }
    for op in found {
        let value = if op.is(math::RSQRT) { Some(reciprocal_root(op)) } else { intrinsic(op) };
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
    Some(call(Builder::before(op), intrinsic, op))
}

/// A call of an intrinsic with an operation's operands. Upstream's conversion rejects the operations for these intrinsics, since it wants
/// to create calls of libdevice itself; it does not touch calls by name.
fn call(b: Builder, intrinsic: &str, op: Op) -> Value {
    b.llvm_call_intrinsic(intrinsic, &op.operands(), op.result(0).ty())
}

fn reciprocal_root(op: Op) -> Value {
    let b = Builder::before(op);
    let root = call(b, "llvm.sqrt", op);
    b.divf(b.float(root.ty(), 1.0), root)
}

/// The GPU modules inside a module.
pub(crate) fn devices(module: Op) -> Vec<Op> {
    let mut found = Vec::new();
    module.walk(&mut |op| {
        if op.is(gpu::MODULE) {
            found.push(op);
        }
    });
    found
}

/// The library that an option names, or else the installed one.
pub(crate) fn library(option: Option<&str>) -> Option<PathBuf> {
    match option {
        Some("none") => None,
        Some(path) => Some(path.into()),
        None => libdevice::find(None),
    }
}
