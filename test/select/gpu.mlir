// RUN: dynamlir-opt %s --dynamo-decompose --dynamo-select | FileCheck %s

// In a module for a GPU, operators that do not have a form for a GPU are left to the library, and so are those for which the
// host would have to wait. Without a chip the same calls are primitives.

module attributes {dynamo.device = "cuda:0", dynamo.target = #dynamo.target<"x86_64-unknown-linux-gnu", "x86-64", "", chip = "sm_90">} {

// The host checks an index before code may read with it. The library's own kernel asserts on the device.

// CHECK-LABEL: func.func @embedding
// CHECK-NOT: dynamo.check_range
// CHECK: dynamo.aten "aten.embedding.default"
func.func @embedding(%table: tensor<10x4xf32>, %index: tensor<3xi64>) -> tensor<3x4xf32> {
  %0 = dynamo.aten "aten.embedding.default"(%table, %index) args [#dynamo.operand<0>, #dynamo.operand<1>, -1 : i64, false, false] : (tensor<10x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// CHECK-LABEL: func.func @scan
// CHECK: dynamo.aten "aten.cumsum.default"
// CHECK-NEXT: return
func.func @scan(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = dynamo.aten "aten.cumsum.default"(%x) args [#dynamo.operand<0>, 0 : i64, unit] : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// CHECK-LABEL: func.func @position
// CHECK: dynamo.aten "aten.argmax.default"
// CHECK-NEXT: return
func.func @position(%x: tensor<8x8xf32>) -> tensor<8xi64> {
  %0 = dynamo.aten "aten.argmax.default"(%x) args [#dynamo.operand<0>, 1 : i64, false] : (tensor<8x8xf32>) -> tensor<8xi64>
  return %0 : tensor<8xi64>
}

// With these sizes, code for this processor would be generated.

// CHECK-LABEL: func.func @product
// CHECK: dynamo.aten "aten.mm.default"
// CHECK: dynamo.select
func.func @product(%x: tensor<8x256xf32>, %w: tensor<256x256xf32>) -> tensor<8x256xf32> {
  %0 = dynamo.aten "aten.mm.default"(%x, %w) args [#dynamo.operand<0>, #dynamo.operand<1>] : (tensor<8x256xf32>, tensor<256x256xf32>) -> tensor<8x256xf32>
  %1 = dynamo.aten "aten.relu.default"(%0) args [#dynamo.operand<0>] : (tensor<8x256xf32>) -> tensor<8x256xf32>
  return %1 : tensor<8x256xf32>
}

// Eager uses cuDNN's batch norm there. In inference it is a factor and a term, as elsewhere.

// CHECK-LABEL: func.func @batch_norm
// CHECK-NOT: dynamo.aten
// CHECK: return
func.func @batch_norm(%x: tensor<2x4x3x3xf32>, %w: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>) -> tensor<2x4x3x3xf32> {
  %0:4 = dynamo.aten "aten.cudnn_batch_norm.default"(%x, %w, %w, %m, %v) args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, #dynamo.operand<3>, #dynamo.operand<4>, false, 1.0e-01 : f64, 1.0e-05 : f64] : (tensor<2x4x3x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x3x3xf32>, tensor<0xf32>, tensor<0xf32>, tensor<0xui8>)
  return %0#0 : tensor<2x4x3x3xf32>
}
}
