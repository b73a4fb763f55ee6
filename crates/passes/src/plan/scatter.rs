//! The kernel of a `dynamo.scatter`: it writes into memory that holds the base already.
//!
//! ```mlir
//! func.func @scatter_sum(%i: memref<3xi64>, %s: memref<3xf32>, %out: memref<9xf32>)
//!     attributes {dynamo.domain = array<i64: 3>, dynamo.kernel, dynamo.reduced_dims = array<i64: 0>} {
//!   %0, %1, %2 = bufferization.to_tensor of each
//!   %3 = dynamo.scatter %1 into %2[%0] dims [-1] by sum : tensor<9xf32>, tensor<3xi64>, tensor<3xf32> -> tensor<9xf32>
//!   bufferization.materialize_in_destination %3 in restrict writable %out : (tensor<9xf32>, memref<9xf32>) -> ()
//! }
//! ```
//! The domain is the source. Reduced are the dimensions along which one place may be written more than once.

use dynamlir_dialect::ir::{Attr, Builder, Op, Type, Value};

use super::{
    Window,
    kernels::{Kernels, memory_type},
};

impl Kernels {
    /// The kernel for these windows: of the indices, the source, and the result.
    pub fn scatter(&mut self, op: Op, windows: &[Window]) -> String {
        let values = op.operands().into_iter().skip(1).chain([op.result(0)]);
        let memory = |(value, window): (Value, &Window)| Type::memref(&window.sizes, memory_type(value.ty().element()), &window.strides, 0);
        let types: Vec<Type> = values.zip(windows).map(memory).collect();
        let dims = op.attr_i64s("dims").unwrap_or_default();
        let domain = op.operand(op.num_operands() - 1).ty().shape();
        let reduced: Vec<i64> = (0..domain.len() as i64).filter(|dim| !dims.contains(dim)).collect();
        let kind = op.attr("kind").map(|kind| ("kind", kind));

        let unit = Attr::unit(self.ctx);
        let attrs = [
            ("dynamo.kernel", unit),
            ("dynamo.domain", Attr::i64s(self.ctx, &domain)),
            ("dynamo.reduced_dims", Attr::i64s(self.ctx, &reduced)),
            ("arg_attrs", self.arg_attrs(types.len())),
        ];
        let (func, body) = Builder::at_end(self.body, op.loc()).func("scatter", &types, &[], &attrs);
        let b = Builder::at_end(body, op.loc());
        let args = body.args();
        let load = |arg: &Value| {
            let ty = Type::tensor(&arg.ty().shape(), arg.ty().element());
            b.value("bufferization.to_tensor", &[*arg], ty, &[("restrict", unit)])
        };
        let mut loaded: Vec<Value> = args.iter().map(load).collect();
        // The base stands first among an op's operands, and last among a kernel's.
        loaded.rotate_right(1);
        let mut attrs = vec![("dims", Attr::i64s(self.ctx, &dims))];
        attrs.extend(kind);
        let result = b.value("dynamo.scatter", &loaded, loaded[0].ty(), &attrs);
        let attrs = [("restrict", unit), ("writable", unit)];
        b.op("bufferization.materialize_in_destination", &[result, args[args.len() - 1]], &[], &attrs);
        b.op("func.return", &[], &[], &[]);
        self.intern(func, "scatter")
    }
}
