// Kernels without reductions: each thread computes one vector of the innermost dimension.

// RUN: dynamlir-opt %s --dynamlir-linalg-to-gpu | FileCheck %s
// RUN: dynamlir-opt %s --dynamlir-linalg-to-nvptx="chip=sm_80 libdevice=none print=true" -o %t.80.mlir >%t.80.ptx
// RUN: dynamlir-opt %s --dynamlir-linalg-to-nvptx="chip=sm_90 libdevice=none print=true" -o %t.90.mlir >%t.90.ptx
// RUN: FileCheck %s --check-prefixes=PTX,SM80 <%t.80.ptx
// RUN: FileCheck %s --check-prefixes=PTX,SM90 <%t.90.ptx
// RUN: FileCheck %s --check-prefix=BINARY <%t.90.mlir
// RUN: %ptxas %t.80.ptx %t.90.ptx

// SM80: .target sm_80
// SM90: .target sm_90

#points = affine_map<(d0) -> (d0)>
#plane = affine_map<(d0, d1) -> (d0, d1)>
#cube = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

module {
module @kernels {
  // 65536 floats are 16384 vectors of 16 bytes, 64 blocks of 256 threads. The code requires the addresses to be multiples
  // of 16, which is recorded on the launch.
  // CHECK-LABEL: gpu.func @add(
  // CHECK-SAME: memref<65536xf32> {llvm.align = 16 : i64, llvm.noalias, llvm.readonly}
  // CHECK-SAME: memref<65536xf32> {llvm.align = 16 : i64, llvm.noalias})
  // CHECK-SAME: kernel attributes {dynamo.launch = {alignments = array<i64: 16, 16, 16>, block = array<i64: 256, 1, 1>,
  // CHECK-SAME: grid = array<i64: 64, 1, 1>, shared = 0 : i64, written = array<i64: 0, 0, 1>}
  // CHECK-NOT: scf.if
  // CHECK: vector.load {{.*}} {alignment = 16 : i64} : memref<65536xf32>, vector<4xf32>
  // CHECK: vector.load
  // CHECK-COUNT-4: arith.addf
  // CHECK: vector.store {{.*}} {alignment = 16 : i64}
  // CHECK: gpu.return
  // PTX: .entry add(
  // PTX: .maxntid 256
  // PTX: ld.global.nc.v4.b32
  // PTX: ld.global.nc.v4.b32
  // PTX-COUNT-4: add.rn.f32
  // PTX: st.global.v4.b32
  func.func @add(%a: memref<65536xf32> {llvm.noalias}, %b: memref<65536xf32> {llvm.noalias}, %c: memref<65536xf32> {llvm.noalias})
      attributes {dynamo.kernel} {
    %0 = bufferization.to_tensor %a restrict : memref<65536xf32> to tensor<65536xf32>
    %1 = bufferization.to_tensor %b restrict : memref<65536xf32> to tensor<65536xf32>
    %e = tensor.empty() : tensor<65536xf32>
    %r = linalg.generic {indexing_maps = [#points, #points, #points], iterator_types = ["parallel"]}
        ins(%0, %1 : tensor<65536xf32>, tensor<65536xf32>) outs(%e : tensor<65536xf32>) attrs = {dynamo.phase = 0 : i64} {
    ^bb0(%x: f32, %y: f32, %o: f32):
      %s = arith.addf %x, %y : f32
      linalg.yield %s : f32
    } -> tensor<65536xf32>
    bufferization.materialize_in_destination %r in restrict writable %c : (tensor<65536xf32>, memref<65536xf32>) -> ()
    return
  }

  // Eight 16-bit numbers are moved at a time. A conversion to f32 and one back are one instruction each.
  // CHECK-LABEL: gpu.func @half_precision(
  // CHECK: vector.load {{.*}} vector<8xbf16>
  // PTX-LABEL: .entry half_precision(
  // PTX: ld.global.v4.b32
  // PTX: cvt.rn.bf16x2.f32
  // PTX: st.global.v4.b32
  func.func @half_precision(%a: memref<4096xbf16>, %c: memref<4096xbf16>) attributes {dynamo.kernel} {
    %0 = bufferization.to_tensor %a restrict : memref<4096xbf16> to tensor<4096xbf16>
    %e = tensor.empty() : tensor<4096xbf16>
    %c0 = arith.constant 1.5 : f32
    %r = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel"]}
        ins(%0 : tensor<4096xbf16>) outs(%e : tensor<4096xbf16>) attrs = {dynamo.phase = 0 : i64} {
    ^bb0(%x: bf16, %o: bf16):
      %w = arith.extf %x : bf16 to f32
      %m = arith.mulf %w, %c0 : f32
      %n = arith.addf %m, %c0 : f32
      %s = arith.truncf %n : f32 to bf16
      linalg.yield %s : bf16
    } -> tensor<4096xbf16>
    bufferization.materialize_in_destination %r in restrict writable %c : (tensor<4096xbf16>, memref<4096xbf16>) -> ()
    return
  }

  // Rows of 30 elements consist of vectors of two. 105 of these do not fill the last warp: threads past the end do nothing.
  // A transposed operand is read element by element, and so is one whose rows do not start on a whole vector.
  // CHECK-LABEL: gpu.func @gaps(
  // CHECK-SAME: block = array<i64: 128, 1, 1>, grid = array<i64: 1, 1, 1>
  // CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %{{.*}}, %c105
  // CHECK: scf.if %[[INSIDE]]
  // CHECK: memref.load %{{.*}} : memref<7x30xf32, strided<[1, 7]>>
  // CHECK: memref.load %{{.*}} : memref<7x30xf32, strided<[1, 7]>>
  // CHECK: memref.load %{{.*}} : memref<7x30xf32, strided<[31, 1]>>
  // CHECK: memref.load %{{.*}} : memref<7x30xf32, strided<[31, 1]>>
  // CHECK: vector.store %{{.*}} {alignment = 8 : i64} : memref<7x30xf32>, vector<2xf32>
  // PTX-LABEL: .entry gaps(
  // PTX: setp
  // PTX: st.global.v2.b32
  func.func @gaps(%a: memref<7x30xf32, strided<[1, 7]>>, %b: memref<7x30xf32, strided<[31, 1]>>, %c: memref<7x30xf32>)
      attributes {dynamo.kernel} {
    %0 = bufferization.to_tensor %a restrict : memref<7x30xf32, strided<[1, 7]>> to tensor<7x30xf32>
    %1 = bufferization.to_tensor %b restrict : memref<7x30xf32, strided<[31, 1]>> to tensor<7x30xf32>
    %e = tensor.empty() : tensor<7x30xf32>
    %r = linalg.generic {indexing_maps = [#plane, #plane, #plane], iterator_types = ["parallel", "parallel"]}
        ins(%0, %1 : tensor<7x30xf32>, tensor<7x30xf32>) outs(%e : tensor<7x30xf32>) attrs = {dynamo.phase = 0 : i64} {
    ^bb0(%x: f32, %y: f32, %o: f32):
      %s = arith.mulf %x, %y : f32
      linalg.yield %s : f32
    } -> tensor<7x30xf32>
    bufferization.materialize_in_destination %r in restrict writable %c : (tensor<7x30xf32>, memref<7x30xf32>) -> ()
    return
  }

  // Three dimensions are traversed with one number. The index of a point, a condition stored as a byte, and a row that is
  // the same for all (stride 0), which is read once per vector.
  // CHECK-LABEL: gpu.func @where(
  // CHECK: arith.remui
  // CHECK: arith.divui
  // CHECK: vector.load %{{.*}} {alignment = 4 : i64} : memref<2x3x64xi8>, vector<4xi8>
  // CHECK-COUNT-1: memref.load %{{.*}} : memref<2x3x64xf32, strided<[0, 1, 0]>>
  // CHECK-NOT: memref.load
  // CHECK: gpu.return
  // PTX-LABEL: .entry where(
  func.func @where(%m: memref<2x3x64xi8>, %a: memref<2x3x64xf32, strided<[0, 1, 0]>>, %c: memref<2x3x64xf32>) attributes {dynamo.kernel} {
    %0 = bufferization.to_tensor %m restrict : memref<2x3x64xi8> to tensor<2x3x64xi8>
    %1 = bufferization.to_tensor %a restrict : memref<2x3x64xf32, strided<[0, 1, 0]>> to tensor<2x3x64xf32>
    %e = tensor.empty() : tensor<2x3x64xf32>
    %r = linalg.generic {indexing_maps = [#cube, #cube, #cube], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%0, %1 : tensor<2x3x64xi8>, tensor<2x3x64xf32>) outs(%e : tensor<2x3x64xf32>) attrs = {dynamo.phase = 0 : i64} {
    ^bb0(%b: i8, %x: f32, %o: f32):
      %zero = arith.constant 0 : i8
      %p = arith.cmpi ne, %b, %zero : i8
      %i = linalg.index 2 : index
      %j = arith.index_cast %i : index to i64
      %f = arith.sitofp %j : i64 to f32
      %s = arith.select %p, %x, %f : f32
      linalg.yield %s : f32
    } -> tensor<2x3x64xf32>
    bufferization.materialize_in_destination %r in restrict writable %c : (tensor<2x3x64xf32>, memref<2x3x64xf32>) -> ()
    return
  }

  // Rows of a table selected by index: the table is read element by element, wherever the indices point.
  // CHECK-LABEL: gpu.func @embedding(
  // CHECK: %[[ROW:.*]] = arith.index_cast %{{.*}} : i64 to index
  // CHECK: memref.load %{{.*}}[%[[ROW]], %{{.*}}] : memref<50x8xf32>
  // PTX-LABEL: .entry embedding(
  func.func @embedding(%i: memref<9x8xi64, strided<[1, 0]>>, %t: memref<50x8xf32>, %c: memref<9x8xf32>) attributes {dynamo.kernel} {
    %0 = bufferization.to_tensor %i restrict : memref<9x8xi64, strided<[1, 0]>> to tensor<9x8xi64>
    %1 = bufferization.to_tensor %t restrict : memref<50x8xf32> to tensor<50x8xf32>
    %e = tensor.empty() : tensor<9x8xf32>
    %r = linalg.generic {indexing_maps = [#plane, #plane], iterator_types = ["parallel", "parallel"]}
        ins(%0 : tensor<9x8xi64>) outs(%e : tensor<9x8xf32>) attrs = {dynamo.phase = 0 : i64} {
    ^bb0(%x: i64, %o: f32):
      %row = arith.index_cast %x : i64 to index
      %column = linalg.index 1 : index
      %s = tensor.extract %1[%row, %column] : tensor<50x8xf32>
      linalg.yield %s : f32
    } -> tensor<9x8xf32>
    bufferization.materialize_in_destination %r in restrict writable %c : (tensor<9x8xf32>, memref<9x8xf32>) -> ()
    return
  }
}
}

// The code, with its launches; in @kernels only the declarations remain, which the graph's launches refer to.
// BINARY: gpu.binary @device
// BINARY-SAME: dynamo.launches = {add = {alignments = array<i64: 16, 16, 16>
// BINARY-SAME: #gpu.object<#nvvm.target<chip = "sm_90">, assembly = "
// BINARY: func.func private @add(memref<65536xf32>, memref<65536xf32>, memref<65536xf32>) attributes {dynamo.code = @device::@add}
