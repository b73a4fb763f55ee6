// RUN: dynamlir-opt %s --split-input-file --dynamo-partition | FileCheck %s
// RUN: dynamlir-opt %s --split-input-file "--dynamo-partition=memory-budget=100" | FileCheck %s --check-prefix=OPTION

// The amount that is saved trades memory for time. A sum over rows is expensive to compute and small: it is saved.

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

// A program can change this with `dynamo.memory_budget`, in percent of the recomputable memory: with 0 the sum is recomputed from the
// argument, which the caller has anyway. An option of the pass overrides the program's value.

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
