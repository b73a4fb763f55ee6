// RUN: dynamlir-opt %s --dynamlir-prims-to-kernels --dynamlir-kernels-to-planned | FileCheck %s
// RUN: dynamlir-opt %s --dynamlir-prims-to-kernels --dynamlir-kernels-to-planned --dynamlir-planned-to-linalg | FileCheck %s

// A graph and its gradients are planned like other entries. The plans keep the attributes for tangents, gradients and saved
// values; a result that is written into an argument is no longer a result.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: dynamo.requires_grad
// CHECK-SAME: -> (memref<4xf32>, memref<4xf32>)
// CHECK-SAME: dynamo.differentiable = array<i64: 0>
// CHECK-SAME: dynamo.saved = 2 : i64
// CHECK-SAME: dynamo.vjp = @main_vjp
func.func @main(%x: tensor<4xf32> {dynamo.requires_grad}, %n: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32> {dynamo.mutates = 1 : i64}, tensor<4xf32>)
    attributes {dynamo.entry, dynamo.differentiable = array<i64: 0>, dynamo.vjp = @main_vjp, dynamo.saved = 2 : i64,
                dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>, #dynamo.output<arg 0>]} {
  %y = dynamo.sin %x : tensor<4xf32>
  %m = dynamo.add %n, %x : tensor<4xf32>
  %c = dynamo.cos %x : tensor<4xf32>
  return %y, %m, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @main_vjp(
// CHECK-SAME: %{{.*}}: memref<4xf32>, %{{.*}}: memref<4xf32>, %{{.*}}: memref<4xf32> {dynamo.tangent = 0 : i64})
// CHECK-SAME: -> (memref<4xf32> {dynamo.gradient = 0 : i64})
func.func @main_vjp(%c: tensor<4xf32>, %x: tensor<4xf32>, %t: tensor<4xf32> {dynamo.tangent = 0 : i64})
    -> (tensor<4xf32> {dynamo.gradient = 0 : i64, dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.mul %t, %c : tensor<4xf32>
  return %0 : tensor<4xf32>
}
