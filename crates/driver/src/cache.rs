//! Kernels compiled earlier in this process.
//!
//! The key is the machine that the kernel is compiled for, followed by the kernel's whole text at stage 05 without its name: equal text
//! means equal code. Threads share the cache. Linked code, and code loaded into a device, lives as long as one of its kernels is held. The
//! cache itself holds only the latest few; the code of other kernels is freed with the functions that use it.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use dynamlir_cuda::{Kernel as DeviceKernel, WeakKernel as WeakDeviceKernel};
use dynamlir_decisions::Decision;
use dynamlir_dialect::{ir::Op, program::kernel_text};
use dynamlir_runtime::{Kernel, WeakKernel};

/// A compiled kernel.
#[derive(Clone)]
pub enum Code {
    /// Machine code of this process.
    Host(Kernel),
    /// Code loaded into a device's context.
    Device(DeviceKernel),
}

/// A kernel's code, and the decisions about it.
type Kept = (Code, Vec<Decision>);

/// Like [`Code`], without keeping it alive.
enum WeakCode {
    Host(WeakKernel),
    Device(WeakDeviceKernel),
}

impl Code {
    fn downgrade(&self) -> WeakCode {
        match self {
            Self::Host(kernel) => WeakCode::Host(kernel.downgrade()),
            Self::Device(kernel) => WeakCode::Device(kernel.downgrade()),
        }
    }
}

impl WeakCode {
    fn upgrade(&self) -> Option<Code> {
        match self {
            Self::Host(kernel) => kernel.upgrade().map(Code::Host),
            Self::Device(kernel) => kernel.upgrade().map(Code::Device),
        }
    }
}

/// The number of latest kernels that are kept even if unused, so that recompilations find them.
const RECENT: usize = 32;

/// The minimum number of entries before entries of freed kernels are swept.
const SWEEP: usize = 64;

#[derive(Default)]
struct Kernels {
    known: HashMap<String, (WeakCode, Vec<Decision>)>,
    recent: VecDeque<Code>,
    /// The number of entries at which entries of freed kernels are dropped.
    sweep: usize,
}

static KERNELS: LazyLock<Mutex<Kernels>> = LazyLock::new(Mutex::default);

/// A plan's kernels, which are all of one kind. A plan without kernels launches nothing and does not need a device.
pub fn together(kernels: Vec<Code>) -> dynamlir_runtime::Code {
    let (mut host, mut device) = (Vec::new(), Vec::new());
    for kernel in kernels {
        match kernel {
            Code::Host(kernel) => host.push(kernel),
            Code::Device(kernel) => device.push(kernel),
        }
    }
    match device.first() {
        Some(first) => dynamlir_runtime::Code::Device(Arc::clone(first.context()), device),
        None => dynamlir_runtime::Code::Host(host),
    }
}

/// The machine that a kernel is compiled for, and its text with a neutral name.
pub fn key(kernel: Op, made_for: &str) -> String {
    made_for.to_owned() + &kernel_text(kernel)
}

/// A kernel compiled earlier that is still in use or among the latest.
pub fn find(key: &str) -> Option<Kept> {
    let kernels = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    let (code, decisions) = kernels.known.get(key)?;
    Some((code.upgrade()?, decisions.clone()))
}

/// Caches a kernel for as long as it is used.
pub fn keep(key: String, kernel: Code, decisions: Vec<Decision>) {
    let mut kernels = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    if kernels.known.len() >= kernels.sweep.max(SWEEP) {
        kernels.known.retain(|_, (code, _)| code.upgrade().is_some());
        kernels.sweep = 2 * kernels.known.len();
    }
    kernels.known.insert(key, (kernel.downgrade(), decisions));
    kernels.recent.push_back(kernel);
    let oldest = if kernels.recent.len() > RECENT { kernels.recent.pop_front() } else { None };
    // Unlinking may take a while, so the lock is released first.
    drop(kernels);
    drop(oldest);
}

/// Drops all kernels from the cache; those in use live on.
pub fn clear() {
    let kernels = std::mem::take(&mut *KERNELS.lock().unwrap_or_else(PoisonError::into_inner));
    drop(kernels);
}
