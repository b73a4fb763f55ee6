// RUN: dynamlir-opt %s --split-input-file --dynamo-partition | FileCheck %s

// A joint function of several nodes (test/autodiff/nodes.mlir) becomes a forward entry and one backward entry per node.

// One cut for all: the saved values are listed once, and each backward takes those that it needs (dynamo.kept). %t is passed from node to
// node and is not visible elsewhere: only its type is recorded. Its number continues after the results of @main, but it is not a result.

// CHECK: func.func @main(%[[X:[^:]*]]: tensor<4xf32> {{[{][^}]*[}]}}) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>{{.*}})
// CHECK-SAME: dynamo.crossing = [tensor<4xf32>]
// CHECK-SAME: dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>, #dynamo.output<result 2>]
// CHECK-SAME: dynamo.saved = 1 : i64, dynamo.vjps = [@main_vjp_0, @main_vjp_1, @main_vjp_2]
// CHECK: %[[T:.*]] = dynamo.aten "aten.mysterious.default"(%[[X]])
// CHECK: return %{{.*}}, %{{.*}}, %[[T]]

// CHECK: func.func @main_vjp_0(%[[T0:[^:]*]]: tensor<4xf32> {{[{][^}]*[}]}}, %[[TT:[^:]*]]: tensor<4xf32> {{[{][^}]*}}dynamo.tangent = 3 : i64})
// CHECK-SAME: -> (tensor<4xf32> {dynamo.gradient = 0 : i64})
// CHECK-SAME: dynamo.kept = array<i64: 0>
// CHECK: dynamo.mul %[[TT]], %[[T0]]

// CHECK: func.func @main_vjp_1(%[[T1:[^:]*]]: tensor<4xf32> {{[{][^}]*[}]}}, %[[TY:[^:]*]]: tensor<4xf32> {{[{][^}]*}}dynamo.tangent = 0 : i64})
// CHECK-SAME: -> (tensor<4xf32> {dynamo.gradient_of = 3 : i64})
// CHECK: dynamo.cos %[[T1]]

// A node that needs nothing saves nothing.
// CHECK: func.func @main_vjp_2(%[[TZ:[^:]*]]: tensor<4xf32> {{[{][^}]*}}dynamo.tangent = 1 : i64})
// CHECK-SAME: dynamo.kept = array<i64>
func.func @main(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>},
                %ty: tensor<4xf32> {dynamo.node = 1 : i64, dynamo.offset = 0 : i64, dynamo.strides = array<i64: 1>, dynamo.tangent = 0 : i64},
                %tz: tensor<4xf32> {dynamo.node = 2 : i64, dynamo.offset = 0 : i64, dynamo.strides = array<i64: 1>, dynamo.tangent = 1 : i64},
                %tt: tensor<4xf32> {dynamo.node = 0 : i64, dynamo.offset = 0 : i64, dynamo.strides = array<i64: 1>, dynamo.tangent = 2 : i64})
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32> {dynamo.hidden}, tensor<4xf32> {dynamo.gradient = 0 : i64, dynamo.node = 0 : i64},
        tensor<4xf32> {dynamo.gradient_of = 2 : i64, dynamo.node = 1 : i64}, tensor<4xf32> {dynamo.gradient_of = 2 : i64, dynamo.node = 2 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>], dynamo.differentiable = array<i64: 0, 1>} {
  %t = dynamo.aten "aten.mysterious.default"(%x) args [#dynamo.operand<0>] : (tensor<4xf32>) -> tensor<4xf32>
  %y = dynamo.sin %t : tensor<4xf32>
  %z = dynamo.neg %t : tensor<4xf32>
  %cos = dynamo.cos %t : tensor<4xf32>
  %gy = dynamo.mul %ty, %cos : tensor<4xf32>
  %gz = dynamo.neg %tz : tensor<4xf32>
  %gx = dynamo.mul %tt, %t : tensor<4xf32>
  return %y, %z, %t, %gx, %gy, %gz : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// The results that eager saves are marked on their tangents (dynamo.kept_by_eager). The cut does not change: here no
// gradient depends on the result.

// CHECK-LABEL: func.func @kept(
// CHECK-SAME: dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<arg 0>]
// CHECK: func.func @kept_vjp(%{{[^:]*}}: tensor<4xf32> {{[{][^}]*[}]}}, %{{[^:]*}}: tensor<4xf32> {dynamo.kept_by_eager, {{[^}]*}}dynamo.tangent = 0 : i64})
func.func @kept(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>},
                %t: tensor<4xf32> {dynamo.kept_by_eager, dynamo.offset = 0 : i64, dynamo.strides = array<i64: 1>, dynamo.tangent = 0 : i64})
    -> (tensor<4xf32>, tensor<4xf32> {dynamo.gradient = 0 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %y = dynamo.neg %x : tensor<4xf32>
  %g = dynamo.mul %t, %x : tensor<4xf32>
  return %y, %g : tensor<4xf32>, tensor<4xf32>
}
