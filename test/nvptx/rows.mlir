// Reductions along the last dimension: the threads of a block share a row.

// RUN: dynamlir-opt %s --dynamlir-linalg-to-gpu | FileCheck %s
// RUN: dynamlir-opt %s --dynamlir-linalg-to-nvptx="chip=sm_80 libdevice=none print=true" -o %t.80.mlir >%t.80.ptx
// RUN: dynamlir-opt %s --dynamlir-linalg-to-nvptx="chip=sm_90 libdevice=none print=true" -o %t.90.mlir >%t.90.ptx
// RUN: FileCheck %s --check-prefix=PTX <%t.80.ptx
// RUN: FileCheck %s --check-prefix=PTX <%t.90.ptx
// RUN: %ptxas %t.80.ptx %t.90.ptx

#plane = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#cube = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#middle = affine_map<(d0, d1, d2) -> (d1)>
#point = affine_map<(d0) -> (d0)>
#all = affine_map<(d0) -> ()>

module {
module @kernels {
  // 1024 floats are 256 vectors: one for each of 256 threads. Five shuffles combine a warp; eight warps exchange their results in
  // shared memory, where each lane reads one of the eight, and three more shuffles give every thread the total. The first writes it.
  // CHECK-LABEL: gpu.func @sum(
  // CHECK-SAME: workgroup(%[[SHARED:.*]] : memref<8xf32, #gpu.address_space<workgroup>>)
  // CHECK-SAME: block = array<i64: 256, 1, 1>, grid = array<i64: 64, 1, 1>
  // CHECK: vector.load
  // CHECK-COUNT-4: arith.addf
  // CHECK-COUNT-5: gpu.shuffle xor
  // CHECK: memref.store %{{.*}}, %[[SHARED]]
  // CHECK: gpu.barrier
  // CHECK: memref.load %[[SHARED]]
  // CHECK-COUNT-3: gpu.shuffle xor
  // CHECK-NOT: gpu.shuffle
  // CHECK: gpu.barrier
  // CHECK: scf.if
  // CHECK: memref.store %{{.*}} : memref<64xf32>
  // PTX: .entry sum(
  // PTX: .shared
  // PTX: ld.global.v4.b32
  // PTX: shfl.sync.bfly.b32 {{.*}}, 16, 31, -1
  // PTX: bar.sync 0
  // PTX: shfl.sync.bfly.b32 {{.*}}, 4, 31, -1
  // PTX: st.global.b32
  func.func @sum(%a: memref<64x1024xf32>, %c: memref<64xf32>) attributes {dynamo.kernel} {
    %0 = bufferization.to_tensor %a restrict : memref<64x1024xf32> to tensor<64x1024xf32>
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<64xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
    %r = linalg.generic {indexing_maps = [#plane, #row], iterator_types = ["parallel", "reduction"]}
        ins(%0 : tensor<64x1024xf32>) outs(%f : tensor<64xf32>) attrs = {dynamo.phase = 0 : i64} {
    ^bb0(%x: f32, %o: f32):
      %s = arith.addf %o, %x fastmath<reassoc> : f32
      linalg.yield %s : f32
    } -> tensor<64xf32>
    bufferization.materialize_in_destination %r in restrict writable %c : (tensor<64xf32>, memref<64xf32>) -> ()
    return
  }

  // Each short row is one warp's, with four warps per block: no shared memory. 37 elements are not a whole number of vectors, and the
  // second chunk is partly filled: lanes past the end add nothing. 2005 rows are not whole blocks: warps without a row write nothing.
  // CHECK-LABEL: gpu.func @maximum(
  // CHECK-NOT: workgroup
  // CHECK-SAME: block = array<i64: 32, 4, 1>, grid = array<i64: 502, 1, 1>
  // CHECK: %[[ROW:.*]] = arith.minui %{{.*}}, %c2004
  // CHECK: %[[SECOND:.*]] = arith.addi %thread_id_x, %c32
  // CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %[[SECOND]], %c37
  // CHECK: memref.load %{{.*}}[%[[ROW]],
  // CHECK: memref.load %{{.*}}[%[[ROW]],
  // CHECK: %[[TAKEN:.*]] = arith.maximumf
  // CHECK: arith.select %[[INSIDE]], %[[TAKEN]]
  // CHECK-COUNT-5: gpu.shuffle
  // PTX-LABEL: .entry maximum(
  // PTX: max.NaN.f32
  // PTX-COUNT-5: shfl.sync.bfly.b32
  func.func @maximum(%a: memref<2005x37xf32>, %c: memref<2005xf32>) attributes {dynamo.kernel} {
    %0 = bufferization.to_tensor %a restrict : memref<2005x37xf32> to tensor<2005x37xf32>
    %lowest = arith.constant 0xFF800000 : f32
    %e = tensor.empty() : tensor<2005xf32>
    %f = linalg.fill ins(%lowest : f32) outs(%e : tensor<2005xf32>) -> tensor<2005xf32>
    %r = linalg.generic {indexing_maps = [#plane, #row], iterator_types = ["parallel", "reduction"]}
        ins(%0 : tensor<2005x37xf32>) outs(%f : tensor<2005xf32>) attrs = {dynamo.phase = 0 : i64} {
    ^bb0(%x: f32, %o: f32):
      %s = arith.maximumf %o, %x : f32
      linalg.yield %s : f32
    } -> tensor<2005xf32>
    bufferization.materialize_in_destination %r in restrict writable %c : (tensor<2005xf32>, memref<2005xf32>) -> ()
    return
  }

  // Long sums are computed in f64, as on the CPU. The hardware shuffles words: a double is two. A row that does not fit into the
  // registers of any block is a loop.
  // CHECK-LABEL: gpu.func @long_sum(
  // CHECK: scf.for %{{.*}} = %c0{{.*}} to %c64{{.*}} iter_args(%{{.*}} = %{{.*}}) -> (f64)
  // CHECK: vector.load {{.*}} vector<4xf32>
  // CHECK: arith.extf
  // CHECK: scf.yield
  // CHECK-COUNT-10: gpu.shuffle xor
  // CHECK: arith.truncf
  // PTX-LABEL: .entry long_sum(
  // PTX: cvt.f64.f32
  // PTX: add.rn.f64
  // PTX: shfl.sync
  func.func @long_sum(%a: memref<262144xf32>, %c: memref<f32>) attributes {dynamo.kernel} {
    %0 = bufferization.to_tensor %a restrict : memref<262144xf32> to tensor<262144xf32>
    %zero = arith.constant 0.0 : f64
    %e = tensor.empty() : tensor<f64>
    %f = linalg.fill ins(%zero : f64) outs(%e : tensor<f64>) -> tensor<f64>
    %r = linalg.generic {indexing_maps = [#point, #all], iterator_types = ["reduction"]}
        ins(%0 : tensor<262144xf32>) outs(%f : tensor<f64>) attrs = {dynamo.phase = 0 : i64} {
    ^bb0(%x: f32, %o: f64):
      %w = arith.extf %x : f32 to f64
      %s = arith.addf %o, %w fastmath<reassoc> : f64
      linalg.yield %s : f64
    } -> tensor<f64>
    %g = tensor.empty() : tensor<f32>
    %t = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []}
        ins(%r : tensor<f64>) outs(%g : tensor<f32>) attrs = {dynamo.phase = 1 : i64} {
    ^bb0(%x: f64, %o: f32):
      %s = arith.truncf %x : f64 to f32
      linalg.yield %s : f32
    } -> tensor<f32>
    bufferization.materialize_in_destination %t in restrict writable %c : (tensor<f32>, memref<f32>) -> ()
    return
  }

  // Two reduced dimensions with a kept one between them (the statistics of a batch norm): the row is traversed with one
  // number, innermost fastest, so that adjacent threads still read adjacent memory. Sum and sum of squares are one pass.
  // CHECK-LABEL: gpu.func @statistics(
  // CHECK: arith.remui
  // CHECK: arith.divui
  // CHECK: vector.load {{.*}} vector<4xf32>
  // CHECK: gpu.barrier
  // CHECK: gpu.barrier
  // PTX-LABEL: .entry statistics(
  func.func @statistics(%a: memref<4x16x256xf32>, %c: memref<16xf32>, %d: memref<16xf32>) attributes {dynamo.kernel} {
    %0 = bufferization.to_tensor %a restrict : memref<4x16x256xf32> to tensor<4x16x256xf32>
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<16xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16xf32>) -> tensor<16xf32>
    %r:2 = linalg.generic {indexing_maps = [#cube, #middle, #middle], iterator_types = ["reduction", "parallel", "reduction"]}
        ins(%0 : tensor<4x16x256xf32>) outs(%f, %f : tensor<16xf32>, tensor<16xf32>) attrs = {dynamo.phase = 0 : i64} {
    ^bb0(%x: f32, %o: f32, %p: f32):
      %s = arith.addf %o, %x fastmath<reassoc> : f32
      %q = arith.mulf %x, %x : f32
      %t = arith.addf %p, %q fastmath<reassoc> : f32
      linalg.yield %s, %t : f32, f32
    } -> (tensor<16xf32>, tensor<16xf32>)
    bufferization.materialize_in_destination %r#0 in restrict writable %c : (tensor<16xf32>, memref<16xf32>) -> ()
    bufferization.materialize_in_destination %r#1 in restrict writable %d : (tensor<16xf32>, memref<16xf32>) -> ()
    return
  }

  // Bools and 64-bit integers: any of a row, and the index of its first maximum. Narrow numbers are shuffled as words.
  // CHECK-LABEL: gpu.func @any_and_least(
  // CHECK: arith.extui %{{.*}} : i1 to i32
  // CHECK: gpu.shuffle xor %{{.*}} : i32
  // CHECK: arith.trunci %{{.*}} : i32 to i1
  // CHECK: arith.minsi
  // PTX-LABEL: .entry any_and_least(
  func.func @any_and_least(%a: memref<3x200xi64>, %c: memref<3xi8>, %d: memref<3xi64>) attributes {dynamo.kernel} {
    %0 = bufferization.to_tensor %a restrict : memref<3x200xi64> to tensor<3x200xi64>
    %false = arith.constant false
    %most = arith.constant 9223372036854775807 : i64
    %e = tensor.empty() : tensor<3xi1>
    %f = linalg.fill ins(%false : i1) outs(%e : tensor<3xi1>) -> tensor<3xi1>
    %g = tensor.empty() : tensor<3xi64>
    %h = linalg.fill ins(%most : i64) outs(%g : tensor<3xi64>) -> tensor<3xi64>
    %r:2 = linalg.generic {indexing_maps = [#plane, #row, #row], iterator_types = ["parallel", "reduction"]}
        ins(%0 : tensor<3x200xi64>) outs(%f, %h : tensor<3xi1>, tensor<3xi64>) attrs = {dynamo.phase = 0 : i64} {
    ^bb0(%x: i64, %o: i1, %p: i64):
      %zero = arith.constant 0 : i64
      %b = arith.cmpi slt, %x, %zero : i64
      %s = arith.ori %o, %b : i1
      %i = linalg.index 1 : index
      %j = arith.index_cast %i : index to i64
      %k = arith.select %b, %j, %most : i64
      %t = arith.minsi %p, %k : i64
      linalg.yield %s, %t : i1, i64
    } -> (tensor<3xi1>, tensor<3xi64>)
    %w = tensor.empty() : tensor<3xi8>
    %v = linalg.generic {indexing_maps = [#point, #point], iterator_types = ["parallel"]}
        ins(%r#0 : tensor<3xi1>) outs(%w : tensor<3xi8>) attrs = {dynamo.phase = 1 : i64} {
    ^bb0(%x: i1, %o: i8):
      %s = arith.extui %x : i1 to i8
      linalg.yield %s : i8
    } -> tensor<3xi8>
    bufferization.materialize_in_destination %v in restrict writable %c : (tensor<3xi8>, memref<3xi8>) -> ()
    bufferization.materialize_in_destination %r#1 in restrict writable %d : (tensor<3xi64>, memref<3xi64>) -> ()
    return
  }
}
}
