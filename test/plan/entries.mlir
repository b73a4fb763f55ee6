// RUN: dynamlir-opt %s --dynamo-fuse --dynamo-verify-kernels --dynamo-plan | FileCheck %s

// Each entry of a module has a plan: its own arguments, workspace and outputs. Kernels are shared: those that are equal
// after fusion are merged, and those that are equal once layouts are known are merged again. Here the softplus of rows and
// that of a matrix are two kernels before planning, and one over 32 elements after it.

// CHECK-LABEL: func.func @forward(
// CHECK:         dynamo.workspace
// CHECK:         dynamo.launch @kernels::@[[KERNEL:pointwise_[a-z_0-9]+]](%{{.*}}, %{{.*}}) : (memref<32xf32>, memref<32xf32>) -> ()
// CHECK:         return
func.func @forward(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.exp %x : tensor<4x8xf32>
  %1 = dynamo.log1p %0 : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @backward(
// CHECK:         dynamo.workspace
// CHECK:         dynamo.launch @kernels::@[[KERNEL]](%{{.*}}, %{{.*}}) : (memref<32xf32>, memref<32xf32>) -> ()
// A transposed operand has other strides, and therefore a separate kernel.
// CHECK:         dynamo.launch @kernels::@[[OTHER:pointwise_[a-z_0-9]+]](%{{.*}}, %{{.*}}) : (memref<4x8xf32, strided<[1, 4]>>, memref<4x8xf32>) -> ()
// CHECK:         return
func.func @backward(%x: tensor<32xf32>, %t: tensor<8x4xf32>) -> (tensor<32xf32>, tensor<4x8xf32>)
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>]} {
  %0 = dynamo.exp %x : tensor<32xf32>
  %1 = dynamo.log1p %0 : tensor<32xf32>
  %2 = dynamo.permute %t dims [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>
  %3 = dynamo.exp %2 : tensor<4x8xf32>
  %4 = dynamo.log1p %3 : tensor<4x8xf32>
  return %1, %4 : tensor<32xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: module @kernels
// CHECK:         func.func @[[KERNEL]](
// CHECK:         func.func @[[OTHER]](
// CHECK-NOT:     func.func
