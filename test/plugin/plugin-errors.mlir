// RUN: not mlir-opt --load-dialect-plugin=%plugin --load-pass-plugin=%plugin %s --dynamo-functionalize 2>&1 | FileCheck %s
// RUN: not dynamlir-opt %s --dynamo-functionalize 2>&1 | FileCheck %s

// An error in a pass is a diagnostic at the Python line that the location names, and exit code 1.

// CHECK: model.py:12:5: error: no functional variant of aten.scramble.default
func.func @main(%x: !dynamo.tensor<3xf32, [1]>) attributes {dynamo.entry, dynamo.outputs = []} {
  dynamo.aten "aten.scramble.default"(%x) args [#dynamo.operand<0>] {mutates = array<i64: 0>}
    : (!dynamo.tensor<3xf32, [1]>) -> () loc("model.py":12:5)
  return
}
