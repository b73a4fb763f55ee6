// RUN: dynamlir-opt %s --dynamlir-to-planned | FileCheck %s
// RUN: dynamlir-opt %s --dynamlir-to-llvm | FileCheck %s

// The effects of a call besides its values are recorded on the entry and its arguments from stage 00 to the last: no pass
// between functionalization and the runtime uses them, and none loses them.

// CHECK-LABEL: func.func @main
// CHECK-SAME: dynamo.name = "x"
// CHECK-SAME: dynamo.version_bumps = 1 : i64}
// CHECK-SAME: dynamo.name = "w"
// CHECK-SAME: dynamo.requires_grad
// CHECK-SAME: dynamo.bases = [#dynamo.base<none>, unit]
// CHECK-SAME: dynamo.entry
// CHECK-SAME: dynamo.random
// CHECK-SAME: dynamo.versions = array<i64: 2>
func.func @main(%x: !dynamo.tensor<4xf32, [1]> {dynamo.name = "x", dynamo.version_bumps = 1},
                %w: !dynamo.tensor<4xf32, [1]> {dynamo.name = "w", dynamo.requires_grad})
    -> (!dynamo.tensor<4xf32, [1]>, !dynamo.tensor<4xf32, [1]>)
    attributes {dynamo.entry, dynamo.random, dynamo.versions = array<i64: 1, 2>,
                dynamo.bases = [#dynamo.base<none>, #dynamo.base<none>],
                dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>]} {
  %0 = dynamo.aten "aten.relu_.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %1 = dynamo.aten "aten.detach.default"(%0) args [#dynamo.operand<0>] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %2 = dynamo.aten "aten.mul.Tensor"(%1, %w) args [#dynamo.operand<0>, #dynamo.operand<1>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<4xf32, [1]>, !dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return %1, %2 : !dynamo.tensor<4xf32, [1]>, !dynamo.tensor<4xf32, [1]>
}
