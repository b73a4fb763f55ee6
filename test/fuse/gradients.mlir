// RUN: dynamlir-opt %s --split-input-file --dynamo-autodiff --dynamo-decompose --dynamo-partition --dynamo-fuse --dynamo-verify-kernels | FileCheck %s

// A backward is fused like a forward: both inputs get their gradients from one kernel.

// CHECK-LABEL: func.func @main(
// CHECK: dynamo.launch @kernels::@pointwise_sin_cos_add_0
// CHECK-NOT: dynamo.launch
// CHECK-LABEL: func.func @main_vjp(
// CHECK-SAME: -> (tensor<4x8xf32> {dynamo.gradient = 0 : i64{{.*}}}, tensor<4x8xf32> {dynamo.gradient = 1 : i64
// CHECK: %[[G:.*]]:2 = dynamo.launch @kernels::@{{.*}} -> (tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK-NEXT: return %[[G]]#
func.func @main(%x: tensor<4x8xf32> {dynamo.requires_grad}, %y: tensor<4x8xf32> {dynamo.requires_grad}) -> tensor<4x8xf32>
    attributes {dynamo.entry, dynamo.differentiable = array<i64: 0>, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] {grad_enabled} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = dynamo.aten "aten.cos.default"(%y) args [#dynamo.operand<0>] {grad_enabled} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = dynamo.aten "aten.add.Tensor"(%0, %1) args [#dynamo.operand<0>, #dynamo.operand<1>, 1] {grad_enabled}
    : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// -----

// A sine, then a sum: one kernel, and the addend gets the tangent unchanged.

// CHECK-LABEL: func.func @main_vjp(
// CHECK-SAME: %[[T:[a-z0-9]+]]: tensor<4x8xf32> {dynamo.offset = 0 : i64, dynamo.strides = array<i64: 8, 1>, dynamo.tangent = 0
// CHECK: %[[DX:.*]] = dynamo.launch @kernels::@pointwise_cos_mul_0
// CHECK-NEXT: return %[[DX]], %[[T]]
func.func @main(%x: tensor<4x8xf32> {dynamo.requires_grad}, %y: tensor<4x8xf32> {dynamo.requires_grad}) -> tensor<4x8xf32>
    attributes {dynamo.entry, dynamo.differentiable = array<i64: 0>, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] {grad_enabled} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = dynamo.aten "aten.add.Tensor"(%0, %y) args [#dynamo.operand<0>, #dynamo.operand<1>, 1] {grad_enabled}
    : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// A product with a factor that has another use: the shared value is computed once, and gradients are added within the kernel.

// CHECK-LABEL: func.func @main_vjp(
// CHECK: %[[G:.*]]:2 = dynamo.launch @kernels::@{{.*}} -> (tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK-NEXT: return %[[G]]#
func.func @main(%x: tensor<4x8xf32> {dynamo.requires_grad}, %y: tensor<4x8xf32> {dynamo.requires_grad}) -> tensor<4x8xf32>
    attributes {dynamo.entry, dynamo.differentiable = array<i64: 0>, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.aten "aten.mul.Tensor"(%x, %y) args [#dynamo.operand<0>, #dynamo.operand<1>] {grad_enabled}
    : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = dynamo.aten "aten.tanh.default"(%0) args [#dynamo.operand<0>] {grad_enabled} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = dynamo.aten "aten.mul.Tensor"(%1, %y) args [#dynamo.operand<0>, #dynamo.operand<1>] {grad_enabled}
    : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
