//! What the driver remembers: its modules, how often each call was made, the log; and what the environment asks of it.

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
    /// Of the module.
    pub module: usize,
    /// Its code.
    pub entry: Arc<Entry>,
    /// Dynamic shared memory that it may be launched with.
    pub shared: u32,
}

/// The state of the one driver in the process.
#[derive(Default)]
pub struct State {
    /// Loaded modules, by handle.
    pub modules: BTreeMap<usize, Arc<Module>>,
    /// Functions that were asked for, by handle.
    pub functions: BTreeMap<usize, Function>,
    calls: HashMap<&'static str, u32>,
    handles: usize,
    /// How often the primary context is retained.
    pub retained: u32,
}

/// The state, locked.
pub fn state() -> MutexGuard<'static, State> {
    static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// A number that was not a handle before, and is not an address.
    pub fn handle(&mut self) -> usize {
        self.handles += 1;
        self.handles * 16
    }

    /// Counts a call; the status that the environment wants it to return, if it does.
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
    // A log that cannot be written is one that the test does not find.
    if let Ok(mut file) = fs::OpenOptions::new().create(true).append(true).open(path) {
        let _ = writeln!(file, "{line}");
    }
}
