// RUN: dynamlir-opt %s --split-input-file --dynamo-attach-target=vector-bits=0 --dynamo-decompose --dynamo-select --dynamo-verify-prims | FileCheck %s
// RUN: dynamlir-opt %s --split-input-file --dynamo-attach-target=vector-bits=512 --dynamo-decompose --dynamo-select --dynamo-verify-prims | FileCheck %s --check-prefix=WIDE

// With wide vectors maxima have generated code. Otherwise taps are strided slices of the padded image. The indices are unused, so they are
// not computed.

// WIDE-LABEL: func.func @max_pool
// WIDE: dynamo.max_pool %arg0 window [2, 2] strides [2, 2] padding [1, 1] dilation [1, 1] : tensor<1x2x7x7xf32> -> tensor<1x2x4x4xf32>
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

// Overlapping windows: a sum, divided by the number of elements in each window.

// CHECK-LABEL: func.func @avg_pool
// CHECK-COUNT-3: dynamo.slice
// CHECK: dynamo.div
func.func @avg_pool(%x: tensor<2x8xf32>) -> tensor<2x6xf32> {
  %0 = dynamo.aten "aten.avg_pool1d.default"(%x) args [#dynamo.operand<0>, [3], [1], [0], false, true] : (tensor<2x8xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// -----

// If the places are used, and for windows of f64 or of a single image, slices are used in either case.

// WIDE-LABEL: func.func @places
// WIDE-NOT: dynamo.max_pool
// WIDE: return
func.func @places(%x: tensor<1x2x7x7xf32>, %y: tensor<1x2x7x7xf64>, %z: tensor<2x7x7xf32>) -> (tensor<1x2x4x4xi64>, tensor<1x2x4x4xf64>, tensor<2x4x4xf32>) {
  %0:2 = dynamo.aten "aten.max_pool2d_with_indices.default"(%x) args [#dynamo.operand<0>, [2, 2], [2, 2], [1, 1], [1, 1], false]
    : (tensor<1x2x7x7xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xi64>)
  %1:2 = dynamo.aten "aten.max_pool2d_with_indices.default"(%y) args [#dynamo.operand<0>, [2, 2], [2, 2], [1, 1], [1, 1], false]
    : (tensor<1x2x7x7xf64>) -> (tensor<1x2x4x4xf64>, tensor<1x2x4x4xi64>)
  %2:2 = dynamo.aten "aten.max_pool2d_with_indices.default"(%z) args [#dynamo.operand<0>, [2, 2], [2, 2], [1, 1], [1, 1], false]
    : (tensor<2x7x7xf32>) -> (tensor<2x4x4xf32>, tensor<2x4x4xi64>)
  return %0#1, %1#0, %2#0 : tensor<1x2x4x4xi64>, tensor<1x2x4x4xf64>, tensor<2x4x4xf32>
}

// -----

// Windows with too many taps stay a call.

// CHECK-LABEL: func.func @large
// CHECK: dynamo.aten "aten.max_pool2d_with_indices.default"
func.func @large(%x: tensor<1x2x7x7xf32>) -> tensor<1x2x1x1xf32> {
  %0:2 = dynamo.aten "aten.max_pool2d_with_indices.default"(%x) args [#dynamo.operand<0>, [7, 7], [7, 7], [0, 0], [1, 1], false]
    : (tensor<1x2x7x7xf32>) -> (tensor<1x2x1x1xf32>, tensor<1x2x1x1xi64>)
  return %0#0 : tensor<1x2x1x1xf32>
}
