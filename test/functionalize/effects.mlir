// RUN: dynamlir-opt %s --split-input-file --dynamo-functionalize --dynamo-verify-functional | FileCheck %s

// The effects of a call besides its values, as dynamo-functionalize records them: the bases of outputs, the version counters of
// tensors, random numbers, required gradients.

// A view of an argument is built as a view of it, and a view of a result that is also returned as a view of that. If eager
// has the same bases, they need not be recorded.

// CHECK-LABEL: func.func @main
// CHECK-NOT: dynamo.bases
// CHECK-SAME: dynamo.outputs = [#dynamo.output<arg_view 0, [4], [1], 0>, #dynamo.output<result_view 0, [4], [1], 0>,
// CHECK-SAME: #dynamo.output<result 0>, #dynamo.output<none>]}
// CHECK-NOT: dynamo.bases
func.func @main(%x: !dynamo.tensor<2x2xf32, [2, 1]>)
    -> (!dynamo.tensor<4xf32, [1]>, !dynamo.tensor<4xf32, [1]>, !dynamo.tensor<2x2xf32, [2, 1]>)
    attributes {dynamo.entry, dynamo.versions = array<i64: 0, 0, 0>,
                dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>, #dynamo.output<result 2>, #dynamo.output<none>],
                dynamo.bases = [#dynamo.base<arg 0>, #dynamo.base<output 2>, #dynamo.base<none>, #dynamo.base<none>]} {
  %0 = dynamo.aten "aten.view.default"(%x) args [#dynamo.operand<0>, [4]] {aliases = array<i64: 0>}
    : (!dynamo.tensor<2x2xf32, [2, 1]>) -> !dynamo.tensor<4xf32, [1]>
  %1 = dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<2x2xf32, [2, 1]>) -> !dynamo.tensor<2x2xf32, [2, 1]>
  %2 = dynamo.aten "aten.view.default"(%1) args [#dynamo.operand<0>, [4]] {aliases = array<i64: 0>}
    : (!dynamo.tensor<2x2xf32, [2, 1]>) -> !dynamo.tensor<4xf32, [1]>
  return %0, %2, %1 : !dynamo.tensor<4xf32, [1]>, !dynamo.tensor<4xf32, [1]>, !dynamo.tensor<2x2xf32, [2, 1]>
}

// -----

// Views of a tensor that is not returned share it, and it has the number of the first of them: nothing to record either.

// CHECK-LABEL: func.func @main
// CHECK-NOT: dynamo.bases
// CHECK-SAME: dynamo.outputs = [#dynamo.output<result_view 0, [2], [1], 0>, #dynamo.output<result_view 0, [2], [1], 2>]}
func.func @main(%x: !dynamo.tensor<4xf32, [1]>) -> (!dynamo.tensor<2xf32, [1]>, !dynamo.tensor<2xf32, [1], 2>)
    attributes {dynamo.entry, dynamo.versions = array<i64: 0, 0>, dynamo.bases = [#dynamo.base<hidden 0>, #dynamo.base<hidden 0>]} {
  %0 = dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %1:2 = dynamo.aten "aten.split.Tensor"(%0) args [#dynamo.operand<0>, 2, 0] {aliases = array<i64: 0, 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> (!dynamo.tensor<2xf32, [1]>, !dynamo.tensor<2xf32, [1], 2>)
  return %1#0, %1#1 : !dynamo.tensor<2xf32, [1]>, !dynamo.tensor<2xf32, [1], 2>
}

// -----

// d = x.detach(); return x[:2], d[:2], d.  All three are built as views of x, but detach() breaks the chain: bases that
// differ in eager are recorded, and `unit` marks outputs that have the right base as they are built.

// CHECK-LABEL: func.func @main
// CHECK-SAME: dynamo.bases = [unit, #dynamo.base<output 2>, #dynamo.base<none>]
// CHECK-SAME: dynamo.outputs = [#dynamo.output<arg_view 0, [2], [1], 0>, #dynamo.output<arg_view 0, [2], [1], 0>, #dynamo.output<arg_view 0, [4], [1], 0>]
func.func @main(%x: !dynamo.tensor<4xf32, [1]>) -> (!dynamo.tensor<2xf32, [1]>, !dynamo.tensor<2xf32, [1]>, !dynamo.tensor<4xf32, [1]>)
    attributes {dynamo.entry, dynamo.versions = array<i64: 0, 0, 0>,
                dynamo.bases = [#dynamo.base<arg 0>, #dynamo.base<output 2>, #dynamo.base<none>]} {
  %0 = dynamo.aten "aten.slice.Tensor"(%x) args [#dynamo.operand<0>, 0, 0, 2, 1] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<2xf32, [1]>
  %1 = dynamo.aten "aten.detach.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %2 = dynamo.aten "aten.slice.Tensor"(%1) args [#dynamo.operand<0>, 0, 0, 2, 1] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<2xf32, [1]>
  return %0, %2, %1 : !dynamo.tensor<2xf32, [1]>, !dynamo.tensor<2xf32, [1]>, !dynamo.tensor<4xf32, [1]>
}

// -----

// The same object twice: the second output is the first one, with all its properties.

// CHECK-LABEL: func.func @main
// CHECK-SAME: dynamo.bases = [#dynamo.base<none>, unit]
// CHECK-SAME: dynamo.outputs = [#dynamo.output<arg_view 0, [4], [1], 0>, #dynamo.output<same 0>]
func.func @main(%x: !dynamo.tensor<4xf32, [1]>) -> (!dynamo.tensor<4xf32, [1]>, !dynamo.tensor<4xf32, [1]>)
    attributes {dynamo.entry, dynamo.versions = array<i64: 0, 0>, dynamo.bases = [#dynamo.base<none>, #dynamo.base<none>]} {
  %0 = dynamo.aten "aten.detach.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return %0, %0 : !dynamo.tensor<4xf32, [1]>, !dynamo.tensor<4xf32, [1]>
}

// -----

// A detached tensor whose original is not visible is the original itself: there is no second tensor. The other one is built as a view.

// CHECK-LABEL: func.func @main
// CHECK-SAME: dynamo.bases = [unit, #dynamo.base<none>]
// CHECK-SAME: dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result_view 0, [4], [1], 0>]
func.func @main(%x: !dynamo.tensor<4xf32, [1]>) -> (!dynamo.tensor<4xf32, [1]>, !dynamo.tensor<4xf32, [1]>)
    attributes {dynamo.entry, dynamo.versions = array<i64: 0, 0>, dynamo.bases = [#dynamo.base<none>, #dynamo.base<none>]} {
  %0 = dynamo.aten "aten.neg.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %1 = dynamo.aten "aten.detach.default"(%0) args [#dynamo.operand<0>] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %2 = dynamo.aten "aten.detach.default"(%0) args [#dynamo.operand<0>] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return %1, %2 : !dynamo.tensor<4xf32, [1]>, !dynamo.tensor<4xf32, [1]>
}

// -----

// All views of one storage share one version counter: the largest number that was recorded for it. For the argument that is written,
// and for its view, the argument has the number; a result that is written into an argument has none.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %arg0: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>, dynamo.version_bumps = 5 : i64})
// CHECK-SAME: -> (tensor<4xf32> {dynamo.strides = array<i64: 1>}, tensor<4xf32> {dynamo.strides = array<i64: 1>}, tensor<4xf32> {dynamo.mutates = 0 : i64})
// CHECK-SAME: dynamo.random
// CHECK-SAME: dynamo.versions = array<i64: 3, 0>
func.func @main(%x: !dynamo.tensor<4xf32, [1]> {dynamo.version_bumps = 5, dynamo.requires_grad})
    -> (!dynamo.tensor<4xf32, [1]>, !dynamo.tensor<2x2xf32, [2, 1]>, !dynamo.tensor<4xf32, [1]>, !dynamo.tensor<2x2xf32, [2, 1]>)
    attributes {dynamo.entry, dynamo.random, dynamo.versions = array<i64: 2, 3, 0, 7>} {
  %0 = dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %1 = dynamo.aten "aten.view.default"(%0) args [#dynamo.operand<0>, [2, 2]] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<2x2xf32, [2, 1]>
  %2 = dynamo.aten "aten.cos.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %3 = dynamo.aten "aten.relu_.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %4 = dynamo.aten "aten.view.default"(%3) args [#dynamo.operand<0>, [2, 2]] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<2x2xf32, [2, 1]>
  return %0, %1, %2, %4 : !dynamo.tensor<4xf32, [1]>, !dynamo.tensor<2x2xf32, [2, 1]>, !dynamo.tensor<4xf32, [1]>, !dynamo.tensor<2x2xf32, [2, 1]>
}

// -----

// A text without `dynamo.versions` does not record counters: then the writes in it are counted. Arguments that share a
// storage share its counter, so one of them has it.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %arg0: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.storage = 1 : i64, dynamo.strides = array<i64: 1>, dynamo.version_bumps = 2 : i64}
// CHECK-SAME: %arg1: tensor<2xf32> {dynamo.offset = 0 : i64, dynamo.storage = 1 : i64, dynamo.strides = array<i64: 1>})
func.func @main(%x: !dynamo.tensor<4xf32, [1]> {dynamo.storage = 1}, %y: !dynamo.tensor<2xf32, [1]> {dynamo.storage = 1}) attributes {dynamo.entry} {
  %0 = dynamo.aten "aten.relu_.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %1 = dynamo.aten "aten.relu_.default"(%y) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<2xf32, [1]>) -> !dynamo.tensor<2xf32, [1]>
  return
}

// -----

// If versions were recorded, the writes are not counted: eager did not count this write.

// CHECK-LABEL: func.func @main
// CHECK-NOT: dynamo.version_bumps
// CHECK: return
func.func @main(%x: !dynamo.tensor<4xf32, [1]>) attributes {dynamo.entry, dynamo.versions = array<i64>} {
  %0 = dynamo.aten "aten.relu_.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return
}
