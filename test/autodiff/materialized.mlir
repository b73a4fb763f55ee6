// RUN: dynamlir-opt %s --dynamo-autodiff | FileCheck %s

// The users of a function's result return no gradient for it: the function receives zeros (dynamo.materialized), and its gradients are
// present whenever its node runs, regardless of the tangents (dynamo.reached is empty).

// CHECK-LABEL: func.func @zeros
// CHECK-SAME: tensor<4xf32> {dynamo.gradient = 0 : i64, {{[^}]*}}dynamo.reached = array<i64>
// CHECK: %[[ZERO:.*]] = dynamo.full 0.0
// CHECK: dynamo.aten "aten.neg.default"(%[[ZERO]])
func.func @zeros(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %raw = dynamo.detach %x : tensor<4xf32>
  %0 = dynamo.aten "dynamlir.function.default"(%x, %raw) args [[#dynamo.operand<0>, #dynamo.operand<1>]]
    {decomposition = @forward, vjp = @backward, grad_enabled, dynamo.materialized} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = dynamo.sin %0 : tensor<4xf32>
  %2 = dynamo.detach %1 : tensor<4xf32>
  %3 = dynamo.aten "dynamlir.function.default"(%1, %2) args [[#dynamo.operand<0>, #dynamo.operand<1>]]
    {decomposition = @forward, vjp = @nothing, grad_enabled, dynamo.materialized} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
func.func private @forward(%x: tensor<4xf32>, %raw: tensor<4xf32>) -> tensor<4xf32> {
  return %raw : tensor<4xf32>
}
func.func private @backward(%x: tensor<4xf32>, %raw: tensor<4xf32>, %y: tensor<4xf32>, %t: tensor<4xf32> {dynamo.tangent = 0})
    -> (tensor<4xf32> {dynamo.gradient = 0}) {
  %0 = dynamo.aten "aten.neg.default"(%t) args [#dynamo.operand<0>] {grad_enabled} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @nothing(%x: tensor<4xf32>, %raw: tensor<4xf32>, %y: tensor<4xf32>, %t: tensor<4xf32> {dynamo.tangent = 0}) {
  return
}
