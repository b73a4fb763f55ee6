//! Contexts with the dialects in use, parsing and printing modules, running pipelines.
//!
//! melior does most of the work; this module adds turning diagnostics into error values.

use std::{
    cell::RefCell,
    ffi::c_void,
    sync::{Arc, Mutex, Once},
};

use dynamlir_decisions::{Decision, Decisions};
use melior::{
    Context,
    dialect::DialectRegistry,
    ir::{Module, operation::OperationLike},
    pass::PassManager,
    utility::parse_pass_pipeline,
};
use mlir_sys::{MlirStringRef, mlirModuleCreateParse, mlirModuleGetOperation};

use crate::{
    ffi,
    ir::{self, Loc, PythonLine},
    pass::Refusal,
};

/// An error, with MLIR's diagnostics.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is not a valid module.
    #[error("cannot parse the module:\n{0}")]
    Parse(String),
    /// A pipeline string does not parse.
    #[error("bad pass pipeline `{pipeline}`:\n{diagnostics}")]
    Pipeline {
        /// The pipeline.
        pipeline: String,
        /// MLIR's messages.
        diagnostics: String,
    },
    /// A pass reported failure.
    #[error("{diagnostics}")]
    Pass {
        /// The pipeline that was running.
        pipeline: String,
        /// MLIR's messages, each with its location.
        diagnostics: String,
        /// The Python lines of the first message, innermost frame first.
        location: Vec<PythonLine>,
        /// Set if the program is valid, but a pass does not support it.
        refusal: Option<Box<Refusal>>,
    },
}

/// A context and its diagnostics. One thread at a time.
pub struct Session {
    context: Context,
    diagnostics: Arc<Mutex<String>>,
    /// The location of the first diagnostic.
    first: Arc<Mutex<Vec<PythonLine>>>,
    /// The decisions of the passes so far.
    decisions: RefCell<Vec<Decision>>,
    verify_each: bool,
}

/// Registers the upstream passes that our pipelines use; safe to call more than once.
pub(crate) fn register_upstream_passes() {
    static PASSES: Once = Once::new();
    // SAFETY: called once.
    PASSES.call_once(|| unsafe { ffi::dynamoRegisterUpstreamPasses() });
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Operations erased outside of passes must be freed before their context.
        ir::retired::free(self.ctx());
    }
}

impl Session {
    /// Creates a context with our dialect and the upstream ones that our pipelines use (`UpstreamDialects.cpp`, `UpstreamPasses.cpp`). It
    /// is single-threaded: kernels are small, and on the two-core machines of CI a thread pool would only cost time.
    pub fn new() -> Self {
        register_upstream_passes();
        ir::sizes::register();

        let registry = DialectRegistry::new();
        // SAFETY: the registry is alive.
        unsafe { ffi::dynamoRegisterDialects(registry.to_raw()) };
        let context = Context::new();
        context.enable_multi_threading(false);
        context.append_dialect_registry(&registry);
        // Rust passes build operations by name, so every dialect they may use must be loaded; parsing a file loads only the dialects it
        // names.
        for dialect in [
            "builtin",
            "func",
            "dynamo",
            "tensor",
            "linalg",
            "arith",
            "math",
            "memref",
            "scf",
            "bufferization",
            "transform",
            "gpu",
            "nvvm",
            "vector",
        ] {
            context.get_or_load_dialect(dialect);
        }

        let diagnostics = Arc::new(Mutex::new(String::new()));
        let first = Arc::<Mutex<Vec<_>>>::default();
        let (sink, place) = (Arc::clone(&diagnostics), Arc::clone(&first));
        context.attach_diagnostic_handler(move |diagnostic| {
            if let Ok(mut text) = sink.lock() {
                if text.is_empty()
                    && let Ok(mut place) = place.lock()
                {
                    *place = Loc(diagnostic.location().to_raw()).frames();
                }
                text.push_str(&format!("{}: {}\n", diagnostic.location(), diagnostic));
                for note in 0..diagnostic.note_count() {
                    if let Ok(note) = diagnostic.note(note) {
                        text.push_str(&format!("  note: {note}\n"));
                    }
                }
            }
            true
        });
        Self { context, diagnostics, first, decisions: RefCell::default(), verify_each: true }
    }

