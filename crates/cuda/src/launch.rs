//! The launch parameters of a kernel: the information that a runtime needs besides the code.

use crate::Error;

/// The requirements on one argument. All arguments are addresses in device memory, passed in the kernel's own order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The required alignment of the address in bytes. The code relies on it to move several elements at once: if an address is not
    /// aligned, the kernel must not be launched.
    pub alignment: i64,
    /// True if the kernel writes there.
    pub written: bool,
}

/// The parameters of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The entry's name.
    pub name: String,
    /// The number of blocks in x, y and z.
    pub grid: [i64; 3],
    /// The number of threads of a block in x, y and z.
    pub block: [i64; 3],
    /// Bytes of shared memory to request at launch, in addition to those declared in the code.
    pub shared_bytes: i64,
    /// The arguments in order.
    pub arguments: Vec<Argument>,
}

impl Launch {
    /// Checks addresses against the alignment that the code requires.
    pub fn accepts(&self, addresses: &[u64]) -> Result<(), Error> {
        if addresses.len() != self.arguments.len() {
            let why = format!("it takes {} arguments, not {}", self.arguments.len(), addresses.len());
            return Err(Error::Launch { kernel: self.name.clone(), why });
        }
        for (index, (address, argument)) in addresses.iter().zip(&self.arguments).enumerate() {
            self.accepts_one(index, argument, *address)?;
        }
        Ok(())
    }

    #[inline]
    fn accepts_one(&self, index: usize, argument: &Argument, address: u64) -> Result<(), Error> {
        if address.is_multiple_of(argument.alignment.unsigned_abs().max(1)) {
            return Ok(());
        }
        Err(Error::Misaligned { kernel: self.name.clone(), argument: index, alignment: argument.alignment })
    }

    /// The sizes in the form that the driver takes: none may be 0, and each must fit its type.
    pub(crate) fn sizes(&self) -> Result<([u32; 3], [u32; 3], u32), Error> {
        let size = |size: i64| u32::try_from(size).ok().filter(|&size| size > 0);
        let three = |sizes: [i64; 3]| Some([size(sizes[0])?, size(sizes[1])?, size(sizes[2])?]);
        let found = three(self.grid).zip(three(self.block)).zip(u32::try_from(self.shared_bytes).ok());
        let ((grid, block), shared) = found.ok_or_else(|| Error::Launch {
            kernel: self.name.clone(),
            why: format!("a grid of {:?} with blocks of {:?} and {} bytes is none", self.grid, self.block, self.shared_bytes),
        })?;
        Ok((grid, block, shared))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch() -> Launch {
        let argument = |alignment| Argument { alignment, written: false };
        Launch { name: "k".into(), grid: [1; 3], block: [32, 1, 1], shared_bytes: 0, arguments: vec![argument(16), argument(4)] }
    }

    #[test]
    fn addresses_are_held_against_alignments() {
        let launch = launch();
        assert!(launch.accepts(&[0x1000, 0x1004]).is_ok());
        let refusal = |addresses: &[u64]| launch.accepts(addresses).expect_err("is refused").to_string();
        assert_eq!(refusal(&[0x1004, 0x1004]), "argument 0 of kernel k is not aligned to 16 bytes");
        assert_eq!(refusal(&[0x1000]), "kernel k cannot be launched: it takes 2 arguments, not 1");
    }

    #[test]
    fn a_grid_without_blocks_is_none() {
        assert_eq!(launch().sizes(), Ok(([1; 3], [32, 1, 1], 0)));
        for grid in [[0, 1, 1], [1, -1, 1], [1 << 40, 1, 1]] {
            assert!(Launch { grid, ..launch() }.sizes().is_err());
        }
    }
}
