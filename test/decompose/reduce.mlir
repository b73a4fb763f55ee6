// RUN: dynamlir-opt %s --split-input-file --dynamo-decompose --dynamo-select --dynamo-verify-prims | FileCheck %s

// Dimensions may count from the end; keepdim is a reshape; 16-bit floats are accumulated in f32.

// CHECK-LABEL: func.func @sum
// CHECK-NEXT: %[[WIDE:.*]] = dynamo.convert %{{.*}} : tensor<2x3xbf16> -> tensor<2x3xf32>
// CHECK-NEXT: %[[SUM:.*]] = dynamo.reduce sum %[[WIDE]] dims [1] : tensor<2x3xf32> -> tensor<2xf32>
// CHECK-NEXT: %[[KEPT:.*]] = dynamo.reshape %[[SUM]] : tensor<2xf32> -> tensor<2x1xf32>
// CHECK-NEXT: dynamo.convert %[[KEPT]] : tensor<2x1xf32> -> tensor<2x1xbf16>
func.func @sum(%x: tensor<2x3xbf16>) -> tensor<2x1xbf16> {
  %0 = dynamo.aten "aten.sum.dim_IntList"(%x) args [#dynamo.operand<0>, [-1], true, unit] : (tensor<2x3xbf16>) -> tensor<2x1xbf16>
  return %0 : tensor<2x1xbf16>
}

// -----

// Bools are summed in i64; an empty list of dimensions means all of them.

// CHECK-LABEL: func.func @sum_of_bool
// CHECK-NEXT: %[[X:.*]] = dynamo.convert %{{.*}} : tensor<2x3xi1> -> tensor<2x3xi64>
// CHECK-NEXT: dynamo.reduce sum %[[X]] dims [0, 1] : tensor<2x3xi64> -> tensor<i64>
func.func @sum_of_bool(%x: tensor<2x3xi1>) -> tensor<i64> {
  %0 = dynamo.aten "aten.sum.dim_IntList"(%x) args [#dynamo.operand<0>, [], false, unit] : (tensor<2x3xi1>) -> tensor<i64>
  return %0 : tensor<i64>
}

// -----

// The mean of no elements is 0 / 0.

// CHECK-LABEL: func.func @mean_of_nothing
// CHECK: %[[SUM:.*]] = dynamo.reduce sum %{{.*}} dims [0] : tensor<0xf32> -> tensor<f32>
// CHECK: %[[ZERO:.*]] = dynamo.full 0.0
// CHECK: dynamo.div %[[SUM]], %[[ZERO]]
func.func @mean_of_nothing(%x: tensor<0xf32>) -> tensor<f32> {
  %0 = dynamo.aten "aten.mean.default"(%x) args [#dynamo.operand<0>, unit] : (tensor<0xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// The maximum of no elements is left to eager, which raises.

// CHECK-LABEL: func.func @max_of_nothing
// CHECK-NEXT: dynamo.aten "aten.amax.default"
func.func @max_of_nothing(%x: tensor<0x3xf32>) -> tensor<3xf32> {
  %0 = dynamo.aten "aten.amax.default"(%x) args [#dynamo.operand<0>, [0], false] : (tensor<0x3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// Two passes: the mean, then the squared differences from it, divided by n - correction. Computed in f64, where the square of any f32 is
// finite.

// CHECK-LABEL: func.func @var
// CHECK: %[[X:.*]] = dynamo.convert %arg0 : tensor<2x5xf32> -> tensor<2x5xf64>
// CHECK: %[[SUM:.*]] = dynamo.reduce sum %[[X]] dims [1]
// CHECK: %[[MEAN:.*]] = dynamo.div %{{.*}}, %{{.*}} : tensor<2x1xf64>
// CHECK-NEXT: %[[WHOLE:.*]] = dynamo.broadcast %[[MEAN]] dims [0, 1] : tensor<2x1xf64> -> tensor<2x5xf64>
// CHECK-NEXT: %[[D:.*]] = dynamo.sub %[[X]], %[[WHOLE]]
// CHECK-NEXT: %[[D2:.*]] = dynamo.mul %[[D]], %[[D]]
// CHECK-NEXT: %[[SQUARES:.*]] = dynamo.reduce sum %[[D2]] dims [1]
// CHECK-NEXT: %[[FOUR:.*]] = dynamo.full 4.0
// CHECK-NEXT: %[[VAR:.*]] = dynamo.div %[[SQUARES]], %[[FOUR]]
// CHECK-NEXT: dynamo.convert %[[VAR]] : tensor<2xf64> -> tensor<2xf32>
func.func @var(%x: tensor<2x5xf32>) -> tensor<2xf32> {
  %0 = dynamo.aten "aten.var.correction"(%x) args [#dynamo.operand<0>, [1], unit, false] : (tensor<2x5xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// A maximum with its index is two reductions; a flat index is found in the flattened tensor.

// CHECK-LABEL: func.func @indices
// CHECK: dynamo.reduce max %[[X:.*]] dims [1] : tensor<2x3xf32> -> tensor<2xf32>
// CHECK: dynamo.arg_reduce max %[[X]] dim 1 : tensor<2x3xf32> -> tensor<2xi64>
// CHECK: %[[FLAT:.*]] = dynamo.reshape %[[X]] : tensor<2x3xf32> -> tensor<6xf32>
// CHECK: dynamo.arg_reduce min %[[FLAT]] dim 0 : tensor<6xf32> -> tensor<i64>
func.func @indices(%x: tensor<2x3xf32>) -> (tensor<2xf32>, tensor<2xi64>, tensor<i64>) {
  %0:2 = dynamo.aten "aten.max.dim"(%x) args [#dynamo.operand<0>, 1 : i64, false] : (tensor<2x3xf32>) -> (tensor<2xf32>, tensor<2xi64>)
  %1 = dynamo.aten "aten.argmin.default"(%x) args [#dynamo.operand<0>, unit, false] : (tensor<2x3xf32>) -> tensor<i64>
  return %0#0, %0#1, %1 : tensor<2xf32>, tensor<2xi64>, tensor<i64>
}

// -----

// A running sum of f32 is accumulated in f64, as in eager.

// CHECK-LABEL: func.func @cumsum
// CHECK: %[[WIDE:.*]] = dynamo.convert %{{.*}} : tensor<2x3xf32> -> tensor<2x3xf64>
// CHECK-NEXT: dynamo.scan sum %[[WIDE]] dim 1 : tensor<2x3xf64>
func.func @cumsum(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = dynamo.aten "aten.cumsum.default"(%x) args [#dynamo.operand<0>, -1 : i64, unit] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
