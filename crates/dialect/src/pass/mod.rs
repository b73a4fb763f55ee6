//! Passes written in Rust.
//!
//! A pass is a name, a line of description, [options] with their types, statistics, and a function on the module. Registered passes are
//! known to pipelines, to `dynamlir-opt` and to `mlir-opt` with the plugin. A panic inside becomes a diagnostic, never an abort.

mod options;

use std::{
    any::Any,
    cell::{Cell, RefCell},
    ffi::c_void,
    panic::{AssertUnwindSafe, catch_unwind},
};

use dynamlir_decisions::Decision;
use mlir_sys::{MlirOperation, mlirEmitError};

pub use options::{GivenOptions, OptionSpec, OptionType, Options, Run, Statistic, Value};

use crate::{
    ffi,
    ir::{
        self, Loc, Op, PythonLine,
        sizes::{find_expression, holds_expressions},
    },
    program::{KERNELS, kernels_module},
};

/// The reason a pass gave up, and the location.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct PassError {
    message: String,
    location: Option<mlir_sys::MlirLocation>,
    reason: Option<&'static str>,
}

/// Something in a valid program that a pass does not support: the caller may run the program in another way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The ID of the reason.
    pub reason: &'static str,
    /// The description.
    pub message: String,
    /// The Python lines, innermost frame first.
    pub location: Vec<PythonLine>,
}

thread_local! {
    // The pass manager reports only that there was a failure; a context stays on its thread.
    static REFUSAL: RefCell<Option<Refusal>> = const { RefCell::new(None) };
    // The decisions of the passes that run on this thread; `None` if nobody collects them.
    static DECIDED: RefCell<Option<Vec<Decision>>> = const { RefCell::new(None) };
}

/// Runs passes on this thread, and returns their decisions.
pub(crate) fn collecting<R>(passes: impl FnOnce() -> R) -> (R, Vec<Decision>) {
    let outer = DECIDED.replace(Some(Vec::new()));
    let result = passes();
    (result, DECIDED.replace(outer).unwrap_or_default())
}

/// Takes the refusal for which the latest pass of this thread failed, if it failed for one.
pub(crate) fn take_refusal() -> Option<Refusal> {
    REFUSAL.take()
}

impl PassError {
    /// An error at an operation.
    pub fn at(op: Op, message: impl Into<String>) -> Self {
        Self { message: message.into(), location: Some(op.loc().raw()), reason: None }
    }
    /// An error about an operation of a valid program that the pass does not support; `reason` is the ID of a reason.
    pub fn refusal(op: Op, reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason: Some(reason), ..Self::at(op, message) }
    }
    /// An error about the module as a whole.
    pub fn module(message: impl Into<String>) -> Self {
        Self { message: message.into(), location: None, reason: None }
    }
}

/// The result of a pass.
pub type PassResult = Result<(), PassError>;

/// The kinds of sizes that a pass supports. For other sizes, an error is reported at their operation before the pass runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Numbers.
    Numbers,
    /// Numbers and expressions.
    Symbols,
    /// Values: the pass works on kernels as loops, whose sizes are numbers or arguments. Outside kernels there may be expressions.
    Lowered,
}

/// A pass on `builtin.module`.
pub struct Pass {
    /// Command-line name, `dynamo-…`.
    pub name: &'static str,
    /// One line of description.
    pub description: &'static str,
    /// The kinds of sizes that it supports.
    pub takes: Takes,
    /// Its options: `DECLARED` of a struct written by [`pass_options!`](crate::pass_options).
    pub options: &'static [OptionSpec],
    /// Its statistics.
    pub statistics: &'static [Statistic],
    /// The body.
    pub run: fn(Op, &Run) -> PassResult,
}

/// Registers a pass under its name. Call it once per process and pass.
pub fn register(pass: &'static Pass) {
    let options = Declarations::of(pass.options);
    let statistics: Vec<_> = pass
        .statistics
        .iter()
        .map(|statistic| ffi::Statistic { name: ir::str_ref(statistic.name), description: ir::str_ref(statistic.description) })
        .collect();
    let declaration = ffi::PassDeclaration {
        name: ir::str_ref(pass.name),
        description: ir::str_ref(pass.description),
        options: options.raw.as_ptr(),
        num_options: options.raw.len() as isize,
        statistics: statistics.as_ptr(),
        num_statistics: statistics.len() as isize,
        run: trampoline,
        user_data: std::ptr::from_ref(pass).cast_mut().cast(),
    };
    // SAFETY: everything in the declaration is copied; the user data points to a static.
    unsafe { ffi::dynamoRegisterPass(&raw const declaration) }
}

