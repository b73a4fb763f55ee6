// RUN: mlir-opt --load-dialect-plugin=%plugin --load-pass-plugin=%plugin %s --dynamo-functionalize --dynamo-verify-functional \
// RUN:   | FileCheck %s
// RUN: mlir-opt --load-pass-plugin=%plugin --load-dialect-plugin=%plugin %s \
// RUN:   --pass-pipeline='builtin.module(dynamo-functionalize,canonicalize)' | FileCheck %s

// The distribution's own mlir-opt runs dynamlir's passes, alone and between its own, on a hand-written file.

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>
// CHECK: %[[Y:.*]] = dynamo.aten "aten.add.Tensor"(%[[X]]) args [#dynamo.operand<0>, 1, 1]
// CHECK-NEXT: return %[[Y]]
func.func @main(%x: !dynamo.tensor<4xf32, [1]> {dynamo.name = "x"}) -> !dynamo.tensor<4xf32, [1]>
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.aten "aten.add_.Tensor"(%x) args [#dynamo.operand<0>, 1, 1]
    {aliases = array<i64: 0>, mutates = array<i64: 0>, functional = "aten.add.Tensor"}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return %0 : !dynamo.tensor<4xf32, [1]>
}
