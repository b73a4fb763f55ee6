//! How a kernel is launched: what a runtime must know besides the code.
//!
//! In the IR it stands on the kernel as `dynamo.launch = {alignments = array<i64: 16, 4>, block = array<i64: 256, 1, 1>,
//! grid = array<i64: 64, 1, 1>, shared = 0 : i64, written = array<i64: 0, 1>}`.

use dynamlir_dialect::ir::{Attr, Ctx, Op};

use crate::error::Error;

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

    /// Holds addresses against what the code counts on.
    pub fn accepts(&self, addresses: &[u64]) -> Result<(), Error> {
        let refuse = |why: String| Err(Error::Launch { kernel: self.name.clone(), why });
        if addresses.len() != self.arguments.len() {
            return refuse(format!("it takes {} arguments, not {}", self.arguments.len(), addresses.len()));
        }
        for (index, (address, argument)) in addresses.iter().zip(&self.arguments).enumerate() {
            if address % argument.alignment.unsigned_abs().max(1) != 0 {
                return refuse(format!("argument {index} is not aligned to {} bytes", argument.alignment));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_held_against_alignments() {
        let argument = |alignment| Argument { alignment, written: false };
        let launch =
            Launch { name: "k".into(), grid: [1; 3], block: [32, 1, 1], shared_bytes: 0, arguments: vec![argument(16), argument(4)] };
        assert!(launch.accepts(&[0x1000, 0x1004]).is_ok());
        let refusal = |addresses: &[u64]| launch.accepts(addresses).expect_err("is refused").to_string();
        assert_eq!(refusal(&[0x1004, 0x1004]), "kernel k cannot be launched: argument 0 is not aligned to 16 bytes");
        assert_eq!(refusal(&[0x1000]), "kernel k cannot be launched: it takes 2 arguments, not 1");
    }
}
