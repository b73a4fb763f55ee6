// RUN: dynamlir-opt %s --dynamo-decompose | FileCheck %s

// Two passes in f32: the mean, then the mean of the differences, which is the rounding error of the sum, and the mean of their squares.
// Results are rounded at the very end.

// CHECK-LABEL: func.func @layer_norm
// CHECK-SAME: (%[[X16:.*]]: tensor<2x8xbf16>, %[[W16:.*]]: tensor<8xbf16>)
// CHECK: %[[X:.*]] = dynamo.convert %[[X16]] : tensor<2x8xbf16> -> tensor<2x8xf32>
// CHECK: dynamo.reduce sum %[[X]] dims [1]
// CHECK: %[[FIRST:.*]] = dynamo.div
// CHECK: %[[FIRSTS:.*]] = dynamo.broadcast %[[FIRST]] dims [0, 1] : tensor<2x1xf32> -> tensor<2x8xf32>
// CHECK: %[[ABOUT:.*]] = dynamo.sub %[[X]], %[[FIRSTS]]
// CHECK: dynamo.reduce sum %[[ABOUT]] dims [1]
// CHECK: %[[LOST:.*]] = dynamo.div
// CHECK: %[[SQUARES:.*]] = dynamo.mul %[[ABOUT]], %[[ABOUT]]
// CHECK: dynamo.reduce sum %[[SQUARES]] dims [1]
// CHECK: %[[ADDED:.*]] = dynamo.mul %[[LOST]], %[[LOST]]
// CHECK: dynamo.sub %{{.*}}, %[[ADDED]]
// CHECK: %[[MEAN:.*]] = dynamo.add %[[FIRST]], %{{.*}}
// CHECK: %[[MEANS:.*]] = dynamo.broadcast %[[MEAN]]
// CHECK: %[[CENTERED:.*]] = dynamo.sub %[[X]], %[[MEANS]]
// CHECK: %[[SCALE:.*]] = dynamo.rsqrt
// CHECK: %[[SCALES:.*]] = dynamo.broadcast %[[SCALE]]
// CHECK: %[[NORMAL:.*]] = dynamo.mul %[[CENTERED]], %[[SCALES]]
// CHECK: %[[W:.*]] = dynamo.convert %[[W16]] : tensor<8xbf16> -> tensor<8xf32>
// CHECK: %[[WS:.*]] = dynamo.broadcast %[[W]] dims [1]
// CHECK: %[[OUT:.*]] = dynamo.mul %[[NORMAL]], %[[WS]]
// CHECK: %[[OUT16:.*]] = dynamo.convert %[[OUT]]
// CHECK: %[[MEAN16:.*]] = dynamo.convert %[[MEAN]]
// CHECK: %[[SCALE16:.*]] = dynamo.convert %[[SCALE]]
// CHECK: return %[[OUT16]], %[[MEAN16]], %[[SCALE16]]
func.func @layer_norm(%x: tensor<2x8xbf16>, %w: tensor<8xbf16>) -> (tensor<2x8xbf16>, tensor<2x1xbf16>, tensor<2x1xbf16>) {
  %0:3 = dynamo.aten "aten.native_layer_norm.default"(%x, %w) args [#dynamo.operand<0>, [8 : i64], #dynamo.operand<1>, unit, 1.0e-05 : f64] : (tensor<2x8xbf16>, tensor<8xbf16>) -> (tensor<2x8xbf16>, tensor<2x1xbf16>, tensor<2x1xbf16>)
  return %0#0, %0#1, %0#2 : tensor<2x8xbf16>, tensor<2x1xbf16>, tensor<2x1xbf16>
}

// The statistics are taken over the channels of a group; the weight is per channel.

// CHECK-LABEL: func.func @group_norm
// CHECK: dynamo.reshape %{{.*}} : tensor<2x6x4x4xf32> -> tensor<2x3x32xf32>
// CHECK: dynamo.reduce sum %{{.*}} dims [2]
// CHECK: %[[CHANNELS:.*]] = dynamo.reshape %{{.*}} : tensor<2x3x32xf32> -> tensor<2x6x16xf32>
// CHECK: %[[W:.*]] = dynamo.broadcast %{{.*}} dims [1] : tensor<6xf32> -> tensor<2x6x16xf32>
// CHECK: dynamo.mul %[[CHANNELS]], %[[W]]
func.func @group_norm(%x: tensor<2x6x4x4xf32>, %w: tensor<6xf32>) -> (tensor<2x6x4x4xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %0:3 = dynamo.aten "aten.native_group_norm.default"(%x, %w) args [#dynamo.operand<0>, #dynamo.operand<1>, unit, 2 : i64, 6 : i64, 16 : i64, 3 : i64, 1.0e-05 : f64] : (tensor<2x6x4x4xf32>, tensor<6xf32>) -> (tensor<2x6x4x4xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  return %0#0, %0#1, %0#2 : tensor<2x6x4x4xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// In inference the statistics and parameters of a channel become one factor and one term; nothing is saved.

// CHECK-LABEL: func.func @batch_norm_inference
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4x4xf32>, %[[W:.*]]: tensor<3xf32>, %[[B:.*]]: tensor<3xf32>, %[[MEAN:.*]]: tensor<3xf32>, %[[VAR:.*]]: tensor<3xf32>)
// CHECK: %[[SAFE:.*]] = dynamo.add %[[VAR]], %{{.*}}
// CHECK: %[[SCALE:.*]] = dynamo.rsqrt %[[SAFE]]
// CHECK: %[[FACTOR:.*]] = dynamo.mul %[[SCALE]], %[[W]]
// CHECK: %[[SHIFT:.*]] = dynamo.mul %[[MEAN]], %[[FACTOR]]
// CHECK: %[[TERM:.*]] = dynamo.sub %[[B]], %[[SHIFT]]
// CHECK: %[[FACTORS:.*]] = dynamo.broadcast %[[FACTOR]] dims [1]
// CHECK: %[[SCALED:.*]] = dynamo.mul %[[X]], %[[FACTORS]]
// CHECK: %[[TERMS:.*]] = dynamo.broadcast %[[TERM]] dims [1]
// CHECK: dynamo.add %[[SCALED]], %[[TERMS]]
// CHECK: dynamo.full 0.000000e+00 : f32 -> tensor<0xf32>
func.func @batch_norm_inference(%x: tensor<2x3x4x4xf32>, %w: tensor<3xf32>, %b: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>) -> (tensor<2x3x4x4xf32>, tensor<0xf32>, tensor<0xf32>) {
  %0:3 = dynamo.aten "aten.native_batch_norm.default"(%x, %w, %b, %m, %v) args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, #dynamo.operand<3>, #dynamo.operand<4>, false, 0.1 : f64, 1.0e-05 : f64] : (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x4x4xf32>, tensor<0xf32>, tensor<0xf32>)
  return %0#0, %0#1, %0#2 : tensor<2x3x4x4xf32>, tensor<0xf32>, tensor<0xf32>
}

// The functional form returns the running statistics; the running variance is unbiased (31 of 32).

// CHECK-LABEL: func.func @batch_norm_training
// CHECK-COUNT-3: dynamo.reduce sum %{{.*}} dims [0, 2, 3]
// CHECK: dynamo.full 3.200000e+01
// CHECK: dynamo.full 3.100000e+01
// CHECK: dynamo.div
// CHECK-NOT: dynamo.aten
// CHECK: return
func.func @batch_norm_training(%x: tensor<2x3x4x4xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>) -> (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>) {
  %0:5 = dynamo.aten "aten._native_batch_norm_legit_functional.default"(%x, %m, %v) args [#dynamo.operand<0>, unit, unit, #dynamo.operand<1>, #dynamo.operand<2>, true, 0.1 : f64, 1.0e-05 : f64] : (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#3, %0#4 : tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>
}

// The default epsilon is that of the compute type.

// CHECK-LABEL: func.func @rms_norm
// CHECK: dynamo.convert %{{.*}} : tensor<2x8xf16> -> tensor<2x8xf32>
// CHECK: dynamo.full 1.1920929E-7 : f32
// CHECK: dynamo.rsqrt
func.func @rms_norm(%x: tensor<2x8xf16>) -> tensor<2x8xf16> {
  %0:2 = dynamo.aten "aten._fused_rms_norm.default"(%x) args [#dynamo.operand<0>, [8 : i64], unit, unit] : (tensor<2x8xf16>) -> (tensor<2x8xf16>, tensor<2x1xf32>)
  return %0#0 : tensor<2x8xf16>
}
