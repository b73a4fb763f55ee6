//===- DynamoPrims.td - The primitive ops -----------------*- tablegen -*-===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The closed set of ops that `dynamo-decompose` produces. No op here promotes
// types, broadcasts, writes to an operand or shares memory with one.
//
//===----------------------------------------------------------------------===//

#ifndef DYNAMO_PRIMS
#define DYNAMO_PRIMS

include "dynamo/DynamoTypes.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"

class Prim<string mnemonic, list<Trait> traits = []>
    : Dynamo_Op<mnemonic, !listconcat([Pure], traits)>;

//===----------------------------------------------------------------------===//
// Pointwise, one operand
//===----------------------------------------------------------------------===//

class UnaryPrim<string mnemonic, Type type, string meaning>
    : Prim<mnemonic, [Elementwise, SameOperandsAndResultType]> {
  let summary = meaning;
  let arguments = (ins type:$operand);
  let results = (outs type:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}

def Dynamo_NegOp : UnaryPrim<"neg", Dynamo_NumberTensor, "-x; integers wrap"> { let hasFolder = 1; }
def Dynamo_AbsOp : UnaryPrim<"abs", Dynamo_NumberTensor, "|x|; the smallest signed integer is unchanged">;
def Dynamo_NotOp : UnaryPrim<"not", Dynamo_IntTensor, "bitwise complement; logical for bool"> { let hasFolder = 1; }
def Dynamo_ExpOp : UnaryPrim<"exp", Dynamo_FloatTensor, "e to the power of x">;
def Dynamo_Exp2Op : UnaryPrim<"exp2", Dynamo_FloatTensor, "2 to the power of x">;
def Dynamo_Expm1Op : UnaryPrim<"expm1", Dynamo_FloatTensor, "exp(x) - 1, accurate near 0">;
def Dynamo_LogOp : UnaryPrim<"log", Dynamo_FloatTensor, "natural logarithm">;
def Dynamo_Log2Op : UnaryPrim<"log2", Dynamo_FloatTensor, "logarithm to base 2">;
def Dynamo_Log10Op : UnaryPrim<"log10", Dynamo_FloatTensor, "logarithm to base 10">;
def Dynamo_Log1pOp : UnaryPrim<"log1p", Dynamo_FloatTensor, "log(1 + x), accurate near 0">;
def Dynamo_SqrtOp : UnaryPrim<"sqrt", Dynamo_FloatTensor, "square root, correctly rounded">;
def Dynamo_RsqrtOp : UnaryPrim<"rsqrt", Dynamo_FloatTensor, "1 / sqrt(x)">;
def Dynamo_SinOp : UnaryPrim<"sin", Dynamo_FloatTensor, "sine">;
def Dynamo_CosOp : UnaryPrim<"cos", Dynamo_FloatTensor, "cosine">;
def Dynamo_TanOp : UnaryPrim<"tan", Dynamo_FloatTensor, "tangent">;
def Dynamo_AsinOp : UnaryPrim<"asin", Dynamo_FloatTensor, "inverse sine">;
def Dynamo_AcosOp : UnaryPrim<"acos", Dynamo_FloatTensor, "inverse cosine">;
def Dynamo_AtanOp : UnaryPrim<"atan", Dynamo_FloatTensor, "inverse tangent">;
def Dynamo_SinhOp : UnaryPrim<"sinh", Dynamo_FloatTensor, "hyperbolic sine">;
def Dynamo_CoshOp : UnaryPrim<"cosh", Dynamo_FloatTensor, "hyperbolic cosine">;
def Dynamo_TanhOp : UnaryPrim<"tanh", Dynamo_FloatTensor, "hyperbolic tangent">;
def Dynamo_AsinhOp : UnaryPrim<"asinh", Dynamo_FloatTensor, "inverse hyperbolic sine">;
def Dynamo_AcoshOp : UnaryPrim<"acosh", Dynamo_FloatTensor, "inverse hyperbolic cosine">;
def Dynamo_AtanhOp : UnaryPrim<"atanh", Dynamo_FloatTensor, "inverse hyperbolic tangent">;
def Dynamo_ErfOp : UnaryPrim<"erf", Dynamo_FloatTensor, "error function">;
def Dynamo_ErfcOp : UnaryPrim<"erfc", Dynamo_FloatTensor, "1 - erf(x), accurate for large x">;
def Dynamo_LgammaOp : UnaryPrim<"lgamma", Dynamo_FloatTensor, "logarithm of |Γ(x)|">;
def Dynamo_FloorOp : UnaryPrim<"floor", Dynamo_FloatTensor, "largest integer not above x">;
def Dynamo_CeilOp : UnaryPrim<"ceil", Dynamo_FloatTensor, "smallest integer not below x">;
def Dynamo_RoundOp : UnaryPrim<"round", Dynamo_FloatTensor, "nearest integer, halves to even">;
def Dynamo_TruncOp : UnaryPrim<"trunc", Dynamo_FloatTensor, "x rounded toward zero">;

//===----------------------------------------------------------------------===//
// Pointwise, two operands
//===----------------------------------------------------------------------===//

class BinaryPrim<string mnemonic, Type type, string meaning, list<Trait> traits = []>
    : Prim<mnemonic, !listconcat([Elementwise, SameOperandsAndResultType], traits)> {
  let summary = meaning;
  let arguments = (ins type:$lhs, type:$rhs);
  let results = (outs type:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def Dynamo_AddOp : BinaryPrim<"add", Dynamo_NumberTensor, "x + y; integers wrap", [Commutative]>;
def Dynamo_SubOp : BinaryPrim<"sub", Dynamo_NumberTensor, "x - y; integers wrap">;
def Dynamo_MulOp : BinaryPrim<"mul", Dynamo_NumberTensor, "x * y; integers wrap", [Commutative]>;
def Dynamo_DivOp : BinaryPrim<"div", Dynamo_NumberTensor, "x / y; integers round toward zero"> {
  let description = [{
    Floats follow IEEE 754: 1/0 is infinite, 0/0 NaN. An integer divisor must
    not be 0: eager raises an error, so the decomposition emits this op for
    integers only if the divisor is a constant.
  }];
}
def Dynamo_RemOp : BinaryPrim<"rem", Dynamo_NumberTensor, "remainder as in C: it has the sign of x"> {
  let description = [{ Integers have the same restriction as in `dynamo.div`. }];
}
def Dynamo_PowOp : BinaryPrim<"pow", Dynamo_FloatTensor, "x to the power of y, as in C">;
def Dynamo_Atan2Op : BinaryPrim<"atan2", Dynamo_FloatTensor, "angle of the point (y = lhs, x = rhs)">;
def Dynamo_HypotOp : BinaryPrim<"hypot", Dynamo_FloatTensor, "sqrt(x² + y²) without overflow">;
def Dynamo_CopysignOp : BinaryPrim<"copysign", Dynamo_FloatTensor, "magnitude of x, sign of y">;
def Dynamo_NextafterOp : BinaryPrim<"nextafter", Dynamo_FloatTensor, "the next number after x toward y">;
def Dynamo_MaxOp : BinaryPrim<"max", Dynamo_Tensor, "the larger of x and y; NaN if either is NaN"> { let hasFolder = 1; }
def Dynamo_MinOp : BinaryPrim<"min", Dynamo_Tensor, "the smaller of x and y; NaN if either is NaN"> { let hasFolder = 1; }
def Dynamo_AndOp : BinaryPrim<"and", Dynamo_IntTensor, "bitwise and", [Commutative]> { let hasFolder = 1; }
def Dynamo_OrOp : BinaryPrim<"or", Dynamo_IntTensor, "bitwise or", [Commutative]>    { let hasFolder = 1; }
def Dynamo_XorOp : BinaryPrim<"xor", Dynamo_IntTensor, "bitwise exclusive or", [Commutative]>;
def Dynamo_ShlOp : BinaryPrim<"shl", Dynamo_IntTensor, "x << y; 0 if y is out of range">;
def Dynamo_ShrOp : BinaryPrim<"shr", Dynamo_IntTensor, "x >> y; if y is out of range, 0, or -1 for negative x">;

def Dynamo_FmaOp : Prim<"fma", [Elementwise, SameOperandsAndResultType]> {
  let summary = "x * y + z, rounded once";
  let description = [{
    Used where eager's kernels round once. A separate product and sum are
    rounded separately: nothing contracts them.

    ```mlir
    %r = dynamo.fma %x, %y, %z : tensor<4xf32>
    ```
  }];
  let arguments = (ins Dynamo_FloatTensor:$lhs, Dynamo_FloatTensor:$rhs, Dynamo_FloatTensor:$addend);
  let results = (outs Dynamo_FloatTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs `,` $addend attr-dict `:` type($result)";
}

def Dynamo_PredicateAttr : Dynamo_Enum<"Predicate", "comparison", "predicate", [
    I32EnumAttrCase<"eq", 0>, I32EnumAttrCase<"ne", 1>, I32EnumAttrCase<"lt", 2>,
    I32EnumAttrCase<"le", 3>, I32EnumAttrCase<"gt", 4>, I32EnumAttrCase<"ge", 5>]>;

def Dynamo_CompareOp : Prim<"compare", [Elementwise, SameTypeOperands, SameOperandsAndResultShape]> {
  let summary = "x (predicate) y; with a NaN only `ne` is true";
  let description = [{
    The predicates are `eq`, `ne`, `lt`, `le`, `gt` and `ge`. The comparison of
    `ui8` is unsigned, that of other integers signed; false is less than true.

    ```mlir
    %m = dynamo.compare lt %a, %b : tensor<4xf32> -> tensor<4xi1>
    ```
  }];
  let arguments = (ins Dynamo_PredicateAttr:$predicate, Dynamo_Tensor:$lhs, Dynamo_Tensor:$rhs);
  let results = (outs Dynamo_BoolTensor:$result);
  let assemblyFormat = "`` $predicate $lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)";
}

def Dynamo_SelectOp : Prim<"select", [Elementwise, SameOperandsAndResultShape, AllTypesMatch<["on_true", "on_false", "result"]>]> {
  let summary = "on_true where the condition is true, else on_false";
  let description = [{
    ```mlir
    %r = dynamo.select %m, %a, %b : tensor<4xi1>, tensor<4xf32>
    ```
  }];
  let arguments = (ins Dynamo_BoolTensor:$condition, Dynamo_Tensor:$on_true, Dynamo_Tensor:$on_false);
  let results = (outs Dynamo_Tensor:$result);
  let assemblyFormat = "$condition `,` $on_true `,` $on_false attr-dict `:` type($condition) `,` type($result)";
  let hasFolder = 1;
}

def Dynamo_ConvertOp : Prim<"convert", [Elementwise, SameOperandsAndResultShape]> {
  let summary = "the value in another element type";
  let description = [{
    To bool: true if the value is not 0. From bool: 0 or 1. From float to
    integer: rounded toward zero (the result for a value that does not fit is
    unspecified, as in torch). To a narrower integer: modulo. To a narrower
    float: rounded to nearest, ties to even.

    ```mlir
    %r = dynamo.convert %x : tensor<4xf32> -> tensor<4xbf16>
    ```
  }];
  let arguments = (ins Dynamo_Tensor:$operand);
  let results = (outs Dynamo_Tensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasFolder = 1;
}

def Dynamo_BitcastOp : Prim<"bitcast", [Elementwise, SameOperandsAndResultShape]> {
  let summary = "the same bits in another element type of equal width";
  let description = [{
    ```mlir
    %r = dynamo.bitcast %x : tensor<4xf32> -> tensor<4xi32>
    ```
  }];
  let arguments = (ins Dynamo_Tensor:$operand);
  let results = (outs Dynamo_Tensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// Creation
//===----------------------------------------------------------------------===//

// A number or a symbolic size.
def Dynamo_Constant : Attr<CPred<"::llvm::isa<::mlir::TypedAttr, ::dynamlir::dynamo::ExprAttr>($_self)">, "a constant"> {
  let storageType = "::mlir::Attribute";
  let returnType = "::mlir::Attribute";
  let convertFromStorage = "$_self";
}

def Dynamo_FullOp : Prim<"full"> {
  let summary = "a tensor whose elements all equal a constant";
  let description = [{
    The constant has the element type of the result; bool is written `true`
    or `false`. An `i64` constant may be a size that is an expression.

    ```mlir
    %one = dynamo.full 1.0 : f32 -> tensor<2xf32>
    %yes = dynamo.full true -> tensor<i1>
    %rows = dynamo.full #dynamo.expr<s0> -> tensor<i64>
    ```
  }];
  let arguments = (ins Dynamo_Constant:$value);
  let results = (outs Dynamo_Tensor:$result);
  let assemblyFormat = "$value attr-dict `->` type($result)";
  let hasVerifier = 1;
}

def Dynamo_IotaOp : Prim<"iota"> {
  let summary = "the index along one dimension, as i64";
  let description = [{
    ```mlir
    %r = dynamo.iota 1 : tensor<2x3xi64>  // [[0, 1, 2], [0, 1, 2]]
    ```
  }];
  let arguments = (ins I64Attr:$dim);
  let results = (outs Dynamo_IndexTensor:$result);
  let assemblyFormat = "$dim attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Dynamo_RandomOp : Prim<"random", [Elementwise, SameOperandsAndResultType]> {
  let summary = "random bits: a function of a key and a counter";
  let description = [{
    Philox4x32-10 (Salmon, Moraes, Dror and Shaw: Parallel random numbers: as
    easy as 1, 2, 3; 2011). Its counter is the number `counter`, its key the
    number `key`, both with the low 32 bits first. It computes four words; the
    op returns half of them. `half 0` is the first word and, in the upper 32
    bits, the second; `half 1` is the third and the fourth.

    Equal operands give equal bits: the op has no state. The key differs in
    each call: `dynamo-decompose` takes it from torch's generator.

    ```mlir
    %bits = dynamo.random %key, %counter half 0 : tensor<4xi64>
    ```
  }];
  let arguments = (ins Dynamo_IndexTensor:$key, Dynamo_IndexTensor:$counter, I64Attr:$half);
  let results = (outs Dynamo_IndexTensor:$result);
  let assemblyFormat = "$key `,` $counter `half` $half attr-dict `:` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

class ShapePrim<string mnemonic, string meaning> : Prim<mnemonic> {
  let summary = meaning;
  let results = (outs Dynamo_Tensor:$result);
  let hasVerifier = 1;
}

def Dynamo_BroadcastOp : ShapePrim<"broadcast", "operand dimension i becomes result dimension dims[i]; the others repeat"> {
  let description = [{
    `dims` has one entry per operand dimension and is strictly increasing; use
    `dynamo.permute` to transpose. The size of an operand dimension is that of
    the result's dimension, or 1.

    ```mlir
    %rows = dynamo.broadcast %x dims [1] : tensor<3xf32> -> tensor<2x3xf32>
    ```
  }];
  let arguments = (ins Dynamo_Tensor:$operand, DenseI64ArrayAttr:$dims);
  let assemblyFormat = "$operand `dims` $dims attr-dict `:` type($operand) `->` type($result)";
  let hasFolder = 1;
}

def Dynamo_ReshapeOp : ShapePrim<"reshape", "the same elements in row-major order in another shape"> {
  let description = [{
    ```mlir
    %r = dynamo.reshape %x : tensor<2x3xf32> -> tensor<6xf32>
    ```
  }];
  let arguments = (ins Dynamo_Tensor:$operand);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasFolder = 1;
}

def Dynamo_PermuteOp : ShapePrim<"permute", "result dimension i is operand dimension dims[i]"> {
  let description = [{
    ```mlir
    %r = dynamo.permute %x dims [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
    ```
  }];
  let arguments = (ins Dynamo_Tensor:$operand, DenseI64ArrayAttr:$dims);
  let assemblyFormat = "$operand `dims` $dims attr-dict `:` type($operand) `->` type($result)";
  let hasFolder = 1;
}

def Dynamo_SliceOp : ShapePrim<"slice", "a rectangular, strided part; the result type gives its sizes"> {
  let description = [{
    Result element `i` is operand element `starts + i * steps`. Starts are not
    negative, steps are at least 1, and the part lies inside the operand.

    ```mlir
    %odd = dynamo.slice %x starts [1] steps [2] : tensor<6xf32> -> tensor<3xf32>
    ```
  }];
  let arguments = (ins Dynamo_Tensor:$operand, Dynamo_SizeArray:$starts, DenseI64ArrayAttr:$steps);
  let assemblyFormat = "$operand `starts` custom<SizeArray>($starts) `steps` $steps attr-dict `:` type($operand) `->` type($result)";
  let hasFolder = 1;
}

def Dynamo_ReverseOp : ShapePrim<"reverse", "the elements in reverse order along dims"> {
  let description = [{
    ```mlir
    %r = dynamo.reverse %x dims [0] : tensor<4x2xf32> -> tensor<4x2xf32>
    ```
  }];
  let arguments = (ins Dynamo_Tensor:$operand, DenseI64ArrayAttr:$dims);
  let assemblyFormat = "$operand `dims` $dims attr-dict `:` type($operand) `->` type($result)";
}

def Dynamo_ConcatenateOp : ShapePrim<"concatenate", "operands one after another along dim"> {
  let description = [{
    There is at least one operand; all have the same sizes in the other
    dimensions.

    ```mlir
    %r = dynamo.concatenate %a, %b dim 0 : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<3x3xf32>
    ```
  }];
  let arguments = (ins Variadic<Dynamo_Tensor>:$inputs, I64Attr:$dim);
  let assemblyFormat = "$inputs `dim` $dim attr-dict `:` functional-type($inputs, $result)";
}

def Dynamo_PadOp : ShapePrim<"pad", "constant elements before (low) and after (high) each dimension"> {
  let description = [{
    `low` and `high` are not negative; use `dynamo.slice` to crop. They may be
    expressions.

    ```mlir
    %r = dynamo.pad %x low [1] high [2] value 0.0 : f32 : tensor<3xf32> -> tensor<6xf32>
    ```
  }];
  let arguments = (ins Dynamo_Tensor:$operand, Dynamo_SizeArray:$low, Dynamo_SizeArray:$high, TypedAttrInterface:$value);
  let assemblyFormat = "$operand `low` custom<SizeArray>($low) `high` custom<SizeArray>($high) `value` $value attr-dict `:` type($operand) `->` type($result)";
}

def Dynamo_AsStridedOp : ShapePrim<"as_strided", "element i is operand.flat[offset + Σ i_k · strides_k]"> {
  let description = [{
    `operand.flat` is the operand in row-major order. `dynamo-functionalize`
    emits this op for a view of a storage that is mutated elsewhere. Offset and
    strides are not negative, and the window lies inside the operand. They may
    be expressions.

    ```mlir
    %diagonal = dynamo.as_strided %x strides [4] offset 0 : tensor<3x3xf32> -> tensor<3xf32>
    ```
  }];
  let arguments = (ins Dynamo_Tensor:$operand, Dynamo_SizeArray:$strides, Dynamo_Size:$offset);
  let assemblyFormat = "$operand `strides` custom<SizeArray>($strides) `offset` custom<Size>($offset) attr-dict `:` type($operand) `->` type($result)";
}

def Dynamo_AsStridedScatterOp : ShapePrim<"as_strided_scatter", "base with source written through the window that as_strided would read"> {
  let description = [{
    The window must not contain an element twice.

    ```mlir
    %r = dynamo.as_strided_scatter %x, %diagonal strides [4] offset 0
           : tensor<3x3xf32>, tensor<3xf32> -> tensor<3x3xf32>
    ```
  }];
  let arguments = (ins Dynamo_Tensor:$base, Dynamo_Tensor:$source, Dynamo_SizeArray:$strides, Dynamo_Size:$offset);
  let assemblyFormat = "$base `,` $source `strides` custom<SizeArray>($strides) `offset` custom<Size>($offset) attr-dict `:` type($base) `,` type($source) `->` type($result)";
}

def Dynamo_GatherOp : Prim<"gather"> {
  let summary = "element p is operand[indices_0[p], indices_1[p], …]";
  let description = [{
    There is one index tensor of the result's shape per operand dimension. The
    indices must be in range: those that are not known to be are checked by
    `dynamo.check_range` first.

    ```mlir
    %rows = dynamo.gather %table[%i, %j] : tensor<10x4xf32>, tensor<3x4xi64>, tensor<3x4xi64> -> tensor<3x4xf32>
    ```
  }];
  let arguments = (ins Dynamo_Tensor:$operand, Variadic<Dynamo_IndexTensor>:$indices);
  let results = (outs Dynamo_Tensor:$result);
  let assemblyFormat = "$operand `[` $indices `]` attr-dict `:` type(operands) `->` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Reduction
//===----------------------------------------------------------------------===//

def Dynamo_ReduceKindAttr : Dynamo_Enum<"ReduceKind", "reduction", "reduce_kind", [
    I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"prod", 1>, I32EnumAttrCase<"max", 2>,
    I32EnumAttrCase<"min", 3>, I32EnumAttrCase<"bit_and", 4, "and">, I32EnumAttrCase<"bit_or", 5, "or">,
    I32EnumAttrCase<"bit_xor", 6, "xor">]>;

def Dynamo_ReduceOp : Prim<"reduce"> {
  let summary = "combines all elements along dims, and removes these dimensions";
  let description = [{
    The kinds are `sum`, `prod`, `max`, `min` and, for integers and bool,
    `and`, `or`, `xor`. If there are no elements to combine, the result is the
    neutral element; `max` and `min` are rejected then. They propagate NaN. The
    order of a float sum is unspecified.

    ```mlir
    %r = dynamo.reduce sum %x dims [1] : tensor<2x3xf32> -> tensor<2xf32>
    ```
  }];
  let arguments = (ins Dynamo_ReduceKindAttr:$kind, Dynamo_Tensor:$operand, DenseI64ArrayAttr:$dims);
  let results = (outs Dynamo_Tensor:$result);
  let assemblyFormat = "`` $kind $operand `dims` $dims attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
}

def Dynamo_ArgReduceOp : Prim<"arg_reduce"> {
  let summary = "index of the first largest (max) or smallest (min) element along dim, which is removed";
  let description = [{
    A NaN counts as the largest for `max` and the smallest for `min`.

    ```mlir
    %r = dynamo.arg_reduce max %x dim 1 : tensor<2x3xf32> -> tensor<2xi64>
    ```
  }];
  let arguments = (ins Dynamo_ReduceKindAttr:$kind, Dynamo_Tensor:$operand, I64Attr:$dim);
  let results = (outs Dynamo_IndexTensor:$result);
  let assemblyFormat = "`` $kind $operand `dim` $dim attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
}

def Dynamo_ScanOp : Prim<"scan", [SameOperandsAndResultType]> {
  let summary = "inclusive prefix combination along dim";
  let description = [{
    The kinds are those of `dynamo.reduce`.

    ```mlir
    %r = dynamo.scan sum %x dim 0 : tensor<4xi64>  // [1, 2, 3, 4] gives [1, 3, 6, 10]
    ```
  }];
  let arguments = (ins Dynamo_ReduceKindAttr:$kind, Dynamo_Tensor:$operand, I64Attr:$dim);
  let results = (outs Dynamo_Tensor:$result);
  let assemblyFormat = "`` $kind $operand `dim` $dim attr-dict `:` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Writing by index
//===----------------------------------------------------------------------===//

def Dynamo_ScatterOp : Prim<"scatter"> {
  let summary = "base with element p of source at base[place_0(p), place_1(p), …]";
  let description = [{
    `dims` has one entry per dimension of the base. If the entry is -1, the
    next index tensor, which has the source's shape, gives the place; otherwise
    the place is the position of `p` along this dimension of the source. The
    indices must be in range, as for `dynamo.gather`.

    The source is traversed in row-major order. If several elements have the
    same place, the last one remains. With `by` they are instead combined one
    after another, starting with the base's element; the kinds are those of
    `dynamo.reduce`.

    ```mlir
    %r = dynamo.scatter %rows into %x[%i] dims [-1, 1] by sum
           : tensor<9x4xf32>, tensor<3x4xi64>, tensor<3x4xf32> -> tensor<9x4xf32>
    ```
  }];
  let arguments = (ins Dynamo_Tensor:$base, Variadic<Dynamo_IndexTensor>:$indices, Dynamo_Tensor:$source,
                       DenseI64ArrayAttr:$dims, OptionalAttr<Dynamo_ReduceKindAttr>:$kind);
  let results = (outs Dynamo_Tensor:$result);
  let assemblyFormat = "$source `into` $base `[` $indices `]` `dims` $dims (`by` $kind^)? attr-dict `:` type(operands) `->` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

def Dynamo_MatmulOp : Prim<"matmul"> {
  let summary = "sums of products along one dimension";
  let description = [{
    `result[b, m, n] = Σ_k lhs[b, m, k] · rhs[b, k, n]`. The first `batch`
    dimensions of lhs, rhs and result are the same. In lhs, any number of
    dimensions `m` follow and then `k`; in rhs, `k` follows and then any number
    of dimensions `n`. The order of the sum is unspecified.

    ```mlir
    %y = dynamo.matmul %x, %w batch 0 : tensor<2x5x8xf32>, tensor<8x3xf32> -> tensor<2x5x3xf32>
    %v = dynamo.matmul %q, %k batch 1 : tensor<4x8xf32>, tensor<4x8x3x5xf32> -> tensor<4x3x5xf32>
    ```
  }];
  let arguments = (ins Dynamo_FloatTensor:$lhs, Dynamo_FloatTensor:$rhs, I64Attr:$batch);
  let results = (outs Dynamo_FloatTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs `batch` $batch attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
  let hasVerifier = 1;
}

def Dynamo_ConvolutionOp : Prim<"convolution"> {
  let summary = "sums of products over windows of images";
  let description = [{
    `result[b, g·m + o, y, x] = Σ_{c, i, j} input[b, g·k + c, y·s_0 + i·d_0 - p_0, x·s_1 + j·d_1 - p_1] · weight[g·m + o, c, i, j]`,
    with `m` output and `k` input channels per group, strides `s`, padding `p`
    and dilation `d`. Elements outside the input count as 0. The order of the
    sum is unspecified. The result may have another shape with the same number
    of elements, in the same row-major order.

    ```mlir
    %y = dynamo.convolution %x, %w strides [2, 2] padding [1, 1] dilation [1, 1] groups 1
           : tensor<1x3x9x9xf32>, tensor<8x3x3x3xf32> -> tensor<1x8x5x5xf32>
    ```
  }];
  let arguments = (ins Dynamo_FloatTensor:$input, Dynamo_FloatTensor:$weight, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$padding, DenseI64ArrayAttr:$dilation, I64Attr:$groups);
  let results = (outs Dynamo_FloatTensor:$result);
  let assemblyFormat = "$input `,` $weight `strides` $strides `padding` $padding `dilation` $dilation `groups` $groups attr-dict `:` type($input) `,` type($weight) `->` type($result)";
  let hasVerifier = 1;
}

def Dynamo_MaxPoolOp : Prim<"max_pool"> {
  let summary = "largest elements of windows of images";
  let description = [{
    `result[b, c, y, x] = max_{i, j} input[b, c, y·s_0 + i·d_0 - p_0, x·s_1 + j·d_1 - p_1]`
    over `window[0]` by `window[1]` elements, with strides `s`, padding `p` and
    dilation `d`. Elements outside the input count as the smallest number. NaN
    is larger than any number. The result may have another shape with the same
    number of elements, in the same row-major order.

    ```mlir
    %y = dynamo.max_pool %x window [3, 3] strides [2, 2] padding [1, 1] dilation [1, 1]
           : tensor<1x3x9x9xf32> -> tensor<1x3x5x5xf32>
    ```
  }];
  let arguments = (ins Dynamo_FloatTensor:$input, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$padding, DenseI64ArrayAttr:$dilation);
  let results = (outs Dynamo_FloatTensor:$result);
  let assemblyFormat = "$input `window` $window `strides` $strides `padding` $padding `dilation` $dilation attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Dynamo_AttentionOp : Prim<"attention"> {
  let summary = "values weighted by the softmax of the products of queries and keys";
  let description = [{
    `result[b, h, i, e] = Σ_j p[j] · value[b, h, j, e]`, with
    `p = softmax_j(scale · Σ_d query[b, h, i, d] · key[b, h, j, d] + mask[b, h, i, j])`.
    With `causal`, `p[j]` is 0 for `j > i`. If all `j` are masked by negative
    infinity, the result is 0. The order of the sums is unspecified. The result
    may have another shape with the same number of elements, in the same
    row-major order.

    ```mlir
    %o = dynamo.attention %q, %k, %v scale 1.250000e-01 causal
           : tensor<1x4x128x64xf32>, tensor<1x4x128x64xf32>, tensor<1x4x128x64xf32> -> tensor<1x4x128x64xf32>
    ```
  }];
  let arguments = (ins Dynamo_FloatTensor:$query, Dynamo_FloatTensor:$key, Dynamo_FloatTensor:$value,
                       Optional<Dynamo_FloatTensor>:$mask, F64Attr:$scale, UnitAttr:$causal);
  let results = (outs Dynamo_FloatTensor:$result);
  let assemblyFormat = "$query `,` $key `,` $value (`mask` $mask^)? `scale` $scale (`causal` $causal^)? attr-dict `:` type($query) `,` type($key) `,` type($value) (`,` type($mask)^)? `->` type($result)";
  let hasVerifier = 1;
}

#endif // DYNAMO_PRIMS
