// RUN: dynamlir-opt %s --dynamo-to-linalg | FileCheck %s
//
// A scan keeps its running value in an accumulator of the row's shape and yields it for each element.

module @kernels {

// CHECK-LABEL: func.func @cumsum
// CHECK: %[[OUT:.*]] = tensor.empty() {dynamo.out = 0 : i64} : tensor<4x8xf32>
// CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[START:.*]] = linalg.fill {dynamo.init = 0 : i64} ins(%[[ZERO]] : f32) outs(%{{.*}} : tensor<4xf32>)
// CHECK: %[[R:.*]]:2 = linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]
// CHECK-SAME: outs(%[[OUT]], %[[START]] : tensor<4x8xf32>, tensor<4xf32>)
// CHECK-SAME: dynamo.phase = 0 : i64, dynamo.scan = 1 : i64
// CHECK-NEXT: ^bb0(%[[X:[^:]*]]: f32, %{{.*}}: f32, %[[SUM:[^:]*]]: f32):
// CHECK-NEXT: %[[NEG:.*]] = arith.negf %[[X]] : f32
// No reordering: each partial sum is a result.
// CHECK-NEXT: %[[NEXT:.*]] = arith.addf %[[SUM]], %[[NEG]] : f32
// CHECK-NEXT: linalg.yield %[[NEXT]], %[[NEXT]] : f32, f32
// CHECK: bufferization.materialize_in_destination %[[R]]#0
func.func @cumsum(%x: memref<4x8xf32>, %out: memref<4x8xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 8>, dynamo.reduced_dims = array<i64>} {
  %a = bufferization.to_tensor %x restrict : memref<4x8xf32> to tensor<4x8xf32>
  %0 = dynamo.neg %a : tensor<4x8xf32>
  %1 = dynamo.scan sum %0 dim 1 : tensor<4x8xf32>
  bufferization.materialize_in_destination %1 in restrict writable %out : (tensor<4x8xf32>, memref<4x8xf32>) -> ()
  return
}

// CHECK-LABEL: func.func @columns
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction", "parallel"]
// CHECK: arith.muli
func.func @columns(%x: memref<4x8xi64>, %out: memref<4x8xi64>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 8>, dynamo.reduced_dims = array<i64: 0>} {
  %a = bufferization.to_tensor %x restrict : memref<4x8xi64> to tensor<4x8xi64>
  %0 = dynamo.scan prod %a dim 0 : tensor<4x8xi64>
  bufferization.materialize_in_destination %0 in restrict writable %out : (tensor<4x8xi64>, memref<4x8xi64>) -> ()
  return
}

// If there is no dimension besides the scanned one, there is nothing to schedule.
// CHECK-LABEL: func.func @everything
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction"]
// CHECK-NOT: dynamo.phase
// CHECK: arith.maximumf
func.func @everything(%x: memref<8xf32>, %out: memref<8xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 8>, dynamo.reduced_dims = array<i64>} {
  %a = bufferization.to_tensor %x restrict : memref<8xf32> to tensor<8xf32>
  %0 = dynamo.scan max %a dim 0 : tensor<8xf32>
  bufferization.materialize_in_destination %0 in restrict writable %out : (tensor<8xf32>, memref<8xf32>) -> ()
  return
}
}
