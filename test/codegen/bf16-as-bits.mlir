// RUN: dynamlir-opt %s --dynamo-bf16-as-bits | FileCheck %s

// Numbers that are only moved are bits. To compute with one, its bits become the upper half of an f32.

// CHECK-LABEL: func.func @moves(%arg0: memref<8xi16, strided<[2], offset: ?>>, %arg1: memref<8xi16>, %arg2: i1, %arg3: index)
// CHECK-NOT: bf16
// CHECK: %[[X:.*]] = memref.load %arg0[%arg3] : memref<8xi16, strided<[2], offset: ?>>
// CHECK: %[[ONE:.*]] = arith.constant 16256 : i16
// CHECK: %[[HALF:.*]] = arith.constant -16768 : i16
// CHECK: %[[S:.*]] = arith.select %arg2, %[[X]], %[[ONE]] : i16
// CHECK: %[[WIDE:.*]] = arith.extui %[[S]] : i16 to i32
// CHECK: %[[UP:.*]] = arith.shli %[[WIDE]], %{{.*}} : i32
// CHECK: arith.bitcast %[[UP]] : i32 to f32
// CHECK: scf.for {{.*}} iter_args(%[[KEPT:.*]] = %[[S]]) -> (i16) {
// CHECK: memref.store %[[KEPT]], %arg1
func.func @moves(%x: memref<8xbf16, strided<[2], offset: ?>>, %y: memref<8xbf16>, %c: i1, %i: index) {
  %0 = memref.load %x[%i] : memref<8xbf16, strided<[2], offset: ?>>
  %one = arith.constant 1.0 : bf16
  %half = arith.constant -0.25 : bf16
  %1 = arith.select %c, %0, %one : bf16
  %2 = arith.extf %1 : bf16 to f32
  %c1 = arith.constant 1 : index
  %3 = scf.for %j = %c1 to %i step %c1 iter_args(%kept = %1) -> (bf16) {
    memref.store %kept, %y[%j] : memref<8xbf16>
    scf.yield %half : bf16
  }
  memref.store %3, %y[%i] : memref<8xbf16>
  return
}

// The same for vectors.

// CHECK-LABEL: func.func @vectors
// CHECK: %[[X:.*]] = vector.load %arg0[%arg1] : memref<64xi16>, vector<16xi16>
// CHECK: %[[WIDE:.*]] = arith.extui %[[X]] : vector<16xi16> to vector<16xi32>
// CHECK: %[[UP:.*]] = arith.shli %[[WIDE]], %{{.*}} : vector<16xi32>
// CHECK: arith.bitcast %[[UP]] : vector<16xi32> to vector<16xf32>
func.func @vectors(%x: memref<64xbf16>, %i: index) -> vector<16xf32> {
  %0 = vector.load %x[%i] : memref<64xbf16>, vector<16xbf16>
  %1 = arith.extf %0 : vector<16xbf16> to vector<16xf32>
  return %1 : vector<16xf32>
}

// The bitcasts of integers to numbers that rounding has left disappear.

// CHECK-LABEL: func.func @rounded
// CHECK-NEXT: memref.store %arg0, %arg1[%arg2] : memref<8xi16>
func.func @rounded(%bits: i16, %y: memref<8xbf16>, %i: index) {
  %0 = arith.bitcast %bits : i16 to bf16
  memref.store %0, %y[%i] : memref<8xbf16>
  return
}

// A function that computes with bf16 remains unchanged.

// CHECK-LABEL: func.func @computes(%arg0: bf16)
// CHECK: arith.addf %arg0, %arg0 : bf16
func.func @computes(%x: bf16) -> bf16 {
  %0 = arith.addf %x, %x : bf16
  return %0 : bf16
}
