//! CPython's semantics on real objects, error messages included.

mod asynchronous;
mod calls;
mod containers;
mod exceptions;
mod functions;
mod groups;
mod imports;
mod matching;
mod names;
mod operators;
mod text;
mod unpack;

pub use asynchronous::{aiter, anext, awaitable, is_yielded_from_itself};
pub use calls::{argument_tuple, call, call_ex, directly, keyword_dict, load_method, load_special, next, send, take_direct};
pub use containers::{
    build_const_key_map, build_map, build_set, build_slice, dict_merge, dict_update, list_append, list_extend, list_to_tuple, map_add,
    set_add, set_update,
};
pub(crate) use exceptions::unbound;
pub use exceptions::{exception_matches, print_expression, raise, stop_iteration_error};
pub use functions::{cell_get, cell_new, cell_set, make_function, set_function_parts};
pub use groups::group_match;
pub use imports::{import_from, import_from_placeholder, import_lazily, import_name, import_star};
pub use matching::{match_class, match_keys};
pub use names::{
    delete_global, delete_name, load_build_class, load_global, load_name, loaded, lookup, namespace, setup_annotations, store_global,
    store_name,
};
pub use operators::{binary_op, compare, length, truth, unary_op};
pub use text::{build_string, convert, format};
pub use unpack::{not_unpacked, unpack, unpack_ex};

use dynamlir_cpython_abi::{Abi, types};
use pyo3::prelude::*;

/// Returns the description of the running interpreter, which the hook has accepted.
pub(crate) fn abi(py: Python<'_>) -> &'static Abi {
    dynamlir_cpython_abi::abi(py).expect("frames are evaluated only where the interpreter is known")
}

/// Returns the name of an object's class, for the error messages that from 3.15 on include the class's module.
///
/// # Errors
/// Returns the exception raised by looking up the class's module.
pub(crate) fn class_name(object: &Bound<'_, PyAny>) -> PyResult<String> {
    if abi(object.py()).version() >= (3, 15) {
        return Ok(object.get_type().fully_qualified_name()?.to_string());
    }
    Ok(types::name(object))
}
