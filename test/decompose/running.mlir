// RUN: dynamlir-opt %s --split-input-file --dynamo-decompose --dynamo-select --dynamo-verify-prims | FileCheck %s

// A running maximum with its place is one scan, over the element's order in the high half and its place in the low half: so of equal
// elements the last has the largest value. Both zeros are equal, and NaN is the largest. The value is read at the place.

// CHECK-LABEL: func.func @cummax
// CHECK-SAME: (%[[X:.*]]: tensor<8x2xf32>)
// CHECK: %[[BITS:.*]] = dynamo.bitcast %{{.*}} : tensor<8x2xf32> -> tensor<8x2xi32>
// CHECK: %[[NAN:.*]] = dynamo.compare ne %[[X]], %[[X]]
// CHECK: %[[ORDER:.*]] = dynamo.select %[[NAN]]
// CHECK: %[[HIGH:.*]] = dynamo.shl
// CHECK: %[[LOW:.*]] = dynamo.iota 0
// CHECK: %[[PAIR:.*]] = dynamo.or %[[HIGH]], %[[LOW]]
// CHECK: %[[LAST:.*]] = dynamo.scan max %[[PAIR]] dim 0 : tensor<8x2xi64>
// CHECK: %[[PLACE:.*]] = dynamo.and %[[LAST]]
// CHECK: %[[VALUE:.*]] = dynamo.gather %[[X]][%[[PLACE]], %{{.*}}]
// CHECK: return %[[VALUE]], %[[PLACE]]
func.func @cummax(%x: tensor<8x2xf32>) -> (tensor<8x2xf32>, tensor<8x2xi64>) {
  %0:2 = dynamo.aten "aten.cummax.default"(%x) args [#dynamo.operand<0>, 0] : (tensor<8x2xf32>) -> (tensor<8x2xf32>, tensor<8x2xi64>)
  return %0#0, %0#1 : tensor<8x2xf32>, tensor<8x2xi64>
}

// -----

// With 64-bit elements no half is left for a place.

// CHECK-LABEL: func.func @wide
// CHECK: dynamo.aten "aten.cummin.default"
func.func @wide(%x: tensor<8x2xf64>) -> (tensor<8x2xf64>, tensor<8x2xi64>) {
  %0:2 = dynamo.aten "aten.cummin.default"(%x) args [#dynamo.operand<0>, 0] : (tensor<8x2xf64>) -> (tensor<8x2xf64>, tensor<8x2xi64>)
  return %0#0, %0#1 : tensor<8x2xf64>, tensor<8x2xi64>
}

// -----

// Along the innermost dimension eager is faster.

// CHECK-LABEL: func.func @innermost
// CHECK: dynamo.aten "aten.cummax.default"
func.func @innermost(%x: tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xi64>) {
  %0:2 = dynamo.aten "aten.cummax.default"(%x) args [#dynamo.operand<0>, 1] : (tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xi64>)
  return %0#0, %0#1 : tensor<2x8xf32>, tensor<2x8xi64>
}

// -----

// The number of mask elements set so far gives the position of the next source element; it is checked that the source has enough elements.

// CHECK-LABEL: func.func @masked_scatter
// CHECK: %[[COUNT:.*]] = dynamo.scan sum %{{.*}} dim 0 : tensor<6xi64>
// CHECK: %[[NEXT:.*]] = dynamo.sub %[[COUNT]]
// CHECK: %[[C:.*]] = dynamo.check_range %[[NEXT]] in{{ ?}}[-1, 4) "aten.masked_scatter.default: the source has too few elements"
// CHECK: %[[TAKEN:.*]] = dynamo.gather
// CHECK: dynamo.select %{{.*}}, %{{.*}}, %arg0
func.func @masked_scatter(%x: tensor<2x3xf32>, %m: tensor<2x3xi1>, %s: tensor<4xf32>) -> tensor<2x3xf32> {
  %0 = dynamo.aten "aten.masked_scatter.default"(%x, %m, %s) args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>]
    : (tensor<2x3xf32>, tensor<2x3xi1>, tensor<4xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
