// RUN: dynamlir-opt %s --split-input-file --dynamo-decompose --dynamo-verify-prims | FileCheck %s

// Taps are strided slices of the padded image; nothing reads the indices, so there are none.

// CHECK-LABEL: func.func @max_pool
// CHECK: %[[P:.*]] = dynamo.pad %{{.*}} low [0, 0, 1, 1] high [0, 0, 0, 0] value 0xFF800000
// CHECK-COUNT-4: dynamo.slice %[[P]]
// CHECK-NOT: dynamo.iota
func.func @max_pool(%x: tensor<1x2x7x7xf32>) -> tensor<1x2x4x4xf32> {
  %0:2 = dynamo.aten "aten.max_pool2d_with_indices.default"(%x) args [#dynamo.operand<0>, [2, 2], [2, 2], [1, 1], [1, 1], false]
    : (tensor<1x2x7x7xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xi64>)
  return %0#0 : tensor<1x2x4x4xf32>
}

// -----

// Overlapping windows: a sum, divided by as many elements as each window has.

// CHECK-LABEL: func.func @avg_pool
// CHECK-COUNT-3: dynamo.slice
// CHECK: dynamo.div
func.func @avg_pool(%x: tensor<2x8xf32>) -> tensor<2x6xf32> {
  %0 = dynamo.aten "aten.avg_pool1d.default"(%x) args [#dynamo.operand<0>, [3], [1], [0], false, true] : (tensor<2x8xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// -----

// Windows of too many taps stay a call.

// CHECK-LABEL: func.func @large
// CHECK: dynamo.aten "aten.max_pool2d_with_indices.default"
func.func @large(%x: tensor<1x2x7x7xf32>) -> tensor<1x2x1x1xf32> {
  %0:2 = dynamo.aten "aten.max_pool2d_with_indices.default"(%x) args [#dynamo.operand<0>, [7, 7], [7, 7], [0, 0], [1, 1], false]
    : (tensor<1x2x7x7xf32>) -> (tensor<1x2x1x1xf32>, tensor<1x2x1x1xi64>)
  return %0#0 : tensor<1x2x1x1xf32>
}
