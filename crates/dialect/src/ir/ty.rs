//! Types: builtin tensors and memrefs, `!dynamo.tensor`, element types.

use dynamlir_shapes::row_major;
use mlir_sys::*;

use super::{Attr, Ctx, print, str_ref};
use crate::ffi;

/// A size or stride that is not known before run time (MLIR's `ShapedType::kDynamic`).
pub const DYNAMIC: i64 = i64::MIN;

/// A uniqued type.
#[derive(Clone, Copy)]
pub struct Type(pub(crate) MlirType);

impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        // SAFETY: both handles are live as long as their context.
        unsafe { mlirTypeEqual(self.0, other.0) }
    }
}
impl Eq for Type {}
impl std::hash::Hash for Type {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        // Types are uniqued, so equal ones have equal pointers.
        self.0.ptr.hash(state);
    }
}

// SAFETY of every block below: type handles are uniqued in a context that outlives them; kinds are checked before
// kind-specific getters are called; arrays are passed with their own length and copied.
#[expect(clippy::undocumented_unsafe_blocks, reason = "said once, above")]
impl Type {
    /// Parses a type such as `f32` or `tensor<2x3xi1>`.
    pub fn parse(ctx: Ctx, text: &str) -> Option<Self> {
        let raw = unsafe { mlirTypeParseGet(ctx.0, str_ref(text)) };
        (!raw.ptr.is_null()).then_some(Self(raw))
    }
    /// Wraps a raw type.
    pub fn from_raw(raw: MlirType) -> Self {
        Self(raw)
    }
    /// The raw handle.
    pub fn raw(self) -> MlirType {
        self.0
    }
    /// The context.
    pub fn ctx(self) -> Ctx {
        Ctx(unsafe { mlirTypeGetContext(self.0) })
    }
    /// Signless integer of `width` bits (`i1` is bool).
    pub fn int(ctx: Ctx, width: u32) -> Self {
        Self(unsafe { mlirIntegerTypeGet(ctx.0, width) })
    }
    /// `f32`.
    pub fn f32(ctx: Ctx) -> Self {
        Self(unsafe { mlirF32TypeGet(ctx.0) })
    }
    /// `bf16`.
    pub fn bf16(ctx: Ctx) -> Self {
        Self(unsafe { mlirBF16TypeGet(ctx.0) })
    }
    /// `f16`.
    pub fn f16(ctx: Ctx) -> Self {
        Self(unsafe { mlirF16TypeGet(ctx.0) })
    }
    /// `f64`.
    pub fn f64(ctx: Ctx) -> Self {
        Self(unsafe { mlirF64TypeGet(ctx.0) })
    }
    /// `index`.
    pub fn index(ctx: Ctx) -> Self {
        Self(unsafe { mlirIndexTypeGet(ctx.0) })
    }
    /// `tensor<shape x element>`.
    pub fn tensor(shape: &[i64], element: Self) -> Self {
        Self(unsafe { mlirRankedTensorTypeGet(shape.len() as isize, shape.as_ptr(), element.0, mlirAttributeGetNull()) })
    }
    /// `memref<shape x element, strided<strides, offset>>`; with the identity layout if strides are row-major and the offset is 0.
    pub fn memref(shape: &[i64], element: Self, strides: &[i64], offset: i64) -> Self {
        // MLIR's identity strides of an empty shape differ from torch's, so these are written out.
        let said = !shape.contains(&0) && !shape.iter().skip(1).any(|&size| size == DYNAMIC);
        let identity = offset == 0 && said && strides == row_major(shape);
        let layout = if identity {
            unsafe { mlirAffineMapAttrGet(mlirAffineMapMultiDimIdentityGet(element.ctx().0, shape.len() as isize)) }
        } else {
            unsafe { mlirStridedLayoutAttrGet(element.ctx().0, offset, strides.len() as isize, strides.as_ptr()) }
        };
        Self(unsafe { mlirMemRefTypeGet(element.0, shape.len() as isize, shape.as_ptr(), layout, mlirAttributeGetNull()) })
    }
    /// `memref<shape x element, space>`, row-major, in a memory space.
    pub fn memref_in(shape: &[i64], element: Self, space: Attr) -> Self {
        Self(unsafe { mlirMemRefTypeContiguousGet(element.0, shape.len() as isize, shape.as_ptr(), space.0) })
    }
    /// `vector<shape x element>`.
    pub fn vector(shape: &[i64], element: Self) -> Self {
        Self(unsafe { mlirVectorTypeGet(shape.len() as isize, shape.as_ptr(), element.0) })
    }
    /// `!llvm.ptr`.
    pub fn llvm_pointer(ctx: Ctx) -> Self {
        Self(unsafe { mlirLLVMPointerTypeGet(ctx.0, 0) })
    }
    /// `!llvm.struct<(…)>` of these fields, at least one.
    pub fn llvm_struct(fields: &[Self]) -> Self {
        let raw: Vec<_> = fields.iter().map(|field| field.0).collect();
        Self(unsafe { mlirLLVMStructTypeLiteralGet(fields[0].ctx().0, raw.len() as isize, raw.as_ptr(), false) })
    }
    /// `!dynamo.tensor<…>`.
    pub fn mutable(shape: &[i64], element: Self, strides: &[i64], offset: i64) -> Self {
        assert_eq!(shape.len(), strides.len(), "one stride per dimension");
        Self(unsafe {
            ffi::dynamoMutableTensorTypeGet(element.ctx().0, shape.len() as isize, shape.as_ptr(), element.0, strides.as_ptr(), offset)
        })
    }
    /// `(inputs) -> (results)`.
    pub fn function(ctx: Ctx, inputs: &[Self], results: &[Self]) -> Self {
        // A `Type` has the layout of its raw handle only by accident, so copy.
        let inputs: Vec<_> = inputs.iter().map(|t| t.0).collect();
        let results: Vec<_> = results.iter().map(|t| t.0).collect();
        Self(unsafe { mlirFunctionTypeGet(ctx.0, inputs.len() as isize, inputs.as_ptr(), results.len() as isize, results.as_ptr()) })
    }
    /// Returns true if this is a function type.
    pub fn is_function(self) -> bool {
        unsafe { mlirTypeIsAFunction(self.0) }
    }
    /// Inputs of a function type.
    pub fn function_inputs(self) -> Vec<Self> {
        let n = unsafe { mlirFunctionTypeGetNumInputs(self.0) };
        (0..n).map(|i| Self(unsafe { mlirFunctionTypeGetInput(self.0, i) })).collect()
    }
    /// Results of a function type.
    pub fn function_results(self) -> Vec<Self> {
        let n = unsafe { mlirFunctionTypeGetNumResults(self.0) };
        (0..n).map(|i| Self(unsafe { mlirFunctionTypeGetResult(self.0, i) })).collect()
    }
    /// Returns true if this is a builtin ranked tensor.
    pub fn is_tensor(self) -> bool {
        unsafe { mlirTypeIsARankedTensor(self.0) }
    }
    /// Returns true if this is a ranked memref.
    pub fn is_memref(self) -> bool {
        unsafe { mlirTypeIsAMemRef(self.0) }
    }
    /// Returns true if this is `!dynamo.tensor`.
    pub fn is_mutable(self) -> bool {
        unsafe { ffi::dynamoTypeIsMutableTensor(self.0) }
    }
    /// Returns true if this is a vector.
    pub fn is_vector(self) -> bool {
        unsafe { mlirTypeIsAVector(self.0) }
    }
    /// A vector, builtin tensor or memref of the same form with another element type; for a scalar, that type itself.
    pub fn with_element(self, element: Self) -> Self {
        let (shape, rank) = (self.shape(), self.rank() as isize);
        if self.is_vector() {
            return Self::vector(&shape, element);
        }
        Self(unsafe {
            if self.is_memref() {
                let (layout, space) = (mlirMemRefTypeGetLayout(self.0), mlirMemRefTypeGetMemorySpace(self.0));
                mlirMemRefTypeGet(element.0, rank, shape.as_ptr(), layout, space)
            } else if self.is_tensor() {
                mlirRankedTensorTypeGet(rank, shape.as_ptr(), element.0, mlirRankedTensorTypeGetEncoding(self.0))
            } else {
                element.0
            }
        })
    }
    /// Returns true if this is a float type.
    pub fn is_float(self) -> bool {
        unsafe { mlirTypeIsAFloat(self.0) }
    }
    /// Returns true if this is a type of complex numbers.
    pub fn is_complex(self) -> bool {
        unsafe { mlirTypeIsAComplex(self.0) }
    }
    /// Returns true if autograd differentiates with respect to elements of this type: floats and complex numbers.
    pub fn is_differentiable(self) -> bool {
        self.is_float() || self.is_complex()
    }
    /// The type of the real and imaginary parts of a complex type; `None` for other types.
    pub fn part(self) -> Option<Self> {
        self.is_complex().then(|| Self(unsafe { mlirComplexTypeGetElementType(self.0) }))
    }
    /// Returns true if this is an integer type, bool included.
    pub fn is_int(self) -> bool {
        unsafe { mlirTypeIsAInteger(self.0) }
    }
    /// Returns true if this is `i1`.
    pub fn is_bool(self) -> bool {
        self.is_int() && self.width() == 1
    }
    /// Returns true if this is `f32`.
    pub fn is_f32(self) -> bool {
        unsafe { mlirTypeIsAF32(self.0) }
    }
    /// Returns true if this is `f64`.
    pub fn is_f64(self) -> bool {
        unsafe { mlirTypeIsAF64(self.0) }
    }
    /// Returns true if this is `bf16`, and not `f16`, which is as wide.
    pub fn is_bf16(self) -> bool {
        unsafe { mlirTypeIsABF16(self.0) }
    }
    /// Returns true if this is `f16`.
    pub fn is_f16(self) -> bool {
        unsafe { mlirTypeIsAF16(self.0) }
    }
    /// Returns true if this is an unsigned integer type (`ui8`).
    pub fn is_unsigned(self) -> bool {
        self.is_int() && unsafe { mlirIntegerTypeIsUnsigned(self.0) }
    }
    /// Bits of an integer, float or complex type; 64 for `index`; 0 for others.
    pub fn width(self) -> u32 {
        if self.is_complex() {
            2 * Self(unsafe { mlirComplexTypeGetElementType(self.0) }).width()
        } else if self.is_int() {
            unsafe { mlirIntegerTypeGetWidth(self.0) }
        } else if self.is_float() {
            unsafe { mlirFloatTypeGetWidth(self.0) }
        } else if unsafe { mlirTypeIsAIndex(self.0) } {
            64
        } else {
            0
        }
    }
    /// Sizes of a tensor, memref or `!dynamo.tensor`; empty for others.
    pub fn shape(self) -> Vec<i64> {
        if self.is_mutable() {
            let rank = unsafe { ffi::dynamoMutableTensorTypeGetRank(self.0) };
            return (0..rank).map(|i| unsafe { ffi::dynamoMutableTensorTypeGetSize(self.0, i) }).collect();
        }
        if !unsafe { mlirTypeIsAShaped(self.0) } {
            return Vec::new();
        }
        (0..unsafe { mlirShapedTypeGetRank(self.0) }).map(|i| unsafe { mlirShapedTypeGetDimSize(self.0, i as isize) }).collect()
    }
    /// Returns true if a size of a tensor or memref is `?`: an expression, or not known at all.
    pub fn is_open(self) -> bool {
        unsafe { mlirTypeIsAShaped(self.0) && !mlirShapedTypeHasStaticShape(self.0) }
    }
    /// Number of dimensions.
    pub fn rank(self) -> usize {
        self.shape().len()
    }
    /// Product of the sizes (static shapes).
    pub fn numel(self) -> i64 {
        self.shape().iter().product()
    }
    /// Strides of a `!dynamo.tensor` or memref, row-major ones for a builtin tensor.
    pub fn strides(self) -> Vec<i64> {
        if self.is_mutable() {
            let rank = unsafe { ffi::dynamoMutableTensorTypeGetRank(self.0) };
            return (0..rank).map(|i| unsafe { ffi::dynamoMutableTensorTypeGetStride(self.0, i) }).collect();
        }
        if self.is_memref() {
            let mut strides = vec![0; self.rank()];
            let mut offset = 0;
            if unsafe { mlirLogicalResultIsSuccessHelper(mlirMemRefTypeGetStridesAndOffset(self.0, strides.as_mut_ptr(), &raw mut offset)) }
            {
                return strides;
            }
        }
        row_major(&self.shape())
    }
    /// Strides and offset of a memref, `DYNAMIC` if unknown; `None` for another type, and for a layout that strides cannot express.
    pub fn strided(self) -> Option<(Vec<i64>, i64)> {
        if !self.is_memref() {
            return None;
        }
        let (mut strides, mut offset) = (vec![0; self.rank()], 0);
        let found = unsafe { mlirMemRefTypeGetStridesAndOffset(self.0, strides.as_mut_ptr(), &raw mut offset) };
        mlirLogicalResultIsSuccessHelper(found).then_some((strides, offset))
    }
    /// Storage offset of a `!dynamo.tensor` or memref in elements, else 0.
    pub fn offset(self) -> i64 {
        if self.is_mutable() {
            return unsafe { ffi::dynamoMutableTensorTypeGetOffset(self.0) };
        }
        let mut offset = 0;
        if self.is_memref() {
            let mut strides = vec![0; self.rank()];
            unsafe { mlirMemRefTypeGetStridesAndOffset(self.0, strides.as_mut_ptr(), &raw mut offset) };
        }
        offset
    }
    /// Element type of a shaped type; the type itself for a scalar.
    pub fn element(self) -> Self {
        if self.is_mutable() {
            Self(unsafe { ffi::dynamoMutableTensorTypeGetElementType(self.0) })
        } else if unsafe { mlirTypeIsAShaped(self.0) } {
            Self(unsafe { mlirShapedTypeGetElementType(self.0) })
        } else {
            self
        }
    }
    /// The type as an attribute.
    pub fn as_attr(self) -> Attr {
        Attr(unsafe { mlirTypeAttrGet(self.0) })
    }
}

/// mlir-sys exposes the struct, but not the inline helper.
#[expect(non_snake_case, reason = "named as MLIR names it")]
fn mlirLogicalResultIsSuccessHelper(result: MlirLogicalResult) -> bool {
    result.value != 0
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: the callback appends to a string that outlives the call.
        f.write_str(&print(|cb, data| unsafe { mlirTypePrint(self.0, cb, data) }))
    }
}

impl std::fmt::Debug for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}
