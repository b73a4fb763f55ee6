//! How a kernel is launched: what a runtime must know besides the code.
//!
//! In the IR it stands on the kernel as `dynamo.launch = {alignments = array<i64: 16, 4>, block = array<i64: 256, 1, 1>,
//! grid = array<i64: 64, 1, 1>, shared = 0 : i64, written = array<i64: 0, 1>}`.

use dynamlir_dialect::ir::{Attr, Ctx, Op};

/// What must hold of one argument. All arguments are addresses in device memory, passed in the kernel's own order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// What the address must be a multiple of, in bytes. The code moves several elements at once by it: where an address is
    /// not aligned, the kernel must not be launched.
    pub alignment: i64,
    /// Whether the kernel writes there.
    pub written: bool,
}

/// A launch, as numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The entry's name.
    pub name: String,
    /// Blocks, in x, y and z.
    pub grid: [i64; 3],
    /// Threads of a block, in x, y and z.
    pub block: [i64; 3],
    /// Bytes of shared memory to ask for at launch, beside what the code itself declares.
    pub shared_bytes: i64,
    /// The arguments in order.
    pub arguments: Vec<Argument>,
}

impl Launch {
    /// As an attribute. The name is that of the operation it stands on.
    pub fn to_attr(&self, ctx: Ctx) -> Attr {
        let each = |f: &dyn Fn(&Argument) -> i64| Attr::i64s(ctx, &self.arguments.iter().map(f).collect::<Vec<_>>());
        Attr::dict(
            ctx,
            &[
                ("alignments", each(&|argument| argument.alignment)),
                ("block", Attr::i64s(ctx, &self.block)),
                ("grid", Attr::i64s(ctx, &self.grid)),
                ("shared", Attr::i64(ctx, self.shared_bytes)),
                ("written", each(&|argument| argument.written.into())),
            ],
        )
    }

    /// Reads it from a kernel.
    pub fn of(kernel: Op) -> Option<Self> {
        let attr = kernel.attr("dynamo.launch")?;
        let three = |name: &str| attr.get(name)?.as_i64s()?.try_into().ok();
        let (alignments, written) = (attr.get("alignments")?.as_i64s()?, attr.get("written")?.as_i64s()?);
        let arguments = alignments.into_iter().zip(written).map(|(alignment, written)| Argument { alignment, written: written != 0 });
        Some(Self {
            name: kernel.symbol()?,
            grid: three("grid")?,
            block: three("block")?,
            shared_bytes: attr.get("shared")?.as_i64()?,
            arguments: arguments.collect(),
        })
    }
}
