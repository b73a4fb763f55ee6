//! The kernel of a `dynamo.scatter`: it writes into memory that already contains the base.
//!
//! ```mlir
//! func.func @scatter_sum(%i: memref<3xi64>, %s: memref<3xf32>, %out: memref<9xf32>)
//!     attributes {dynamo.domain = array<i64: 3>, dynamo.kernel, dynamo.reduced_dims = array<i64: 0>} {
//!   %0, %1, %2 = bufferization.to_tensor of each
//!   %3 = dynamo.scatter %1 into %2[%0] dims [-1] by sum : tensor<9xf32>, tensor<3xi64>, tensor<3xf32> -> tensor<9xf32>
//!   bufferization.materialize_in_destination %3 in restrict writable %out : (tensor<9xf32>, memref<9xf32>) -> ()
//! }
//! ```
//! The domain is the source. The reduced dimensions are those along which one index may be written more than once.

use dynamlir_dialect::{
    ir::{Builder, Type, Value},
    ops::ScatterOp,
};

use super::{
    NumberWindow,
    kernels::{Kernels, memory_type},
    views::numbers,
};

impl Kernels {
    /// The kernel for these windows: those of the indices, the source, and the result.
    pub fn scatter(&mut self, scatter: ScatterOp, windows: &[NumberWindow]) -> String {
        let values = scatter.indices().into_iter().chain([scatter.source(), scatter.result()]);
        let memory =
            |(value, window): (Value, &NumberWindow)| Type::memref(&window.sizes, memory_type(value.ty().element()), &window.strides, 0);
        let types: Vec<Type> = values.zip(windows).map(memory).collect();
        let dims = scatter.dims();
        let domain = scatter.source().ty().shape();
        let reduced: Vec<i64> = (0..domain.len() as i64).filter(|dim| !dims.contains(dim)).collect();
        let attrs = self.kernel_attrs(&numbers(&domain), &reduced, (types.len(), 0), &[], false);
        let loc = scatter.op().loc();
        let (func, body) = Builder::at_end(self.body, loc).func("scatter", &types, &[], &attrs);
        let b = Builder::at_end(body, loc);
        let args = body.args();
        let loaded: Vec<Value> = args.iter().map(|arg| b.bufferization_to_tensor(*arg)).collect();
        // The base comes first among an op's operands, and last among a kernel's.
        let (indices, source, base) = (&loaded[..loaded.len() - 2], loaded[loaded.len() - 2], loaded[loaded.len() - 1]);
        let result = ScatterOp::build(&b, base, indices, source, &dims, scatter.kind(), base.ty()).result();
        b.bufferization_materialize(result, args[args.len() - 1]);
        b.func_return(&[]);
        self.intern(func, "scatter")
    }
}
