// RUN: dynamlir-opt %s --split-input-file --dynamo-functionalize --dynamo-verify-functional | FileCheck %s

// The result of dynamo-functionalize for each way in which tensors can share and change memory. One case per module, from
// simple to unusual.

// A view of a tensor that is never written remains an ATen op, on values. The layouts in eager become attributes.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<2x3xf32> {dynamo.name = "x", dynamo.offset = 0 : i64, dynamo.strides = array<i64: 3, 1>}
// CHECK-SAME: -> (tensor<3x2xf32> {dynamo.strides = array<i64: 2, 1>})
// CHECK-SAME: dynamo.outputs = [#dynamo.output<result 0>]
// CHECK: %[[T:.*]] = dynamo.aten "aten.t.default"(%[[X]]) args [#dynamo.operand<0>] {operand_strides = [array<i64: 3, 1>], result_strides = [array<i64: 1, 3>]}
// CHECK: dynamo.aten "aten.relu.default"(%[[T]])
// CHECK-SAME: operand_strides = [array<i64: 1, 3>]
func.func @main(%x: !dynamo.tensor<2x3xf32, [3, 1]> {dynamo.name = "x"}) -> !dynamo.tensor<3x2xf32, [2, 1]>
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.aten "aten.t.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 0>}
    : (!dynamo.tensor<2x3xf32, [3, 1]>) -> !dynamo.tensor<3x2xf32, [1, 3]>
  %1 = dynamo.aten "aten.relu.default"(%0) args [#dynamo.operand<0>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<3x2xf32, [1, 3]>) -> !dynamo.tensor<3x2xf32, [2, 1]>
  return %1 : !dynamo.tensor<3x2xf32, [2, 1]>
}

// -----

// An in-place op on an argument returns the new value as a mutation of the argument. Its result is the argument
// object itself.

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.strides = array<i64: 1>, dynamo.version_bumps = 1 : i64},
// CHECK-SAME: %[[Y:.*]]: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.strides = array<i64: 1>})
// CHECK-SAME: -> (tensor<4xf32> {dynamo.mutates = 0 : i64})
// CHECK-SAME: dynamo.outputs = [#dynamo.output<arg 0>, #dynamo.output<none>]
// CHECK: %[[NEW:.*]] = dynamo.aten "aten.add.Tensor"(%[[X]], %[[Y]]) args [#dynamo.operand<0>, #dynamo.operand<1>, 1]
// CHECK: return %[[NEW]]
func.func @main(%x: !dynamo.tensor<4xf32, [1]>, %y: !dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<none>]} {
  %0 = dynamo.aten "aten.add_.Tensor"(%x, %y) args [#dynamo.operand<0>, #dynamo.operand<1>, 1]
    {aliases = array<i64: 0>, mutates = array<i64: 0>, functional = "aten.add.Tensor"}
    : (!dynamo.tensor<4xf32, [1]>, !dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return %0 : !dynamo.tensor<4xf32, [1]>
}

// -----

// On a new tensor nothing of it remains visible, except that the version counter was bumped.

// CHECK-LABEL: func.func @main
// CHECK-SAME: -> (tensor<4xf32> {dynamo.strides = array<i64: 1>})
// CHECK-SAME: dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<same 0>]
// CHECK-SAME: dynamo.versions = array<i64: 1>
// CHECK: %[[SIN:.*]] = dynamo.aten "aten.sin.default"
// CHECK: %[[RELU:.*]] = dynamo.aten "aten.relu.default"(%[[SIN]])
// CHECK: return %[[RELU]]
func.func @main(%x: !dynamo.tensor<4xf32, [1]>) -> (!dynamo.tensor<4xf32, [1]>, !dynamo.tensor<4xf32, [1]>)
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>]} {
  %0 = dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %1 = dynamo.aten "aten.relu_.default"(%0) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return %0, %1 : !dynamo.tensor<4xf32, [1]>, !dynamo.tensor<4xf32, [1]>
}

// -----

// y = x.sin(); y.view(2, 2).relu_(); return y.  A write through a view is a write to the base.

