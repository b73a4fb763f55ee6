//! A launch in the IR, as an attribute of the kernel: `dynamo.launch = {alignments = array<i64: 16, 4>, block = array<i64: 256, 1, 1>, grid
//! = array<i64: 64, 1, 1>, shared = 0 : i64, written = array<i64: 0, 1>}`.

use dynamlir_dialect::{
    ir::{Attr, Ctx, Op},
    ops,
};

pub use dynamlir_cuda::{Argument, Launch};

/// Converts a launch to an attribute. The launch's name is that of the operation with the attribute.
pub fn to_attr(launch: &Launch, ctx: Ctx) -> Attr {
    let each = |f: &dyn Fn(&Argument) -> i64| Attr::i64s(ctx, &launch.arguments.iter().map(f).collect::<Vec<_>>());
    Attr::dict(
        ctx,
        &[
            ("alignments", each(&|argument| argument.alignment)),
            ("block", Attr::i64s(ctx, &launch.block)),
            ("grid", Attr::i64s(ctx, &launch.grid)),
            ("shared", Attr::i64(ctx, launch.shared_bytes)),
            ("written", each(&|argument| argument.written.into())),
        ],
    )
}

/// Reads it from a kernel.
pub fn of(kernel: Op) -> Option<Launch> {
    let attr = ops::LAUNCH.of(kernel)?;
    let three = |name: &str| attr.get(name)?.as_i64s()?.try_into().ok();
    let (alignments, written) = (attr.get("alignments")?.as_i64s()?, attr.get("written")?.as_i64s()?);
    let arguments = alignments.into_iter().zip(written).map(|(alignment, written)| Argument { alignment, written: written != 0 });
    Some(Launch {
        name: kernel.symbol()?,
        grid: three("grid")?,
        block: three("block")?,
        shared_bytes: attr.get("shared")?.as_i64()?,
        arguments: arguments.collect(),
    })
}
