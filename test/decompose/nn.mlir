// RUN: dynamlir-opt %s --dynamo-decompose | FileCheck %s

// The first half, gated by the sigmoid of the second.

// CHECK-LABEL: func.func @glu
// CHECK: %[[VALUE:.*]] = dynamo.slice %{{.*}} starts [0, 0] {{.*}} -> tensor<2x3xf32>
// CHECK: %[[GATE:.*]] = dynamo.slice %{{.*}} starts [0, 3] {{.*}} -> tensor<2x3xf32>
// CHECK: dynamo.neg %[[GATE]]
// CHECK: dynamo.exp
// CHECK: %[[SIGMOID:.*]] = dynamo.div
// CHECK: dynamo.mul %[[VALUE]], %[[SIGMOID]]
func.func @glu(%x: tensor<2x6xf32>) -> tensor<2x3xf32> {
  %0 = dynamo.aten "aten.glu.default"(%x) args [#dynamo.operand<0>, -1 : i64] : (tensor<2x6xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// Dropout does nothing in inference; for training see `random.mlir`.

// CHECK-LABEL: func.func @dropout
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
// CHECK: %[[MASK:.*]] = dynamo.full true -> tensor<4xi1>
// CHECK: return %[[X]], %[[MASK]]
func.func @dropout(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>) {
  %0:2 = dynamo.aten "aten.native_dropout.default"(%x) args [#dynamo.operand<0>, 0.5 : f64, false] : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xi1>
}

// Windows that tile the image become a reshape and a mean, including global pooling; others become sums of slices.

// CHECK-LABEL: func.func @pool
// CHECK: %[[TILES:.*]] = dynamo.reshape %{{.*}} : tensor<1x3x8x6xf32> -> tensor<1x3x4x2x2x3xf32>
// CHECK: dynamo.reduce sum %[[TILES]] dims [3, 5]
// CHECK: dynamo.full 6.000000e+00
// CHECK: dynamo.reduce sum %{{.*}} dims [3, 5] : tensor<1x3x1x8x1x6xf32> -> tensor<1x3x1x1xf32>
// CHECK-COUNT-4: dynamo.slice
func.func @pool(%x: tensor<1x3x8x6xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x1x1xf32>, tensor<1x3x7x5xf32>) {
  %0 = dynamo.aten "aten.avg_pool2d.default"(%x) args [#dynamo.operand<0>, [2 : i64, 3 : i64], [], [0 : i64, 0 : i64], false, true, unit] : (tensor<1x3x8x6xf32>) -> tensor<1x3x4x2xf32>
  %1 = dynamo.aten "aten._adaptive_avg_pool2d.default"(%x) args [#dynamo.operand<0>, [1 : i64, 1 : i64]] : (tensor<1x3x8x6xf32>) -> tensor<1x3x1x1xf32>
  %2 = dynamo.aten "aten.avg_pool2d.default"(%x) args [#dynamo.operand<0>, [2 : i64, 2 : i64], [1 : i64, 1 : i64], [0 : i64, 0 : i64], false, true, unit] : (tensor<1x3x8x6xf32>) -> tensor<1x3x7x5xf32>
  return %0, %1, %2 : tensor<1x3x4x2xf32>, tensor<1x3x1x1xf32>, tensor<1x3x7x5xf32>
}

// Reduction 1 is the mean over all elements, of the broadcast shape.

// CHECK-LABEL: func.func @mse_loss
// CHECK: %[[DIFFERENCE:.*]] = dynamo.sub
// CHECK: %[[SQUARES:.*]] = dynamo.mul %[[DIFFERENCE]], %[[DIFFERENCE]]
// CHECK: %[[SUM:.*]] = dynamo.reduce sum %[[SQUARES]] dims [0, 1] : tensor<2x3xf32> -> tensor<f32>
// CHECK: %[[COUNT:.*]] = dynamo.full 6.000000e+00
// CHECK: dynamo.div %[[SUM]], %[[COUNT]]
func.func @mse_loss(%a: tensor<2x3xf32>, %b: tensor<3xf32>) -> tensor<f32> {
  %0 = dynamo.aten "aten.mse_loss.default"(%a, %b) args [#dynamo.operand<0>, #dynamo.operand<1>, 1 : i64] : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// A diagonal is a window of the matrix; its sum is the trace, in i64 for integers.

// CHECK-LABEL: func.func @trace
// CHECK: %[[DIAGONAL:.*]] = dynamo.as_strided %{{.*}} strides [6] offset 0 : tensor<3x5xi32> -> tensor<3xi32>
// CHECK: %[[WIDE:.*]] = dynamo.convert %[[DIAGONAL]] : tensor<3xi32> -> tensor<3xi64>
// CHECK: dynamo.reduce sum %[[WIDE]] dims [0]
func.func @trace(%x: tensor<3x5xi32>) -> tensor<i64> {
  %0 = dynamo.aten "aten.trace.default"(%x) args [#dynamo.operand<0>] : (tensor<3x5xi32>) -> tensor<i64>
  return %0 : tensor<i64>
}
