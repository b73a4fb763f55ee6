//! The reports on kernels: the number of launches, the Python lines they come from, and the bytes read and written.

use std::collections::BTreeSet;

use dynamlir_dialect::{
    ir::{Block, Loc, Op, Type},
    ops::LaunchOp,
};
use serde::Serialize;

/// One kernel of a compiled entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct KernelReport {
    /// Its name.
    pub name: String,
    /// Launches per call.
    pub launches: usize,
    /// `file:line` of the operations it computes, sorted.
    pub lines: BTreeSet<String>,
    /// Bytes of the operands of all its launches: the bytes that a call reads and writes through them.
    pub bytes: usize,
}

/// The kernels that a planned entry launches, in the order of their first launch.
pub fn describe(entry: Op) -> Vec<KernelReport> {
    let mut found: Vec<KernelReport> = Vec::new();
    let ops = entry.body().map(Block::ops).unwrap_or_default();
    for launch in ops.into_iter().filter_map(LaunchOp::cast) {
        let name = launch.kernel().name;
        let at = found.iter().position(|kernel| kernel.name == name).unwrap_or_else(|| {
            found.push(KernelReport { name, ..KernelReport::default() });
            found.len() - 1
        });
        let kernel = &mut found[at];
        kernel.launches += 1;
        kernel.bytes += launch.inputs().into_iter().map(|operand| bytes(operand.ty())).sum::<usize>();
        kernel.lines.extend(launch.op().loc().parts().into_iter().filter_map(Loc::line).map(|(file, line)| format!("{file}:{line}")));
    }
    found
}

/// The bytes of a memref of static sizes.
fn bytes(ty: Type) -> usize {
    let sizes = ty.shape();
    let elements = sizes.iter().map(|size| usize::try_from(*size).unwrap_or(0)).product::<usize>();
    elements * (ty.element().width() as usize).div_ceil(8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dynamlir_dialect::{Session, context::module_op, program::entries};

    #[test]
    fn launches_of_a_kernel_add_up() {
        let session = Session::new();
        let text = r#"
module {
  func.func @main(%x: memref<4xf32>, %y: memref<4xi8>) attributes {dynamo.entry, dynamo.outputs = []} {
    dynamo.launch @kernels::@k(%x, %y) : (memref<4xf32>, memref<4xi8>) -> () loc(fused["f"("a.py":3:0), "f"("a.py":4:0)])
    dynamo.launch @kernels::@k(%x, %y) : (memref<4xf32>, memref<4xi8>) -> () loc(callsite("g"("t.py":9:0) at "f"("a.py":5:0)))
    return
  }
  module @kernels { func.func private @k(memref<4xf32>, memref<4xi8>) attributes {dynamo.kernel} }
}"#;
        let module = session.parse(text).expect("parses");
        let lines = ["a.py:3", "a.py:4", "a.py:5"].map(str::to_owned).into();
        assert_eq!(describe(entries(module_op(&module))[0]), [KernelReport { name: "k".into(), launches: 2, lines, bytes: 40 }]);
    }
}