/// Registers a list of passes on modules under a name. An option that is given replaces `$option` in the passes. Call it once per process
/// and name.
pub fn register_pipeline(name: &str, description: &str, passes: &str, options: &[OptionSpec]) {
    let options = Declarations::of(options);
    let (raw, count) = (options.raw.as_ptr(), options.raw.len() as isize);
    // SAFETY: the strings and the declarations are copied.
    unsafe { ffi::dynamoRegisterPipeline(ir::str_ref(name), ir::str_ref(description), ir::str_ref(passes), raw, count) }
}

/// Options in the form that C++ takes, with the names that they point to.
struct Declarations {
    raw: Vec<ffi::Declaration>,
    _names: Vec<String>,
}

impl Declarations {
    fn of(options: &[OptionSpec]) -> Self {
        let names: Vec<String> = options.iter().map(options::option_name).collect();
        let declare = |(option, name): (&OptionSpec, &String)| ffi::Declaration {
            name: ir::str_ref(name),
            description: ir::str_ref(option.description.trim()),
            kind: option.kind,
        };
        Self { raw: options.iter().zip(&names).map(declare).collect(), _names: names }
    }
}

/// Checks that the pass supports the sizes of the module. If the context has no expressions, this only tests a flag.
fn check_sizes(pass: &Pass, module: Op) -> PassResult {
    let looked_at = match pass.takes {
        _ if !holds_expressions(module.ctx()) => None,
        Takes::Symbols => None,
        Takes::Numbers => Some(module),
        // The module is the one of the kernels, or contains it.
        Takes::Lowered if module.symbol().as_deref() == Some(KERNELS) => Some(module),
        Takes::Lowered => kernels_module(module),
    };
    looked_at.map_or(Ok(()), |op| numbers_only(op, pass.name))
}

/// Reports an error at the first operation, in or at `root`, that contains an expression: for passes that support only numbers.
pub fn numbers_only(root: Op, pass: &str) -> PassResult {
    match find_expression(root) {
        Some((op, size)) => Err(PassError::at(op, format!("{pass} takes sizes that are numbers, found {size}"))),
        None => Ok(()),
    }
}

/// Called from C++; nothing unwinds out of it.
unsafe extern "C" fn trampoline(
    module: MlirOperation,
    options: *const ffi::OptionValue,
    statistics: *mut u64,
    user_data: *mut c_void,
) -> ffi::PassOutcome {
    // SAFETY: `register` passes a `&'static Pass`.
    let pass = unsafe { &*user_data.cast::<Pass>() };
    let module = Op::from_raw(module);
    let read = |(index, option): (usize, &OptionSpec)| {
        // SAFETY: there is a value for each declared option; texts are borrowed for the call.
        let value = unsafe { &*options.add(index) };
        value.is_given.then(|| match option.kind {
            ffi::OptionKind::Text => options::Value::Text(ir::to_string(value.text)),
            ffi::OptionKind::Flag | ffi::OptionKind::Number => options::Value::Number(value.number),
        })
    };
    let given = GivenOptions(pass.options.iter().enumerate().map(read).collect());
    let run = Run {
        name: pass.name,
        given,
        statistics: pass.statistics,
        counted: RefCell::new(vec![0; pass.statistics.len()]),
        counts_all: Cell::new(false),
        decided: RefCell::default(),
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        check_sizes(pass, module)?;
        (pass.run)(module, &run)
    }));
    ir::retired::free(module.ctx());
    for (index, count) in run.counted.borrow().iter().enumerate() {
        // SAFETY: there is room for each declared statistic.
        unsafe { *statistics.add(index) = *count };
    }
    DECIDED.with_borrow_mut(|all| all.iter_mut().for_each(|all| all.append(&mut run.decided.borrow_mut())));
    REFUSAL.take();
    let (message, location) = match outcome {
        Ok(Ok(())) if run.counts_all.get() && run.counted.borrow().iter().all(|&count| count == 0) => return ffi::PassOutcome::Unchanged,
        Ok(Ok(())) => return ffi::PassOutcome::Changed,
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
    ffi::PassOutcome::Failed
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
