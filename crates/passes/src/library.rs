//! Primitives that the library may compute instead of generated code: `dynamo-decompose` keeps the library call of their operators, and
//! `dynamo-select` decides.

use dynamlir_dialect::{ir::Op, ops::DynamoOp};

use crate::anchors::is_anchor;

/// Returns true if an operation may be left to the library: `dynamo-decompose` keeps the library call of its operator.
pub(crate) fn is_optional(op: Op) -> bool {
    is_anchor(op) || without_gpu_code(op).is_some()
}

/// The reason why a GPU has no code for an operation; `None` if it has.
pub(crate) fn without_gpu_code(op: Op) -> Option<&'static str> {
    Some(match DynamoOp::of(op)? {
        DynamoOp::Matmul(_) | DynamoOp::Convolution(_) | DynamoOp::Attention(_) => "the cost model knows the CPU's products only",
        DynamoOp::CheckRange(_) => "the host would have to wait for the device to check indices",
        DynamoOp::Scan(_) => "a scan has no form for threads",
        DynamoOp::ArgReduce(_) => "a position of an extremum has no form for threads",
        DynamoOp::Scatter(_) => "a write by index has no form for threads",
        DynamoOp::Hypot(_) | DynamoOp::Lgamma(_) | DynamoOp::Nextafter(_) => "it is a function of the C library",
        _ => return None,
    })
}
