// RUN: dynamlir-opt %s --canonicalize --cse | FileCheck %s
// RUN: dynamlir-opt --help | FileCheck %s --check-prefix=HELP

// dynamlir-opt has everything that mlir-opt has, and dynamlir's passes by name with a one-line description.

// HELP-DAG: --convert-linalg-to-loops
// HELP-DAG: --one-shot-bufferize
// HELP-DAG: --dynamo-functionalize {{.*}}- {{[A-Z]}}
// HELP-DAG: --dynamo-decompose {{.*}}- {{[A-Z]}}
// HELP-DAG: --dynamo-fuse {{.*}}- {{[A-Z]}}
// HELP-DAG: --dynamo-plan {{.*}}- {{[A-Z]}}
// HELP-DAG: --dynamo-to-linalg {{.*}}- {{[A-Z]}}
// HELP-DAG: --dynamo-schedule {{.*}}- {{[A-Z]}}

// CHECK-LABEL: func.func @equal
// CHECK-NEXT: dynamo.exp
// CHECK-NEXT: return %[[E:.*]], %[[E]]
func.func @equal(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = dynamo.exp %x : tensor<4xf32>
  %1 = dynamo.exp %x : tensor<4xf32>
  %2 = dynamo.iota 0 : tensor<4xi64>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
