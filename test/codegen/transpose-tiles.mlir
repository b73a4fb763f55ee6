// RUN: dynamlir-opt %s --dynamo-attach-target=cpu=x86-64-v4 --dynamo-transpose-tiles | FileCheck %s
// RUN: dynamlir-opt %s --dynamo-attach-target=cpu=x86-64 --dynamo-transpose-tiles | FileCheck %s --check-prefix=NONE

// For a machine without vectors, nothing is transposed in registers.
// NONE-NOT: memref.alloca

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (j)>

// Neighbours of %x are along %i: a tile of it is copied, sixteen rows of sixteen at a time, and the phase uses the copy.
// CHECK-LABEL: func.func @across
// CHECK-SAME: (%[[X:.*]]: memref<64x128xf32, strided<[1, 64]>>, %[[Y:.*]]: memref<64x128xf32>, %[[OUT:.*]]: memref<64x128xf32>)
// CHECK: %[[BUFFER:.*]] = memref.alloca() {alignment = 64 : i64} : memref<32x64xf32>
// CHECK: scf.for %[[I:.*]] =
// CHECK: scf.for %[[J:.*]] =
// CHECK: %[[WINDOW:.*]] = memref.subview %[[X]][%[[I]], %[[J]]] [32, 64] [1, 1]
// CHECK: %[[OF_Y:.*]] = memref.subview %[[Y]][%[[I]], %[[J]]] [32, 64] [1, 1]
// CHECK: %[[OF_OUT:.*]] = memref.subview %[[OUT]][%[[I]], %[[J]]] [32, 64] [1, 1]
// CHECK: %[[ROWS:.*]] = memref.reinterpret_cast %{{.*}} sizes: [64, 32], strides: [64, 1]
// CHECK-COUNT-16: vector.load %[[ROWS]]
// CHECK-COUNT-64: vector.shuffle
// CHECK-COUNT-16: vector.store %{{.*}}, %[[BUFFER]]
// CHECK: %[[OF_X:.*]] = memref.reinterpret_cast %[[BUFFER]]
// CHECK: linalg.generic {{.*}} ins(%[[OF_X]], %[[OF_Y]] : {{.*}}) outs(%[[OF_OUT]]
func.func @across(%x: memref<64x128xf32, strided<[1, 64]>>, %y: memref<64x128xf32>, %out: memref<64x128xf32>) {
  linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : memref<64x128xf32, strided<[1, 64]>>, memref<64x128xf32>) outs(%out : memref<64x128xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  }
  return
}

// An operand that is only copied goes directly to its destination. The remainders at the ends are copied one by one.
// CHECK-LABEL: func.func @copy
// CHECK-NOT: memref.alloca
// CHECK: arith.minsi
// CHECK: scf.if
// CHECK-COUNT-8: vector.load %{{.*}} : {{.*}}, vector<8xf64>
// CHECK-COUNT-24: vector.shuffle
// CHECK: } else {
// CHECK: memref.load
// CHECK: memref.store
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @copy(%x: memref<?x100xf64, strided<[1, ?]>>, %out: memref<?x100xf64, strided<[100, 1]>>) {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<?x100xf64, strided<[1, ?]>>) outs(%out : memref<?x100xf64, strided<[100, 1]>>) {
  ^bb0(%a: f64, %b: f64):
    linalg.yield %a : f64
  }
  return
}

// If the output lies across the loops, the loops are interchanged: then %x lies across them.
// CHECK-LABEL: func.func @written
// CHECK-SAME: (%[[X:.*]]: memref<64x16xf32>,
// CHECK: memref.alloca() {{.*}} : memref<32x64xf32>
// CHECK: memref.subview %[[X]][%{{.*}}, %{{.*}}] [64, 16]
// CHECK: vector.shuffle
// CHECK: linalg.generic {indexing_maps = [#[[T:.*]], #[[F:.*]], #[[T]]]
func.func @written(%x: memref<64x16xf32>, %y: memref<16xf32>, %out: memref<64x16xf32, strided<[1, 64]>>) {
  linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : memref<64x16xf32>, memref<16xf32>) outs(%out : memref<64x16xf32, strided<[1, 64]>>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %0 = arith.divf %a, %b : f32
    linalg.yield %0 : f32
  }
  return
}

