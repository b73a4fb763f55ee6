// RUN: dynamlir-opt %s --split-input-file --dynamo-functionalize --dynamo-verify-functional | FileCheck %s

// Gradients that do not follow the values, in entries that are differentiated. Other entries contain none of these ops.

// detach() is dynamo.detach.

// CHECK-LABEL: func.func @main
// CHECK: %[[D:.*]] = dynamo.detach %arg0 : tensor<4xf32>
// CHECK: dynamo.aten "aten.mul.Tensor"(%arg0, %[[D]])
func.func @main(%x: !dynamo.tensor<4xf32, [1]> {dynamo.requires_grad}) -> !dynamo.tensor<4xf32, [1]>
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0 = dynamo.aten "aten.detach.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 0>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %1 = dynamo.aten "aten.mul.Tensor"(%x, %0) args [#dynamo.operand<0>, #dynamo.operand<1>] {aliases = array<i64: -1>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>, !dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return %1 : !dynamo.tensor<4xf32, [1]>
}

// -----

// In an entry that is not differentiated, it is its operand.

// CHECK-LABEL: func.func @main
// CHECK-NOT: dynamo.detach
// CHECK: dynamo.aten "aten.mul.Tensor"(%arg0, %arg0)
func.func @main(%x: !dynamo.tensor<4xf32, [1]> {dynamo.requires_grad}) -> !dynamo.tensor<4xf32, [1]>
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.aten "aten.detach.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %1 = dynamo.aten "aten.mul.Tensor"(%x, %0) args [#dynamo.operand<0>, #dynamo.operand<1>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<4xf32, [1]>, !dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return %1 : !dynamo.tensor<4xf32, [1]>
}

// -----

// y = x * 2; with no_grad(): y.mul_(3): the new value has the old one's gradient.

// CHECK-LABEL: func.func @main
// CHECK: %[[Y:.*]] = dynamo.aten "aten.mul.Scalar"(%arg0) {{.*}}grad_enabled
// CHECK: %[[NEW:.*]] = dynamo.aten "aten.mul.Scalar"(%[[Y]])
// CHECK-NOT: grad_enabled
// CHECK: %[[H:.*]] = dynamo.history %[[NEW]] of %[[Y]] : tensor<4xf32>
// CHECK: return %[[H]]
func.func @main(%x: !dynamo.tensor<4xf32, [1]> {dynamo.requires_grad}) -> !dynamo.tensor<4xf32, [1]>
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0 = dynamo.aten "aten.mul.Scalar"(%x) args [#dynamo.operand<0>, 2] {aliases = array<i64: -1>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %1 = dynamo.aten "aten.mul_.Scalar"(%0) args [#dynamo.operand<0>, 3] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return %1 : !dynamo.tensor<4xf32, [1]>
}

// -----

// y = x * 2; y.zero_(): nothing of y remains, and its gradient is zeros.

// CHECK-LABEL: func.func @main
// CHECK: %[[Y:.*]] = dynamo.aten "aten.mul.Scalar"(%arg0)
// CHECK: %[[Z:.*]] = dynamo.full 0.0
// CHECK: %[[O:.*]] = dynamo.overwrite %[[Z]] of %[[Y]] : tensor<4xf32>
// CHECK: return %[[O]]
func.func @main(%x: !dynamo.tensor<4xf32, [1]> {dynamo.requires_grad}) -> !dynamo.tensor<4xf32, [1]>
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0 = dynamo.aten "aten.mul.Scalar"(%x) args [#dynamo.operand<0>, 2] {aliases = array<i64: -1>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %1 = dynamo.aten "aten.zero_.default"(%0) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return %1 : !dynamo.tensor<4xf32, [1]>
}

// -----

// The same for a part: with no_grad(): y[0:2].zero_(). No part of y loses its gradient.

// CHECK-LABEL: func.func @main
// CHECK: %[[Y:.*]] = dynamo.aten "aten.mul.Scalar"(%arg0)
// CHECK: %[[Z:.*]] = dynamo.full 0.0
// CHECK: %[[NEW:.*]] = dynamo.as_strided_scatter %[[Y]], %[[Z]]
// CHECK: %[[H:.*]] = dynamo.history %[[NEW]] of %[[Y]] : tensor<4xf32>
// CHECK: return %[[H]]
func.func @main(%x: !dynamo.tensor<4xf32, [1]> {dynamo.requires_grad}) -> !dynamo.tensor<4xf32, [1]>
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0 = dynamo.aten "aten.mul.Scalar"(%x) args [#dynamo.operand<0>, 2] {aliases = array<i64: -1>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %1 = dynamo.aten "aten.slice.Tensor"(%0) args [#dynamo.operand<0>, 0, 0, 2, 1] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<2xf32, [1]>
  dynamo.aten "aten.zero_.default"(%1) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<2xf32, [1]>) -> !dynamo.tensor<2xf32, [1]>
  return %0 : !dynamo.tensor<4xf32, [1]>
}

