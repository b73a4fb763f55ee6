// RUN: dynamlir-opt %s --split-input-file --dynamo-autodiff --dynamo-gradient --dynamo-verify-functional | FileCheck %s
// RUN: dynamlir-opt %s --split-input-file --dynamo-gradient | FileCheck %s --check-prefix=ALONE

// A joint function becomes the function of its gradients, which can itself be differentiated. Each of its arguments states which argument
// of the first function it was, or which tangent; the tangents' numbers follow those of the arguments.

// y = w sin x: x' = t w cos x, w' = t sin x. Both are differentiable themselves, because of x, w and t.

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:[^:]*]]: tensor<4xf64> {dynamo.name = "x", dynamo.offset = 0 : i64, dynamo.primal = 0 : i64, dynamo.requires_grad,
// CHECK-SAME: %[[W:[^:]*]]: tensor<4xf64> {dynamo.offset = 0 : i64, dynamo.primal = 1 : i64, dynamo.requires_grad,
// CHECK-SAME: %[[T:[^:]*]]: tensor<4xf64> {dynamo.offset = 0 : i64, dynamo.primal = 2 : i64, dynamo.requires_grad,
// CHECK-SAME: -> (tensor<4xf64> {dynamo.sources = array<i64: 0, 1, 2>, dynamo.strides = array<i64: 1>},
// CHECK-SAME: tensor<4xf64> {dynamo.sources = array<i64: 0, 2>, dynamo.strides = array<i64: 1>})
// CHECK-SAME: attributes {dynamo.differentiable = array<i64: 0, 1>, dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>]}
// CHECK: %[[S:.*]] = dynamo.sin %[[X]]
// CHECK-DAG: %[[GW:.*]] = dynamo.mul %[[T]], %[[S]]
// CHECK-DAG: %[[TW:.*]] = dynamo.mul %[[T]], %[[W]]
// CHECK-DAG: %[[C:.*]] = dynamo.cos %[[X]]
// CHECK: %[[GX:.*]] = dynamo.mul %[[TW]], %[[C]]
// CHECK: return %[[GX]], %[[GW]]

// A function that is not joint is unchanged.
// ALONE-LABEL: func.func @main
// ALONE-NOT: dynamo.primal
func.func @main(%x: tensor<4xf64> {dynamo.name = "x", dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>},
                %w: tensor<4xf64> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf64> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0 = dynamo.sin %x : tensor<4xf64>
  %1 = dynamo.mul %0, %w : tensor<4xf64>
  return %1 : tensor<4xf64>
}

// -----

// Arguments that no gradient uses are removed, tangents stay. Attributes that count writes, name views or mark mutated arguments concern
// the user's outputs, which are not computed here. The gradient of a linear function has a history because of the tangent alone.

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[W:[^:]*]]: tensor<4xf64> {dynamo.offset = 0 : i64, dynamo.primal = 1 : i64, dynamo.strides = array<i64: 1>},
// CHECK-SAME: %[[T:[^:]*]]: tensor<4xf64> {{[{][^}]*}}dynamo.primal = 3 : i64, dynamo.requires_grad
// CHECK-SAME: -> (tensor<4xf64> {dynamo.sources = array<i64: 1>,
// CHECK-NOT: dynamo.versions
// CHECK: %[[G:.*]] = dynamo.mul %[[T]], %[[W]]
// CHECK-NOT: dynamo.add
// CHECK: return %[[G]] : tensor<4xf64>
func.func @main(%x: tensor<4xf64> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>},
                %w: tensor<4xf64> {dynamo.offset = 0 : i64, dynamo.strides = array<i64: 1>},
                %count: tensor<f64> {dynamo.offset = 0 : i64, dynamo.strides = array<i64>, dynamo.version_bumps = 1 : i64})
    -> (tensor<4xf64> {dynamo.strides = array<i64: 1>}, tensor<f64> {dynamo.mutates = 2 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>, dynamo.versions = array<i64: 1>} {
  %0 = dynamo.mul %x, %w : tensor<4xf64>
  %1 = dynamo.add %count, %count : tensor<f64>
  return %0, %1 : tensor<4xf64>, tensor<f64>
}

// -----

// y = exp x: x' = t y, and y is an argument, since the user holds it. x is one, too, for callers that have to recompute y.

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%{{[^:]*}}: tensor<4xf64> {{[{][^}]*}}dynamo.primal = 0 : i64, dynamo.requires_grad
// CHECK-SAME: %[[T:[^:]*]]: tensor<4xf64> {{[{][^}]*}}dynamo.primal = 1 : i64, dynamo.requires_grad
// CHECK-SAME: %[[Y:[^:]*]]: tensor<4xf64> {{[{][^}]*}}dynamo.primal = 2 : i64, dynamo.requires_grad
// CHECK-SAME: -> (tensor<4xf64> {dynamo.sources = array<i64: 1, 2>
// CHECK-SAME: dynamo.given = array<i64: 0>
// CHECK-NOT: dynamo.exp
// CHECK: %[[G:.*]] = dynamo.mul %[[T]], %[[Y]]
// CHECK: return %[[G]] : tensor<4xf64>
func.func @main(%x: tensor<4xf64> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf64> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>, dynamo.given = array<i64: 0>} {
  %0 = dynamo.exp %x : tensor<4xf64>
  return %0 : tensor<4xf64>
}
