// RUN: dynamlir-opt %s --dynamo-to-linalg | FileCheck %s
// RUN: dynamlir-opt %s --dynamo-to-linalg --dynamo-schedule | FileCheck %s --check-prefix=SCHEDULED

// If a kernel traverses its rows twice, an operand that lies across the rows is copied first, sixteen rows at a time: their elements are in
// the same cache lines.
module @kernels {

// CHECK-LABEL: func.func @across
// CHECK: %[[X:.*]] = bufferization.to_tensor
// CHECK: %[[COPY:.*]] = linalg.generic {{.*}} ins(%[[X]], %{{.*}} : {{.*}} attrs = {dynamo.phase = 0 : i64}
// CHECK: linalg.generic {{.*}} ins(%[[COPY]] : {{.*}} attrs = {dynamo.phase = 1 : i64}
// CHECK: linalg.generic {{.*}} ins(%[[COPY]], %{{.*}} attrs = {dynamo.phase = 2 : i64}
// SCHEDULED-LABEL: func.func @across
// SCHEDULED: scf.forall {{.*}} in (16)
// SCHEDULED: linalg.generic {{.*}} ins(%{{.*}} : tensor<16x256xf32>, i1) {{.*}}dynamo.phase = 0
// SCHEDULED: scf.for
// SCHEDULED-NOT: dynamo.phase = 0
// SCHEDULED: dynamo.phase = 1
func.func @across(%x: memref<256x256xf32, strided<[1, 256]>>, %out: memref<256x256xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 256, 256>, dynamo.reduced_dims = array<i64: 1>} {
  %a = bufferization.to_tensor %x restrict : memref<256x256xf32, strided<[1, 256]>> to tensor<256x256xf32>
  %m = dynamo.reduce max %a dims [1] : tensor<256x256xf32> -> tensor<256xf32>
  %b = dynamo.broadcast %m dims [0] : tensor<256xf32> -> tensor<256x256xf32>
  %r = dynamo.sub %a, %b : tensor<256x256xf32>
  bufferization.materialize_in_destination %r in restrict writable %out : (tensor<256x256xf32>, memref<256x256xf32>) -> ()
  return
}

// A kernel with few elements, and one that traverses its rows once, do not copy.
// CHECK-LABEL: func.func @once
// CHECK-COUNT-1: linalg.generic
// CHECK-NOT: linalg.generic
func.func @once(%x: memref<256x256xf32, strided<[1, 256]>>, %out: memref<256xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 256, 256>, dynamo.reduced_dims = array<i64: 1>} {
  %a = bufferization.to_tensor %x restrict : memref<256x256xf32, strided<[1, 256]>> to tensor<256x256xf32>
  %m = dynamo.reduce max %a dims [1] : tensor<256x256xf32> -> tensor<256xf32>
  bufferization.materialize_in_destination %m in restrict writable %out : (tensor<256xf32>, memref<256xf32>) -> ()
  return
}

// Rows with gaps are copied, too, each with the phases that traverse it.
// CHECK-LABEL: func.func @gaps
// CHECK: %[[X:.*]] = bufferization.to_tensor
// CHECK: %[[COPY:.*]] = linalg.generic {{.*}} ins(%[[X]], %{{.*}} : {{.*}} attrs = {dynamo.phase = 0 : i64}
// CHECK: linalg.generic {{.*}} ins(%[[COPY]] : {{.*}} attrs = {dynamo.phase = 1 : i64}
// CHECK: linalg.generic {{.*}} ins(%[[COPY]], %{{.*}} attrs = {dynamo.phase = 2 : i64}
// SCHEDULED-LABEL: func.func @gaps
// SCHEDULED: scf.for
// SCHEDULED: linalg.generic {{.*}} ins(%{{.*}} : tensor<1x100xf32>, i1) {{.*}}dynamo.phase = 0
func.func @gaps(%x: memref<64x100xf32, strided<[200, 2]>>, %out: memref<64x100xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 64, 100>, dynamo.reduced_dims = array<i64: 1>} {
  %a = bufferization.to_tensor %x restrict : memref<64x100xf32, strided<[200, 2]>> to tensor<64x100xf32>
  %m = dynamo.reduce max %a dims [1] : tensor<64x100xf32> -> tensor<64xf32>
  %b = dynamo.broadcast %m dims [0] : tensor<64xf32> -> tensor<64x100xf32>
  %r = dynamo.sub %a, %b : tensor<64x100xf32>
  bufferization.materialize_in_destination %r in restrict writable %out : (tensor<64x100xf32>, memref<64x100xf32>) -> ()
  return
}

// So are columns with gaps, if several phases traverse them.
// CHECK-LABEL: func.func @columns
// CHECK-COUNT-3: linalg.generic
// CHECK-NOT: linalg.generic
// CHECK-LABEL: func.func @columns_once
// CHECK-COUNT-1: linalg.generic
// CHECK-NOT: linalg.generic
func.func @columns(%x: memref<64x100xf32, strided<[200, 2]>>, %out: memref<64x100xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 64, 100>, dynamo.reduced_dims = array<i64: 0>} {
  %a = bufferization.to_tensor %x restrict : memref<64x100xf32, strided<[200, 2]>> to tensor<64x100xf32>
  %m = dynamo.reduce max %a dims [0] : tensor<64x100xf32> -> tensor<100xf32>
  %b = dynamo.broadcast %m dims [1] : tensor<100xf32> -> tensor<64x100xf32>
  %r = dynamo.sub %a, %b : tensor<64x100xf32>
  bufferization.materialize_in_destination %r in restrict writable %out : (tensor<64x100xf32>, memref<64x100xf32>) -> ()
  return
}
func.func @columns_once(%x: memref<64x100xf32, strided<[200, 2]>>, %out: memref<100xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 64, 100>, dynamo.reduced_dims = array<i64: 0>} {
  %a = bufferization.to_tensor %x restrict : memref<64x100xf32, strided<[200, 2]>> to tensor<64x100xf32>
  %m = dynamo.reduce max %a dims [0] : tensor<64x100xf32> -> tensor<100xf32>
  bufferization.materialize_in_destination %m in restrict writable %out : (tensor<100xf32>, memref<100xf32>) -> ()
  return
}
}