// -----

// y = x * 2; d = y.detach(); y.add_(1): d has the new value, without its gradient.

// CHECK-LABEL: func.func @main
// CHECK: %[[Y:.*]] = dynamo.aten "aten.mul.Scalar"(%arg0)
// CHECK: %[[NEW:.*]] = dynamo.aten "aten.add.Scalar"(%[[Y]])
// CHECK: %[[D:.*]] = dynamo.detach %[[NEW]]
// CHECK: dynamo.aten "aten.mul.Tensor"(%[[D]], %arg0)
func.func @main(%x: !dynamo.tensor<4xf32, [1]> {dynamo.requires_grad}) -> !dynamo.tensor<4xf32, [1]>
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0 = dynamo.aten "aten.mul.Scalar"(%x) args [#dynamo.operand<0>, 2] {aliases = array<i64: -1>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %1 = dynamo.aten "aten.detach.default"(%0) args [#dynamo.operand<0>] {aliases = array<i64: 0>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  dynamo.aten "aten.add_.Scalar"(%0) args [#dynamo.operand<0>, 1, 1] {aliases = array<i64: 0>, mutates = array<i64: 0>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %2 = dynamo.aten "aten.mul.Tensor"(%1, %x) args [#dynamo.operand<0>, #dynamo.operand<1>] {aliases = array<i64: -1>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>, !dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return %2 : !dynamo.tensor<4xf32, [1]>
}

// -----

// A derivative keeps the attributes of its arguments and results.

// CHECK-LABEL: func.func private @f_vjp
// CHECK-SAME: %{{[^:]*}}: tensor<4xf32> {dynamo.tangent = 0 : i64}) -> (tensor<4xf32> {dynamo.gradient = 0 : i64})
// CHECK-LABEL: func.func @main
func.func private @f_vjp(%x: !dynamo.tensor<4xf32, [1]>, %y: !dynamo.tensor<4xf32, [1]>, %t: !dynamo.tensor<4xf32, [1]> {dynamo.tangent = 0 : i64})
    -> (!dynamo.tensor<4xf32, [1]> {dynamo.gradient = 0 : i64}) {
  %0 = dynamo.aten "aten.mul.Tensor"(%x, %t) args [#dynamo.operand<0>, #dynamo.operand<1>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<4xf32, [1]>, !dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return %0 : !dynamo.tensor<4xf32, [1]>
}
func.func @main(%x: !dynamo.tensor<4xf32, [1]> {dynamo.requires_grad}) -> !dynamo.tensor<4xf32, [1]>
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0 = dynamo.aten "mine.f.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: -1>, grad_enabled, vjp = @f_vjp}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return %0 : !dynamo.tensor<4xf32, [1]>
}

// -----

// v = x[1:]; w = v.view_as(v); return v, w, w.sin(): w is built as a view of the output v, not of x alone, so that there is a gradient
// between the two. It has the values of v, but is a separate operation, which records that it is output 1: the gradient of the sine
// passes through it.

// CHECK-LABEL: func.func @main
// CHECK-SAME: dynamo.made_from = array<i64: -1, 0, -1>
// CHECK: %[[V:.*]] = dynamo.aten "aten.slice.Tensor"(%arg0)
// CHECK-SAME: dynamo.shown = array<i64: 0>
// CHECK: %[[W:.*]] = dynamo.aten "aten.alias.default"(%[[V]])
// CHECK-SAME: dynamo.shown = array<i64: 1>
// CHECK: dynamo.aten "aten.sin.default"(%[[W]])
func.func @main(%x: !dynamo.tensor<4xf32, [1]> {dynamo.requires_grad})
    -> (!dynamo.tensor<3xf32, [1], 1>, !dynamo.tensor<3xf32, [1], 1>, !dynamo.tensor<3xf32, [1]>)
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>, #dynamo.output<result 2>],
                dynamo.differentiable = array<i64: 0, 1, 2>} {
  %v = dynamo.aten "aten.slice.Tensor"(%x) args [#dynamo.operand<0>, 0, 1, 4, 1] {aliases = array<i64: 0>, grad_enabled}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<3xf32, [1], 1>
  %w = dynamo.aten "aten.alias.default"(%v) args [#dynamo.operand<0>] {aliases = array<i64: 0>, grad_enabled}
    : (!dynamo.tensor<3xf32, [1], 1>) -> !dynamo.tensor<3xf32, [1], 1>
  %s = dynamo.aten "aten.sin.default"(%w) args [#dynamo.operand<0>] {aliases = array<i64: -1>, grad_enabled}
    : (!dynamo.tensor<3xf32, [1], 1>) -> !dynamo.tensor<3xf32, [1]>
  return %v, %w, %s : !dynamo.tensor<3xf32, [1], 1>, !dynamo.tensor<3xf32, [1], 1>, !dynamo.tensor<3xf32, [1]>
}
