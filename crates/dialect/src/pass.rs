//! Passes written in Rust.
//!
//! A pass is a name, a line of description and a function on the module. Registered ones are known to pipelines,
//! to `dynamlir-opt` and to `mlir-opt` with the plugin. A panic inside is a diagnostic, never an abort.

use std::{
    any::Any,
    cell::RefCell,
    ffi::c_void,
    panic::{AssertUnwindSafe, catch_unwind},
};

use mlir_sys::{MlirOperation, MlirStringRef, mlirEmitError};

use crate::{
    ffi,
    ir::{self, Loc, Op},
};

/// Why a pass gave up, and where.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct PassError {
    message: String,
    location: Option<mlir_sys::MlirLocation>,
    reason: Option<&'static str>,
}

/// What a pass cannot do with a program that is right: whoever asked may run it in another way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The ID of the reason.
    pub reason: &'static str,
    /// What it is.
    pub message: String,
    /// The Python lines, innermost frame first: file, line, function.
    pub location: Vec<(String, u32, String)>,
}

thread_local! {
    // The pass manager knows of failures no more than that there was one; a context stays on its thread.
    static REFUSAL: RefCell<Option<Refusal>> = const { RefCell::new(None) };
}

/// Takes the refusal for which the latest pass of this thread failed, if it was one.
pub(crate) fn take_refusal() -> Option<Refusal> {
    REFUSAL.take()
}

impl PassError {
    /// An error at an operation.
    pub fn at(op: Op, message: impl Into<String>) -> Self {
        Self { message: message.into(), location: Some(op.loc().raw()), reason: None }
    }
    /// A program that is right, with an operation that the pass cannot follow; `reason` is the ID of a reason.
    pub fn refusal(op: Op, reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason: Some(reason), ..Self::at(op, message) }
    }
    /// An error about the module as a whole.
    pub fn module(message: impl Into<String>) -> Self {
        Self { message: message.into(), location: None, reason: None }
    }
}

/// What a pass returns.
pub type PassResult = Result<(), PassError>;

/// The settings of one run: `key=value` pairs from the `config` option.
#[derive(Debug, Default)]
pub struct Config(Vec<(String, String)>);

impl Config {
    /// Parses `a=1,b=2`.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
        Self(pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect())
    }
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
    /// The value of a key as a number.
    pub fn number(&self, key: &str) -> Option<i64> {
        self.get(key)?.parse().ok()
    }
}

/// A pass on `builtin.module`.
pub struct Pass {
    /// Command-line name, `dynamo-…`.
    pub name: &'static str,
    /// One line.
    pub description: &'static str,
    /// The body.
    pub run: fn(Op, &Config) -> PassResult,
}

/// Makes a pass known by its name. Call it once per process and pass.
pub fn register(pass: &'static Pass) {
    // SAFETY: name and description are copied; the user data points to a static.
    unsafe {
        ffi::dynamoRegisterPass(
            ir::str_ref(pass.name),
            ir::str_ref(pass.description),
            trampoline,
            std::ptr::from_ref(pass).cast_mut().cast(),
        );
    }
}

/// Makes a list of passes on modules known by a name. Call it once per process and name.
pub fn register_pipeline(name: &str, description: &str, passes: &str) {
    // SAFETY: the strings are copied.
    unsafe { ffi::dynamoRegisterPipeline(ir::str_ref(name), ir::str_ref(description), ir::str_ref(passes)) }
}

/// Entered by C++; nothing unwinds out of it.
unsafe extern "C" fn trampoline(module: MlirOperation, config: MlirStringRef, user_data: *mut c_void) -> bool {
    // SAFETY: `register` passes a `&'static Pass`.
    let pass = unsafe { &*user_data.cast::<Pass>() };
    let module = Op::from_raw(module);
    let config = Config::parse(&ir::to_string(config));
    let outcome = catch_unwind(AssertUnwindSafe(|| (pass.run)(module, &config)));
    REFUSAL.take();
    let (message, location) = match outcome {
        Ok(Ok(())) => return true,
        Ok(Err(error)) => {
            let location = error.location.map_or_else(|| module.loc(), Loc);
            if let Some(reason) = error.reason {
                REFUSAL.set(Some(Refusal { reason, message: error.message.clone(), location: location.frames() }));
            }
            (error.message, location.raw())
        }
        Err(panic) => (format!("internal error in {}: {}", pass.name, panic_text(&*panic)), module.loc().raw()),
    };
    let text = std::ffi::CString::new(message.replace('\0', " ")).unwrap_or_default();
    // SAFETY: the location belongs to the module's context, the text is terminated.
    unsafe { mlirEmitError(location, text.as_ptr()) };
    false
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into())
}

/// The location of a value's definition, for error messages.
pub fn loc_of(value: ir::Value, fallback: Loc) -> Loc {
    value.def().map_or(fallback, Op::loc)
}
