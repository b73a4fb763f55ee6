// RUN: dynamlir-opt %s --dynamo-expand-copies | FileCheck %s

// If elements are not contiguous, a copy is a loop.

// CHECK-LABEL: func.func @strided
// CHECK: linalg.generic {indexing_maps = [#[[SAME:.*]], #[[SAME]]], iterator_types = ["parallel", "parallel"]} ins(%arg0 : {{.*}}) outs(%arg1 : {{.*}}) {
// CHECK: ^bb0(%[[IN:.*]]: i8, %{{.*}}: i8):
// CHECK: linalg.yield %[[IN]] : i8
// CHECK-NOT: memref.copy
func.func @strided(%x: memref<2x3xi8, strided<[15, 1]>>, %y: memref<2x3xi8>) {
  memref.copy %x, %y : memref<2x3xi8, strided<[15, 1]>> to memref<2x3xi8>
  return
}

// The last block of a loop has the size of the remainder, which is known at run time.

// CHECK-LABEL: func.func @rest
// CHECK: linalg.generic
// CHECK-NOT: memref.copy
func.func @rest(%x: memref<?x3xi8, strided<[3, 1], offset: ?>>, %y: memref<?x3xi8, strided<[3, 1], offset: ?>>) {
  memref.copy %x, %y : memref<?x3xi8, strided<[3, 1], offset: ?>> to memref<?x3xi8, strided<[3, 1], offset: ?>>
  return
}

// Contiguous memory is left to `memcpy`, regardless of its offset. The stride of a single row does not matter.

// CHECK-LABEL: func.func @contiguous
// CHECK: memref.copy
// CHECK-NOT: linalg.generic
func.func @contiguous(%x: memref<1x3xi8, strided<[15, 1], offset: 4>>, %y: memref<1x3xi8>) {
  memref.copy %x, %y : memref<1x3xi8, strided<[15, 1], offset: 4>> to memref<1x3xi8>
  return
}
