// Softmax and layer norm: several phases over one row, which is read from memory once.

// RUN: dynamlir-opt %s --dynamlir-linalg-to-gpu | FileCheck %s
// RUN: dynamlir-opt %s --dynamlir-linalg-to-nvptx="chip=sm_80 libdevice=none print=true" -o %t.80.mlir >%t.80.ptx
// RUN: dynamlir-opt %s --dynamlir-linalg-to-nvptx="chip=sm_90 libdevice=none print=true" -o %t.90.mlir >%t.90.ptx
// RUN: FileCheck %s --check-prefix=PTX <%t.80.ptx
// RUN: FileCheck %s --check-prefix=PTX <%t.90.ptx
// RUN: %ptxas %t.80.ptx %t.90.ptx

#plane = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#rows = affine_map<(d0) -> (d0)>

module {
module @kernels {
  // Each thread keeps its four elements and their exponentials in registers between phases: one load, one store.
  // CHECK-LABEL: gpu.func @softmax(
  // CHECK-COUNT-1: vector.load
  // CHECK: arith.maximumf
  // CHECK: gpu.barrier
  // CHECK-COUNT-4: math.exp
  // CHECK: gpu.barrier
  // CHECK-NOT: math.exp
  // CHECK-NOT: vector.load
  // CHECK-COUNT-4: arith.divf
  // CHECK-COUNT-1: vector.store
  // CHECK: gpu.return
  // PTX: .entry softmax(
  // PTX-COUNT-1: ld.global
  // PTX-NOT: ld.global
  // PTX: st.global.v4.b32
  func.func @softmax(%a: memref<100x1024xf32>, %c: memref<100x1024xf32>) attributes {dynamo.kernel} {
    %0 = bufferization.to_tensor %a restrict : memref<100x1024xf32> to tensor<100x1024xf32>
    %lowest = arith.constant 0xFF800000 : f32
    %zero = arith.constant 0.0 : f32
    %e0 = tensor.empty() : tensor<100xf32>
    %f0 = linalg.fill ins(%lowest : f32) outs(%e0 : tensor<100xf32>) -> tensor<100xf32>
    %m = linalg.generic {indexing_maps = [#plane, #row], iterator_types = ["parallel", "reduction"]}
        ins(%0 : tensor<100x1024xf32>) outs(%f0 : tensor<100xf32>) attrs = {dynamo.phase = 0 : i64} {
    ^bb0(%x: f32, %o: f32):
      %s = arith.maximumf %o, %x : f32
      linalg.yield %s : f32
    } -> tensor<100xf32>
    %e1 = tensor.empty() : tensor<100xf32>
    %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<100xf32>) -> tensor<100xf32>
    %e2 = tensor.empty() : tensor<100x1024xf32>
    %p:2 = linalg.generic {indexing_maps = [#plane, #row, #row, #plane], iterator_types = ["parallel", "reduction"]}
        ins(%0, %m : tensor<100x1024xf32>, tensor<100xf32>) outs(%f1, %e2 : tensor<100xf32>, tensor<100x1024xf32>)
        attrs = {dynamo.phase = 1 : i64} {
    ^bb0(%x: f32, %top: f32, %o: f32, %q: f32):
      %d = arith.subf %x, %top : f32
      %y = math.exp %d : f32
      %s = arith.addf %o, %y fastmath<reassoc> : f32
      linalg.yield %s, %y : f32, f32
    } -> (tensor<100xf32>, tensor<100x1024xf32>)
    %e3 = tensor.empty() : tensor<100x1024xf32>
    %r = linalg.generic {indexing_maps = [#plane, #row, #plane], iterator_types = ["parallel", "parallel"]}
        ins(%p#1, %p#0 : tensor<100x1024xf32>, tensor<100xf32>) outs(%e3 : tensor<100x1024xf32>) attrs = {dynamo.phase = 2 : i64} {
    ^bb0(%y: f32, %sum: f32, %o: f32):
      %s = arith.divf %y, %sum : f32
      linalg.yield %s : f32
    } -> tensor<100x1024xf32>
    bufferization.materialize_in_destination %r in restrict writable %c : (tensor<100x1024xf32>, memref<100x1024xf32>) -> ()
    return
  }

  // Layer norm of bf16 with the values that are saved for backward: mean and reciprocal deviation per row, computed between
  // the phases by a phase of their own, over the rows only. 768 elements are 96 vectors of eight: three warps' worth for a
  // block of four, so the last warp adds nothing and writes nothing.
  // CHECK-LABEL: gpu.func @layer_norm(
  // CHECK-SAME: block = array<i64: 128, 1, 1>, grid = array<i64: 4, 1, 1>
  // CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %{{.*}}, %c768
  // CHECK: vector.load {{.*}} vector<8xbf16>
  // CHECK: gpu.barrier
  // CHECK: gpu.barrier
  // CHECK: math.rsqrt
  // CHECK: scf.if %[[INSIDE]]
  // CHECK: vector.store
  // CHECK: gpu.barrier
  // CHECK: scf.if
  // CHECK: memref.store
  // CHECK: memref.store
  // PTX-LABEL: .entry layer_norm(
  // PTX: sqrt.rn.f32
  // PTX: st.global.v4.b32
  func.func @layer_norm(%a: memref<4x768xbf16>, %w: memref<4x768xbf16, strided<[0, 1]>>, %c: memref<4x768xbf16>, %means: memref<4xf32>,
      %deviations: memref<4xf32>) attributes {dynamo.kernel} {
    %0 = bufferization.to_tensor %a restrict : memref<4x768xbf16> to tensor<4x768xbf16>
    %1 = bufferization.to_tensor %w restrict : memref<4x768xbf16, strided<[0, 1]>> to tensor<4x768xbf16>
    %zero = arith.constant 0.0 : f32
    %n = arith.constant 768.0 : f32
    %eps = arith.constant 1.0e-05 : f32
    %e0 = tensor.empty() : tensor<4xf32>
    %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4xf32>) -> tensor<4xf32>
    %total = linalg.generic {indexing_maps = [#plane, #row], iterator_types = ["parallel", "reduction"]}
        ins(%0 : tensor<4x768xbf16>) outs(%f0 : tensor<4xf32>) attrs = {dynamo.phase = 0 : i64} {
    ^bb0(%x: bf16, %o: f32):
      %y = arith.extf %x : bf16 to f32
      %s = arith.addf %o, %y fastmath<reassoc> : f32
      linalg.yield %s : f32
    } -> tensor<4xf32>
    %e1 = tensor.empty() : tensor<4xf32>
    %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
    %squares = linalg.generic {indexing_maps = [#plane, #row, #row], iterator_types = ["parallel", "reduction"]}
        ins(%0, %total : tensor<4x768xbf16>, tensor<4xf32>) outs(%f1 : tensor<4xf32>) attrs = {dynamo.phase = 1 : i64} {
    ^bb0(%x: bf16, %t: f32, %o: f32):
      %y = arith.extf %x : bf16 to f32
      %m = arith.divf %t, %n : f32
      %d = arith.subf %y, %m : f32
      %q = arith.mulf %d, %d : f32
      %s = arith.addf %o, %q fastmath<reassoc> : f32
      linalg.yield %s : f32
    } -> tensor<4xf32>
    %e2 = tensor.empty() : tensor<4xf32>
    %e3 = tensor.empty() : tensor<4xf32>
    %stats:2 = linalg.generic {indexing_maps = [#rows, #rows, #rows, #rows], iterator_types = ["parallel"]}
        ins(%total, %squares : tensor<4xf32>, tensor<4xf32>) outs(%e2, %e3 : tensor<4xf32>, tensor<4xf32>) attrs = {dynamo.phase = 2 : i64} {
    ^bb0(%t: f32, %q: f32, %o: f32, %p: f32):
      %m = arith.divf %t, %n : f32
      %v = arith.divf %q, %n : f32
      %u = arith.addf %v, %eps : f32
      %d = math.rsqrt %u : f32
      linalg.yield %m, %d : f32, f32
    } -> (tensor<4xf32>, tensor<4xf32>)
    %e4 = tensor.empty() : tensor<4x768xbf16>
    %e5 = tensor.empty() : tensor<4xf32>
    %e6 = tensor.empty() : tensor<4xf32>
    %r:3 = linalg.generic {indexing_maps = [#plane, #plane, #row, #row, #plane, #row, #row], iterator_types = ["parallel", "parallel"]}
        ins(%0, %1, %stats#0, %stats#1 : tensor<4x768xbf16>, tensor<4x768xbf16>, tensor<4xf32>, tensor<4xf32>)
        outs(%e4, %e5, %e6 : tensor<4x768xbf16>, tensor<4xf32>, tensor<4xf32>) attrs = {dynamo.phase = 3 : i64} {
    ^bb0(%x: bf16, %weight: bf16, %m: f32, %d: f32, %o: bf16, %o1: f32, %o2: f32):
      %y = arith.extf %x : bf16 to f32
      %z = arith.extf %weight : bf16 to f32
      %s = arith.subf %y, %m : f32
      %t = arith.mulf %s, %d : f32
      %u = arith.mulf %t, %z : f32
      %v = arith.truncf %u : f32 to bf16
      linalg.yield %v, %m, %d : bf16, f32, f32
    } -> (tensor<4x768xbf16>, tensor<4xf32>, tensor<4xf32>)
    bufferization.materialize_in_destination %r#0 in restrict writable %c : (tensor<4x768xbf16>, memref<4x768xbf16>) -> ()
    bufferization.materialize_in_destination %r#1 in restrict writable %means : (tensor<4xf32>, memref<4xf32>) -> ()
    bufferization.materialize_in_destination %r#2 in restrict writable %deviations : (tensor<4xf32>, memref<4xf32>) -> ()
    return
  }
}
}
