//! Kernels compiled before in this process.
//!
//! The key is the kernel's whole text at stage 05, its own name left out, after what it is made for: equal text is equal code.
//! Threads share the cache; linked code, and code loaded into a device, lives as long as a kernel of it is held. The cache holds the
//! latest few: the code of functions that are gone goes with them.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use dynamlir_cuda::{Kernel as DeviceKernel, WeakKernel as WeakDeviceKernel};
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

/// A kernel's code, and why it has no schedule if it has none.
type Kept = (Code, Option<String>);

/// As [`Code`], without keeping it.
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

/// How many of the latest kernels are kept although nothing uses them: what is compiled again finds them.
const RECENT: usize = 32;

/// How many entries there are at least before those of kernels that are gone are looked for.
const SWEEP: usize = 64;

#[derive(Default)]
struct Kernels {
    known: HashMap<String, (WeakCode, Option<String>)>,
    recent: VecDeque<Code>,
    /// How many entries there may be before those of kernels that are gone are dropped.
    sweep: usize,
}

static KERNELS: LazyLock<Mutex<Kernels>> = LazyLock::new(Mutex::default);

/// A plan's kernels, all of one kind. Where there is none, nothing is launched, and no device is needed.
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

/// What a kernel is made for, and its text with a neutral name.
pub fn key(kernel: Op, made_for: &str) -> String {
    made_for.to_owned() + &kernel_text(kernel)
}

/// A kernel compiled before, which something uses or which is among the latest.
pub fn find(key: &str) -> Option<Kept> {
    let kernels = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    let (code, unscheduled) = kernels.known.get(key)?;
    Some((code.upgrade()?, unscheduled.clone()))
}

/// Keeps a kernel for as long as something uses it.
pub fn keep(key: String, kernel: Code, unscheduled: Option<String>) {
    let mut kernels = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    if kernels.known.len() >= kernels.sweep.max(SWEEP) {
        kernels.known.retain(|_, (code, _)| code.upgrade().is_some());
        kernels.sweep = 2 * kernels.known.len();
    }
    kernels.known.insert(key, (kernel.downgrade(), unscheduled));
    kernels.recent.push_back(kernel);
    let oldest = if kernels.recent.len() > RECENT { kernels.recent.pop_front() } else { None };
    // Unlinking may take a while.
    drop(kernels);
    drop(oldest);
}

/// Forgets all kernels; those in use live on.
pub fn clear() {
    let kernels = std::mem::take(&mut *KERNELS.lock().unwrap_or_else(PoisonError::into_inner));
    drop(kernels);
}
