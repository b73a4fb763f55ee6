// RUN: dynamlir-opt %s --canonicalize --split-input-file | FileCheck %s

// An op that always equals something simpler, also for NaN and signed zeros, is folded to that; similar ops are not.

// f(f(x)) = x
// CHECK-LABEL: func.func @involution
func.func @involution(%x: tensor<4xf32>, %b: tensor<4xi1>) -> (tensor<4xf32>, tensor<4xi1>) {
  %0 = dynamo.neg %x : tensor<4xf32>
  %1 = dynamo.neg %0 : tensor<4xf32>
  %2 = dynamo.not %b : tensor<4xi1>
  %3 = dynamo.not %2 : tensor<4xi1>
  // CHECK-NEXT: return %arg0, %arg1
  return %1, %3 : tensor<4xf32>, tensor<4xi1>
}

// -----

// x ∘ x = x
// CHECK-LABEL: func.func @idempotent
func.func @idempotent(%x: tensor<4xf32>, %i: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xi32>, tensor<4xi32>) {
  %0 = dynamo.max %x, %x : tensor<4xf32>
  %1 = dynamo.min %x, %x : tensor<4xf32>
  %2 = dynamo.and %i, %i : tensor<4xi32>
  %3 = dynamo.or %i, %i : tensor<4xi32>
  // CHECK-NEXT: return %arg0, %arg0, %arg1, %arg1
  return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xi32>, tensor<4xi32>
}

// -----

// x - x is not 0 if x is NaN; x xor x and max(x, y) do not have a folder.
// CHECK-LABEL: func.func @not_equal
func.func @not_equal(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: dynamo.sub
  %0 = dynamo.sub %x, %x : tensor<4xf32>
  // CHECK-NEXT: dynamo.max
  %1 = dynamo.max %x, %y : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// select(c, x, x) = x
// CHECK-LABEL: func.func @select
func.func @select(%c: tensor<4xi1>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = dynamo.select %c, %x, %x : tensor<4xi1>, tensor<4xf32>
  // CHECK-NEXT: %[[S:.*]] = dynamo.select
  %1 = dynamo.select %c, %x, %y : tensor<4xi1>, tensor<4xf32>
  // CHECK-NEXT: return %arg1, %[[S]]
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// An op that changes nothing is folded to its operand.
// CHECK-LABEL: func.func @same_type
func.func @same_type(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = dynamo.convert %x : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = dynamo.bitcast %0 : tensor<2x3xf32> -> tensor<2x3xf32>
  %2 = dynamo.broadcast %1 dims [0, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  %3 = dynamo.reshape %2 : tensor<2x3xf32> -> tensor<2x3xf32>
  %4 = dynamo.permute %3 dims [0, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  %5 = dynamo.slice %4 starts [0, 0] steps [1, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  // CHECK-NEXT: return %arg0
  return %5 : tensor<2x3xf32>
}

// -----

// A conversion to another type and back loses digits and is kept, and so is a transposition of a square.
// CHECK-LABEL: func.func @another_value
func.func @another_value(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  // CHECK-NEXT: dynamo.convert
  %0 = dynamo.convert %x : tensor<2x2xf32> -> tensor<2x2xbf16>
  // CHECK-NEXT: dynamo.convert
  %1 = dynamo.convert %0 : tensor<2x2xbf16> -> tensor<2x2xf32>
  // CHECK-NEXT: dynamo.permute
  %2 = dynamo.permute %x dims [1, 0] : tensor<2x2xf32> -> tensor<2x2xf32>
  return %1, %2 : tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// reshape(reshape(x)) = reshape(x), and x if the result has the first shape again
// CHECK-LABEL: func.func @reshapes
func.func @reshapes(%x: tensor<2x6xf32>) -> (tensor<3x4xf32>, tensor<2x6xf32>) {
  %0 = dynamo.reshape %x : tensor<2x6xf32> -> tensor<12xf32>
  // CHECK-NEXT: %[[R:.*]] = dynamo.reshape %arg0 : tensor<2x6xf32> -> tensor<3x4xf32>
  %1 = dynamo.reshape %0 : tensor<12xf32> -> tensor<3x4xf32>
  %2 = dynamo.reshape %0 : tensor<12xf32> -> tensor<2x6xf32>
  // CHECK-NEXT: return %[[R]], %arg0
  return %1, %2 : tensor<3x4xf32>, tensor<2x6xf32>
}

// -----

// permute(permute(x, p), q) = permute(x, p∘q)
// CHECK-LABEL: func.func @permutes
func.func @permutes(%x: tensor<2x3x4xf32>) -> (tensor<4x2x3xf32>, tensor<2x3x4xf32>) {
  %0 = dynamo.permute %x dims [1, 2, 0] : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
  // CHECK-NEXT: %[[P:.*]] = dynamo.permute %arg0 dims [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  %1 = dynamo.permute %0 dims [1, 2, 0] : tensor<3x4x2xf32> -> tensor<4x2x3xf32>
  %2 = dynamo.permute %0 dims [2, 0, 1] : tensor<3x4x2xf32> -> tensor<2x3x4xf32>
  // CHECK-NEXT: return %[[P]], %arg0
  return %1, %2 : tensor<4x2x3xf32>, tensor<2x3x4xf32>
}
