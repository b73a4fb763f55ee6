// RUN: dynamlir-opt %s | FileCheck %s
// RUN: dynamlir-opt %s | dynamlir-opt | FileCheck %s
// RUN: dynamlir-opt %s --mlir-print-op-generic | dynamlir-opt | FileCheck %s
// RUN: dynamlir-opt %s --emit-bytecode | dynamlir-opt | FileCheck %s


// Reductions and scans. There is one space before the kind, not two.

// CHECK-LABEL: func.func @reduce
func.func @reduce(%x: tensor<2x3xf32>, %b: tensor<2x3xi1>, %e: tensor<0x3xf32>, %d: tensor<?x3xf32>) {
  // CHECK: dynamo.reduce sum %arg0 dims [1] : tensor<2x3xf32> -> tensor<2xf32>
  dynamo.reduce sum %x dims [1] : tensor<2x3xf32> -> tensor<2xf32>
  // CHECK: dynamo.reduce prod %arg0 dims [1] : tensor<2x3xf32> -> tensor<2xf32>
  dynamo.reduce prod %x dims [1] : tensor<2x3xf32> -> tensor<2xf32>
  // CHECK: dynamo.reduce max %arg0 dims [1] : tensor<2x3xf32> -> tensor<2xf32>
  dynamo.reduce max %x dims [1] : tensor<2x3xf32> -> tensor<2xf32>
  // CHECK: dynamo.reduce min %arg0 dims [1] : tensor<2x3xf32> -> tensor<2xf32>
  dynamo.reduce min %x dims [1] : tensor<2x3xf32> -> tensor<2xf32>
  // CHECK: dynamo.reduce and %arg1 dims [0, 1] : tensor<2x3xi1> -> tensor<i1>
  dynamo.reduce and %b dims [0, 1] : tensor<2x3xi1> -> tensor<i1>
  // CHECK: dynamo.reduce or %arg1 dims [0, 1] : tensor<2x3xi1> -> tensor<i1>
  dynamo.reduce or %b dims [0, 1] : tensor<2x3xi1> -> tensor<i1>
  // CHECK: dynamo.reduce xor %arg1 dims [0, 1] : tensor<2x3xi1> -> tensor<i1>
  dynamo.reduce xor %b dims [0, 1] : tensor<2x3xi1> -> tensor<i1>
  // Over no elements, the result is the neutral element; over no dimension, the operand.
  // CHECK: dynamo.reduce sum %arg2 dims [0] : tensor<0x3xf32> -> tensor<3xf32>
  dynamo.reduce sum %e dims [0] : tensor<0x3xf32> -> tensor<3xf32>
  // CHECK: dynamo.reduce max %arg2 dims [1] : tensor<0x3xf32> -> tensor<0xf32>
  dynamo.reduce max %e dims [1] : tensor<0x3xf32> -> tensor<0xf32>
  // CHECK: dynamo.reduce sum %arg0 dims [] : tensor<2x3xf32> -> tensor<2x3xf32>
  dynamo.reduce sum %x dims [] : tensor<2x3xf32> -> tensor<2x3xf32>
  // CHECK: dynamo.reduce sum %arg3 dims [1] : tensor<?x3xf32> -> tensor<?xf32>
  dynamo.reduce sum %d dims [1] : tensor<?x3xf32> -> tensor<?xf32>
  return
}

// CHECK-LABEL: func.func @arg_reduce
func.func @arg_reduce(%x: tensor<2x3xf32>) {
  // CHECK: dynamo.arg_reduce max %arg0 dim 1 : tensor<2x3xf32> -> tensor<2xi64>
  dynamo.arg_reduce max %x dim 1 : tensor<2x3xf32> -> tensor<2xi64>
  // CHECK: dynamo.arg_reduce min %arg0 dim 0 : tensor<2x3xf32> -> tensor<3xi64>
  dynamo.arg_reduce min %x dim 0 : tensor<2x3xf32> -> tensor<3xi64>
  return
}

// CHECK-LABEL: func.func @scan
func.func @scan(%x: tensor<2x3xf32>, %i: tensor<4xi64>) {
  // CHECK: dynamo.scan sum %arg0 dim 1 : tensor<2x3xf32>
  dynamo.scan sum %x dim 1 : tensor<2x3xf32>
  // CHECK: dynamo.scan prod %arg0 dim 1 : tensor<2x3xf32>
  dynamo.scan prod %x dim 1 : tensor<2x3xf32>
  // CHECK: dynamo.scan max %arg0 dim 1 : tensor<2x3xf32>
  dynamo.scan max %x dim 1 : tensor<2x3xf32>
  // CHECK: dynamo.scan min %arg0 dim 1 : tensor<2x3xf32>
  dynamo.scan min %x dim 1 : tensor<2x3xf32>
  // CHECK: dynamo.scan xor %arg1 dim 0 : tensor<4xi64>
  dynamo.scan xor %i dim 0 : tensor<4xi64>
  return
}
