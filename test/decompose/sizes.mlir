// RUN: dynamlir-opt %s --split-input-file --dynamo-decompose --dynamo-verify-prims | FileCheck %s
// RUN: dynamlir-opt %s --split-input-file --dynamo-decompose | dynamlir-opt --split-input-file --dynamo-decompose --dynamo-verify-prims | FileCheck %s

// Symbolic sizes. Where a lowering would choose by a size, it uses the form that is valid for all values.

// Broadcasting compares expressions: equal expressions are equal sizes. A number, a tensor, a row and a size are combined.

// CHECK-LABEL: func.func @pointwise
// CHECK: %[[ROWS:.*]] = dynamo.broadcast %arg1 dims [1] : tensor<4xf32> -> tensor<?x4xf32, #dynamo.sizes<s0, 4>>
// CHECK: %[[SUM:.*]] = dynamo.add %arg0, %[[ROWS]] : tensor<?x4xf32, #dynamo.sizes<s0, 4>>
// CHECK: %[[TWO:.*]] = dynamo.full 2.000000e+00 : f32 -> tensor<?x4xf32, #dynamo.sizes<s0, 4>>
// CHECK: %[[LESS:.*]] = dynamo.compare lt %[[SUM]], %[[TWO]] : tensor<?x4xf32, #dynamo.sizes<s0, 4>> -> tensor<?x4xi1, #dynamo.sizes<s0, 4>>
// CHECK: dynamo.select %[[LESS]]
// CHECK: %[[SIZE:.*]] = dynamo.full #dynamo.expr<s0> -> tensor<?x4xi64, #dynamo.sizes<s0, 4>>
// CHECK: %[[FLOAT:.*]] = dynamo.convert %[[SIZE]] : {{.*}} -> tensor<?x4xf32, #dynamo.sizes<s0, 4>>
// CHECK: dynamo.div %{{.*}}, %[[FLOAT]]
func.func @pointwise(%x: tensor<?x4xf32, #dynamo.sizes<s0, 4>>, %row: tensor<4xf32>) -> tensor<?x4xf32, #dynamo.sizes<s0, 4>> attributes {
    dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  %0 = dynamo.aten "aten.add.Tensor"(%x, %row) args [#dynamo.operand<0>, #dynamo.operand<1>, 1]
    : (tensor<?x4xf32, #dynamo.sizes<s0, 4>>, tensor<4xf32>) -> tensor<?x4xf32, #dynamo.sizes<s0, 4>>
  %1 = dynamo.aten "aten.lt.Scalar"(%0) args [#dynamo.operand<0>, 2.0]
    : (tensor<?x4xf32, #dynamo.sizes<s0, 4>>) -> tensor<?x4xi1, #dynamo.sizes<s0, 4>>
  %2 = dynamo.aten "aten.where.self"(%1, %0, %x) args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>]
    : (tensor<?x4xi1, #dynamo.sizes<s0, 4>>, tensor<?x4xf32, #dynamo.sizes<s0, 4>>, tensor<?x4xf32, #dynamo.sizes<s0, 4>>) -> tensor<?x4xf32, #dynamo.sizes<s0, 4>>
  %3 = dynamo.aten "aten.div.Tensor"(%2) args [#dynamo.operand<0>, #dynamo.expr<s0>]
    : (tensor<?x4xf32, #dynamo.sizes<s0, 4>>) -> tensor<?x4xf32, #dynamo.sizes<s0, 4>>
  return %3 : tensor<?x4xf32, #dynamo.sizes<s0, 4>>
}

// -----

// Views: heads of a projection, the last row, every second row, and the two concatenated.

// CHECK-LABEL: func.func @views
// CHECK: dynamo.reshape %arg0 : tensor<?x8xf32, #dynamo.sizes<s0, 8>> -> tensor<?x2x4xf32, #dynamo.sizes<s0, 2, 4>>
// CHECK: dynamo.permute %{{.*}} dims [1, 0, 2] : {{.*}} -> tensor<2x?x4xf32, #dynamo.sizes<2, s0, 4>>
// CHECK: %[[LAST:.*]] = dynamo.slice %arg0 starts [s0 - 1, 0] steps [1, 1] : {{.*}} -> tensor<1x8xf32>
// CHECK: %[[EVEN:.*]] = dynamo.slice %arg0 starts [1, 0] steps [2, 1] : {{.*}} -> tensor<?x8xf32, #dynamo.sizes<s0 floordiv 2, 8>>
// CHECK: dynamo.concatenate %[[LAST]], %[[EVEN]] dim 0 : {{.*}} -> tensor<?x8xf32, #dynamo.sizes<s0 floordiv 2 + 1, 8>>
func.func @views(%x: tensor<?x8xf32, #dynamo.sizes<s0, 8>>) -> (tensor<2x?x4xf32, #dynamo.sizes<2, s0, 4>>, tensor<?x8xf32, #dynamo.sizes<s0 floordiv 2 + 1, 8>>) attributes {
    dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  %0 = dynamo.aten "aten.view.default"(%x) args [#dynamo.operand<0>, [#dynamo.expr<s0>, 2, 4]]
    : (tensor<?x8xf32, #dynamo.sizes<s0, 8>>) -> tensor<?x2x4xf32, #dynamo.sizes<s0, 2, 4>>
  %1 = dynamo.aten "aten.transpose.int"(%0) args [#dynamo.operand<0>, 0, 1]
    : (tensor<?x2x4xf32, #dynamo.sizes<s0, 2, 4>>) -> tensor<2x?x4xf32, #dynamo.sizes<2, s0, 4>>
  %2 = dynamo.aten "aten.slice.Tensor"(%x) args [#dynamo.operand<0>, 0, -1, 9223372036854775807, 1]
    : (tensor<?x8xf32, #dynamo.sizes<s0, 8>>) -> tensor<1x8xf32>
  %3 = dynamo.aten "aten.slice.Tensor"(%x) args [#dynamo.operand<0>, 0, 1, #dynamo.expr<s0>, 2]
    : (tensor<?x8xf32, #dynamo.sizes<s0, 8>>) -> tensor<?x8xf32, #dynamo.sizes<s0 floordiv 2, 8>>
  %4 = dynamo.aten "aten.cat.default"(%2, %3) args [[#dynamo.operand<0>, #dynamo.operand<1>], 0]
    : (tensor<1x8xf32>, tensor<?x8xf32, #dynamo.sizes<s0 floordiv 2, 8>>) -> tensor<?x8xf32, #dynamo.sizes<s0 floordiv 2 + 1, 8>>
  return %1, %4 : tensor<2x?x4xf32, #dynamo.sizes<2, s0, 4>>, tensor<?x8xf32, #dynamo.sizes<s0 floordiv 2 + 1, 8>>
}

// -----

// A softmax along a dimension of unknown length is summed in f64, as long sums are; along one that is known to be short it is not. The mean
// divides by the size.

// CHECK-LABEL: func.func @reductions
// CHECK: %[[EXP:.*]] = dynamo.exp
// CHECK: %[[WIDE:.*]] = dynamo.convert %[[EXP]] : {{.*}} -> tensor<4x?xf64, #dynamo.sizes<4, s0>>
// CHECK: dynamo.reduce sum %[[WIDE]] dims [1]
// CHECK: dynamo.reduce sum %arg1 dims [0] : tensor<?x4xf32, #dynamo.sizes<s1, 4>> -> tensor<4xf32>
// CHECK: %[[COUNT:.*]] = dynamo.full #dynamo.expr<s1> -> tensor<4xi64>
// CHECK: %[[FLOAT:.*]] = dynamo.convert %[[COUNT]] : tensor<4xi64> -> tensor<4xf32>
// CHECK: dynamo.div %{{.*}}, %[[FLOAT]] : tensor<4xf32>
func.func @reductions(%x: tensor<4x?xf32, #dynamo.sizes<4, s0>>, %y: tensor<?x4xf32, #dynamo.sizes<s1, 4>>) -> (tensor<4x?xf32, #dynamo.sizes<4, s0>>, tensor<4xf32>) attributes {
    dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 1>, #dynamo.symbol<s1, argument = 1, dim = 0, max = 256>]} {
  %0 = dynamo.aten "aten._softmax.default"(%x) args [#dynamo.operand<0>, -1, false]
    : (tensor<4x?xf32, #dynamo.sizes<4, s0>>) -> tensor<4x?xf32, #dynamo.sizes<4, s0>>
  %1 = dynamo.aten "aten.mean.dim"(%y) args [#dynamo.operand<0>, [0], false, unit] : (tensor<?x4xf32, #dynamo.sizes<s1, 4>>) -> tensor<4xf32>
  return %0, %1 : tensor<4x?xf32, #dynamo.sizes<4, s0>>, tensor<4xf32>
}

// -----

// Positions up to a size are in range for a table of that size; for a table that may be shorter they are checked.

// CHECK-LABEL: func.func @indices
// CHECK: %[[AT:.*]] = dynamo.iota 0 : tensor<?xi64, #dynamo.sizes<s0>>
// CHECK-NOT: check_range
// CHECK: dynamo.gather %arg0
// CHECK: dynamo.check_range %[[AT]] in{{ ?}}[0, 128)
func.func @indices(%own: tensor<?x4xf32, #dynamo.sizes<s0, 4>>, %other: tensor<128x4xf32>)
    -> (tensor<?x4xf32, #dynamo.sizes<s0, 4>>, tensor<?x4xf32, #dynamo.sizes<s0, 4>>) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  %at = dynamo.aten "aten.arange.default"() args [#dynamo.expr<s0>, i64, unit, unit, false] : () -> tensor<?xi64, #dynamo.sizes<s0>>
  %0 = dynamo.aten "aten.embedding.default"(%own, %at) args [#dynamo.operand<0>, #dynamo.operand<1>, -1, false, false]
    : (tensor<?x4xf32, #dynamo.sizes<s0, 4>>, tensor<?xi64, #dynamo.sizes<s0>>) -> tensor<?x4xf32, #dynamo.sizes<s0, 4>>
  %1 = dynamo.aten "aten.embedding.default"(%other, %at) args [#dynamo.operand<0>, #dynamo.operand<1>, -1, false, false]
    : (tensor<128x4xf32>, tensor<?xi64, #dynamo.sizes<s0>>) -> tensor<?x4xf32, #dynamo.sizes<s0, 4>>
  return %0, %1 : tensor<?x4xf32, #dynamo.sizes<s0, 4>>, tensor<?x4xf32, #dynamo.sizes<s0, 4>>
}

// -----

// Lowerings that compute with static sizes leave symbolic ones to the library: a rotation, whose parts depend on the size. A maximum of
// possibly no elements is left to the library, too.

// CHECK-LABEL: func.func @left
// CHECK: dynamo.aten "aten.roll.default"
// CHECK: dynamo.aten "aten.amax.default"
// CHECK: dynamo.reduce max
func.func @left(%x: tensor<?xf32, #dynamo.sizes<s0>>, %y: tensor<?xf32, #dynamo.sizes<s1>>) -> (tensor<?xf32, #dynamo.sizes<s0>>, tensor<f32>, tensor<f32>) attributes {
    dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>, #dynamo.symbol<s1, argument = 1, dim = 0, min = 0>]} {
  %0 = dynamo.aten "aten.roll.default"(%x) args [#dynamo.operand<0>, [1], [0]] : (tensor<?xf32, #dynamo.sizes<s0>>) -> tensor<?xf32, #dynamo.sizes<s0>>
  %1 = dynamo.aten "aten.amax.default"(%y) args [#dynamo.operand<0>, [0], false] : (tensor<?xf32, #dynamo.sizes<s1>>) -> tensor<f32>
  %2 = dynamo.aten "aten.amax.default"(%x) args [#dynamo.operand<0>, [0], false] : (tensor<?xf32, #dynamo.sizes<s0>>) -> tensor<f32>
  return %0, %1, %2 : tensor<?xf32, #dynamo.sizes<s0>>, tensor<f32>, tensor<f32>
}

// -----

// Sizes as values: positions after a cache of length s0, and the mask of visible positions.

// CHECK-LABEL: func.func @behind_a_cache
// CHECK: %[[STEPS:.*]] = dynamo.iota 0 : tensor<?xi64, #dynamo.sizes<s1>>
// CHECK: %[[START:.*]] = dynamo.full #dynamo.expr<s0> -> tensor<?xi64, #dynamo.sizes<s1>>
// CHECK: dynamo.add %[[STEPS]], %[[START]]
// CHECK: %[[DIAGONAL:.*]] = dynamo.full #dynamo.expr<s0> -> tensor<?x?xi64, #dynamo.sizes<s1, s0 + s1>>
// CHECK: dynamo.compare le %{{.*}}, %[[DIAGONAL]]
func.func @behind_a_cache(%cache: tensor<?xf32, #dynamo.sizes<s0>>, %mask: tensor<?x?xf32, #dynamo.sizes<s1, s0 + s1>>)
    -> (tensor<?xi64, #dynamo.sizes<s1>>, tensor<?x?xf32, #dynamo.sizes<s1, s0 + s1>>) attributes {
    dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>, #dynamo.symbol<s1, argument = 1, dim = 0>]} {
  %0 = dynamo.aten "aten.arange.start"() args [#dynamo.expr<s0>, #dynamo.expr<s0 + s1>, i64, unit, unit, false] : () -> tensor<?xi64, #dynamo.sizes<s1>>
  %1 = dynamo.aten "aten.tril.default"(%mask) args [#dynamo.operand<0>, #dynamo.expr<s0>]
    : (tensor<?x?xf32, #dynamo.sizes<s1, s0 + s1>>) -> tensor<?x?xf32, #dynamo.sizes<s1, s0 + s1>>
  return %0, %1 : tensor<?xi64, #dynamo.sizes<s1>>, tensor<?x?xf32, #dynamo.sizes<s1, s0 + s1>>
}

// -----

// If the recorder writes the result's size as another expression, it is the same size all the same.

// CHECK-LABEL: func.func @another_form
// CHECK: dynamo.reshape %{{.*}} : tensor<?xf32, #dynamo.sizes<s0>> -> tensor<?xf32, #dynamo.sizes<(s0 floordiv 8)*8>>
func.func @another_form(%x: tensor<?xf32, #dynamo.sizes<s0>>) -> tensor<?xf32, #dynamo.sizes<(s0 floordiv 8)*8>> attributes {
    dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0, min = 8, divisor = 8>]} {
  %0 = dynamo.aten "aten.flip.default"(%x) args [#dynamo.operand<0>, [0]] : (tensor<?xf32, #dynamo.sizes<s0>>) -> tensor<?xf32, #dynamo.sizes<(s0 floordiv 8)*8>>
  return %0 : tensor<?xf32, #dynamo.sizes<(s0 floordiv 8)*8>>
}

// -----

// A symbolic argument that a rule reads as a number must not count as missing: the operator is left to the library.

// CHECK-LABEL: func.func @a_factor
// CHECK: dynamo.aten "aten.add.Tensor"(%arg0, %arg0) args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.expr<s0>]
// CHECK-NOT: dynamo.add
func.func @a_factor(%x: tensor<?xf32, #dynamo.sizes<s0>>) -> tensor<?xf32, #dynamo.sizes<s0>> attributes {
    dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  %0 = dynamo.aten "aten.add.Tensor"(%x, %x) args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.expr<s0>]
    : (tensor<?xf32, #dynamo.sizes<s0>>, tensor<?xf32, #dynamo.sizes<s0>>) -> tensor<?xf32, #dynamo.sizes<s0>>
  return %0 : tensor<?xf32, #dynamo.sizes<s0>>
}
