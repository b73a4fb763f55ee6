// RUN: dynamlir-opt %s --dynamo-autodiff --dynamo-autodiff=again=true --dynamo-verify-functional | FileCheck %s
// RUN: dynamlir-opt %s --dynamo-autodiff --dynamo-autodiff --dynamo-verify-functional | FileCheck %s --check-prefix=ONCE
// RUN: dynamlir-opt %s --dynamo-autodiff=again=true | FileCheck %s --check-prefix=NEVER

// Gradients are themselves differentiated with `again`: the gradient, result 1, gets a tangent, and the new gradients are those of the
// argument and of the first tangent. Without `again` a function with tangents is unchanged, and with it one without tangents.

// y = sin x, with tangent t: x' = t cos x. With the tangent u of that: x'' = -u t sin x, and t' = u cos x.

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:[^:]*]]: tensor<4xf64> {{[{][^}]*[}]}}, %[[T:[^:]*]]: tensor<4xf64> {{[{][^}]*}}dynamo.tangent = 0 : i64},
// CHECK-SAME: %[[U:[^:]*]]: tensor<4xf64> {{[{][^}]*}}dynamo.tangent = 1 : i64})
// CHECK-SAME: -> (tensor<4xf64> {dynamo.strides = array<i64: 1>}, tensor<4xf64> {dynamo.gradient = 0 : i64, {{[^}]*}}},
// CHECK-SAME: tensor<4xf64> {dynamo.gradient = 0 : i64, {{[^}]*}}}, tensor<4xf64> {dynamo.gradient = 1 : i64, {{[^}]*}}})
// CHECK: %[[Y:.*]] = dynamo.sin %[[X]]
// CHECK: %[[C:.*]] = dynamo.cos %[[X]]
// CHECK: %[[G:.*]] = dynamo.mul %[[T]], %[[C]]
// CHECK: %[[UC:.*]] = dynamo.mul %[[U]], %[[C]]
// CHECK: %[[UT:.*]] = dynamo.mul %[[U]], %[[T]]
// CHECK: %[[S:.*]] = dynamo.sin %[[X]]
// CHECK: %[[P:.*]] = dynamo.mul %[[UT]], %[[S]]
// CHECK: %[[N:.*]] = dynamo.neg %[[P]]
// CHECK: return %[[Y]], %[[G]], %[[N]], %[[UC]]

// ONCE: dynamo.tangent = 0
// ONCE-NOT: dynamo.tangent
// NEVER-NOT: dynamo.tangent
func.func @main(%x: tensor<4xf64> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf64> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0 = dynamo.sin %x : tensor<4xf64>
  return %0 : tensor<4xf64>
}
