//! `dynamlir._native`: the compiler and its executables for Python.
//!
//! These are bindings: Python's classes and functions for what the other crates do, with the conversions of arguments and results. The GIL is
//! released while compiling, and [`errors`] turns the compiler's errors into exceptions. There is no logic beyond that.

#![expect(clippy::needless_pass_by_value, clippy::unused_self, reason = "pyo3 hands arguments over by value, and calls methods on self")]

mod bytecode;
mod capture;
mod child;
mod compiled;
mod entries;
mod errors;
mod executable;
mod graph;
mod guards;
mod interpret;
mod profile;
mod recorded;
mod sized;
mod trace;

use std::collections::BTreeSet;

use dynamlir_autograd::torch;
use pyo3::{exceptions::PyValueError, prelude::*, types::PyDict};

use crate::{
    errors::{
        Misaligned, NativeError, Overlapping, RunError, Unfit, Unsupported, WrittenError, guarded, interrupted, raise, raise_bad_text,
    },
    executable::{Executable, options},
    trace::TraceBuilder,
};

/// Compiles a recorded trace.
#[pyfunction]
fn compile_trace(py: Python<'_>, trace: &TraceBuilder, options: &Bound<'_, PyDict>) -> PyResult<Executable> {
    torch::init(py)?;
    let settings = self::options(options)?;
    guarded(|| {
        let compiled =
            py.detach(|| dynamlir_driver::compile_trace(trace.trace(), &settings, &mut interrupted)).map_err(|e| raise(py, e))?;
        // The entries that compute gradients belong to the first one.
        let mut entries = Executable::load(py, compiled)?;
        let vjps: Vec<String> = entries.iter().flat_map(|(_, entry)| entry.vjp_entries().to_vec()).collect();
        entries.retain(|(name, _)| !vjps.contains(name));
        let [(_, executable)] = <[_; 1]>::try_from(entries).map_err(|_| NativeError::new_err("a trace has one entry"))?;
        Ok(executable)
    })
}

/// Returns the matrix products of a recorded trace for which there is more than one strategy, each once, as dictionaries.
#[pyfunction]
fn problems<'py>(py: Python<'py>, trace: &TraceBuilder) -> PyResult<Bound<'py, PyAny>> {
    let found = guarded(|| py.detach(|| dynamlir_driver::list_problems(trace.trace())).map_err(|error| raise(py, error)))?;
    executable::plain(py, &found)
}

/// Returns the basis of measurements: the processor's name and features, as given by LLVM.
#[pyfunction]
fn processor() -> (String, String) {
    dynamlir_driver::processor()
}

/// Compiles a dumped module from its stage: the given one, otherwise the one in the file's name, otherwise the one of the text. Returns its
/// entries by name, in order. `ValueError` if the text is not a program, or not at any stage.
#[pyfunction]
#[pyo3(signature = (path, stage=None, options=None))]
fn load(py: Python<'_>, path: &str, stage: Option<String>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, Executable)>> {
    torch::init(py)?;
    let bytes = std::fs::read(path).map_err(|error| std::io::Error::new(error.kind(), format!("dynamlir cannot read {path}: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|_| PyValueError::new_err(format!("{path} is not text")))?;
    let stage = stage.or_else(|| dynamlir_driver::stages::of_file(path).map(str::to_owned));
    let settings = options.map(self::options).transpose()?.unwrap_or_default();
    guarded(|| {
        let compiled = py.detach(|| dynamlir_driver::compile_text(&text, path, stage.as_deref(), &settings, &mut interrupted));
        let compiled = compiled.map_err(|error| raise_bad_text(py, path, error))?;
        Executable::load(py, compiled).map_err(|error| {
            if error.is_instance_of::<NativeError>(py) { PyValueError::new_err(format!("{path}: {}", error.value(py))) } else { error }
        })
    })
}

/// Returns the element types that compiled code supports: the name in the compiler's text, and torch's.
#[pyfunction]
fn element_types() -> Vec<(&'static str, &'static str)> {
    dynamlir_torch_abi::DType::ALL.into_iter().map(|dtype| (dtype.name(), dtype.torch_name())).collect()
}

/// Returns the schemas that `dynamo-decompose` lowers itself.
#[pyfunction]
fn rust_ops() -> BTreeSet<String> {
    dynamlir_passes::decompose::lowered_schemas().map(str::to_owned).collect()
}

/// Returns the schemas whose derivative `dynamo-autodiff` knows; with `better_recorded`, those for which a recording of the derivative is
/// better.
#[pyfunction]
#[pyo3(signature = (better_recorded=false))]
fn rust_rules(better_recorded: bool) -> BTreeSet<String> {
    dynamlir_passes::autodiff::schemas(better_recorded).map(str::to_owned).collect()
}

/// Returns the schemas that stay extern on purpose.
#[pyfunction]
fn keep_ops() -> BTreeSet<String> {
    dynamlir_passes::decompose::KEEP.iter().map(|schema| (*schema).to_owned()).collect()
}

/// Returns the stages in order: label, as in dump file names, and the pipeline from the previous stage to it.
#[pyfunction]
fn stages() -> Vec<(String, Option<String>)> {
    dynamlir_driver::stages::pipelines()
}

/// Runs `dynamlir-opt` with the extension's parts of MLIR; the first argument is the program's name. Returns the exit code. Must be called
/// only once per process.
#[pyfunction]
fn opt_main(py: Python<'_>, args: Vec<String>) -> i32 {
    py.detach(|| dynamlir_driver::opt::main(args))
}

/// Forgets the kernels compiled so far in this process.
#[pyfunction]
fn clear_kernel_cache() {
    dynamlir_driver::cache::clear();
}

/// Called in a child of the process, which may have been forked while another thread compiled.
#[pyfunction]
fn forked(py: Python<'_>) {
    dynamlir_cpython_abi::forked(py);
}

// Nothing here was ever run without the GIL: a free-threaded CPython enables it when the module is imported, and says so.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    macro_rules! add {
        (exceptions: $($exception:ident)*; classes: $($class:ty),*; functions: $($function:path),*;) => {
            $(module.add(stringify!($exception), py.get_type::<$exception>())?;)*
            $(module.add_class::<$class>()?;)*
            $(module.add_function(wrap_pyfunction!($function, module)?)?;)*
        };
    }
    add! {
        exceptions: NativeError Unsupported RunError Misaligned Unfit Overlapping WrittenError;
        classes: TraceBuilder, Executable, guards::GuardBuilder, guards::GuardSet, capture::CapturedFrame, dynamlir_symint::Sizes,
            dynamlir_symint::SizeNode, compiled::SharedEntries, entries::CacheView, entries::CacheEntry, entries::EntryGuards,
            entries::FailedGuard, graph::NativeGraph, sized::SizedGraph, profile::Profile, profile::Times;
        functions: compile_trace, load, problems, processor, element_types, rust_ops, rust_rules, keep_ops, stages, opt_main,
            clear_kernel_cache, torch::disturbance, compiled::compiled_function, compiled::configure, compiled::expect_changes, compiled::forget_entries,
            bytecode::decompile, bytecode::disassemble, capture::capture, capture::forget_guard, capture::forgotten_guard,
            capture::unproven, capture::effect_claims, interpret::interpret, interpret::reenter, interpret::interpreter_counts,
            interpret::refusal;
    }
    module.add("CompiledFunction", compiled::function_type(py)?)?;
    let children = PyDict::new(py);
    children.set_item("after_in_child", wrap_pyfunction!(forked, module)?)?;
    dynamlir_cpython_abi::import(py, "os")?.getattr("register_at_fork")?.call((), Some(&children))?;
    Ok(())
}
