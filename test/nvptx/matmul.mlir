// Matrix products on tensor cores.

// RUN: dynamlir-opt %s --dynamlir-linalg-to-gpu | FileCheck %s
// RUN: dynamlir-opt %s --dynamlir-linalg-to-nvptx="chip=sm_80 libdevice=none print=true" -o %t.80.mlir >%t.80.ptx
// RUN: dynamlir-opt %s --dynamlir-linalg-to-nvptx="chip=sm_90 libdevice=none print=true" -o %t.90.mlir >%t.90.ptx
// RUN: FileCheck %s --check-prefix=PTX <%t.80.ptx
// RUN: FileCheck %s --check-prefix=PTX <%t.90.ptx
// RUN: %ptxas %t.80.ptx %t.90.ptx

#plane = affine_map<(d0, d1) -> (d0, d1)>

module {
module @kernels {
  // Whole tiles: no checks at the edges. Each of four warps multiplies eight fragments per depth of 16, twice per step; eight
  // elements are loaded from memory at once, and those of the right operand are transposed on their way to shared memory.
  // CHECK-LABEL: gpu.func @whole(
  // CHECK-SAME: workgroup(%{{.*}} : memref<64x40xf16, #gpu.address_space<workgroup>>, %{{.*}} : memref<64x40xf16, #gpu.address_space<workgroup>>)
  // CHECK-SAME: block = array<i64: 128, 1, 1>, grid = array<i64: 4, 1, 1>
  // CHECK: scf.for
  // CHECK-COUNT-4: vector.load {{.*}} vector<8xf16>
  // CHECK: gpu.barrier
  // CHECK-COUNT-16: nvvm.mma.sync
  // CHECK: gpu.barrier
  // CHECK: scf.yield
  // CHECK-NOT: scf.if
  // CHECK: vector.store {{.*}} {alignment = 8 : i64} : memref<128x128xf32>, vector<2xf32>
  // PTX: .entry whole(
  // PTX-COUNT-4: ld.global{{.*}}.v4.b32
  // PTX: bar.sync 0
  // PTX-COUNT-16: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
  // PTX: st.global.v2
  func.func @whole(%a: memref<128x64xf16>, %b: memref<64x128xf16>, %c: memref<128x128xf32>) attributes {dynamo.kernel} {
    %0 = bufferization.to_tensor %a restrict : memref<128x64xf16> to tensor<128x64xf16>
    %1 = bufferization.to_tensor %b restrict : memref<64x128xf16> to tensor<64x128xf16>
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<128x128xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<128x128xf32>) -> tensor<128x128xf32>
    %p = linalg.matmul ins(%0, %1 : tensor<128x64xf16>, tensor<64x128xf16>) outs(%f : tensor<128x128xf32>) -> tensor<128x128xf32>
    bufferization.materialize_in_destination %p in restrict writable %c : (tensor<128x128xf32>, memref<128x128xf32>) -> ()
    return
  }

  // A linear layer: the weight is transposed, so that its rows are along the summed dimension; the result is rounded. Neither
  // size is a multiple of the tiles' sizes.
  // CHECK-LABEL: gpu.func @linear(
  // CHECK: arith.cmpi ult
  // CHECK: arith.select %{{.*}} : vector<8xbf16>
  // CHECK: vector.store %{{.*}} : memref<64x40xbf16, #gpu.address_space<workgroup>>, vector<8xbf16>
  // CHECK: nvvm.mma.sync
  // CHECK: scf.if
  // CHECK: arith.truncf %{{.*}} : f32 to bf16
  // PTX-LABEL: .entry linear(
  // PTX: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
  // PTX: st.global.b32
  func.func @linear(%a: memref<70x80xbf16>, %b: memref<80x50xbf16, strided<[1, 80]>>, %c: memref<70x50xbf16>) attributes {dynamo.kernel} {
    %0 = bufferization.to_tensor %a restrict : memref<70x80xbf16> to tensor<70x80xbf16>
    %1 = bufferization.to_tensor %b restrict : memref<80x50xbf16, strided<[1, 80]>> to tensor<80x50xbf16>
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<70x50xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<70x50xf32>) -> tensor<70x50xf32>
    %p = linalg.matmul ins(%0, %1 : tensor<70x80xbf16>, tensor<80x50xbf16>) outs(%f : tensor<70x50xf32>) -> tensor<70x50xf32>
    %g = tensor.empty() : tensor<70x50xbf16>
    %r = linalg.generic {indexing_maps = [#plane, #plane], iterator_types = ["parallel", "parallel"]}
        ins(%p : tensor<70x50xf32>) outs(%g : tensor<70x50xbf16>) {
    ^bb0(%x: f32, %o: bf16):
      %s = arith.truncf %x : f32 to bf16
      linalg.yield %s : bf16
    } -> tensor<70x50xbf16>
    bufferization.materialize_in_destination %r in restrict writable %c : (tensor<70x50xbf16>, memref<70x50xbf16>) -> ()
    return
  }

  // Odd sizes: elements are moved one by one.
  // CHECK-LABEL: gpu.func @odd(
  // CHECK-SAME: alignments = array<i64: 2, 2, 4>
  // CHECK-NOT: vector<8x
  // CHECK: nvvm.mma.sync
  // CHECK: gpu.return
  // PTX-LABEL: .entry odd(
  // PTX: mma.sync
  func.func @odd(%a: memref<5x37xbf16>, %b: memref<37x9xbf16>, %c: memref<5x9xf32>) attributes {dynamo.kernel} {
    %0 = bufferization.to_tensor %a restrict : memref<5x37xbf16> to tensor<5x37xbf16>
    %1 = bufferization.to_tensor %b restrict : memref<37x9xbf16> to tensor<37x9xbf16>
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<5x9xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x9xf32>) -> tensor<5x9xf32>
    %p = linalg.matmul ins(%0, %1 : tensor<5x37xbf16>, tensor<37x9xbf16>) outs(%f : tensor<5x9xf32>) -> tensor<5x9xf32>
    bufferization.materialize_in_destination %p in restrict writable %c : (tensor<5x9xf32>, memref<5x9xf32>) -> ()
    return
  }
}
}
