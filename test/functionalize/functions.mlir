// RUN: dynamlir-opt %s --split-input-file --dynamo-functionalize | FileCheck %s
// RUN: dynamlir-opt %s --split-input-file --dynamo-functionalize --dynamo-autodiff --dynamo-decompose | FileCheck %s --check-prefix=WHOLE

// A function with a derivative of its own (`torch.autograd.Function`): the operation `dynamlir.function` passes on the results of
// `forward`, and `vjp` is `backward`. Here it returns a view of its argument, and its gradient is the tangent, reversed.

// Elsewhere a view in the same shape is the same value; here it is a different value for gradients.

// CHECK-LABEL: func.func @main(
// CHECK: %[[X:.*]] = dynamo.aten "aten.sin.default"(%arg0)
// CHECK: %[[RAW:.*]] = dynamo.detach %[[X]]
// CHECK: %[[R:.*]] = dynamo.aten "dynamlir.function.default"(%[[X]], %[[RAW]]) {{.*}} {decomposition = @forward, grad_enabled, {{.*}}vjp = @backward}
// CHECK: dynamo.aten "aten.cos.default"(%[[R]])
// CHECK-LABEL: func.func private @forward(
// CHECK: return %arg1
// CHECK-LABEL: func.func private @backward(
// CHECK: dynamo.aten "aten.neg.default"(%arg3)

// Values pass around it, gradients take the user's derivative.
// WHOLE-LABEL: func.func @main(
// WHOLE: %[[X:.*]] = dynamo.sin %arg0
// WHOLE: %[[Y:.*]] = dynamo.cos %[[X]]
// WHOLE: %[[SINE:.*]] = dynamo.sin %[[X]]
// WHOLE: %[[MINUS:.*]] = dynamo.neg %[[SINE]]
// WHOLE: %[[DR:.*]] = dynamo.mul %arg1, %[[MINUS]]
// WHOLE: %[[REVERSED:.*]] = dynamo.neg %[[DR]]
// WHOLE: %[[C:.*]] = dynamo.cos %arg0
// WHOLE: %[[DX:.*]] = dynamo.mul %[[REVERSED]], %[[C]]
// WHOLE: return %[[Y]], %[[DX]]
// WHOLE-NOT: dynamlir.function
func.func @main(%x: !dynamo.tensor<4xf32, [1]> {dynamo.requires_grad}) -> !dynamo.tensor<4xf32, [1]>
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0 = dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: -1>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %1 = dynamo.aten "aten.view.default"(%0) args [#dynamo.operand<0>, [4]] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %2 = dynamo.aten "dynamlir.function.default"(%0, %1) args [[#dynamo.operand<0>, #dynamo.operand<1>]]
    {aliases = array<i64: 1>, decomposition = @forward, vjp = @backward, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>, !dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %3 = dynamo.aten "aten.cos.default"(%2) args [#dynamo.operand<0>] {aliases = array<i64: -1>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return %3 : !dynamo.tensor<4xf32, [1]>
}
func.func private @forward(%x: !dynamo.tensor<4xf32, [1]>, %raw: !dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]> {
  return %raw : !dynamo.tensor<4xf32, [1]>
}
func.func private @backward(%x: !dynamo.tensor<4xf32, [1]>, %raw: !dynamo.tensor<4xf32, [1]>, %r: !dynamo.tensor<4xf32, [1]>,
    %t: !dynamo.tensor<4xf32, [1]> {dynamo.tangent = 0}) -> (!dynamo.tensor<4xf32, [1]> {dynamo.gradient = 0}) {
  %0 = dynamo.aten "aten.neg.default"(%t) args [#dynamo.operand<0>] {aliases = array<i64: -1>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return %0 : !dynamo.tensor<4xf32, [1]>
}

// -----

// The operations of a checkpoint region are marked at the next stage, too.

// CHECK-LABEL: func.func @main(
// CHECK: dynamo.aten "aten.exp.default"(%arg0) {{.*}}dynamo.recompute = 3
// CHECK: dynamo.aten "aten.sin.default"
// CHECK-NOT: dynamo.recompute
// CHECK: return
func.func @main(%x: !dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]> attributes {dynamo.entry} {
  %0 = dynamo.aten "aten.exp.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: -1>, dynamo.recompute = 3}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %1 = dynamo.aten "aten.sin.default"(%0) args [#dynamo.operand<0>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return %1 : !dynamo.tensor<4xf32, [1]>
}
