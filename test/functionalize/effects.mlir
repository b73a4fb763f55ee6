// RUN: dynamlir-opt %s --split-input-file --dynamo-functionalize --dynamo-verify-functional | FileCheck %s

// What dynamo-functionalize makes of what a call does beside its values: what outputs are views of, how often tensors count
// as written, random numbers, gradients that are wanted.

// A view of an argument is made as one, and a view of a result that is returned as well is made as one of that. Where eager
// has the same, there is nothing to say any more.

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

// Views of a tensor that is not returned share it, and the first of them has its number: nothing to say either.

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

// d = x.detach(); return x[:2], d[:2], d.  All three are made as views of x, but detach() breaks the chain: what eager has
// otherwise stays, and `unit` stands for what is as it is made.

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

// The same object twice is that: whatever is done about the first holds for it too.

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

// What is detached of what nobody sees is that itself: there is no second tensor. The other one that shows it is made as a view.

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

// What shows one storage has one version counter: the largest number that was recorded of it. Of the argument that is written,
// and of its view, the argument's own number tells; a result that goes into an argument has none.

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

// A text without `dynamo.versions` says nothing of counters: then the writes in it are counted. Arguments that share a
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

// Where versions were recorded, eager's counting is not ours to guess: this write was not counted.

// CHECK-LABEL: func.func @main
// CHECK-NOT: dynamo.version_bumps
// CHECK: return
func.func @main(%x: !dynamo.tensor<4xf32, [1]>) attributes {dynamo.entry, dynamo.versions = array<i64>} {
  %0 = dynamo.aten "aten.relu_.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return
}
