//! Code objects as text: disassembled, or decompiled to Python source.

use dynamlir_bytecode::{CodeObject, Const, Place, Version, resume};
use dynamlir_decompile::Decompiled;
use pyo3::{
    exceptions::{PyRuntimeError, PyTypeError},
    prelude::*,
    types::{PyBool, PyBytes, PyComplex, PyDict, PyEllipsis, PyFloat, PyFrozenSet, PyInt, PySlice, PyString, PyTuple},
};

/// Returns the version of the running interpreter.
pub fn version(py: Python<'_>) -> PyResult<Version> {
    let info = py.version_info();
    Version::of(info.major.into(), info.minor.into())
        .ok_or_else(|| PyRuntimeError::new_err(format!("bytecode of CPython {}.{} is not known", info.major, info.minor)))
}

/// Reads a Python code object's attributes.
pub fn object(version: Version, code: &Bound<'_, PyAny>) -> PyResult<CodeObject> {
    let text = |name: &str| code.getattr(name)?.extract::<String>();
    let number = |name: &str| code.getattr(name)?.extract::<u32>();
    let bytes = |name: &str| code.getattr(name)?.extract::<Vec<u8>>();
    let names = |name: &str| code.getattr(name)?.extract::<Vec<String>>();
    let consts = code.getattr("co_consts")?;
    Ok(CodeObject {
        version,
        name: text("co_name")?,
        qualname: text("co_qualname")?,
        filename: text("co_filename")?,
        first_line: number("co_firstlineno")?,
        flags: number("co_flags")?,
        arg_count: number("co_argcount")?,
        positional_only: number("co_posonlyargcount")?,
        keyword_only: number("co_kwonlyargcount")?,
        stack_size: number("co_stacksize")?,
        bytecode: bytes("co_code")?,
        exception_table: bytes("co_exceptiontable")?,
        line_table: bytes("co_linetable")?,
        consts: consts.try_iter()?.map(|value| constant(version, &value?)).collect::<PyResult<_>>()?,
        names: names("co_names")?,
        varnames: names("co_varnames")?,
        cellvars: names("co_cellvars")?,
        freevars: names("co_freevars")?,
    })
}

fn constant(version: Version, value: &Bound<'_, PyAny>) -> PyResult<Const> {
    let items = |value: &Bound<'_, PyAny>| value.try_iter()?.map(|item| constant(version, &item?)).collect::<PyResult<Vec<_>>>();
    Ok(if value.is_none() {
        Const::None
    } else if value.is_instance_of::<PyEllipsis>() {
        Const::Ellipsis
    } else if let Ok(value) = value.cast_exact::<PyBool>() {
        Const::Bool(value.is_true())
    } else if value.is_exact_instance_of::<PyInt>() {
        // `str` refuses ints with very many digits; hexadecimal is valid Python as well.
        let digits = value.str().or_else(|_| value.call_method1("__format__", ("#x",))?.str())?;
        Const::Int(digits.to_string())
    } else if let Ok(value) = value.cast_exact::<PyFloat>() {
        Const::Float(value.value())
    } else if let Ok(value) = value.cast_exact::<PyComplex>() {
        Const::Complex(value.real(), value.imag())
    } else if let Ok(text) = value.cast_exact::<PyString>() {
        match text.to_str() {
            Ok(text) => Const::Str(text.to_owned()),
            Err(_) => Const::WideStr(
                value.call_method1("encode", ("utf-32-le", "surrogatepass"))?.extract::<Vec<u8>>().map(|bytes| wide(&bytes))?,
            ),
        }
    } else if let Ok(bytes) = value.cast_exact::<PyBytes>() {
        Const::Bytes(bytes.as_bytes().to_vec())
    } else if value.is_exact_instance_of::<PyTuple>() {
        Const::Tuple(items(value)?)
    } else if value.is_exact_instance_of::<PyFrozenSet>() {
        Const::FrozenSet(items(value)?)
    } else if let Ok(slice) = value.cast_exact::<PySlice>() {
        let part = |name: &str| constant(version, &slice.getattr(name)?);
        Const::Slice(Box::new([part("start")?, part("stop")?, part("step")?]))
    } else if value.hasattr("co_code")? {
        Const::Code(Box::new(object(version, value)?))
    } else {
        Const::Other(value.repr()?.to_string())
    })
}

