// Reductions of dimensions other than the last: 32 columns side by side, one per lane, and several threads per column.

// RUN: dynamlir-opt %s --dynamlir-linalg-to-gpu | FileCheck %s
// RUN: dynamlir-opt %s --dynamlir-linalg-to-nvptx="chip=sm_80 libdevice=none print=true" -o %t.80.mlir >%t.80.ptx
// RUN: dynamlir-opt %s --dynamlir-linalg-to-nvptx="chip=sm_90 libdevice=none print=true" -o %t.90.mlir >%t.90.ptx
// RUN: FileCheck %s --check-prefix=PTX <%t.80.ptx
// RUN: FileCheck %s --check-prefix=PTX <%t.90.ptx
// RUN: %ptxas %t.80.ptx %t.90.ptx

#plane = affine_map<(d0, d1) -> (d0, d1)>
#column = affine_map<(d0, d1) -> (d1)>

module {
module @kernels {
  // 100 columns are four blocks, the last one partly filled. Sixteen threads share a column; each stores its partial result in
  // shared memory, waits, and combines those of the others. There are no shuffles: the threads of a column are in different warps.
  // CHECK-LABEL: gpu.func @sum(
  // CHECK-SAME: workgroup(%[[SHARED:.*]] : memref<16x32xf32, #gpu.address_space<workgroup>>)
  // CHECK-SAME: block = array<i64: 32, 16, 1>, grid = array<i64: 4, 1, 1>
  // CHECK: arith.minui %{{.*}}, %c99
  // CHECK: memref.store %{{.*}}, %[[SHARED]][%thread_id_y, %{{.*}}]
  // CHECK: gpu.barrier
  // CHECK-COUNT-16: memref.load %[[SHARED]]
  // CHECK-NOT: gpu.shuffle
  // CHECK: gpu.return
  // PTX: .entry sum(
  // PTX: st.shared.b32
  // PTX: bar.sync 0
  // PTX-COUNT-16: ld.shared.b32
  func.func @sum(%a: memref<64x100xf32>, %c: memref<100xf32>) attributes {dynamo.kernel} {
    %0 = bufferization.to_tensor %a restrict : memref<64x100xf32> to tensor<64x100xf32>
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<100xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<100xf32>) -> tensor<100xf32>
    %r = linalg.generic {indexing_maps = [#plane, #column], iterator_types = ["reduction", "parallel"]}
        ins(%0 : tensor<64x100xf32>) outs(%f : tensor<100xf32>) attrs = {dynamo.phase = 0 : i64} {
    ^bb0(%x: f32, %o: f32):
      %s = arith.addf %o, %x fastmath<reassoc> : f32
      linalg.yield %s : f32
    } -> tensor<100xf32>
    bufferization.materialize_in_destination %r in restrict writable %c : (tensor<100xf32>, memref<100xf32>) -> ()
    return
  }

  // Softmax along tall columns: they do not fit into registers, so every phase is a loop, and the last one recomputes the
  // exponentials instead of keeping them in memory.
  // CHECK-LABEL: gpu.func @softmax(
  // CHECK-COUNT-2: scf.for
  // CHECK: math.exp
  // CHECK: scf.for
  // CHECK: math.exp
  // CHECK: arith.divf
  // PTX-LABEL: .entry softmax(
  func.func @softmax(%a: memref<5000x64xf32>, %c: memref<5000x64xf32>) attributes {dynamo.kernel} {
    %0 = bufferization.to_tensor %a restrict : memref<5000x64xf32> to tensor<5000x64xf32>
    %lowest = arith.constant 0xFF800000 : f32
    %zero = arith.constant 0.0 : f32
    %e0 = tensor.empty() : tensor<64xf32>
    %f0 = linalg.fill ins(%lowest : f32) outs(%e0 : tensor<64xf32>) -> tensor<64xf32>
    %m = linalg.generic {indexing_maps = [#plane, #column], iterator_types = ["reduction", "parallel"]}
        ins(%0 : tensor<5000x64xf32>) outs(%f0 : tensor<64xf32>) attrs = {dynamo.phase = 0 : i64} {
    ^bb0(%x: f32, %o: f32):
      %s = arith.maximumf %o, %x : f32
      linalg.yield %s : f32
    } -> tensor<64xf32>
    %e1 = tensor.empty() : tensor<64xf32>
    %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<64xf32>) -> tensor<64xf32>
    %e2 = tensor.empty() : tensor<5000x64xf32>
    %p:2 = linalg.generic {indexing_maps = [#plane, #column, #column, #plane], iterator_types = ["reduction", "parallel"]}
        ins(%0, %m : tensor<5000x64xf32>, tensor<64xf32>) outs(%f1, %e2 : tensor<64xf32>, tensor<5000x64xf32>)
        attrs = {dynamo.phase = 1 : i64} {
    ^bb0(%x: f32, %top: f32, %o: f32, %q: f32):
      %d = arith.subf %x, %top : f32
      %y = math.exp %d : f32
      %s = arith.addf %o, %y fastmath<reassoc> : f32
      linalg.yield %s, %y : f32, f32
    } -> (tensor<64xf32>, tensor<5000x64xf32>)
    %e3 = tensor.empty() : tensor<5000x64xf32>
    %r = linalg.generic {indexing_maps = [#plane, #column, #plane], iterator_types = ["parallel", "parallel"]}
        ins(%p#1, %p#0 : tensor<5000x64xf32>, tensor<64xf32>) outs(%e3 : tensor<5000x64xf32>) attrs = {dynamo.phase = 2 : i64} {
    ^bb0(%y: f32, %sum: f32, %o: f32):
      %s = arith.divf %y, %sum : f32
      linalg.yield %s : f32
    } -> tensor<5000x64xf32>
    bufferization.materialize_in_destination %r in restrict writable %c : (tensor<5000x64xf32>, memref<5000x64xf32>) -> ()
    return
  }
}
}
