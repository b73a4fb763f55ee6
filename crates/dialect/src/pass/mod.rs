//! Passes written in Rust.
//!
//! A pass is a name, a line of description, [options] with their types, what it counts, and a function on the module.
//! Registered ones are known to pipelines, to `dynamlir-opt` and to `mlir-opt` with the plugin. A panic inside is a diagnostic,
//! never an abort.

mod options;

use std::{
    any::Any,
    cell::{Cell, RefCell},
    ffi::c_void,
    panic::{AssertUnwindSafe, catch_unwind},
};

use mlir_sys::{MlirOperation, mlirEmitError};

pub use options::{Given, OptionSpec, OptionType, Options, Run, Statistic, Value};

use crate::{
    ffi,
    ir::{
        self, Loc, Op,
        sizes::{find_expression, holds_expressions},
    },
    program::{KERNELS, kernels_module},
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

/// Which sizes a pass takes. What it does not take is an error at the operation that says it, before the pass runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Numbers.
    Numbers,
    /// Numbers and expressions.
    Symbols,
    /// Values: it works on kernels as loops, whose sizes are numbers or arguments. Around kernels there may be expressions.
    Lowered,
}

/// A pass on `builtin.module`.
pub struct Pass {
    /// Command-line name, `dynamo-…`.
    pub name: &'static str,
    /// One line.
    pub description: &'static str,
    /// Which sizes it takes.
    pub takes: Takes,
    /// Its options: `DECLARED` of a struct that [`pass_options!`](crate::pass_options) has written.
    pub options: &'static [OptionSpec],
    /// What it counts.
    pub statistics: &'static [Statistic],
    /// The body.
    pub run: fn(Op, &Run) -> PassResult,
}

/// Makes a pass known by its name. Call it once per process and pass.
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
    // SAFETY: all that is declared is copied; the user data points to a static.
    unsafe { ffi::dynamoRegisterPass(&raw const declaration) }
}

/// Makes a list of passes on modules known by a name. Where the passes say `$option`, such an option goes if it is given. Call it
/// once per process and name.
pub fn register_pipeline(name: &str, description: &str, passes: &str, options: &[OptionSpec]) {
    let options = Declarations::of(options);
    let (raw, count) = (options.raw.as_ptr(), options.raw.len() as isize);
    // SAFETY: the strings and what is declared are copied.
    unsafe { ffi::dynamoRegisterPipeline(ir::str_ref(name), ir::str_ref(description), ir::str_ref(passes), raw, count) }
}

/// Options as C++ takes them, with the names that they point to.
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

/// Whether the pass takes the sizes of the module. Where there is no expression in the context, that is a look at a flag.
fn check_sizes(pass: &Pass, module: Op) -> PassResult {
    let looked_at = match pass.takes {
        _ if !holds_expressions(module.ctx()) => None,
        Takes::Symbols => None,
        Takes::Numbers => Some(module),
        // The module is that of the kernels, or holds it.
        Takes::Lowered if module.symbol().as_deref() == Some(KERNELS) => Some(module),
        Takes::Lowered => kernels_module(module),
    };
    looked_at.map_or(Ok(()), |op| numbers_only(op, pass.name))
}

/// An error at the first operation, in or at `root`, that says an expression: for what a pass takes numbers only.
pub fn numbers_only(root: Op, pass: &str) -> PassResult {
    match find_expression(root) {
        Some((op, size)) => Err(PassError::at(op, format!("{pass} takes sizes that are numbers, found {size}"))),
        None => Ok(()),
    }
}

/// Entered by C++; nothing unwinds out of it.
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
        // SAFETY: there is a value for each option that was declared; texts are borrowed for the call.
        let value = unsafe { &*options.add(index) };
        value.is_given.then(|| match option.kind {
            ffi::OptionKind::Text => options::Value::Text(ir::to_string(value.text)),
            ffi::OptionKind::Flag | ffi::OptionKind::Number => options::Value::Number(value.number),
        })
    };
    let given = Given(pass.options.iter().enumerate().map(read).collect());
    let run =
        Run { given, statistics: pass.statistics, counted: RefCell::new(vec![0; pass.statistics.len()]), counts_all: Cell::new(false) };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        check_sizes(pass, module)?;
        (pass.run)(module, &run)
    }));
    ir::retired::free(module.ctx());
    for (index, count) in run.counted.borrow().iter().enumerate() {
        // SAFETY: there is room for each statistic that was declared.
        unsafe { *statistics.add(index) = *count };
    }
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
