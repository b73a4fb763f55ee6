// RUN: dynamlir-opt %s --dynamo-to-linalg | FileCheck %s
//
// Kernels without reductions: one generic with all results.

module @kernels {

// CHECK-LABEL: func.func @two_results
// The memory that is read and written.
// CHECK-SAME: dynamo.signature = (memref<4x8xf32, strided<[1, 4]>>, memref<4x8xf32>) -> (memref<4x8xf32>, memref<4x8xf32>)
// CHECK: %[[X:.*]] = bufferization.to_tensor
// CHECK: %[[Y:.*]] = bufferization.to_tensor
// CHECK: %[[R:.*]]:2 = linalg.generic {indexing_maps = [#[[ID:.*]], #[[ID]], #[[ID]], #[[ID]]], iterator_types = ["parallel", "parallel"]}
// CHECK-SAME: ins(%[[X]], %[[Y]] : tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK-SAME: attrs = {dynamo.phase = 0 : i64}
// CHECK-NEXT: ^bb0(%[[A:[^:]*]]: f32, %[[B:[^:]*]]: f32, %{{.*}}: f32, %{{.*}}: f32):
// The sum is computed once, although it occurs twice.
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[A]], %[[B]] : f32
// CHECK-NEXT: %[[EXP:.*]] = math.exp %[[SUM]] : f32
// CHECK-NEXT: linalg.yield %[[EXP]], %[[SUM]] : f32, f32
// CHECK-NOT: dynamo.add
// CHECK: bufferization.materialize_in_destination %[[R]]#0 in restrict writable %arg2
// CHECK: bufferization.materialize_in_destination %[[R]]#1 in restrict writable %arg3
func.func @two_results(%x: memref<4x8xf32, strided<[1, 4]>>, %y: memref<4x8xf32>, %out: memref<4x8xf32>, %sum: memref<4x8xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 8>, dynamo.reduced_dims = array<i64>} {
  %a = bufferization.to_tensor %x restrict : memref<4x8xf32, strided<[1, 4]>> to tensor<4x8xf32>
  %b = bufferization.to_tensor %y restrict : memref<4x8xf32> to tensor<4x8xf32>
  %0 = dynamo.add %a, %b : tensor<4x8xf32>
  %1 = dynamo.exp %0 : tensor<4x8xf32>
  %2 = dynamo.add %a, %b : tensor<4x8xf32>
  bufferization.materialize_in_destination %1 in restrict writable %out : (tensor<4x8xf32>, memref<4x8xf32>) -> ()
  bufferization.materialize_in_destination %2 in restrict writable %sum : (tensor<4x8xf32>, memref<4x8xf32>) -> ()
  return
}

// A copy keeps its loop: canonicalization would turn it into a `memref.copy`, which later stages do not support.
// CHECK-LABEL: func.func @copy
// CHECK: %[[X:.*]] = bufferization.to_tensor
// CHECK: %[[UNUSED:.*]] = arith.constant false
// CHECK: linalg.generic {indexing_maps = [#[[ID:.*]], #{{.*}}, #[[ID]]], iterator_types = ["parallel", "parallel"]} ins(%[[X]], %[[UNUSED]] : tensor<4x8xf32>, i1)
// CHECK-NEXT: ^bb0(%[[A:[^:]*]]: f32,
// CHECK-NEXT: linalg.yield %[[A]] : f32
func.func @copy(%x: memref<4x8xf32, strided<[1, 4]>>, %out: memref<4x8xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 8>, dynamo.reduced_dims = array<i64>} {
  %a = bufferization.to_tensor %x restrict : memref<4x8xf32, strided<[1, 4]>> to tensor<4x8xf32>
  bufferization.materialize_in_destination %a in restrict writable %out : (tensor<4x8xf32>, memref<4x8xf32>) -> ()
  return
}

// CHECK-LABEL: func.func @fill
// CHECK: linalg.generic {indexing_maps = [#{{.*}}], iterator_types = ["parallel"]} outs(
// CHECK: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK: linalg.yield %[[ONE]] : f32
func.func @fill(%out: memref<8xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 8>, dynamo.reduced_dims = array<i64>} {
  %0 = dynamo.full 1.0 : f32 -> tensor<8xf32>
  bufferization.materialize_in_destination %0 in restrict writable %out : (tensor<8xf32>, memref<8xf32>) -> ()
  return
}

