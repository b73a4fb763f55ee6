//! What stays with the library where kernels are a GPU's: a module says so by the chip of its target.
//!
//! - Range checks: the host would have to wait for the device. The library's kernels assert on the device, as eager does.
//! - Scans, positions of extrema, writes by index: they have no form for threads here.
//! - Functions of the C library.
//! - Products and convolutions, which the cost model knows of the CPU only.
//!
//! A lowering that makes one of these is taken back, and its op stays an extern call.

use dynamlir_dialect::ir::Op;

/// Primitives without GPU code.
const WITHOUT_CODE: &[&str] = &[
    "dynamo.arg_reduce",
    "dynamo.attention",
    "dynamo.check_range",
    "dynamo.convolution",
    "dynamo.hypot",
    "dynamo.lgamma",
    "dynamo.matmul",
    "dynamo.max_pool",
    "dynamo.nextafter",
    "dynamo.scan",
    "dynamo.scatter",
];

/// Whether this primitive has no GPU code.
pub fn has_no_code(op: Op) -> bool {
    WITHOUT_CODE.iter().any(|name| op.is(name))
}