// Neighbours with gaps: two vectors are loaded for one; the second ends at the last neighbour. The buffer does not have gaps.
// CHECK-LABEL: func.func @gaps
// CHECK: memref.alloca() {{.*}} : memref<32x64xf64>
// CHECK: memref.reinterpret_cast %{{.*}} sizes: [64, 64], strides: [128, 1]
// CHECK: vector.load %{{.*}}, vector<8xf64>
// CHECK: vector.load %{{.*}}, vector<8xf64>
// CHECK: vector.shuffle %{{.*}}, %{{.*}} [0, 2, 4, 6, 9, 11, 13, 15]
// CHECK: linalg.generic
func.func @gaps(%x: memref<64x64xf64, strided<[2, 128]>>, %out: memref<64x64xf64>) {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<64x64xf64, strided<[2, 128]>>) outs(%out : memref<64x64xf64>) {
  ^bb0(%a: f64, %b: f64):
    %0 = arith.addf %a, %a : f64
    linalg.yield %0 : f64
  }
  return
}

// Gaps of two elements: three vectors.
// CHECK-LABEL: func.func @wider_gaps
// CHECK-COUNT-2: vector.load %{{.*}}, vector<8xf64>
// CHECK: vector.shuffle %{{.*}}, %{{.*}} [0, 3, 6, 9, 12, 15, 15, 15]
// CHECK: vector.load %{{.*}}, vector<8xf64>
// CHECK: vector.shuffle %{{.*}}, %{{.*}} [0, 1, 2, 3, 4, 5, 12, 15]
func.func @wider_gaps(%x: memref<64x64xf64, strided<[3, 192]>>, %out: memref<64x64xf64>) {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<64x64xf64, strided<[3, 192]>>) outs(%out : memref<64x64xf64>) {
  ^bb0(%a: f64, %b: f64):
    linalg.yield %a : f64
  }
  return
}

// Indices count from the start of the tile; if loops are interchanged, so are the indices.
// CHECK-LABEL: func.func @position
// CHECK: scf.for %[[I:.*]] =
// CHECK: scf.for %[[J:.*]] =
// CHECK: linalg.generic
// CHECK: %[[IN:.*]] = linalg.index 1
// CHECK: arith.addi %[[IN]], %[[J]]
func.func @position(%y: memref<64x64xi64, strided<[1, 64]>>, %out: memref<64x64xi64>) {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%y : memref<64x64xi64, strided<[1, 64]>>) outs(%out : memref<64x64xi64>) {
  ^bb0(%a: i64, %b: i64):
    %i = linalg.index 1 : index
    %0 = arith.index_cast %i : index to i64
    %1 = arith.addi %0, %a : i64
    linalg.yield %1 : i64
  }
  return
}

// CHECK-LABEL: func.func @position_of_what_is_written
// CHECK: scf.for %[[J:.*]] =
// CHECK: scf.for %[[I:.*]] =
// CHECK: linalg.generic
// CHECK: %[[IN:.*]] = linalg.index 0
// CHECK: arith.addi %[[IN]], %[[J]]
func.func @position_of_what_is_written(%y: memref<64x64xi64>, %out: memref<64x64xi64, strided<[1, 64]>>) {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%y : memref<64x64xi64>) outs(%out : memref<64x64xi64, strided<[1, 64]>>) {
  ^bb0(%a: i64, %b: i64):
    %i = linalg.index 1 : index
    %0 = arith.index_cast %i : index to i64
    %1 = arith.addi %0, %a : i64
    linalg.yield %1 : i64
  }
  return
}

// Unchanged: steps of two, operands that are constant along either loop, and few elements.
// CHECK-LABEL: func.func @others
// CHECK-NOT: scf.for
func.func @others(%x: memref<64x64xf32, strided<[128, 2]>>, %y: memref<64xf32>, %z: memref<4x64xf32, strided<[1, 4]>>, %still: memref<64x64xf32, strided<[1, 0]>>, %out: memref<64x64xf32>, %few: memref<4x64xf32>) {
  linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : memref<64x64xf32, strided<[128, 2]>>, memref<64xf32>) outs(%out : memref<64x64xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  }
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%z : memref<4x64xf32, strided<[1, 4]>>) outs(%few : memref<4x64xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%still : memref<64x64xf32, strided<[1, 0]>>) outs(%out : memref<64x64xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }
  return
}
