//! Execution below autograd: dispatch keys are excluded on this thread while a guard lives.

use std::marker::PhantomData;

use crate::TorchAbi;

/// While it lives, ops called on this thread skip Autograd, Autocast and the version counting of in-place ops.
///
/// Keys that were already excluded stay so afterwards. It belongs to the thread that created it.
pub struct BelowAutograd {
    abi: &'static TorchAbi,
    changed: u64,
    with_inplace: bool,
    /// Not Send: it restores state of one thread.
    _thread: PhantomData<*const ()>,
}

impl BelowAutograd {
    /// Excludes every key given at initialisation.
    #[must_use]
    pub fn enter(abi: &'static TorchAbi) -> Self {
        Self::with(abi, true)
    }

    /// Like `enter`, but in-place ops still bump version counters.
    pub(crate) fn counting_versions(abi: &'static TorchAbi) -> Self {
        Self::with(abi, false)
    }

    fn with(abi: &'static TorchAbi, with_inplace: bool) -> Self {
        let mut changed = 0;
        for (i, key) in keys(abi, with_inplace).enumerate() {
            // SAFETY: the numbers came from torch's own DispatchKey; both calls only touch this thread's state.
            unsafe {
                if !(abi.c10.is_excluded)(key) {
                    (abi.c10.set_excluded)(key, true);
                    changed |= 1 << i;
                }
            }
        }
        Self { abi, changed, with_inplace, _thread: PhantomData }
    }
}

impl Drop for BelowAutograd {
    fn drop(&mut self) {
        for (i, key) in keys(self.abi, self.with_inplace).enumerate() {
            if self.changed >> i & 1 == 1 {
                // SAFETY: as in `with`; we restore what we changed.
                unsafe { (self.abi.c10.set_excluded)(key, false) }
            }
        }
    }
}

/// Returns the keys in a fixed order; `init` limits them to 63 so that they index a `u64`. The keys of CUDA come last, since they may be
/// added while a guard lives.
fn keys(abi: &'static TorchAbi, with_inplace: bool) -> impl Iterator<Item = u16> {
    let inplace = with_inplace.then_some(abi.inplace_or_view).flatten();
    abi.below_autograd.iter().copied().chain(inplace).chain(abi.below_autograd_cuda().iter().copied())
}
