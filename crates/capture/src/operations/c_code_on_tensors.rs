//! C code that works on tensors: `max(t, 0)`, `any(xs)`, `math.sqrt(t)`.
//!
//! The effect of C code on a tensor is visible only where it enters torch's own Python: an operation that the graph would not show. To
//! report it under the right name, each call of C code is recorded while it runs.

use std::rc::Rc;

use dynamlir_interpreter::Activation;
use pyo3::{prelude::*, types::PyTuple};

use crate::{
    floors::Reads,
    graph_break::{GraphBreak, Halt, Outcome, reason},
    state::calling::Native,
};

/// C functions, methods and operators whose result depends on a comparison or a truth value.
const DECIDING: &[&str] = &[
    "max",
    "min",
    "sorted",
    "sort",
    "any",
    "all",
    "bool",
    "not_",
    "truth",
    "filter",
    "filterfalse",
    "dropwhile",
    "takewhile",
    "compress",
    "groupby",
    "contains",
    "__contains__",
    "count",
    "countOf",
    "index",
    "indexOf",
    "remove",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
];

/// Operations that read a number, or that torch runs before it reads one.
const READING: &[&str] = &["_local_scalar_dense", "item", "is_nonzero", "prim.device", "prim::device"];

impl<'py> Reads<'py> {
    /// Runs C code, recorded under the name of the function.
    pub(crate) fn natively<T>(&self, name: &str, body: impl FnOnce() -> T) -> T {
        let outer = self.calling.native.replace(Some(Native { name: name.to_owned(), caller: dynamlir_interpreter::here() }));
        let result = body();
        self.calling.native.replace(outer);
        result
    }

    /// Ends the capture at a torch frame whose purpose is to run an operation for C code.
    pub(crate) fn refuse_dispatch(&self, frame: &Activation<'py>, function: &Bound<'py, PyAny>) -> Outcome<()> {
        let (dispatch, getattr) = (self.torch.is_dispatch(function), self.torch.is_operator_getattr(function));
        if !dispatch && !getattr {
            return Ok(());
        }
        let native = self.calling.native.borrow();
        let native = native.as_ref().filter(|native| match (&native.caller, frame.place().outer()) {
            (Some(caller), Some(outer)) => Rc::ptr_eq(caller, outer),
            _ => false,
        });
        // A program may also look up an operator in a namespace.
        let Some(native) = native.map(|native| &native.name).or(dispatch.then_some(&String::new())).cloned() else { return Ok(()) };
        let shown = |object: Option<Bound<'py, PyAny>>| object.map(|object| object.to_string()).unwrap_or_default();
        let operation = dynamlir_interpreter::suspended(|| {
            let (first, second) = (frame.local(0).object, frame.local(1).object);
            match (first.as_ref().and_then(|first| first.cast::<PyTuple>().ok()), second) {
                (Some(args), _) => shown(args.get_item(1).ok()),
                (None, Some(name)) if getattr => format!("{}.{name}", shown(first)),
                _ => shown(first),
            }
        });
        let what = if native.is_empty() { operation.clone() } else { format!("{native}() of tensors") };
        let (reason, message) = if DECIDING.contains(&native.as_str()) {
            (reason::DATA_DEPENDENT_BRANCH, what)
        } else if READING.iter().any(|read| operation.contains(read)) {
            (reason::DATA_DEPENDENT, what)
        } else {
            (reason::HIDDEN_OPERATION, format!("{what}, which runs {operation}"))
        };
        // The frame that is about to start is not a useful location.
        let location = self.location().into_iter().skip(1).collect();
        Err(Halt::Break(GraphBreak { reason, message, location }))
    }
}
