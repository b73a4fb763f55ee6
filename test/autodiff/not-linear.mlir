// RUN: dynamlir-opt %s --dynamo-autodiff | FileCheck %s

// A function whose derivative is not linear (dynamo.not_linear) receives the sum of all gradients that reach it: its result becomes one
// that nodes see, although there is only one visible result.

// CHECK-LABEL: func.func @cut
// CHECK-SAME: %[[TY:[^:]*]]: tensor<4xf32> {dynamo.node = 1 : i64, {{[^}]*}}dynamo.tangent = 0 : i64},
// CHECK-SAME: %[[TR:[^:]*]]: tensor<4xf32> {dynamo.node = 0 : i64, {{[^}]*}}dynamo.tangent = 1 : i64}
// CHECK-SAME: tensor<4xf32> {dynamo.hidden, {{[^}]*}}}, tensor<4xf32> {dynamo.gradient = 0 : i64, dynamo.node = 0 : i64, {{[^}]*}}},
// CHECK-SAME: tensor<4xf32> {dynamo.gradient_of = 1 : i64, dynamo.node = 1 : i64,
// CHECK: dynamo.aten "aten.relu.default"(%[[TR]])
func.func @cut(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %raw = dynamo.detach %x : tensor<4xf32>
  %r = dynamo.aten "dynamlir.function.default"(%x, %raw) args [[#dynamo.operand<0>, #dynamo.operand<1>]]
    {decomposition = @forward, vjp = @backward, grad_enabled, dynamo.not_linear} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = dynamo.sin %r : tensor<4xf32>
  %y = dynamo.mul %s, %r : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @forward(%x: tensor<4xf32>, %raw: tensor<4xf32>) -> tensor<4xf32> {
  return %raw : tensor<4xf32>
}
func.func private @backward(%x: tensor<4xf32>, %raw: tensor<4xf32>, %y: tensor<4xf32>, %t: tensor<4xf32> {dynamo.tangent = 0})
    -> (tensor<4xf32> {dynamo.gradient = 0}) {
  %0 = dynamo.aten "aten.relu.default"(%t) args [#dynamo.operand<0>] {grad_enabled} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
