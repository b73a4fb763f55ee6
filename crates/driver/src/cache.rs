//! Kernels compiled before in this process.
//!
//! The key is the kernel's whole text at stage 05, its own name left out: equal text is equal code. Threads share the
//! cache; linked code lives as long as a kernel of it is held.

use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex, PoisonError},
};

use dynamlir_dialect::ir::{Attr, Op};
use dynamlir_runtime::Kernel;

static KERNELS: LazyLock<Mutex<HashMap<String, Kernel>>> = LazyLock::new(Mutex::default);

/// Past this the cache starts anew: a test suite compiles without end, a user's program does not get here.
const LIMIT: usize = 8192;

/// The kernel's text with a neutral name.
pub fn key(kernel: Op) -> String {
    let ctx = kernel.ctx();
    let name = kernel.symbol().unwrap_or_default();
    kernel.set_attr("sym_name", Attr::str(ctx, "k"));
    let text = kernel.text();
    kernel.set_attr("sym_name", Attr::str(ctx, &name));
    text
}

/// A kernel compiled before.
pub fn find(key: &str) -> Option<Kernel> {
    KERNELS.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
}

/// Keeps a kernel.
pub fn keep(key: String, kernel: Kernel) {
    let mut kernels = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    if kernels.len() >= LIMIT {
        kernels.clear();
    }
    kernels.insert(key, kernel);
}

/// Forgets all kernels; those in use live on.
pub fn clear() {
    KERNELS.lock().unwrap_or_else(PoisonError::into_inner).clear();
}