// CHECK-LABEL: func.func @scalar
// CHECK: linalg.generic {indexing_maps = [#[[ID:.*]], #[[ID]]], iterator_types = []} ins(%{{.*}} : tensor<f32>) outs(%{{.*}} : tensor<f32>)
// CHECK: math.exp
func.func @scalar(%x: memref<f32>, %out: memref<f32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64>, dynamo.reduced_dims = array<i64>} {
  %a = bufferization.to_tensor %x restrict : memref<f32> to tensor<f32>
  %0 = dynamo.exp %a : tensor<f32>
  bufferization.materialize_in_destination %0 in restrict writable %out : (tensor<f32>, memref<f32>) -> ()
  return
}

// A broadcast is an indexing map; a dimension of size 1 stays at 0.
// CHECK-LABEL: func.func @broadcast
// CHECK: linalg.generic {indexing_maps = [#[[ROW:.*]], #[[COLUMN:.*]], #[[ID:.*]]], iterator_types = ["parallel", "parallel"]}
// CHECK-NEXT: ^bb0(%[[A:[^:]*]]: f32, %[[B:[^:]*]]: f32,
// CHECK-NEXT: arith.mulf %[[A]], %[[B]] : f32
func.func @broadcast(%x: memref<4xf32>, %y: memref<3x1xf32>, %out: memref<3x4xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 3, 4>, dynamo.reduced_dims = array<i64>} {
  %a = bufferization.to_tensor %x restrict : memref<4xf32> to tensor<4xf32>
  %b = bufferization.to_tensor %y restrict : memref<3x1xf32> to tensor<3x1xf32>
  %0 = dynamo.broadcast %a dims [1] : tensor<4xf32> -> tensor<3x4xf32>
  %1 = dynamo.broadcast %b dims [0, 1] : tensor<3x1xf32> -> tensor<3x4xf32>
  %2 = dynamo.mul %0, %1 : tensor<3x4xf32>
  bufferization.materialize_in_destination %2 in restrict writable %out : (tensor<3x4xf32>, memref<3x4xf32>) -> ()
  return
}

// A gather reads in the body, wherever the indices point; the table is not an operand of the generic.
// CHECK-LABEL: func.func @gather
// CHECK-SAME: %[[MEMORY:[^:]*]]: memref<10x4xf32>
// CHECK: %[[TABLE:.*]] = bufferization.to_tensor %[[MEMORY]] restrict
// CHECK: %[[I:.*]] = bufferization.to_tensor
// CHECK: linalg.generic {{.*}} ins(%[[I]] : tensor<3x4xi64>)
// CHECK-NEXT: ^bb0(%[[A:[^:]*]]: i64,
// CHECK-NEXT: %[[COLUMN:.*]] = linalg.index 1
// CHECK: %[[ROW:.*]] = arith.index_cast %[[A]] : i64 to index
// CHECK: %[[G:.*]] = tensor.extract %[[TABLE]][%[[ROW]], %{{.*}}] : tensor<10x4xf32>
// CHECK: linalg.yield %[[G]]
func.func @gather(%table: memref<10x4xf32>, %i: memref<3x4xi64>, %out: memref<3x4xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 3, 4>, dynamo.reduced_dims = array<i64>} {
  %t = bufferization.to_tensor %table restrict : memref<10x4xf32> to tensor<10x4xf32>
  %a = bufferization.to_tensor %i restrict : memref<3x4xi64> to tensor<3x4xi64>
  %column = dynamo.iota 1 : tensor<3x4xi64>
  %0 = dynamo.gather %t[%a, %column] : tensor<10x4xf32>, tensor<3x4xi64>, tensor<3x4xi64> -> tensor<3x4xf32>
  bufferization.materialize_in_destination %0 in restrict writable %out : (tensor<3x4xf32>, memref<3x4xf32>) -> ()
  return
}
}
