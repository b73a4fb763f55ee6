// RUN: dynamlir-opt %s --dynamo-attach-target=cpu=x86-64-v4 --dynamo-block-sums | FileCheck %s
// RUN: dynamlir-opt %s --dynamo-attach-target=cpu=x86-64 --dynamo-block-sums | FileCheck %s --check-prefix=NONE

// For a machine without known vectors, everything is added in f64.
// NONE-NOT: vector
// NONE-NOT: dynamo.long_sum

#along = affine_map<(i) -> (i)>
#sum = affine_map<(i) -> ()>
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>

// Four vectors of sums at a time, of 32 terms each, which are then added to sums in f64.
// CHECK-LABEL: func.func @everything
// CHECK-SAME: (%[[X:.*]]: memref<4096xf32>, %[[S:.*]]: memref<f64>)
// CHECK: %[[TOTAL:.*]] = scf.for %[[I:.*]] = %c0 to %c4096{{.*}} step %c2048 iter_args(%[[SUMS:.*]] = %{{.*}}) -> (vector<16xf64>) {
// CHECK: %[[FEW:.*]]:4 = scf.for %{{.*}} = %[[I]] to %{{.*}} step %c64
// CHECK-COUNT-4: vector.load %[[X]]
// CHECK: scf.yield {{.*}} : vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>
// CHECK: %[[A:.*]] = arith.addf %[[FEW]]#0, %[[FEW]]#1 : vector<16xf32>
// CHECK: %[[B:.*]] = arith.addf %[[FEW]]#2, %[[FEW]]#3 : vector<16xf32>
// CHECK: %[[C:.*]] = arith.addf %[[A]], %[[B]]
// CHECK: %[[WIDE:.*]] = arith.extf %[[C]] : vector<16xf32> to vector<16xf64>
// CHECK: arith.addf %[[SUMS]], %[[WIDE]]
// CHECK: vector.reduction <add>, %[[TOTAL]] {{.*}} : vector<16xf64> into f64
// CHECK-NOT: scf.for
// CHECK: memref.store %{{.*}}, %[[S]][]
// CHECK: return
func.func @everything(%x: memref<4096xf32>, %s: memref<f64>) {
  linalg.generic {indexing_maps = [#along, #sum], iterator_types = ["reduction"]}
      ins(%x : memref<4096xf32>) outs(%s : memref<f64>) attrs = {dynamo.long_sum} {
  ^bb0(%a: f32, %b: f64):
    %0 = arith.extf %a : f32 to f64
    %1 = arith.addf %b, %0 fastmath<reassoc> : f64
    linalg.yield %1 : f64
  }
  return
}

// Terms may be computed from operands along the row or constant in it. The remainder of a row is added one by one, in f64.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: (%[[X:.*]]: memref<8x?xbf16>, %[[Y:.*]]: memref<8xf32>, %[[S:.*]]: memref<8xf64>)
// CHECK: scf.for %[[ROW:.*]] =
// CHECK: vector.load %[[X]][%[[ROW]], %{{.*}}] : {{.*}}, vector<16xbf16>
// CHECK: memref.load %[[Y]][%[[ROW]]]
// CHECK: vector.broadcast
// CHECK: arith.extf %{{.*}} : vector<16xbf16> to vector<16xf32>
// CHECK: arith.mulf %{{.*}} : vector<16xf32>
// CHECK: vector.reduction <add>
// CHECK: scf.for
// CHECK: memref.load %[[X]]
// CHECK: arith.mulf %{{.*}} : f32
// CHECK: arith.addf %{{.*}} : f64
func.func @rows(%x: memref<8x?xbf16>, %y: memref<8xf32>, %s: memref<8xf64>) {
  linalg.generic {indexing_maps = [#id, #row, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x, %y : memref<8x?xbf16>, memref<8xf32>) outs(%s : memref<8xf64>) attrs = {dynamo.long_sum} {
  ^bb0(%a: bf16, %b: f32, %c: f64):
    %0 = arith.extf %a : bf16 to f32
    %1 = arith.mulf %0, %b : f32
    %2 = arith.extf %1 : f32 to f64
    %3 = arith.addf %c, %2 fastmath<reassoc> : f64
    linalg.yield %3 : f64
  }
  return
}

// Columns: 32 rows are added in f32, and their sum is added to the sums in f64.
// CHECK-LABEL: func.func @columns
// CHECK-SAME: (%[[X:.*]]: memref<1000x64xf32>, %[[S:.*]]: memref<64xf64>)
// CHECK: %[[FEW:.*]] = memref.alloca() {{.*}} : memref<64xf32>
// CHECK: scf.for %[[I:.*]] = %c0 to %c1000 step
// CHECK: linalg.fill {{.*}} outs(%[[FEW]] : memref<64xf32>)
// CHECK: scf.for %{{.*}} = %[[I]] to
// CHECK: linalg.generic {{.*}} outs(%[[FEW]] : memref<64xf32>)
// CHECK: arith.addf %{{.*}} : f32
// CHECK: linalg.generic {{.*}} ins(%[[FEW]] : memref<64xf32>) outs(%[[S]] : memref<64xf64>)
// CHECK: arith.extf
// CHECK: arith.addf %{{.*}} : f64
func.func @columns(%x: memref<1000x64xf32>, %s: memref<64xf64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c1000 = arith.constant 1000 : index
  scf.for %i = %c0 to %c1000 step %c1 {
    %row = memref.subview %x[%i, 0] [1, 64] [1, 1] : memref<1000x64xf32> to memref<1x64xf32, strided<[64, 1], offset: ?>>
    linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
        ins(%row : memref<1x64xf32, strided<[64, 1], offset: ?>>) outs(%s : memref<64xf64>) attrs = {dynamo.long_sum} {
    ^bb0(%a: f32, %b: f64):
      %0 = arith.extf %a : f32 to f64
      %1 = arith.addf %b, %0 fastmath<reassoc> : f64
      linalg.yield %1 : f64
    }
  }
  return
}

// A sum that the program requests in f64 is computed in f64. So is a sum with gaps, and one that is too short for vectors.
// CHECK-LABEL: func.func @others
// CHECK-NOT: vector
// CHECK: return
func.func @others(%x: memref<4096xf32>, %gaps: memref<4096xf32, strided<[2]>>, %short: memref<10xf32>, %s: memref<f64>) {
  linalg.generic {indexing_maps = [#along, #sum], iterator_types = ["reduction"]}
      ins(%x : memref<4096xf32>) outs(%s : memref<f64>) {
  ^bb0(%a: f32, %b: f64):
    %0 = arith.extf %a : f32 to f64
    %1 = arith.addf %b, %0 fastmath<reassoc> : f64
    linalg.yield %1 : f64
  }
  linalg.generic {indexing_maps = [#along, #sum], iterator_types = ["reduction"]}
      ins(%gaps : memref<4096xf32, strided<[2]>>) outs(%s : memref<f64>) attrs = {dynamo.long_sum} {
  ^bb0(%a: f32, %b: f64):
    %0 = arith.extf %a : f32 to f64
    %1 = arith.addf %b, %0 fastmath<reassoc> : f64
    linalg.yield %1 : f64
  }
  linalg.generic {indexing_maps = [#along, #sum], iterator_types = ["reduction"]}
      ins(%short : memref<10xf32>) outs(%s : memref<f64>) attrs = {dynamo.long_sum} {
  ^bb0(%a: f32, %b: f64):
    %0 = arith.extf %a : f32 to f64
    %1 = arith.addf %b, %0 fastmath<reassoc> : f64
    linalg.yield %1 : f64
  }
  return
}
