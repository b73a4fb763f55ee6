// RUN: dynamlir-opt %s --split-input-file --verify-diagnostics --dynamo-functionalize

// Memory with two histories: one tensor would have another history than another tensor on the same memory.

// y = x * 2; d = y.detach(); d.mul_(x): d has a gradient of its own, y does not.
func.func @main(%x: !dynamo.tensor<4xf32, [1]> {dynamo.requires_grad}) -> !dynamo.tensor<4xf32, [1]>
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0 = dynamo.aten "aten.mul.Scalar"(%x) args [#dynamo.operand<0>, 2] {aliases = array<i64: -1>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %1 = dynamo.aten "aten.detach.default"(%0) args [#dynamo.operand<0>] {aliases = array<i64: 0>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  // expected-error @+1 {{a detached tensor is written with a gradient of its own}}
  dynamo.aten "aten.mul_.Tensor"(%1, %x) args [#dynamo.operand<0>, #dynamo.operand<1>]
    {aliases = array<i64: 0>, mutates = array<i64: 0>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>, !dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return %0 : !dynamo.tensor<4xf32, [1]>
}

// -----

// y = x * 2; with no_grad(): v = y.view(2, 2); y.mul_(3); v * 2: autograd then creates a history for v.
func.func @main(%x: !dynamo.tensor<4xf32, [1]> {dynamo.requires_grad}) -> !dynamo.tensor<2x2xf32, [2, 1]>
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0 = dynamo.aten "aten.mul.Scalar"(%x) args [#dynamo.operand<0>, 2] {aliases = array<i64: -1>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %1 = dynamo.aten "aten.view.default"(%0) args [#dynamo.operand<0>, [2, 2]] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<2x2xf32, [2, 1]>
  dynamo.aten "aten.mul_.Scalar"(%0) args [#dynamo.operand<0>, 3] {aliases = array<i64: 0>, mutates = array<i64: 0>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  // expected-error @+1 {{a view that was made with grad mode off is read after its memory was written}}
  %2 = dynamo.aten "aten.mul.Scalar"(%1) args [#dynamo.operand<0>, 2] {aliases = array<i64: -1>, grad_enabled}
    : (!dynamo.tensor<2x2xf32, [2, 1]>) -> !dynamo.tensor<2x2xf32, [2, 1]>
  return %2 : !dynamo.tensor<2x2xf32, [2, 1]>
}

// -----

// The result of a function with a derivative of its own is a separate value: it cannot alias memory that changes.
func.func @main(%x: !dynamo.tensor<4xf32, [1]> {dynamo.requires_grad}) -> !dynamo.tensor<4xf32, [1]>
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0 = dynamo.aten "aten.mul.Scalar"(%x) args [#dynamo.operand<0>, 2] {aliases = array<i64: -1>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  // expected-error @+1 {{what a function with a derivative of its own returns shows memory that is written}}
  %1 = dynamo.aten "dynamlir.function.default"(%0) args [[#dynamo.operand<0>]] {aliases = array<i64: 0>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  dynamo.aten "aten.mul_.Scalar"(%0) args [#dynamo.operand<0>, 3] {aliases = array<i64: 0>, mutates = array<i64: 0>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return %1 : !dynamo.tensor<4xf32, [1]>
}
