// RUN: dynamlir-opt %s --dynamo-to-linalg | FileCheck %s
//
// A kernel that writes by index becomes loops directly: a generic cannot write to computed places.

module @kernels {

// CHECK-LABEL: func.func @rows
// CHECK-SAME: (%[[I:.*]]: memref<3x4xi64, strided<[1, 0]>>, %[[S:.*]]: memref<3x4xf32>, %[[OUT:.*]]: memref<9x4xf32>)
// CHECK-SAME: dynamo.signature = (memref<3x4xi64, strided<[1, 0]>>, memref<3x4xf32>) -> memref<9x4xf32>
// CHECK: scf.for %[[P:.*]] = %{{.*}} to %c3 step %c1
// CHECK: scf.for %[[Q:.*]] = %{{.*}} to %c4 step %{{.*}} {
// CHECK: %[[INDEX:.*]] = memref.load %[[I]][%[[P]], %[[Q]]]
// CHECK: %[[AT:.*]] = arith.index_cast %[[INDEX]] : i64 to index
// CHECK: %[[NEW:.*]] = memref.load %[[S]][%[[P]], %[[Q]]]
// CHECK: %[[OLD:.*]] = memref.load %[[OUT]][%[[AT]], %[[Q]]]
// CHECK: %[[SUM:.*]] = arith.addf %[[OLD]], %[[NEW]] : f32
// CHECK: memref.store %[[SUM]], %[[OUT]][%[[AT]], %[[Q]]]
// CHECK-NOT: bufferization
func.func @rows(%i: memref<3x4xi64, strided<[1, 0]>>, %s: memref<3x4xf32>, %out: memref<9x4xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 3, 4>, dynamo.reduced_dims = array<i64: 0>} {
  %0 = bufferization.to_tensor %i restrict : memref<3x4xi64, strided<[1, 0]>> to tensor<3x4xi64>
  %1 = bufferization.to_tensor %s restrict : memref<3x4xf32> to tensor<3x4xf32>
  %2 = bufferization.to_tensor %out restrict : memref<9x4xf32> to tensor<9x4xf32>
  %3 = dynamo.scatter %1 into %2[%0] dims [-1, 1] by sum : tensor<9x4xf32>, tensor<3x4xi64>, tensor<3x4xf32> -> tensor<9x4xf32>
  bufferization.materialize_in_destination %3 in restrict writable %out : (tensor<9x4xf32>, memref<9x4xf32>) -> ()
  return
}

// Much work is distributed along a dimension that the result has too, in contiguous ranges, outside the other loops. If elements
// are equal, the maximum is the old one.

// CHECK-LABEL: func.func @columns
// CHECK: scf.forall (%[[BLOCK:.*]]) in (16) {
// CHECK: %[[FIRST:.*]] = arith.muli %[[BLOCK]], %c32
// CHECK: scf.for %[[P:.*]] = %{{.*}} to %c1000
// CHECK: scf.for %[[Q:.*]] = %[[FIRST]] to
// CHECK: %[[LESS:.*]] = arith.cmpf olt, %[[OLD:.*]], %[[NEW:.*]] : f32
// CHECK: %[[NAN:.*]] = arith.cmpf une, %[[NEW]], %[[NEW]] : f32
// CHECK: %[[TAKEN:.*]] = arith.ori %[[LESS]], %[[NAN]] : i1
// CHECK: arith.select %[[TAKEN]], %[[NEW]], %[[OLD]] : f32
func.func @columns(%i: memref<1000x500xi64>, %s: memref<1000x500xf32>, %out: memref<9x500xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 1000, 500>, dynamo.reduced_dims = array<i64: 0>} {
  %0 = bufferization.to_tensor %i restrict : memref<1000x500xi64> to tensor<1000x500xi64>
  %1 = bufferization.to_tensor %s restrict : memref<1000x500xf32> to tensor<1000x500xf32>
  %2 = bufferization.to_tensor %out restrict : memref<9x500xf32> to tensor<9x500xf32>
  %3 = dynamo.scatter %1 into %2[%0] dims [-1, 1] by max : tensor<9x500xf32>, tensor<1000x500xi64>, tensor<1000x500xf32> -> tensor<9x500xf32>
  bufferization.materialize_in_destination %3 in restrict writable %out : (tensor<9x500xf32>, memref<9x500xf32>) -> ()
  return
}

}
