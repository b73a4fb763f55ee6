//! Kernels compiled before in this process.
//!
//! The key is the kernel's whole text at stage 05, its own name left out, after what it is made for: equal text is equal code.
//! Threads share the cache; linked code, and code loaded into a device, lives as long as a kernel of it is held.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use dynamlir_cuda::Kernel as DeviceKernel;
use dynamlir_dialect::ir::{Attr, Op};
use dynamlir_runtime::Kernel;

use crate::gpu::Target;

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

static KERNELS: LazyLock<Mutex<HashMap<String, Kept>>> = LazyLock::new(Mutex::default);

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

/// Past this the cache starts anew: a test suite compiles without end, a user's program does not get here.
const LIMIT: usize = 8192;

/// What a kernel is made for, and its text with a neutral name.
pub fn key(kernel: Op, target: &Target) -> String {
    let ctx = kernel.ctx();
    let name = kernel.symbol().unwrap_or_default();
    kernel.set_attr("sym_name", Attr::str(ctx, "k"));
    let text = kernel.text();
    kernel.set_attr("sym_name", Attr::str(ctx, &name));
    target.key() + &text
}

/// A kernel compiled before.
pub fn find(key: &str) -> Option<Kept> {
    KERNELS.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
}

/// Keeps a kernel.
pub fn keep(key: String, kernel: Code, unscheduled: Option<String>) {
    let mut kernels = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    if kernels.len() >= LIMIT {
        kernels.clear();
    }
    kernels.insert(key, (kernel, unscheduled));
}

/// Forgets all kernels; those in use live on.
pub fn clear() {
    KERNELS.lock().unwrap_or_else(PoisonError::into_inner).clear();
}
