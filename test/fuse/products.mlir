// RUN: dynamlir-opt %s --split-input-file --dynamo-fuse --dynamo-verify-kernels | FileCheck %s
// RUN: dynamlir-opt %s --split-input-file --dynamo-fuse=print-fusion=true -o /dev/null 2>&1 | FileCheck %s --check-prefix=WHY

// Pointwise operations after a product are its epilogue. Its operands are tables: memory of any shape. The views around a
// layer on three dimensions disappear: the left operand may have several row dimensions.

// CHECK-LABEL: func.func @linear_gelu
// CHECK: %[[T:.+]] = dynamo.permute %arg1 dims [1, 0]
// CHECK: %[[B:.+]] = dynamo.broadcast %arg2 dims [2] : tensor<16xf32> -> tensor<2x5x16xf32>
// CHECK: %[[R:.+]] = dynamo.launch @kernels::@product_matmul_add_erf_mul_0(%[[B]], %arg0, %[[T]])
// CHECK-SAME: (tensor<2x5x16xf32>, tensor<2x5x8xf32>, tensor<8x16xf32>) -> tensor<2x5x16xf32>
// CHECK: return %[[R]]
// CHECK: func.func @product_matmul_add_erf_mul_0(%[[BIAS:.+]]: tensor<2x5x16xf32>, %[[X:.+]]: tensor<2x5x8xf32>, %[[W:.+]]: tensor<8x16xf32>)
// CHECK-SAME: dynamo.domain = array<i64: 2, 5, 16>
// CHECK: %[[P:.+]] = dynamo.matmul %[[X]], %[[W]] batch 0
// CHECK: %[[S:.+]] = dynamo.add %[[P]], %[[BIAS]]
// CHECK: dynamo.erf %[[S]]
// WHY: fuse: %{{.*}} matmul + %{{.*}} add saves
func.func @linear_gelu(%x: tensor<2x5x8xf32>, %w: tensor<16x8xf32>, %b: tensor<16xf32>) -> tensor<2x5x16xf32> attributes {dynamo.entry} {
  %lines = dynamo.reshape %x : tensor<2x5x8xf32> -> tensor<10x8xf32>
  %t = dynamo.permute %w dims [1, 0] : tensor<16x8xf32> -> tensor<8x16xf32>
  %p = dynamo.matmul %lines, %t batch 0 : tensor<10x8xf32>, tensor<8x16xf32> -> tensor<10x16xf32>
  %bias = dynamo.broadcast %b dims [1] : tensor<16xf32> -> tensor<10x16xf32>
  %s = dynamo.add %p, %bias : tensor<10x16xf32>
  %y = dynamo.reshape %s : tensor<10x16xf32> -> tensor<2x5x16xf32>
  %e = dynamo.erf %y : tensor<2x5x16xf32>
  %r = dynamo.mul %y, %e : tensor<2x5x16xf32>
  return %r : tensor<2x5x16xf32>
}

// -----

// Two products are two kernels. A reduction is a kernel of its own, too: its rows are complete only after all blocks are.

// CHECK-LABEL: func.func @chain
// CHECK: dynamo.launch @kernels::@product_matmul_add_0
// CHECK: dynamo.launch @kernels::@product_matmul_0
// CHECK: dynamo.launch @kernels::@reduce_sum_0
// WHY: fuse: rejected {{.*}} matmul + {{.*}} sum: an epilogue neither reduces nor scans
func.func @chain(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %y: tensor<4x8xf32>) -> tensor<4xf32> attributes {dynamo.entry} {
  %p = dynamo.matmul %x, %w batch 0 : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %q = dynamo.add %p, %y : tensor<4x8xf32>
  %r = dynamo.matmul %q, %w batch 0 : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %s = dynamo.reduce sum %r dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// -----

// An epilogue is computed block by block: it must not depend on its position.

// CHECK-LABEL: func.func @place
// CHECK: dynamo.launch @kernels::@product_matmul_0
// CHECK: dynamo.launch @kernels::@pointwise_
// WHY: fuse: rejected {{.*}} an epilogue is made block by block and must not ask for its place
func.func @place(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> attributes {dynamo.entry} {
  %p = dynamo.matmul %x, %w batch 0 : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %i = dynamo.iota 1 : tensor<4x8xi64>
  %f = dynamo.convert %i : tensor<4x8xi64> -> tensor<4x8xf32>
  %r = dynamo.add %p, %f : tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// -----

// A dimension of size 1 is dropped from the code; k remains.

// CHECK-LABEL: func.func @units
// CHECK: dynamo.matmul %{{.*}}, %{{.*}} batch 0 : tensor<8xf32>, tensor<8x16xf32> -> tensor<16xf32>
func.func @units(%x: tensor<1x1x8xf32>, %w: tensor<1x8x16xf32>) -> tensor<1x1x16xf32> attributes {dynamo.entry} {
  %p = dynamo.matmul %x, %w batch 1 : tensor<1x1x8xf32>, tensor<1x8x16xf32> -> tensor<1x1x16xf32>
  return %p : tensor<1x1x16xf32>
}
