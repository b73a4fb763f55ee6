// RUN: dynamlir-opt %s | FileCheck %s
// RUN: dynamlir-opt %s | dynamlir-opt | FileCheck %s
// RUN: dynamlir-opt %s --mlir-print-op-generic | dynamlir-opt | FileCheck %s
// RUN: dynamlir-opt %s --emit-bytecode | dynamlir-opt | FileCheck %s

// Matrix products: any number of row dimensions of lhs, and of column dimensions of rhs.

// CHECK-LABEL: func.func @matmul
func.func @matmul(%x: tensor<2x5x8xf32>, %w: tensor<8x3xf32>, %q: tensor<4x6x8xf64>, %k: tensor<4x8x3xf64>, %v: tensor<8xf32>,
                 %m: tensor<8x3x4xf32>) {
  // CHECK: dynamo.matmul %arg0, %arg1 batch 0 : tensor<2x5x8xf32>, tensor<8x3xf32> -> tensor<2x5x3xf32>
  dynamo.matmul %x, %w batch 0 : tensor<2x5x8xf32>, tensor<8x3xf32> -> tensor<2x5x3xf32>
  // CHECK: dynamo.matmul %arg2, %arg3 batch 1 : tensor<4x6x8xf64>, tensor<4x8x3xf64> -> tensor<4x6x3xf64>
  dynamo.matmul %q, %k batch 1 : tensor<4x6x8xf64>, tensor<4x8x3xf64> -> tensor<4x6x3xf64>
  // CHECK: dynamo.matmul %arg0, %arg4 batch 0 : tensor<2x5x8xf32>, tensor<8xf32> -> tensor<2x5xf32>
  dynamo.matmul %x, %v batch 0 : tensor<2x5x8xf32>, tensor<8xf32> -> tensor<2x5xf32>
  // CHECK: dynamo.matmul %arg4, %arg4 batch 0 : tensor<8xf32>, tensor<8xf32> -> tensor<f32>
  dynamo.matmul %v, %v batch 0 : tensor<8xf32>, tensor<8xf32> -> tensor<f32>
  // CHECK: dynamo.matmul %arg0, %arg5 batch 0 : tensor<2x5x8xf32>, tensor<8x3x4xf32> -> tensor<2x5x3x4xf32>
  dynamo.matmul %x, %m batch 0 : tensor<2x5x8xf32>, tensor<8x3x4xf32> -> tensor<2x5x3x4xf32>
  return
}

// CHECK-LABEL: func.func @convolution
func.func @convolution(%x: tensor<2x6x9x9xf32>, %w: tensor<4x3x3x2xf32>) {
  // CHECK: dynamo.convolution %arg0, %arg1 strides [2, 1] padding [1, 0] dilation [1, 3] groups 2
  // CHECK-SAME: : tensor<2x6x9x9xf32>, tensor<4x3x3x2xf32> -> tensor<2x4x5x6xf32>
  dynamo.convolution %x, %w strides [2, 1] padding [1, 0] dilation [1, 3] groups 2
    : tensor<2x6x9x9xf32>, tensor<4x3x3x2xf32> -> tensor<2x4x5x6xf32>
  return
}

// CHECK-LABEL: func.func @max_pool
func.func @max_pool(%x: tensor<2x6x9x9xf32>) {
  // CHECK: dynamo.max_pool %arg0 window [3, 2] strides [2, 1] padding [1, 0] dilation [1, 3] : tensor<2x6x9x9xf32> -> tensor<2x6x5x6xf32>
  dynamo.max_pool %x window [3, 2] strides [2, 1] padding [1, 0] dilation [1, 3] : tensor<2x6x9x9xf32> -> tensor<2x6x5x6xf32>
  return
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x7x8xf32>, %v: tensor<2x3x7x4xf32>, %m: tensor<2x3x5x7xf32>) {
  // CHECK: dynamo.attention %arg0, %arg1, %arg2 scale 1.250000e-01 causal : tensor<2x3x5x8xf32>, tensor<2x3x7x8xf32>, tensor<2x3x7x4xf32> -> tensor<2x3x5x4xf32>
  dynamo.attention %q, %k, %v scale 1.250000e-01 causal
    : tensor<2x3x5x8xf32>, tensor<2x3x7x8xf32>, tensor<2x3x7x4xf32> -> tensor<2x3x5x4xf32>
  // CHECK: dynamo.attention %arg0, %arg1, %arg2 mask %arg3 scale 5.000000e-01 : tensor<2x3x5x8xf32>, tensor<2x3x7x8xf32>, tensor<2x3x7x4xf32>, tensor<2x3x5x7xf32> -> tensor<2x3x5x4xf32>
  dynamo.attention %q, %k, %v mask %m scale 5.000000e-01
    : tensor<2x3x5x8xf32>, tensor<2x3x7x8xf32>, tensor<2x3x7x4xf32>, tensor<2x3x5x7xf32> -> tensor<2x3x5x4xf32>
  return
}