    /// Verifies only the result of a pipeline, not the result of each pass: for programs that a compiler wrote. Verification took 40 % of
    /// the time to reach the LLVM dialect. With debug assertions on, as in tests, every pass is verified all the same.
    pub fn trusting(mut self) -> Self {
        self.verify_each = cfg!(debug_assertions);
        self
    }

    /// Returns true if passes are trusted; see [`Self::trusting`].
    pub fn trusts(&self) -> bool {
        !self.verify_each
    }

    /// The context.
    pub fn context(&self) -> &Context {
        &self.context
    }
    /// The context as a handle.
    pub fn ctx(&self) -> ir::Ctx {
        ir::Ctx::from_raw(self.context.to_raw())
    }
    /// Takes the diagnostics emitted so far.
    pub fn take_diagnostics(&self) -> String {
        self.diagnostics.lock().map(|mut text| std::mem::take(&mut *text)).unwrap_or_default()
    }
    /// Takes the decisions of the passes that have run, in order.
    pub fn take_decisions(&self) -> Decisions {
        self.decisions.take().into_iter().collect()
    }
    /// Parses and verifies a module.
    pub fn parse(&self, text: &str) -> Result<Module<'_>, Error> {
        self.parse_file(text, "-")
    }
    /// Parses and verifies the text of a file, which is the place of operations without a location.
    pub fn parse_file(&self, text: &str, file: &str) -> Result<Module<'_>, Error> {
        // mlir-c takes a terminated string through a length-carrying view; a NUL inside is reported as a parse error.
        if let Some(at) = text.find('\0') {
            return Err(Error::Parse(format!("line {}: a zero byte", line_of(text, at))));
        }
        if let Some(line) = too_deep(text) {
            return Err(Error::Parse(format!("line {line}: brackets are nested too deep")));
        }
        // SAFETY: the strings are borrowed for the call; a returned module is new and ours.
        let module =
            unsafe { Module::from_option_raw(ffi::dynamoModuleParse(self.context.to_raw(), ir::str_ref(text), ir::str_ref(file))) };
        module.ok_or_else(|| Error::Parse(self.take_diagnostics()))
    }
    /// Reads a module that [`ir::Op::bytecode`] wrote, in this or another session.
    pub fn read(&self, bytecode: &[u8]) -> Result<Module<'_>, Error> {
        let view = MlirStringRef { data: bytecode.as_ptr().cast(), length: bytecode.len() };
        // SAFETY: the bytes are borrowed for the call; a returned module is new and ours.
        let module = unsafe { Module::from_option_raw(mlirModuleCreateParse(self.context.to_raw(), view)) };
        module.ok_or_else(|| Error::Parse(self.take_diagnostics()))
    }
    /// Runs a pipeline such as `builtin.module(dynamo-decompose,canonicalize)`.
    pub fn run(&self, module: &mut Module<'_>, pipeline: &str) -> Result<(), Error> {
        self.run_timed(module, pipeline, &mut |_, _| {})
    }
    /// Runs a pipeline and reports the seconds that each pass took.
    pub fn run_timed(&self, module: &mut Module<'_>, pipeline: &str, mut note: &mut dyn FnMut(&str, f64)) -> Result<(), Error> {
        let manager = PassManager::new(&self.context);
        manager.enable_verifier(self.verify_each);
        // SAFETY: `note` lives longer than the manager, which is used in this call only; the context has no threads.
        unsafe { ffi::dynamoPassManagerNoteTimes(manager.to_raw(), note_time, (&raw mut note).cast()) };
        parse_pass_pipeline(manager.as_operation_pass_manager(), pipeline)
            .map_err(|error| Error::Pipeline { pipeline: pipeline.into(), diagnostics: format!("{error}\n{}", self.take_diagnostics()) })?;
        let (outcome, mut decided) = crate::pass::collecting(|| manager.run(module));
        self.decisions.borrow_mut().append(&mut decided);
        if outcome.is_ok() && (self.verify_each || module_op(module).verify()) {
            return Ok(());
        }
        let location = self.first.lock().map(|mut place| std::mem::take(&mut *place)).unwrap_or_default();
        let (diagnostics, refusal) = (self.take_diagnostics(), crate::pass::take_refusal().map(Box::new));
        Err(Error::Pass { pipeline: pipeline.into(), diagnostics, location, refusal })
    }
}

