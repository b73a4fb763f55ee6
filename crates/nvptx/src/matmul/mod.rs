//! Matrix products on tensor cores: kernels that are one `linalg.matmul` of `f16` or `bf16`, accumulated in `f32`.
//!
//! Before: `%p = linalg.matmul ins(%a, %b : tensor<MxKxf16>, tensor<KxNxf16>) outs(%zeros : tensor<MxNxf32>)`, and perhaps a generic that
//! only rounds `%p`, between the `to_tensor` and `materialize_in_destination` of any kernel.
//! After: a `gpu.func` whose blocks of four warps compute 64 by 64 results each, by `nvvm.mma.sync`.
//!
//! Any sizes and strides are supported: elements past an edge count as zero. Where memory allows it, eight elements are moved at once.
//!
//! Operands of `f32` are rounded to `tf32`, with ten fraction bits, if requested (`dynamo-schedule-gpu{tf32=true}`, which sets
//! `dynamo.tf32` on the kernel). Eager does so only on request, so otherwise they are refused.
//!
//! Refused, with the reason in `dynamo.no_gpu`: these, other types, products with an addend or with further operations.

mod code;

use dynamlir_dialect::{
    ir::{AffineMap, Block, Builder, Op, Type, Value},
    ops,
    pass::PassError,
    upstream::{
        arith,
        bufferization::{MATERIALIZE_IN_DESTINATION, TO_TENSOR},
        linalg,
    },
};

use crate::{
    kernel::Read,
    launch::{Argument, Launch},
    schedule::pieces,
};

/// Rows and columns of results that a block computes.
const TILE: i64 = 64;
/// The distance that a block advances along the summed dimension between two barriers.
const STEP: i64 = 32;
/// Threads of a block: four warps, each with a quarter of the tile.
const THREADS: i64 = 128;
/// Bytes that are moved at once where memory allows it; also the padding of rows of shared memory.
const VECTOR_BYTES: i64 = 16;

/// A product. Arguments are numbers of the kernel's arguments.
struct Product {
    left: Matrix,
    right: Matrix,
    result: Matrix,
    /// Rows, columns, and the length of the summed dimension.
    sizes: [i64; 3],
    /// Element type of the operands.
    element: Type,
}

impl Product {
    /// Returns true if operands are rounded to `tf32`.
    fn is_tf32(&self) -> bool {
        self.element.width() == 32
    }
    /// Elements of an operand in [`VECTOR_BYTES`].
    fn most(&self) -> i64 {
        VECTOR_BYTES / i64::from(self.element.width() / 8)
    }
}

/// One matrix in memory.
#[derive(Clone, Copy)]
struct Matrix {
    argument: usize,
    strides: [i64; 2],
    bits: u32,
}

impl Matrix {
    /// The number of elements moved at once along a dimension of this size.
    fn vector(&self, dim: usize, size: i64, most: i64) -> i64 {
        let fits = self.strides[dim] == 1 && size % most == 0 && self.strides[1 - dim] % most == 0;
        if fits { most } else { 1 }
    }
}

/// Returns true if a kernel contains a matrix product.
pub(crate) fn is_product(function: Op) -> bool {
    function.body().into_iter().flat_map(Block::ops).any(|op| op.is(linalg::MATMUL))
}

/// Checks that code can be generated for the product; if not, marks the kernel with the reason. `tf32`: operands may be rounded to `tf32`.
pub(crate) fn check(function: Op, tf32: bool) {
    if tf32 {
        ops::TF32.set(function, ());
    }
    if let Err(reason) = read(function) {
        ops::NO_GPU.set(function, &reason);
    }
}

/// Generates its code, unless it was refused; returns true if it did.
pub(crate) fn write(function: Op, device: impl FnOnce() -> Builder) -> Result<bool, PassError> {
    if ops::NO_GPU.is_on(function) {
        return Ok(false);
    }
    let product = read(function).map_err(|reason| PassError::at(function, reason))?;
    let [rows, columns, _] = product.sizes;
    let count = function.body().map_or(0, |body| body.args().len());
    let mut arguments = vec![Argument { alignment: 1, written: false }; count];
    for (matrix, vector) in
        [(product.left, code::left(&product).vector), (product.right, code::right(&product).vector), (product.result, code::pair(&product))]
    {
        arguments[matrix.argument].alignment = vector * i64::from(matrix.bits / 8);
    }
    arguments[product.result.argument].written = true;
    let launch = Launch {
        name: function.symbol().unwrap_or_default(),
        grid: [pieces(rows, TILE) * pieces(columns, TILE), 1, 1],
        block: [THREADS, 1, 1],
        shared_bytes: 0,
        arguments,
    };
    code::write(&product, function, &device(), &launch);
    Ok(true)
}

