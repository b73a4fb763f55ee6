//! Contexts with every dialect, parsing and printing modules, running pipelines.
//!
//! melior carries the load here; what it lacks is turning diagnostics into error values.

use std::sync::{Arc, Mutex, Once};

use melior::{
    Context,
    dialect::DialectRegistry,
    ir::{Module, operation::OperationLike},
    pass::PassManager,
    utility::{parse_pass_pipeline, register_all_dialects, register_all_llvm_translations, register_all_passes},
};
use mlir_sys::{mlirDialectHandleInsertDialect, mlirModuleGetOperation};

use crate::{ffi, ir};

/// What went wrong, with MLIR's diagnostics.
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
    },
}

/// A context and its diagnostics. One thread at a time.
pub struct Session {
    context: Context,
    diagnostics: Arc<Mutex<String>>,
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl Session {
    /// A context with all upstream dialects, their extensions and ours; single-threaded, since kernels are small
    /// and the two-core machines of CI would only pay for the pool.
    pub fn new() -> Self {
        static PASSES: Once = Once::new();
        PASSES.call_once(register_all_passes);

        let registry = DialectRegistry::new();
        register_all_dialects(&registry);
        // SAFETY: the registry is alive; the handle is a static of the dialect.
        unsafe { mlirDialectHandleInsertDialect(ffi::mlirGetDialectHandle__dynamo__(), registry.to_raw()) };
        let context = Context::new();
        context.enable_multi_threading(false);
        context.append_dialect_registry(&registry);
        register_all_llvm_translations(&context);
        // Rust passes build by name: everything they may build must be loaded, and a parsed file loads only what it names.
        for dialect in ["builtin", "func", "dynamo", "tensor", "linalg", "arith", "math", "memref", "scf", "bufferization", "transform"] {
            context.get_or_load_dialect(dialect);
        }

        let diagnostics = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&diagnostics);
        context.attach_diagnostic_handler(move |diagnostic| {
            if let Ok(mut text) = sink.lock() {
                text.push_str(&format!("{}: {}\n", diagnostic.location(), diagnostic));
                for note in 0..diagnostic.note_count() {
                    if let Ok(note) = diagnostic.note(note) {
                        text.push_str(&format!("  note: {note}\n"));
                    }
                }
            }
            true
        });
        Self { context, diagnostics }
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
    /// Parses and verifies a module.
    pub fn parse(&self, text: &str) -> Result<Module<'_>, Error> {
        // mlir-c takes a terminated string through a length-carrying view; a NUL inside is a parse error like any other.
        Module::parse(&self.context, text).ok_or_else(|| Error::Parse(self.take_diagnostics()))
    }
    /// Runs a pipeline such as `builtin.module(dynamo-decompose,canonicalize)`.
    pub fn run(&self, module: &mut Module<'_>, pipeline: &str) -> Result<(), Error> {
        let manager = PassManager::new(&self.context);
        manager.enable_verifier(true);
        parse_pass_pipeline(manager.as_operation_pass_manager(), pipeline)
            .map_err(|error| Error::Pipeline { pipeline: pipeline.into(), diagnostics: format!("{error}\n{}", self.take_diagnostics()) })?;
        manager.run(module).map_err(|_| Error::Pass { pipeline: pipeline.into(), diagnostics: self.take_diagnostics() })
    }
}

/// The module's operation as a handle.
pub fn module_op(module: &Module<'_>) -> ir::Op {
    // SAFETY: the module is alive and outlives the handle by the caller's use.
    ir::Op::from_raw(unsafe { mlirModuleGetOperation(module.to_raw()) })
}

/// The module's text with locations, as dumps hold it.
pub fn module_text(module: &Module<'_>) -> String {
    debug_assert!(module.as_operation().verify());
    module_op(module).text_with_locations()
}
