//! The driver's state (modules, counts of calls, the log), and its settings from the environment.

use std::{
    collections::{BTreeMap, HashMap},
    env, fs,
    io::Write,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use crate::code::{Entry, Module};

/// A function.
#[derive(Clone)]
pub struct Function {
    /// The handle of its module.
    pub module: usize,
    /// Its code.
    pub entry: Arc<Entry>,
    /// The dynamic shared memory with which it may be launched.
    pub shared: u32,
}

/// The state of the process's only driver.
#[derive(Default)]
pub struct State {
    /// Loaded modules, by handle.
    pub modules: BTreeMap<usize, Arc<Module>>,
    /// Functions that were looked up, by handle.
    pub functions: BTreeMap<usize, Function>,
    calls: HashMap<&'static str, u32>,
    handles: usize,
    /// The reference count of the primary context.
    pub retained: u32,
}

/// The state, locked.
pub fn state() -> MutexGuard<'static, State> {
    static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// A new handle, which is not an address.
    pub fn handle(&mut self) -> usize {
        self.handles += 1;
        self.handles * 16
    }

    /// Counts a call; returns the status with which the environment requests it to fail, if so.
    pub fn fails(&mut self, call: &'static str) -> Option<i32> {
        let made = self.calls.entry(call).or_default();
        let number = *made;
        *made += 1;
        let wanted = env::var("DYNAMLIR_CUDA_MOCK_FAIL").ok()?;
        let (name, status) = wanted.split_once('=')?;
        let (status, at) = status.split_once('@').map_or((status, None), |(status, at)| (status, at.parse::<u32>().ok()));
        (name == call && at.is_none_or(|at| at == number)).then(|| status.parse().ok()).flatten()
    }
}

/// A number from the environment.
pub fn number(variable: &str, usual: i32) -> i32 {
    env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Writes a line to the log, if there is one.
pub fn log(line: &str) {
    let Some(path) = env::var_os("DYNAMLIR_CUDA_MOCK_LOG") else { return };
    // If the log cannot be written, the test that reads it fails.
    if let Ok(mut file) = fs::OpenOptions::new().create(true).append(true).open(path) {
        let _ = writeln!(file, "{line}");
    }
}