fn read(function: Op) -> Read<Product> {
    let body = function.body().ok_or("it is a declaration")?;
    let one = |name: &str| {
        let found: Vec<_> = body.ops().into_iter().filter(|op| op.is(name)).collect();
        if found.len() == 1 { Ok(found[0]) } else { Err(format!("a product of matrices with {} {name}", found.len())) }
    };
    let product = one(linalg::MATMUL)?;
    let store = one(MATERIALIZE_IN_DESTINATION)?;
    if product.attr("indexing_maps").is_some() && !is_plain(product) {
        return Err("a product of matrices that are indexed otherwise".into());
    }
    starts_from_zero(product.operand(2))?;
    let (left, right) = (argument(body, product.operand(0))?, argument(body, product.operand(1))?);
    let element = left.1.element();
    let accumulator = product.result(0).ty().element();
    let is_one_type = right.1.element() == element;
    match element {
        element if (element.is_f16() || element.is_bf16()) && is_one_type && accumulator.is_f32() => {}
        element if element.is_f32() && is_one_type && accumulator == element && ops::TF32.is_on(function) => {}
        element if element.is_f32() => return Err("a product of f32: the tensor cores would round its operands to tf32".into()),
        _ => return Err(format!("a product of {element} and {} in {accumulator}", right.1.element())),
    }
    if !is_rounding(store.operand(0), product.result(0)) {
        return Err("what is done with the product is more than rounding it".into());
    }
    let at = body.args().iter().position(|&arg| arg == store.operand(1)).ok_or("the product goes to memory that is not an argument")?;
    let result = (at, store.operand(1).ty());
    let (shape, depth) = (product.result(0).ty().shape(), left.1.shape()[1]);
    let [rows, columns] = shape[..] else { return Err("a product that is not a matrix".into()) };
    if [rows, columns, depth].iter().any(|&size| size <= 0) {
        return Err("it has no elements, or a size that is not known".into());
    }
    Ok(Product { left: matrix(left)?, right: matrix(right)?, result: matrix(result)?, sizes: [rows, columns, depth], element })
}

/// Returns true if the maps are the usual ones: rows by depth, depth by columns, rows by columns.
fn is_plain(product: Op) -> bool {
    let results = |map: AffineMap| map.result_dims().unwrap_or_default();
    linalg::indexing_maps(product).is_some_and(|maps| maps.into_iter().map(results).eq([[0, 2], [2, 1], [0, 1]]))
}

fn starts_from_zero(accumulator: Value) -> Read<()> {
    let fill = accumulator.def().filter(|op| op.is(linalg::FILL));
    let value = fill.and_then(|fill| fill.operand(0).def()).and_then(|op| op.optional::<f64>("value"));
    if value == Some(0.0) { Ok(()) } else { Err("a product that is added to something".into()) }
}

fn argument(body: Block, tensor: Value) -> Read<(usize, Type)> {
    let memory = tensor.def().filter(|op| op.is(TO_TENSOR)).map(|op| op.operand(0));
    let found = memory.and_then(|memory| Some((body.args().iter().position(|&arg| arg == memory)?, memory.ty())));
    found.ok_or_else(|| "a product of what is not an argument".into())
}

fn matrix((argument, ty): (usize, Type)) -> Read<Matrix> {
    let strides = ty.strides().try_into().map_err(|_| "a product of what is not a matrix")?;
    Ok(Matrix { argument, strides, bits: ty.element().width() })
}

/// Returns true if `stored` is the product, or the result of one generic that only rounds the product.
fn is_rounding(stored: Value, product: Value) -> bool {
    if stored == product {
        return true;
    }
    let Some(generic) = stored.def().filter(|op| op.is(linalg::GENERIC) && op.num_operands() == 2 && op.operand(0) == product) else {
        return false;
    };
    let plain = AffineMap::identity(generic.ctx(), 2);
    let same = linalg::indexing_maps(generic).is_some_and(|maps| maps.into_iter().all(|map| map == plain));
    let Some(body) = generic.body() else { return false };
    let [round, end] = body.ops()[..] else { return false };
    same && round.is(arith::TRUNCF) && round.operand(0) == body.args()[0] && end.operands() == [round.result(0)]
}
