// RUN: dynamlir-opt %s --dynamo-to-linalg --dynamo-schedule --canonicalize --cse | FileCheck %s
//
// Schedules of kernels whose sizes are arguments use the expected sizes. A dimension that may be larger than expected is always split, so
// that there are blocks to distribute.

module @kernels attributes {dynamo.target = #dynamo.target<"x86_64-unknown-linux-gnu", "x86-64-v3", "+avx,+avx2,+fma", vector_bits = 256, library_vector_bits = 128>} {

// Blocks of rows. Vectors are along a dimension of static size, which leaves no remainder.
// CHECK-LABEL: func.func @pointwise
// CHECK-SAME: %[[N:[^:]*]]: index) attributes {dynamo.kernel
// CHECK-NOT: dynamo.domain
// CHECK: %[[BLOCKS:.*]] = affine.apply {{.*}}%[[N]]
// CHECK: scf.forall (%{{.*}}) in (%[[BLOCKS]])
// CHECK: affine.min
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c16
// CHECK: vector.transfer_read {{.*}} vector<16xf32>
func.func @pointwise(%in: memref<?x128xf32>, %out: memref<?x128xf32>, %n: index) attributes {
    dynamo.kernel, dynamo.domain = #dynamo.sizes<s0, 128>, dynamo.reduced_dims = array<i64>,
    dynamo.symbols = [#dynamo.symbol<s0, argument = 2, hint = 4096>]} {
  %x = bufferization.to_tensor %in restrict : memref<?x128xf32> to tensor<?x128xf32, #dynamo.sizes<s0, 128>>
  %sum = dynamo.add %x, %x : tensor<?x128xf32, #dynamo.sizes<s0, 128>>
  bufferization.materialize_in_destination %sum in restrict writable %out : (tensor<?x128xf32, #dynamo.sizes<s0, 128>>, memref<?x128xf32>) -> ()
  return
}

// Rows, one by one, in blocks; between two phases there is one number, and a row of values that are expensive to compute.
// CHECK-LABEL: func.func @softmax
// CHECK: scf.forall
// CHECK: scf.for
// CHECK: tensor.empty() : tensor<1xf32>
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1xf32>)
// CHECK: tensor.empty(%{{.*}}) : tensor<1x?xf32>
// CHECK: linalg.generic {{.*}} outs(%{{.*}}, %{{.*}} : tensor<1xf32>, tensor<1x?xf32>)
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x?xf32>)
func.func @softmax(%in: memref<?x?xf32>, %out: memref<?x?xf32>, %n: index, %m: index) attributes {
    dynamo.kernel, dynamo.domain = #dynamo.sizes<s0, s1>, dynamo.reduced_dims = array<i64: 1>,
    dynamo.symbols = [#dynamo.symbol<s0, argument = 2, hint = 512>, #dynamo.symbol<s1, argument = 3, hint = 512>]} {
  %x = bufferization.to_tensor %in restrict : memref<?x?xf32> to tensor<?x?xf32, #dynamo.sizes<s0, s1>>
  %max = dynamo.reduce max %x dims [1] : tensor<?x?xf32, #dynamo.sizes<s0, s1>> -> tensor<?xf32, #dynamo.sizes<s0>>
  %rows = dynamo.broadcast %max dims [0] : tensor<?xf32, #dynamo.sizes<s0>> -> tensor<?x?xf32, #dynamo.sizes<s0, s1>>
  %less = dynamo.sub %x, %rows : tensor<?x?xf32, #dynamo.sizes<s0, s1>>
  %exp = dynamo.exp %less : tensor<?x?xf32, #dynamo.sizes<s0, s1>>
  %sum = dynamo.reduce sum %exp dims [1] : tensor<?x?xf32, #dynamo.sizes<s0, s1>> -> tensor<?xf32, #dynamo.sizes<s0>>
  %sums = dynamo.broadcast %sum dims [0] : tensor<?xf32, #dynamo.sizes<s0>> -> tensor<?x?xf32, #dynamo.sizes<s0, s1>>
  %div = dynamo.div %exp, %sums : tensor<?x?xf32, #dynamo.sizes<s0, s1>>
  bufferization.materialize_in_destination %div in restrict writable %out : (tensor<?x?xf32, #dynamo.sizes<s0, s1>>, memref<?x?xf32>) -> ()
  return
}

// A reduction of everything has as many pieces as partial results, a static number. Some pieces may be empty.
// CHECK-LABEL: func.func @total
// CHECK: %[[PARTS:.*]] = scf.forall (%{{.*}}) in (64) shared_outs(%{{.*}}) -> (tensor<64xf32>)
// CHECK: affine.max
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction"]
// CHECK: linalg.reduce ins(%[[PARTS]] : tensor<64xf32>)
func.func @total(%in: memref<?xf32>, %out: memref<f32>, %n: index) attributes {
    dynamo.kernel, dynamo.domain = #dynamo.sizes<s0>, dynamo.reduced_dims = array<i64: 0>,
    dynamo.symbols = [#dynamo.symbol<s0, argument = 2, hint = 1000000>]} {
  %x = bufferization.to_tensor %in restrict : memref<?xf32> to tensor<?xf32, #dynamo.sizes<s0>>
  %sum = dynamo.reduce sum %x dims [0] : tensor<?xf32, #dynamo.sizes<s0>> -> tensor<f32>
  bufferization.materialize_in_destination %sum in restrict writable %out : (tensor<f32>, memref<f32>) -> ()
  return
}

// If a dimension further inside is dynamic, the number of rows per block is computed. The use of threads is an expression.
// CHECK-LABEL: func.func @blocks
// CHECK-SAME: %[[N:[^:]*]]: index, %[[M:[^:]*]]: index) attributes
// CHECK-SAME: dynamo.parallel = #dynamo.expr<s0*s1 - 32768>
// CHECK: arith.floordivsi %c65536, %[[M]]
// CHECK: %[[ROWS:.*]] = arith.maxsi {{.*}} {dynamo.tile = 0 : i64}
// CHECK: affine.apply {{.*}}%[[ROWS]]
// CHECK: scf.forall
func.func @blocks(%in: memref<?x?xf32>, %out: memref<?x?xf32>, %n: index, %m: index) attributes {
    dynamo.kernel, dynamo.domain = #dynamo.sizes<s0, s1>, dynamo.reduced_dims = array<i64>,
    dynamo.symbols = [#dynamo.symbol<s0, argument = 2, hint = 4>, #dynamo.symbol<s1, argument = 3, hint = 4>]} {
  %x = bufferization.to_tensor %in restrict : memref<?x?xf32> to tensor<?x?xf32, #dynamo.sizes<s0, s1>>
  %minus = dynamo.neg %x : tensor<?x?xf32, #dynamo.sizes<s0, s1>>
  bufferization.materialize_in_destination %minus in restrict writable %out : (tensor<?x?xf32, #dynamo.sizes<s0, s1>>, memref<?x?xf32>) -> ()
  return
}

// A body that uses positions would count them from the start of its piece: one loop nest.
// CHECK-LABEL: func.func @sum_of_positions
// CHECK-NOT: scf.forall
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction"]
func.func @sum_of_positions(%out: memref<i64>, %n: index) attributes {
    dynamo.kernel, dynamo.domain = #dynamo.sizes<s0>, dynamo.reduced_dims = array<i64: 0>, dynamo.symbols = [#dynamo.symbol<s0, argument = 1, hint = 1000000>]} {
  %at = dynamo.iota 0 : tensor<?xi64, #dynamo.sizes<s0>>
  %sum = dynamo.reduce sum %at dims [0] : tensor<?xi64, #dynamo.sizes<s0>> -> tensor<i64>
  bufferization.materialize_in_destination %sum in restrict writable %out : (tensor<i64>, memref<i64>) -> ()
  return
}

}
