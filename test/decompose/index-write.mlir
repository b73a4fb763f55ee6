// RUN: dynamlir-opt %s --split-input-file --dynamo-decompose --dynamo-select --dynamo-verify-prims | FileCheck %s

// Rows are written where a list says, and keep their columns. The program's indices are checked before anything is written.

// CHECK-LABEL: func.func @index_add
// CHECK-SAME: (%[[X:.*]]: tensor<9x4xf32>, %[[I:.*]]: tensor<3xi64>, %[[S:.*]]: tensor<3x4xf32>)
// CHECK-NEXT: %[[C:.*]] = dynamo.check_range %[[I]] in{{ ?}}[0, 9) "aten.index_add.default: index out of range"
// CHECK-NEXT: %[[AT:.*]] = dynamo.broadcast %[[C]] dims [0] : tensor<3xi64> -> tensor<3x4xi64>
// CHECK-NEXT: %[[R:.*]] = dynamo.scatter %[[S]] into %[[X]][%[[AT]]] dims [-1, 1] by sum
// CHECK-NEXT: return %[[R]]
func.func @index_add(%x: tensor<9x4xf32>, %i: tensor<3xi64>, %s: tensor<3x4xf32>) -> tensor<9x4xf32> {
  %0 = dynamo.aten "aten.index_add.default"(%x, %i, %s) args [#dynamo.operand<0>, 0, #dynamo.operand<1>, #dynamo.operand<2>, 1]
    : (tensor<9x4xf32>, tensor<3xi64>, tensor<3x4xf32>) -> tensor<9x4xf32>
  return %0 : tensor<9x4xf32>
}

// -----

// The index may be smaller than the source. Without a reduction the last element remains.

// CHECK-LABEL: func.func @scatter
// CHECK: %[[AT:.*]] = dynamo.check_range %{{.*}} in{{ ?}}[0, 5)
// CHECK: %[[PART:.*]] = dynamo.slice %{{.*}} : tensor<4x6xf32> -> tensor<3x2xf32>
// CHECK: dynamo.scatter %[[PART]] into %{{.*}}[%[[AT]]] dims [0, -1] : tensor<3x5xf32>, tensor<3x2xi64>, tensor<3x2xf32>
func.func @scatter(%x: tensor<3x5xf32>, %i: tensor<3x2xi64>, %s: tensor<4x6xf32>) -> tensor<3x5xf32> {
  %0 = dynamo.aten "aten.scatter.src"(%x, %i, %s) args [#dynamo.operand<0>, 1, #dynamo.operand<1>, #dynamo.operand<2>]
    : (tensor<3x5xf32>, tensor<3x2xi64>, tensor<4x6xf32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}

// -----

// An expanded index is checked before the expansion, while it is small.

// CHECK-LABEL: func.func @expanded
// CHECK: %[[C:.*]] = dynamo.check_range %{{.*}} : (tensor<3x1xi64>) -> tensor<3x1xi64>
// CHECK: %[[AT:.*]] = dynamo.broadcast %[[C]]
// CHECK: dynamo.scatter %{{.*}} into %{{.*}}[%[[AT]]] dims [-1, 1] by sum
func.func @expanded(%x: tensor<9x4xf32>, %i: tensor<3x1xi64>, %s: tensor<3x4xf32>) -> tensor<9x4xf32> {
  %e = dynamo.broadcast %i dims [0, 1] : tensor<3x1xi64> -> tensor<3x4xi64>
  %0 = dynamo.aten "aten.scatter_add.default"(%x, %e, %s) args [#dynamo.operand<0>, 0, #dynamo.operand<1>, #dynamo.operand<2>]
    : (tensor<9x4xf32>, tensor<3x4xi64>, tensor<3x4xf32>) -> tensor<9x4xf32>
  return %0 : tensor<9x4xf32>
}

// -----

// A mean without the old elements: they become zeros where new ones are added, and the sums are divided by counts. Places without new
// elements divide by one.

// CHECK-LABEL: func.func @mean
// CHECK: %[[START:.*]] = dynamo.scatter %[[ZEROS:.*]] into %arg0[%[[AT:.*]]] dims [-1] : tensor<9xf32>
// CHECK: %[[SUM:.*]] = dynamo.scatter %arg2 into %[[START]][%[[AT]]] dims [-1] by sum
// CHECK: %[[NONE:.*]] = dynamo.full 0.000000e+00 : f32 -> tensor<9xf32>
// CHECK: %[[ONES:.*]] = dynamo.full 1.000000e+00 : f32 -> tensor<3xf32>
// CHECK: %[[COUNT:.*]] = dynamo.scatter %[[ONES]] into %[[NONE]][%[[AT]]] dims [-1] by sum
// CHECK: %[[LEAST:.*]] = dynamo.max %[[COUNT]], %{{.*}}
// CHECK: dynamo.div %[[SUM]], %[[LEAST]]
func.func @mean(%x: tensor<9xf32>, %i: tensor<3xi64>, %s: tensor<3xf32>) -> tensor<9xf32> {
  %0 = dynamo.aten "aten.scatter_reduce.two"(%x, %i, %s)
    args [#dynamo.operand<0>, 0, #dynamo.operand<1>, #dynamo.operand<2>, "mean", false]
    : (tensor<9xf32>, tensor<3xi64>, tensor<3xf32>) -> tensor<9xf32>
  return %0 : tensor<9xf32>
}

// -----

// Indices that are not adjacent: their own dimensions come first in the source, the others follow.

// CHECK-LABEL: func.func @index_put
// CHECK: dynamo.scatter %{{.*}} into %arg0[%{{.*}}, %{{.*}}] dims [-1, 1, -1] : tensor<5x4x3xf32>, tensor<2x4xi64>, tensor<2x4xi64>, tensor<2x4xf32>
func.func @index_put(%x: tensor<5x4x3xf32>, %i: tensor<2xi64>, %j: tensor<2xi64>, %v: tensor<2x4xf32>) -> tensor<5x4x3xf32> {
  %0 = dynamo.aten "aten.index_put.default"(%x, %i, %j, %v)
    args [#dynamo.operand<0>, [#dynamo.operand<1>, unit, #dynamo.operand<2>], #dynamo.operand<3>, false]
    : (tensor<5x4x3xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2x4xf32>) -> tensor<5x4x3xf32>
  return %0 : tensor<5x4x3xf32>
}

// -----

// One value for all masked elements is a select. With a value for each, the call stays: their number is data-dependent.

// CHECK-LABEL: func.func @masks
// CHECK: %[[R:.*]] = dynamo.select
// CHECK: dynamo.aten "aten.index_put.default"(%[[R]], %{{.*}}
func.func @masks(%x: tensor<5xf32>, %m: tensor<5xi1>, %one: tensor<f32>, %each: tensor<3xf32>) -> tensor<5xf32> {
  %0 = dynamo.aten "aten.index_put.default"(%x, %m, %one) args [#dynamo.operand<0>, [#dynamo.operand<1>], #dynamo.operand<2>, false]
    : (tensor<5xf32>, tensor<5xi1>, tensor<f32>) -> tensor<5xf32>
  %1 = dynamo.aten "aten.index_put.default"(%0, %m, %each) args [#dynamo.operand<0>, [#dynamo.operand<1>], #dynamo.operand<2>, false]
    : (tensor<5xf32>, tensor<5xi1>, tensor<3xf32>) -> tensor<5xf32>
  return %1 : tensor<5xf32>
}

// -----

// Sums of 16-bit floats are left to eager, which rounds them after each step or at the end; plain writes are lowered.

// CHECK-LABEL: func.func @half
// CHECK: dynamo.aten "aten.index_add.default"
// CHECK: dynamo.scatter %{{.*}} dims [-1] : tensor<9xbf16>
func.func @half(%x: tensor<9xbf16>, %i: tensor<3xi64>, %s: tensor<3xbf16>) -> tensor<9xbf16> {
  %0 = dynamo.aten "aten.index_add.default"(%x, %i, %s) args [#dynamo.operand<0>, 0, #dynamo.operand<1>, #dynamo.operand<2>, 1]
    : (tensor<9xbf16>, tensor<3xi64>, tensor<3xbf16>) -> tensor<9xbf16>
  %1 = dynamo.aten "aten.index_copy.default"(%0, %i, %s) args [#dynamo.operand<0>, 0, #dynamo.operand<1>, #dynamo.operand<2>]
    : (tensor<9xbf16>, tensor<3xi64>, tensor<3xbf16>) -> tensor<9xbf16>
  return %1 : tensor<9xbf16>
}

// -----

// Elements outside the bounds of a histogram are counted in an extra bin, which is dropped.

// CHECK-LABEL: func.func @histc
// CHECK: %[[BINS:.*]] = dynamo.full 0.000000e+00 : f32 -> tensor<5xf32>
// CHECK: %[[COUNTS:.*]] = dynamo.scatter %{{.*}} into %[[BINS]][%{{.*}}] dims [-1] by sum
// CHECK: dynamo.slice %[[COUNTS]] {{.*}} : tensor<5xf32> -> tensor<4xf32>
func.func @histc(%x: tensor<10xf32>) -> tensor<4xf32> {
  %0 = dynamo.aten "aten.histc.default"(%x) args [#dynamo.operand<0>, 4, 0, 1] : (tensor<10xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
