// RUN: dynamlir-opt %s --split-input-file --dynamo-attach-target=vector-bits=512 --dynamo-decompose --dynamo-select --dynamo-verify-prims | FileCheck %s
// RUN: dynamlir-opt %s --split-input-file --dynamo-attach-target=vector-bits=256 --dynamo-decompose --dynamo-select | FileCheck %s --check-prefix=NARROW

// Constants are tensors, a select passes NaN and -0 through unchanged, and unused ops are erased.

// CHECK-LABEL: func.func @relu
// CHECK-NEXT: %[[ZERO:.*]] = dynamo.full 0.0{{.*}} -> tensor<4xf32>
// CHECK-NEXT: %[[BELOW:.*]] = dynamo.compare lt %[[X:.*]], %[[ZERO]] : tensor<4xf32> -> tensor<4xi1>
// CHECK-NEXT: %[[R:.*]] = dynamo.select %[[BELOW]], %[[ZERO]], %[[X]] : tensor<4xi1>, tensor<4xf32>
// CHECK-NEXT: return %[[R]]
func.func @relu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dynamo.aten "aten.relu.default"(%x) args [#dynamo.operand<0>] : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// 16-bit floats are computed in f32, and rounded after each op as in eager.

// CHECK-LABEL: func.func @half_chain
// CHECK: %[[WIDE:.*]] = dynamo.convert %{{.*}} : tensor<4xbf16> -> tensor<4xf32>
// CHECK-NEXT: %[[EXP:.*]] = dynamo.exp %[[WIDE]]
// CHECK-NEXT: %[[ROUNDED:.*]] = dynamo.convert %[[EXP]] : tensor<4xf32> -> tensor<4xbf16>
// CHECK-NEXT: %[[AGAIN:.*]] = dynamo.convert %[[ROUNDED]] : tensor<4xbf16> -> tensor<4xf32>
// CHECK-NEXT: dynamo.sin %[[AGAIN]]
func.func @half_chain(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %0 = dynamo.aten "aten.exp.default"(%x) args [#dynamo.operand<0>] : (tensor<4xbf16>) -> tensor<4xbf16>
  %1 = dynamo.aten "aten.sin.default"(%0) args [#dynamo.operand<0>] : (tensor<4xbf16>) -> tensor<4xbf16>
  return %1 : tensor<4xbf16>
}

// -----

// Floor division of integers is lowered for a constant divisor: one less if the remainder has the wrong sign.

// CHECK-LABEL: func.func @floor_divide
// CHECK-DAG: %[[Q:.*]] = dynamo.div %[[X:.*]], %{{.*}} : tensor<4xi64>
// CHECK-DAG: %[[REM:.*]] = dynamo.rem %[[X]], %{{.*}} : tensor<4xi64>
// CHECK: %[[BELOW:.*]] = dynamo.compare lt %[[REM]], %{{.*}}
// CHECK: %[[LESS:.*]] = dynamo.sub %[[Q]], %{{.*}}
// CHECK: dynamo.select %[[BELOW]], %[[LESS]], %[[Q]]
func.func @floor_divide(%x: tensor<4xi64>) -> tensor<4xi64> {
  %0 = dynamo.aten "aten.floor_divide.Scalar"(%x) args [#dynamo.operand<0>, 3 : i64] : (tensor<4xi64>) -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// -----

// A division whose divisor may be 0 stays an extern call, so that eager's error is raised.

// CHECK-LABEL: func.func @unknown_divisor
// CHECK-NEXT: dynamo.aten "aten.floor_divide.default"
func.func @unknown_divisor(%x: tensor<4xi64>, %y: tensor<4xi64>) -> tensor<4xi64> {
  %0 = dynamo.aten "aten.floor_divide.default"(%x, %y) args [#dynamo.operand<0>, #dynamo.operand<1>]
    : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// -----

// x³ is two products; x⁵ of integers is computed by square and multiply.

// CHECK-LABEL: func.func @powers
// CHECK: %[[SQUARE:.*]] = dynamo.mul %[[X:.*]], %[[X]] : tensor<4xf32>
// CHECK-NEXT: dynamo.mul %[[SQUARE]], %[[X]] : tensor<4xf32>
// CHECK-NEXT: %[[TWO:.*]] = dynamo.mul %[[N:.*]], %[[N]] : tensor<4xi64>
// CHECK-NEXT: %[[FOUR:.*]] = dynamo.mul %[[TWO]], %[[TWO]]
// CHECK-NEXT: dynamo.mul %[[FOUR]], %[[N]]
func.func @powers(%x: tensor<4xf32>, %n: tensor<4xi64>) -> (tensor<4xf32>, tensor<4xi64>) {
  %0 = dynamo.aten "aten.pow.Tensor_Scalar"(%x) args [#dynamo.operand<0>, 3 : i64] : (tensor<4xf32>) -> tensor<4xf32>
  %1 = dynamo.aten "aten.pow.Tensor_Scalar"(%n) args [#dynamo.operand<0>, 5 : i64] : (tensor<4xi64>) -> tensor<4xi64>
  return %0, %1 : tensor<4xf32>, tensor<4xi64>
}

// -----

// The upper bound is applied last and wins if the bounds cross; None is not a bound.

// CHECK-LABEL: func.func @clamp
// CHECK: %[[LOW:.*]] = dynamo.select %{{.*}}, %{{.*}}, %[[X:.*]] :
// CHECK: %[[BEYOND:.*]] = dynamo.compare gt %[[LOW]], %{{.*}}
// CHECK: %[[BOTH:.*]] = dynamo.select %[[BEYOND]], %{{.*}}, %[[LOW]] :
// CHECK: %[[BEYOND:.*]] = dynamo.compare gt %[[X]], %{{.*}}
// CHECK: %[[ONE:.*]] = dynamo.select %[[BEYOND]], %{{.*}}, %[[X]] :
// CHECK: return %[[BOTH]], %[[ONE]]
func.func @clamp(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = dynamo.aten "aten.clamp.default"(%x) args [#dynamo.operand<0>, 2.0 : f64, -2.0 : f64] : (tensor<4xf32>) -> tensor<4xf32>
  %1 = dynamo.aten "aten.clamp.default"(%x) args [#dynamo.operand<0>, unit, 1 : i64] : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Creation: sizes and dtype are the result's; an empty tensor may contain anything.

// CHECK-LABEL: func.func @creation
// CHECK-NEXT: dynamo.full true -> tensor<2xi1>
// CHECK-NEXT: dynamo.full 0.0{{.*}} -> tensor<0x3xf32>
// CHECK-NEXT: %[[I:.*]] = dynamo.iota 0 : tensor<5xi64>
// CHECK-NEXT: dynamo.convert %[[I]] : tensor<5xi64> -> tensor<5xf32>
func.func @creation() -> (tensor<2xi1>, tensor<0x3xf32>, tensor<5xf32>) {
  %0 = dynamo.aten "aten.ones.default"() args [[2], i1, unit, unit, unit] : () -> tensor<2xi1>
  %1 = dynamo.aten "aten.empty.memory_format"() args [[0, 3], unit, unit, unit, unit, unit] : () -> tensor<0x3xf32>
  %2 = dynamo.aten "aten.arange.default"() args [5 : i64, f32, unit, unit, unit] : () -> tensor<5xf32>
  return %0, %1, %2 : tensor<2xi1>, tensor<0x3xf32>, tensor<5xf32>
}

// -----

// Ops that are extern calls on purpose, unknown ones, and ones of unknown sizes remain unchanged.

// CHECK-LABEL: func.func @extern
// CHECK-NEXT: dynamo.aten "aten.mm.default"
// CHECK-NEXT: dynamo.aten "aten.unheard_of.default"
func.func @extern(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = dynamo.aten "aten.mm.default"(%x, %x) args [#dynamo.operand<0>, #dynamo.operand<1>]
    : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = dynamo.aten "aten.unheard_of.default"(%0) args [#dynamo.operand<0>] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

// A product and a sum that eager's kernel rounds once are one primitive; for integers they are two.

// CHECK-LABEL: func.func @add_alpha
// CHECK: %[[SUM:.*]] = dynamo.fma %{{.*}}, %{{.*}}, %arg0 : tensor<4xf32>
// CHECK: %[[PRODUCT:.*]] = dynamo.mul
// CHECK: %[[WHOLE:.*]] = dynamo.add %[[PRODUCT]], %arg1 : tensor<4xi32>
// CHECK: return %[[SUM]], %[[WHOLE]]
func.func @add_alpha(%x: tensor<4xf32>, %n: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %0 = dynamo.aten "aten.add.Tensor"(%x, %x) args [#dynamo.operand<0>, #dynamo.operand<1>, 3 : i64] : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = dynamo.aten "aten.add.Tensor"(%n, %n) args [#dynamo.operand<0>, #dynamo.operand<1>, 3 : i64] : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return %0, %1 : tensor<4xf32>, tensor<4xi32>
}

// -----

// Eager computes the gelu of a contiguous tensor by a library, which returns NaN at infinity if it uses 512-bit vectors: x - x is added to
// the 1.

// CHECK-LABEL: func.func @gelu
// CHECK: dynamo.erf
// CHECK: %[[NOTHING:.*]] = dynamo.sub %arg0, %arg0 : tensor<2x4xf32>
// CHECK: dynamo.add %[[NOTHING]], %{{.*}} : tensor<2x4xf32>
// CHECK: dynamo.erf
// CHECK-NOT: dynamo.sub
// CHECK: return
// NARROW-LABEL: func.func @gelu
// NARROW-NOT: dynamo.sub
// NARROW: return
func.func @gelu(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %0 = dynamo.aten "aten.gelu.default"(%x) args [#dynamo.operand<0>, "none"] {operand_strides = [array<i64: 4, 1>]} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = dynamo.aten "aten.gelu.default"(%x) args [#dynamo.operand<0>, "none"] {operand_strides = [array<i64: 1, 2>]} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0, %1 : tensor<2x4xf32>, tensor<2x4xf32>
}
