//! Memory arguments whose type does not specify all sizes.
//!
//! A kernel is called with bare pointers and with its sizes. So an argument whose type has dynamic sizes becomes one element of memory,
//! which is reinterpreted as the whole window:
//! ```mlir
//! func.func @k(%in: memref<f32>, …, %s0: index) {
//!   %window = memref.reinterpret_cast %in to offset: [0], sizes: [%s0, 128], strides: [128, 1] : memref<f32> to memref<?x128xf32>
//!   %whole = bufferization.to_tensor %window restrict : memref<?x128xf32> to tensor<?x128xf32>
//!   %x = tensor.extract_slice %whole[0, 0] [%s0, 128] [1, 1] : tensor<?x128xf32> to tensor<?x128xf32>
//! ```
//! The slice gives everything derived from `%x` its sizes as these values. LLVM 22 does not fold queries for the sizes of a
//! `memref.reinterpret_cast`, so producers would be computed a second time instead of being fused.

use dynamlir_dialect::{
    ir::{Attr, Block, Builder, DYNAMIC, Op, Type, Value},
    ops,
    pass::{PassError, PassResult},
    upstream::{bufferization, func},
};
use dynamlir_shapes::{Dim, row_major_in};

use crate::values::Sizes;

/// The tensor for a memory argument, whose sizes are these numbers and values.
pub(super) fn loaded(sizes: &Sizes, b: Builder, memory: Value, dims: &[Dim]) -> Value {
    let (whole, open) = (b.bufferization_to_tensor(memory), sizes.open(dims));
    if open.is_empty() { whole } else { b.tensor_extract_slice(whole, &open, whole.ty()) }
}

/// Turns memory arguments whose type has a `?` into pointers, and reinterprets these as the original windows.
pub(super) fn open_windows(function: Op, sizes: &Sizes) -> PassResult {
    let ctx = function.ctx();
    let args = function.body().map(Block::args).unwrap_or_default();
    for (at, &arg) in args.iter().enumerate() {
        let ty = arg.ty();
        let Some((strides, _)) = ty.strided() else { continue };
        if !ty.shape().contains(&DYNAMIC) && !strides.contains(&DYNAMIC) {
            continue;
        }
        let missing = |what: &str| PassError::at(function, format!("nothing says the {what} of argument {at}, which is {ty}"));
        let said = arg.uses().into_iter().find_map(|used| match used.op {
            op if op.is(bufferization::TO_TENSOR) => op.result(0).ty().sizes(),
            op if op.is(bufferization::MATERIALIZE_IN_DESTINATION) => op.operand(0).ty().sizes(),
            _ => None,
        });
        let dims = said.ok_or_else(|| missing("sizes"))?;
        let known = |(own, said): (i64, Dim)| if own == DYNAMIC { said } else { Dim::from(own) };
        let steps = ops::STRIDES.dims().of_arg(function, at).map_or_else(|| row_major_in(&dims, &sizes.scope), Ok);
        let steps = steps.map_err(|_| missing("strides"))?;
        let steps: Vec<_> = strides.into_iter().zip(steps).map(known).collect();
        let (rows, steps) = (sizes.open(&dims), steps.iter().zip(ty.strides()).filter(|(_, own)| *own == DYNAMIC));
        let steps: Vec<_> = steps.map(|(step, _)| sizes.value(step)).collect();
        let uses = arg.uses();
        arg.set_type(Type::memref(&[], ty.element(), &[], 0));
        let window = sizes.start.memref_reinterpret_cast_to(arg, &rows, &steps, ty);
        for used in uses {
            used.op.set_operand(used.index, window);
        }
    }
    let inputs: Vec<_> = args.iter().map(|arg| arg.ty()).collect();
    function.set_attr(func::FUNCTION_TYPE, Type::function(ctx, &inputs, &[]).as_attr());
    forget_strides(function);
    Ok(())
}

/// Removes the strides from the arguments: they are now part of the windows.
fn forget_strides(function: Op) {
    let attrs: Vec<Attr> = function.optional(func::ARG_ATTRS).unwrap_or_default();
    let without = |attr: &Attr| {
        let entries = attr.entries();
        let kept = entries.iter().filter(|(name, _)| name != ops::STRIDES.name()).map(|(name, value)| (name.as_str(), *value));
        Attr::dict(function.ctx(), &kept.collect::<Vec<_>>())
    };
    if attrs.iter().any(|attr| attr.get(ops::STRIDES.name()).is_some()) {
        function.set_attr(func::ARG_ATTRS, Attr::array(function.ctx(), &attrs.iter().map(without).collect::<Vec<_>>()));
    }
}