// CHECK-LABEL: func.func @main
// CHECK: %[[SIN:.*]] = dynamo.aten "aten.sin.default"
// CHECK: %[[VIEW:.*]] = dynamo.reshape %[[SIN]] : tensor<4xf32> -> tensor<2x2xf32>
// CHECK: %[[RELU:.*]] = dynamo.aten "aten.relu.default"(%[[VIEW]])
// CHECK: %[[BACK:.*]] = dynamo.reshape %[[RELU]] : tensor<2x2xf32> -> tensor<4xf32>
// CHECK: return %[[BACK]]
func.func @main(%x: !dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]> attributes {dynamo.entry} {
  %0 = dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %1 = dynamo.aten "aten.view.default"(%0) args [#dynamo.operand<0>, [2, 2]] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<2x2xf32, [2, 1]>
  %2 = dynamo.aten "aten.relu_.default"(%1) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<2x2xf32, [2, 1]>) -> !dynamo.tensor<2x2xf32, [2, 1]>
  return %0 : !dynamo.tensor<4xf32, [1]>
}

// -----

// x[1:3] = y; return x.t() + 1.  The view created before the write reflects it: it is read when it is used.

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<4x3xf32> {{.*}}, %[[Y:.*]]: tensor<2x3xf32> {{.*}}) -> (tensor<3x4xf32> {dynamo.strides = array<i64: 1, 3>}, tensor<4x3xf32> {dynamo.mutates = 0 : i64})
// CHECK: %[[NEW:.*]] = dynamo.as_strided_scatter %[[X]], %[[Y]] strides [3, 1] offset 3
// CHECK: %[[T:.*]] = dynamo.permute %[[NEW]] dims [1, 0]
// CHECK: %[[SUM:.*]] = dynamo.aten "aten.add.Scalar"(%[[T]])
// CHECK: return %[[SUM]], %[[NEW]]
func.func @main(%x: !dynamo.tensor<4x3xf32, [3, 1]>, %y: !dynamo.tensor<2x3xf32, [3, 1]>) -> !dynamo.tensor<3x4xf32, [1, 3]>
    attributes {dynamo.entry} {
  %0 = dynamo.aten "aten.t.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4x3xf32, [3, 1]>) -> !dynamo.tensor<3x4xf32, [1, 3]>
  %1 = dynamo.aten "aten.slice.Tensor"(%x) args [#dynamo.operand<0>, 0, 1, 3, 1] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4x3xf32, [3, 1]>) -> !dynamo.tensor<2x3xf32, [3, 1], 3>
  %2 = dynamo.aten "aten.copy_.default"(%1, %y) args [#dynamo.operand<0>, #dynamo.operand<1>, false]
    {aliases = array<i64: 0>, mutates = array<i64: 0>, functional = "aten.copy.default"}
    : (!dynamo.tensor<2x3xf32, [3, 1], 3>, !dynamo.tensor<2x3xf32, [3, 1]>) -> !dynamo.tensor<2x3xf32, [3, 1], 3>
  %3 = dynamo.aten "aten.add.Scalar"(%0) args [#dynamo.operand<0>, 1, 1] {aliases = array<i64: -1>}
    : (!dynamo.tensor<3x4xf32, [1, 3]>) -> !dynamo.tensor<3x4xf32, [1, 3]>
  return %3 : !dynamo.tensor<3x4xf32, [1, 3]>
}

// -----

// Views of views, directly to the base: x.view(6, 4)[::2].t() of a 24-element x takes the first four of each eight.
// `fill_` keeps nothing of the old value, so no old value is read.

// CHECK-LABEL: func.func @main
// CHECK: %[[SIN:.*]] = dynamo.aten "aten.sin.default"
// CHECK: %[[FULL:.*]] = dynamo.full 5.000000e-01 : f32 -> tensor<3xf32>
// CHECK: %[[NEW:.*]] = dynamo.as_strided_scatter %[[SIN]], %[[FULL]] strides [8] offset 1
// CHECK: %[[PAIRS:.*]] = dynamo.reshape %[[NEW]] : tensor<24xf32> -> tensor<3x8xf32>
// CHECK: %[[EVEN:.*]] = dynamo.slice %[[PAIRS]] starts [0, 0] steps [1, 1] : tensor<3x8xf32> -> tensor<3x4xf32>
// CHECK: %[[T:.*]] = dynamo.permute %[[EVEN]] dims [1, 0]
// CHECK: dynamo.aten "aten.exp.default"(%[[T]])
func.func @main(%a: !dynamo.tensor<24xf32, [1]>) -> !dynamo.tensor<4x3xf32, [1, 4]> attributes {dynamo.entry} {
  %x = dynamo.aten "aten.sin.default"(%a) args [#dynamo.operand<0>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<24xf32, [1]>) -> !dynamo.tensor<24xf32, [1]>
  %0 = dynamo.aten "aten.view.default"(%x) args [#dynamo.operand<0>, [6, 4]] {aliases = array<i64: 0>}
    : (!dynamo.tensor<24xf32, [1]>) -> !dynamo.tensor<6x4xf32, [4, 1]>
  %1 = dynamo.aten "aten.slice.Tensor"(%0) args [#dynamo.operand<0>, 0, 0, 6, 2] {aliases = array<i64: 0>}
    : (!dynamo.tensor<6x4xf32, [4, 1]>) -> !dynamo.tensor<3x4xf32, [8, 1]>
  %2 = dynamo.aten "aten.t.default"(%1) args [#dynamo.operand<0>] {aliases = array<i64: 0>}
    : (!dynamo.tensor<3x4xf32, [8, 1]>) -> !dynamo.tensor<4x3xf32, [1, 8]>
  %3 = dynamo.aten "aten.select.int"(%2) args [#dynamo.operand<0>, 0, 1] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4x3xf32, [1, 8]>) -> !dynamo.tensor<3xf32, [8], 1>
  %4 = dynamo.aten "aten.fill_.Scalar"(%3) args [#dynamo.operand<0>, 0.5] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<3xf32, [8], 1>) -> !dynamo.tensor<3xf32, [8], 1>
  %5 = dynamo.aten "aten.exp.default"(%2) args [#dynamo.operand<0>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<4x3xf32, [1, 8]>) -> !dynamo.tensor<4x3xf32, [1, 4]>
  return %5 : !dynamo.tensor<4x3xf32, [1, 4]>
}

// -----

// A diagonal is not a slice of any reshape: it needs as_strided.

// CHECK-LABEL: func.func @main
// CHECK: %[[OLD:.*]] = dynamo.as_strided %[[X:.*]] strides [4] offset 0 : tensor<3x3xf32> -> tensor<3xf32>
// CHECK: %[[NEW:.*]] = dynamo.aten "aten.neg.default"(%[[OLD]])
// CHECK: dynamo.as_strided_scatter %[[X]], %[[NEW]] strides [4] offset 0
func.func @main(%x: !dynamo.tensor<3x3xf32, [3, 1]>) attributes {dynamo.entry} {
  %0 = dynamo.aten "aten.diagonal.default"(%x) args [#dynamo.operand<0>, 0, 0, 1] {aliases = array<i64: 0>}
    : (!dynamo.tensor<3x3xf32, [3, 1]>) -> !dynamo.tensor<3xf32, [4]>
  %1 = dynamo.aten "aten.neg_.default"(%0) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<3xf32, [4]>) -> !dynamo.tensor<3xf32, [4]>
  return
}

// -----

// Two arguments on one storage, one a row of the other. The one that covers everything is written, once.

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%{{.*}}: tensor<3xf32> {dynamo.offset = 3 : i64, dynamo.storage = 0 : i64, {{.*}}}, %[[ALL:.*]]: tensor<2x3xf32>
// CHECK-SAME: -> (tensor<3xf32> {dynamo.strides = array<i64: 1>}, tensor<2x3xf32> {dynamo.mutates = 1 : i64})
// CHECK: %[[NEG:.*]] = dynamo.aten "aten.neg.default"(%[[ALL]])
// CHECK: %[[PART:.*]] = dynamo.slice %[[NEG]] starts [1, 0] steps [1, 1] : tensor<2x3xf32> -> tensor<1x3xf32>
// CHECK: %[[ROW:.*]] = dynamo.reshape %[[PART]] : tensor<1x3xf32> -> tensor<3xf32>
// CHECK: %[[SIN:.*]] = dynamo.aten "aten.sin.default"(%[[ROW]])
// CHECK: return %[[SIN]], %[[NEG]]
func.func @main(%row: !dynamo.tensor<3xf32, [1], 3> {dynamo.storage = 0}, %all: !dynamo.tensor<2x3xf32, [3, 1]> {dynamo.storage = 0})
    -> !dynamo.tensor<3xf32, [1]> attributes {dynamo.entry} {
  %0 = dynamo.aten "aten.neg_.default"(%all) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<2x3xf32, [3, 1]>) -> !dynamo.tensor<2x3xf32, [3, 1]>
  %1 = dynamo.aten "aten.sin.default"(%row) args [#dynamo.operand<0>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<3xf32, [1], 3>) -> !dynamo.tensor<3xf32, [1]>
  return %1 : !dynamo.tensor<3xf32, [1]>
}

// -----

// Arguments that overlap without one covering the other: both are gathered into one range of memory, and both are written.

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[LOW:.*]]: tensor<4xf32> {{.*}}, %[[HIGH:.*]]: tensor<4xf32> {{.*}}) -> (tensor<4xf32> {dynamo.mutates = 0 : i64}, tensor<4xf32> {dynamo.mutates = 1 : i64})
// CHECK: %[[ZERO:.*]] = dynamo.full 0.0{{.*}} -> tensor<6xf32>
// CHECK: %[[HALF:.*]] = dynamo.as_strided_scatter %[[ZERO]], %[[LOW]] strides [1] offset 0
// CHECK: %[[ALL:.*]] = dynamo.as_strided_scatter %[[HALF]], %[[HIGH]] strides [1] offset 2
// CHECK: dynamo.slice %[[ALL]] starts [0]
// CHECK: %[[NEG:.*]] = dynamo.aten "aten.neg.default"
// CHECK: %[[NEW:.*]] = dynamo.as_strided_scatter %[[ALL]], %[[NEG]] strides [1] offset 0
// CHECK: %[[NEWHIGH:.*]] = dynamo.slice %[[NEW]] starts [2]
// CHECK: return %[[NEG]], %[[NEWHIGH]]
func.func @main(%low: !dynamo.tensor<4xf32, [1]> {dynamo.storage = 0}, %high: !dynamo.tensor<4xf32, [1], 2> {dynamo.storage = 0})
    attributes {dynamo.entry} {
  %0 = dynamo.aten "aten.neg_.default"(%low) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return
}

// -----

// Neighbours in one storage that do not overlap are independent: the second is not written.

// CHECK-LABEL: func.func @main
// CHECK-SAME: -> (tensor<3xf32> {dynamo.mutates = 0 : i64})
// CHECK-NEXT: dynamo.aten "aten.neg.default"(%arg0)
// CHECK-NEXT: return
func.func @main(%a: !dynamo.tensor<3xf32, [1]> {dynamo.storage = 0}, %b: !dynamo.tensor<3xf32, [1], 3> {dynamo.storage = 0})
    attributes {dynamo.entry} {
  %0 = dynamo.aten "aten.neg_.default"(%a) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<3xf32, [1]>) -> !dynamo.tensor<3xf32, [1]>
  return
}

// -----

// A column of a larger tensor: the graph cannot access the memory between its elements.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<4xf32> {dynamo.offset = 1 : i64, dynamo.strides = array<i64: 5>, dynamo.version_bumps = 1 : i64}
// CHECK: %[[PART:.*]] = dynamo.slice %[[X]] starts [2] steps [1] : tensor<4xf32> -> tensor<2xf32>
// CHECK: %[[NEG:.*]] = dynamo.aten "aten.neg.default"(%[[PART]])
// CHECK: dynamo.as_strided_scatter %[[X]], %[[NEG]] strides [1] offset 2
func.func @main(%x: !dynamo.tensor<4xf32, [5], 1>) attributes {dynamo.entry} {
  %0 = dynamo.aten "aten.slice.Tensor"(%x) args [#dynamo.operand<0>, 0, 2, 4, 1] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [5], 1>) -> !dynamo.tensor<2xf32, [5], 11>
  %1 = dynamo.aten "aten.neg_.default"(%0) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<2xf32, [5], 11>) -> !dynamo.tensor<2xf32, [5], 11>
  return
}

// -----

// Outputs: a view of an input, a detached input (another object), a new tensor visible only through a view, and another view of it.

// CHECK-LABEL: func.func @main
// CHECK-SAME: -> (tensor<4xf32> {dynamo.strides = array<i64: 1>})
// CHECK-SAME: #dynamo.output<arg_view 0, [2], [1], 6>
// CHECK-SAME: #dynamo.output<arg_view 0, [4], [1], 4>
// CHECK-SAME: #dynamo.output<result_view 0, [2, 2], [2, 1], 0>
// CHECK-SAME: #dynamo.output<result_view 0, [2, 2], [1, 2], 0>
// CHECK-NEXT: %[[SIN:.*]] = dynamo.aten "aten.sin.default"
// CHECK-NEXT: return %[[SIN]]
func.func @main(%x: !dynamo.tensor<4xf32, [1], 4>)
    -> (!dynamo.tensor<2xf32, [1], 6>, !dynamo.tensor<4xf32, [1], 4>, !dynamo.tensor<2x2xf32, [2, 1]>, !dynamo.tensor<2x2xf32, [1, 2]>)
    attributes {dynamo.entry} {
  %0 = dynamo.aten "aten.slice.Tensor"(%x) args [#dynamo.operand<0>, 0, 2, 4, 1] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1], 4>) -> !dynamo.tensor<2xf32, [1], 6>
  %1 = dynamo.aten "aten.detach.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1], 4>) -> !dynamo.tensor<4xf32, [1], 4>
  %2 = dynamo.aten "aten.sin.default"(%1) args [#dynamo.operand<0>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<4xf32, [1], 4>) -> !dynamo.tensor<4xf32, [1]>
  %3 = dynamo.aten "aten.view.default"(%2) args [#dynamo.operand<0>, [2, 2]] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<2x2xf32, [2, 1]>
  %4 = dynamo.aten "aten.t.default"(%3) args [#dynamo.operand<0>] {aliases = array<i64: 0>}
    : (!dynamo.tensor<2x2xf32, [2, 1]>) -> !dynamo.tensor<2x2xf32, [1, 2]>
  return %0, %1, %3, %4
    : !dynamo.tensor<2xf32, [1], 6>, !dynamo.tensor<4xf32, [1], 4>, !dynamo.tensor<2x2xf32, [2, 1]>, !dynamo.tensor<2x2xf32, [1, 2]>
}

// -----

// Batch normalization in training writes two operands. The functional variant returns first the new tensors, then the
// new running statistics. A constant output passes through.

// CHECK-LABEL: func.func @main
// CHECK-SAME: dynamo.version_bumps = 1 : i64}
// CHECK-SAME: dynamo.version_bumps = 1 : i64})
// CHECK-SAME: -> (tensor<2x3xf32> {dynamo.strides = array<i64: 3, 1>}, tensor<3xf32> {dynamo.mutates = 1 : i64}, tensor<3xf32> {dynamo.mutates = 2 : i64})
// CHECK-SAME: dynamo.outputs = [#dynamo.output<constant 7>, #dynamo.output<result 0>]
// CHECK: %[[BN:.*]]:5 = dynamo.aten "aten._native_batch_norm_legit_functional.default"(%arg0, %arg1, %arg2)
// CHECK-SAME: result_strides = [array<i64: 3, 1>, array<i64: 1>, array<i64: 1>, array<i64: 1>, array<i64: 1>]
// CHECK: return %[[BN]]#0, %[[BN]]#3, %[[BN]]#4
func.func @main(%x: !dynamo.tensor<2x3xf32, [3, 1]>, %mean: !dynamo.tensor<3xf32, [1]>, %var: !dynamo.tensor<3xf32, [1]>)
    -> !dynamo.tensor<2x3xf32, [3, 1]> attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<constant 7>, #dynamo.output<result 0>]} {
  %0:3 = dynamo.aten "aten.native_batch_norm.default"(%x, %mean, %var)
    args [#dynamo.operand<0>, unit, unit, #dynamo.operand<1>, #dynamo.operand<2>, true, 0.1, 1.0e-5]
    {aliases = array<i64: -1, -1, -1>, mutates = array<i64: 1, 2>, functional = "aten._native_batch_norm_legit_functional.default"}
    : (!dynamo.tensor<2x3xf32, [3, 1]>, !dynamo.tensor<3xf32, [1]>, !dynamo.tensor<3xf32, [1]>)
    -> (!dynamo.tensor<2x3xf32, [3, 1]>, !dynamo.tensor<3xf32, [1]>, !dynamo.tensor<3xf32, [1]>)
  return %0#0 : !dynamo.tensor<2x3xf32, [3, 1]>
}

// -----

// torch.add(x, y, out=x): the out tensor is no longer an out argument, but remains an operand.

// CHECK-LABEL: func.func @main
// CHECK: %[[NEW:.*]] = dynamo.aten "aten.add.Tensor"(%arg0, %arg1) args [#dynamo.operand<0>, #dynamo.operand<1>, 1]
// CHECK: return %[[NEW]]
func.func @main(%x: !dynamo.tensor<4xf32, [1]>, %y: !dynamo.tensor<4xf32, [1]>) attributes {dynamo.entry} {
  %0 = dynamo.aten "aten.add.out"(%x, %y, %x) args [#dynamo.operand<0>, #dynamo.operand<1>, 1, #dynamo.operand<2>]
    {aliases = array<i64: 0>, mutates = array<i64: 0, 2>, functional = "aten.add.Tensor"}
    : (!dynamo.tensor<4xf32, [1]>, !dynamo.tensor<4xf32, [1]>, !dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return
}

// -----

// _foreach_ ops write each tensor of a list.

// CHECK-LABEL: func.func @main
// CHECK: %[[NEW:.*]]:2 = dynamo.aten "aten._foreach_mul.Scalar"(%arg0, %arg1) args {{\[\[}}#dynamo.operand<0>, #dynamo.operand<1>], 2]
// CHECK: return %[[NEW]]#0, %[[NEW]]#1
func.func @main(%x: !dynamo.tensor<4xf32, [1]>, %y: !dynamo.tensor<2xf32, [1]>) attributes {dynamo.entry} {
  dynamo.aten "aten._foreach_mul_.Scalar"(%x, %y) args [[#dynamo.operand<0>, #dynamo.operand<1>], 2] {mutates = array<i64: 0, 1>}
    : (!dynamo.tensor<4xf32, [1]>, !dynamo.tensor<2xf32, [1]>) -> ()
  return
}

// -----

// as_strided counts from the start of the storage, which a value does not have: it is always resolved.

// CHECK-LABEL: func.func @main
// CHECK: %[[W:.*]] = dynamo.as_strided %arg0 strides [1, 1] offset 1 : tensor<6xf32> -> tensor<4x2xf32>
// CHECK: dynamo.aten "aten.sin.default"(%[[W]])
func.func @main(%x: !dynamo.tensor<6xf32, [1], 2>) -> !dynamo.tensor<4x2xf32, [2, 1]> attributes {dynamo.entry} {
  %0 = dynamo.aten "aten.as_strided.default"(%x) args [#dynamo.operand<0>, [4, 2], [1, 1], 3] {aliases = array<i64: 0>}
    : (!dynamo.tensor<6xf32, [1], 2>) -> !dynamo.tensor<4x2xf32, [1, 1], 3>
  %1 = dynamo.aten "aten.sin.default"(%0) args [#dynamo.operand<0>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<4x2xf32, [1, 1], 3>) -> !dynamo.tensor<4x2xf32, [2, 1]>
  return %1 : !dynamo.tensor<4x2xf32, [2, 1]>
}

// -----

// Operators whose results are not used remain: eager runs them, and they may raise or draw random numbers. dynamo-decompose
// knows which operators do neither.

// CHECK-LABEL: func.func @main
// CHECK: dynamo.aten "aten.sin.default"
// CHECK: dynamo.aten "aten.rand_like.default"
// CHECK-NEXT: return
func.func @main(%x: !dynamo.tensor<4xf32, [1]>) attributes {dynamo.entry} {
  %0 = dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %1 = dynamo.aten "aten.rand_like.default"(%x) args [#dynamo.operand<0>, unit, unit, unit, unit, unit]
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return
}

// -----

// A decomposition is a function of values: its boundary has neither outputs, mutations nor layouts. It may write to tensors
// that it creates itself. The op that names it still does so.

// CHECK-LABEL: func.func @main
// CHECK: dynamo.aten "aten.clamp_zero.default"
// CHECK-SAME: decomposition = @clamp_zero
// CHECK-LABEL: func.func private @clamp_zero(%arg0: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT: %[[SIN:.*]] = dynamo.aten "aten.sin.default"(%arg0)
// CHECK-NEXT: %[[RELU:.*]] = dynamo.aten "aten.relu.default"(%[[SIN]])
// CHECK-NEXT: return %[[RELU]]
func.func @main(%x: !dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]> attributes {dynamo.entry} {
  %0 = dynamo.aten "aten.clamp_zero.default"(%x) args [#dynamo.operand<0>] {decomposition = @clamp_zero}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return %0 : !dynamo.tensor<4xf32, [1]>
}
func.func private @clamp_zero(%x: !dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]> {
  %0 = dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %1 = dynamo.aten "aten.relu_.default"(%0) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return %0 : !dynamo.tensor<4xf32, [1]>
}
