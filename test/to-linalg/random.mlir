// RUN: dynamlir-opt %s --dynamo-to-linalg | FileCheck %s
//
// Random bits: ten rounds of Philox4x32, on 64-bit integers. Two of the counter's four words are initially 0.

module @kernels {

// CHECK-LABEL: func.func @bits
// CHECK: linalg.generic
// CHECK-NEXT: ^bb0(%[[KEY:[^:]*]]: i64, %{{.*}}: i64):
// CHECK: %[[INDEX:.*]] = linalg.index 0 : index
// CHECK: %[[COUNTER:.*]] = arith.index_cast %[[INDEX]] : index to i64
// CHECK-DAG: %[[A:.*]] = arith.constant 3528531795 : i64
// CHECK: arith.muli %{{.*}}, %[[A]] : i64
// CHECK: %[[B:.*]] = arith.constant 3449720151 : i64
// CHECK: arith.muli %{{.*}}, %[[B]] : i64
// CHECK: arith.shrui
// CHECK: arith.xori
// Nine more.
// CHECK-COUNT-9: arith.constant 2654435769 : i64
// CHECK-NOT: arith.constant 2654435769 : i64
// CHECK: %[[BITS:.*]] = arith.ori
// CHECK-NEXT: linalg.yield %[[BITS]] : i64
func.func @bits(%key: memref<16xi64, strided<[0]>>, %out: memref<16xi64>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 16>, dynamo.reduced_dims = array<i64>} {
  %k = bufferization.to_tensor %key restrict : memref<16xi64, strided<[0]>> to tensor<16xi64>
  %i = dynamo.iota 0 : tensor<16xi64>
  %0 = dynamo.random %k, %i half 1 : tensor<16xi64>
  bufferization.materialize_in_destination %0 in restrict writable %out : (tensor<16xi64>, memref<16xi64>) -> ()
  return
}

}