/// Called from C++; the closures passed here only add numbers up.
unsafe extern "C" fn note_time(pass: MlirStringRef, seconds: f64, note: *mut c_void) {
    // SAFETY: `run_timed` passes a pointer to its own reference, which nothing else uses while the passes run.
    let note = unsafe { &mut *note.cast::<&mut dyn FnMut(&str, f64)>() };
    note(&ir::to_string(pass), seconds);
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The line where brackets are nested too deeply for MLIR's parser, if any.
fn too_deep(text: &str) -> Option<isize> {
    // SAFETY: the text is borrowed for the call.
    let line = unsafe { ffi::dynamoFindDeepNesting(ir::str_ref(text)) };
    (line != 0).then_some(line)
}

/// The module's operation as a handle.
pub fn module_op(module: &Module<'_>) -> ir::Op {
    // SAFETY: the module is alive and outlives the handle by the caller's use.
    ir::Op::from_raw(unsafe { mlirModuleGetOperation(module.to_raw()) })
}

/// The module's text with locations, as dumps contain it.
pub fn module_text(module: &Module<'_>) -> String {
    debug_assert!(module.as_operation().verify());
    module_op(module).text_with_locations()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        Session::new().parse(text).map(|_| ()).expect_err("is refused").to_string()
    }

    #[test]
    fn text_that_would_overrun_the_parser_is_an_error() {
        let deep = format!("module attributes {{a =\n{}{}}} {{}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(refusal(&deep).contains("line 2: brackets are nested"));
        assert!(refusal("module {\n\0}").contains("line 2: a zero byte"));
    }

    #[test]
    fn bytecode_goes_from_session_to_session() {
        let function = "func.func private @f(memref<4xf32, strided<[2]>>) attributes {dynamo.kernel} loc(\"model.py\":3:7)";
        let text = &format!("module {{\n  {function}\n}}");
        let first = Session::new();
        let module = first.parse(text).expect("parses");
        let (bytes, printed) = (module_op(&module).bytecode(), module_text(&module));
        let second = Session::new();
        assert!(printed.contains("\"model.py\":3:7"), "{printed}");
        assert_eq!(module_text(&second.read(&bytes).expect("reads")), printed);
        assert!(second.read(&bytes[..bytes.len() / 2]).is_err());
    }

    #[test]
    fn each_pass_is_timed() {
        let session = Session::new();
        let mut module = session.parse("module { func.func private @f() }").expect("parses");
        let mut seen = Vec::new();
        let pipeline = "builtin.module(canonicalize,func.func(cse))";
        session.run_timed(&mut module, pipeline, &mut |pass, _| seen.push(pass.to_owned())).expect("runs");
        assert_eq!(seen, ["canonicalize", "cse"]);
    }

    #[test]
    fn strings_comments_and_arrows_are_no_nesting() {
        let text = format!("// {0}\nmodule attributes {{dynamo.a = \"{0}\\\"{0}\"}} {{}}", "([{<".repeat(1000));
        assert_eq!(too_deep(&text), None);
        let arrows = "affine_map<(d0) -> (d0)>, ".repeat(1000);
        assert_eq!(too_deep(&arrows), None);
    }
}