/// Builds a Python code object with these attributes, and all others taken from `like`.
pub fn build<'py>(like: &Bound<'py, PyAny>, code: &CodeObject) -> PyResult<Bound<'py, PyAny>> {
    let py = like.py();
    let changes = PyDict::new(py);
    changes.set_item("co_flags", code.flags)?;
    changes.set_item("co_stacksize", code.stack_size)?;
    changes.set_item("co_nlocals", code.varnames.len())?;
    changes.set_item("co_code", PyBytes::new(py, &code.bytecode))?;
    changes.set_item("co_exceptiontable", PyBytes::new(py, &code.exception_table))?;
    changes.set_item("co_linetable", PyBytes::new(py, &code.line_table))?;
    changes.set_item("co_consts", PyTuple::new(py, code.consts.iter().map(|value| value_of(py, value)).collect::<PyResult<Vec<_>>>()?)?)?;
    for (name, words) in
        [("co_names", &code.names), ("co_varnames", &code.varnames), ("co_cellvars", &code.cellvars), ("co_freevars", &code.freevars)]
    {
        changes.set_item(name, PyTuple::new(py, words)?)?;
    }
    like.call_method("replace", (), Some(&changes))
}

/// Returns the object for a constant.
fn value_of<'py>(py: Python<'py>, value: &Const) -> PyResult<Bound<'py, PyAny>> {
    let items = |items: &[Const]| items.iter().map(|item| value_of(py, item)).collect::<PyResult<Vec<_>>>();
    Ok(match value {
        Const::None => py.None().into_bound(py),
        Const::Ellipsis => py.Ellipsis().into_bound(py),
        Const::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        Const::Int(digits) => py.get_type::<PyInt>().call1((digits, 0))?,
        Const::Float(value) => PyFloat::new(py, *value).into_any(),
        Const::Complex(real, imag) => PyComplex::from_doubles(py, *real, *imag).into_any(),
        Const::Str(text) => PyString::new(py, text).into_any(),
        Const::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
        Const::Tuple(parts) => PyTuple::new(py, items(parts)?)?.into_any(),
        Const::FrozenSet(parts) => PyFrozenSet::new(py, items(parts)?)?.into_any(),
        Const::Slice(parts) => py.get_type::<PySlice>().call1(PyTuple::new(py, items(&parts[..])?)?)?,
        Const::WideStr(_) | Const::Code(_) | Const::Other(_) => {
            return Err(PyRuntimeError::new_err("a constant that is made of no text"));
        }
    })
}

/// Returns the code points of UTF-32.
fn wide(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|point| u32::from_le_bytes([point[0], point[1], point[2], point[3]])).collect()
}

/// Returns the code object behind a function, a method or a code object.
fn code_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let inner = |name: &str| object.getattr(name);
    // For a module, the function that a call runs.
    let function = inner("__wrapped__").or_else(|_| inner("__func__")).or_else(|_| inner("forward")).unwrap_or_else(|_| object.clone());
    let code = function.getattr("__code__").unwrap_or(function);
    if code.hasattr("co_code")? {
        return Ok(code);
    }
    Err(PyTypeError::new_err(format!("a function or a code object is needed, not {}", object.get_type().name()?)))
}

/// Returns the rest of a code object from a place on, as the source of a function; or one line with the reason that it cannot be shown.
pub fn rest_of(code: &Bound<'_, PyAny>, place: &Place, index: usize) -> PyResult<String> {
    let code = object(version(code.py())?, code)?;
    let failed =
        |why: &str| format!("# {} from offset {} on, which cannot be written as a function: {why}\n", code.qualname, 2 * place.unit);
    Ok(match resume(&code, place, index) {
        Ok(rest) => {
            let Decompiled { text, unknown } = dynamlir_decompile::decompile(&rest);
            unknown.first().map_or(text, |why| failed(why))
        }
        Err(why) => failed(&why.to_string()),
    })
}

/// Returns a function's or code object's bytecode as Python source. If a code object has no equivalent source, its disassembly is included
/// as comments.
#[pyfunction]
pub fn decompile(function: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(dynamlir_decompile::decompile(&object(version(function.py())?, &code_of(function)?)?).text)
}

/// Returns a function's or code object's instructions, one per line, in the style of `dis`.
#[pyfunction]
pub fn disassemble(function: &Bound<'_, PyAny>) -> PyResult<String> {
    dynamlir_bytecode::disassemble(&object(version(function.py())?, &code_of(function)?)?)
        .map_err(|error| PyRuntimeError::new_err(error.to_string()))
}
