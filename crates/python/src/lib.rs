//! `dynamlir._native`: the compiler and its executables for Python.
//!
//! The boundary is here and nowhere else: the GIL is released while compiling, errors become exceptions in
//! [`errors`], torch is asked for what only Python knows in [`torch`]. There is no logic beyond that.

#![expect(clippy::needless_pass_by_value, clippy::unused_self, reason = "pyo3 hands arguments over by value, and calls methods on self")]

mod capture;
mod compiled;
mod errors;
mod executable;
mod graph;
mod guards;
mod interpret;
mod torch;
mod trace;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeSet;

use crate::{
    errors::{NativeError, RunError, Unsupported, interrupted, raise},
    executable::{Executable, options},
    trace::TraceBuilder,
};

/// Compiles a recorded trace.
#[pyfunction]
fn compile_trace(py: Python<'_>, trace: &TraceBuilder, options: &Bound<'_, PyDict>) -> PyResult<Executable> {
    torch::init(py)?;
    let settings = self::options(options)?;
    let compiled = py.detach(|| dynamlir_driver::compile_trace(trace.trace(), &settings, &mut interrupted)).map_err(|e| raise(py, e))?;
    Executable::new(py, compiled)
}

/// Compiles a dumped module from the stage it is at; the stage is read from the file's name unless given.
#[pyfunction]
#[pyo3(signature = (path, stage=None, options=None))]
fn load(py: Python<'_>, path: &str, stage: Option<String>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Executable> {
    torch::init(py)?;
    let text = std::fs::read_to_string(path)?;
    let stage = stage.unwrap_or_else(|| executable::stage_of(path));
    let settings = options.map(self::options).transpose()?.unwrap_or_default();
    let compiled = py.detach(|| dynamlir_driver::compile_text(&text, &stage, &settings, &mut interrupted)).map_err(|e| raise(py, e))?;
    Executable::new(py, compiled)
}

/// Schemas that `dynamo-decompose` lowers itself.
#[pyfunction]
fn rust_ops() -> BTreeSet<String> {
    dynamlir_passes::decompose::lowered_schemas().map(str::to_owned).collect()
}

/// Schemas that stay extern on purpose.
#[pyfunction]
fn keep_ops() -> BTreeSet<String> {
    dynamlir_passes::decompose::KEEP.iter().map(|schema| (*schema).to_owned()).collect()
}

/// The stages in order: label, as in dump file names, and the pipeline that leads there from the stage before.
#[pyfunction]
fn stages() -> Vec<(String, Option<String>)> {
    dynamlir_driver::stages::pipelines()
}

/// Forgets the kernels compiled so far in this process.
#[pyfunction]
fn clear_kernel_cache() {
    dynamlir_driver::cache::clear();
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("NativeError", py.get_type::<NativeError>())?;
    module.add("Unsupported", py.get_type::<Unsupported>())?;
    module.add("RunError", py.get_type::<RunError>())?;
    module.add_class::<TraceBuilder>()?;
    module.add_class::<Executable>()?;
    module.add_class::<guards::GuardBuilder>()?;
    module.add_class::<guards::GuardSet>()?;
    module.add_function(wrap_pyfunction!(compile_trace, module)?)?;
    module.add_function(wrap_pyfunction!(load, module)?)?;
    module.add_function(wrap_pyfunction!(rust_ops, module)?)?;
    module.add_function(wrap_pyfunction!(keep_ops, module)?)?;
    module.add_function(wrap_pyfunction!(stages, module)?)?;
    module.add_function(wrap_pyfunction!(clear_kernel_cache, module)?)?;
    module.add_class::<capture::CapturedFrame>()?;
    module.add("CompiledFunction", compiled::function_type(py)?)?;
    module.add_function(wrap_pyfunction!(compiled::compiled_function, module)?)?;
    module.add_class::<graph::NativeGraph>()?;
    module.add_function(wrap_pyfunction!(capture::capture, module)?)?;
    module.add_function(wrap_pyfunction!(interpret::interpret, module)?)?;
    module.add_function(wrap_pyfunction!(interpret::interpreter_counts, module)?)?;
    Ok(())
}
