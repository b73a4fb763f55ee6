// RUN: dynamlir-opt %s --split-input-file --dynamo-partition | FileCheck %s
// RUN: dynamlir-opt %s --split-input-file "--dynamo-partition=memory-budget=100" | FileCheck %s --check-prefix=OPTION

// How much is kept is a matter of memory against time. A sum over rows is expensive to compute and small: it is kept.

// CHECK-LABEL: func.func @main(
// CHECK: return %{{.*}}, %{{.*}} : tensor<64x64xf32>, tensor<64xf32>
// CHECK-LABEL: func.func @main_vjp(
// CHECK-COUNT-1: dynamo.reduce
// CHECK-NOT: dynamo.reduce
func.func @main(%x: tensor<64x64xf32> {dynamo.requires_grad}, %dy: tensor<64x64xf32> {dynamo.tangent = 0 : i64})
    -> (tensor<64x64xf32>, tensor<64x64xf32> {dynamo.gradient = 0 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %s = dynamo.reduce sum %x dims [1] : tensor<64x64xf32> -> tensor<64xf32>
  %b = dynamo.broadcast %s dims [0] : tensor<64xf32> -> tensor<64x64xf32>
  %y = dynamo.mul %x, %b : tensor<64x64xf32>
  %p = dynamo.mul %dy, %b : tensor<64x64xf32>
  %q = dynamo.mul %dy, %x : tensor<64x64xf32>
  %t = dynamo.reduce sum %q dims [1] : tensor<64x64xf32> -> tensor<64xf32>
  %u = dynamo.broadcast %t dims [0] : tensor<64xf32> -> tensor<64x64xf32>
  %dx = dynamo.add %p, %u : tensor<64x64xf32>
  return %y, %dx : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// A program that says `dynamo.memory_budget`, in percent of what could be given up, has it otherwise: with 0 the sum is computed
// again from the argument, which the caller has anyway. An option of the pass goes before what the program says.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: dynamo.recomputed = 1 : i64
// CHECK: return %{{.*}} : tensor<64x64xf32>
// CHECK-LABEL: func.func @main_vjp(
// CHECK-COUNT-2: dynamo.reduce

// OPTION-LABEL: module attributes {dynamo.memory_budget = 0 : i64}
// OPTION-LABEL: func.func @main_vjp(
// OPTION-COUNT-1: dynamo.reduce
// OPTION-NOT: dynamo.reduce
module attributes {dynamo.memory_budget = 0 : i64} {
  func.func @main(%x: tensor<64x64xf32> {dynamo.requires_grad}, %dy: tensor<64x64xf32> {dynamo.tangent = 0 : i64})
      -> (tensor<64x64xf32>, tensor<64x64xf32> {dynamo.gradient = 0 : i64})
      attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
    %s = dynamo.reduce sum %x dims [1] : tensor<64x64xf32> -> tensor<64xf32>
    %b = dynamo.broadcast %s dims [0] : tensor<64xf32> -> tensor<64x64xf32>
    %y = dynamo.mul %x, %b : tensor<64x64xf32>
    %p = dynamo.mul %dy, %b : tensor<64x64xf32>
    %q = dynamo.mul %dy, %x : tensor<64x64xf32>
    %t = dynamo.reduce sum %q dims [1] : tensor<64x64xf32> -> tensor<64xf32>
    %u = dynamo.broadcast %t dims [0] : tensor<64xf32> -> tensor<64x64xf32>
    %dx = dynamo.add %p, %u : tensor<64x64xf32>
    return %y, %dx : tensor<64x64xf32>, tensor<64x64xf32>
  }
}
