//! What stays with the library where kernels are a GPU's: a module says so by `dynamo.chip`.
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

/// Whether a module's kernels are made for a GPU.
pub fn is_gpu(module: Op) -> bool {
    module.attr("dynamo.chip").is_some()
}

/// Stands before an op that is being lowered, so that what is emitted lies between the two.
pub struct Mark {
    mark: Op,
    op: Op,
}

impl Mark {
    /// Puts a mark before an op.
    pub fn before(op: Op) -> Option<Self> {
        let mark = op.clone_detached();
        op.block()?.insert_before(op, mark);
        Some(Self { mark, op })
    }

    /// Takes the mark away. Where something was emitted that has no code, all that was emitted goes, too, and the answer is false.
    pub fn keeps(self) -> bool {
        let mut emitted = Vec::new();
        let mut at = self.mark.next();
        while let Some(op) = at.filter(|&op| op != self.op) {
            emitted.push(op);
            at = op.next();
        }
        self.mark.erase();
        let keeps = !emitted.iter().any(|op| WITHOUT_CODE.iter().any(|name| op.is(name)));
        if !keeps {
            emitted.into_iter().rev().for_each(Op::erase);
        }
        keeps
    }
}
