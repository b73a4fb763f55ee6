// A tensor that is read backwards: an index is multiplied by a negative stride, so the flags that the lowering puts on
// addresses must not be used for conclusions. LLVM once dropped the index of the second element, and read the first again.

// RUN: dynamlir-opt %s --dynamlir-linalg-to-nvvm | FileCheck %s
// RUN: dynamlir-opt %s --dynamlir-linalg-to-nvptx="chip=sm_80 libdevice=none print=true" -o %t.80.mlir >%t.80.ptx
// RUN: FileCheck %s --check-prefix=PTX <%t.80.ptx
// RUN: %ptxas %t.80.ptx

#plane = affine_map<(d0, d1) -> (d0, d1)>

module {
module @kernels {
  // CHECK-LABEL: llvm.func @turned(
  // CHECK-NOT: overflow
  // CHECK-NOT: inbounds

  // The address of each of the four elements is computed from the thread's position, not from the start of the memory.
  // PTX-LABEL: .entry turned(
  // PTX: cvta.to.global.u64 [[BEGIN:%rd[0-9]+]]
  // PTX-NOT: ld.global{{.*}}{{\[}}[[BEGIN]]+-
  // PTX: st.global.v4.b32
  func.func @turned(%x: memref<4x8xf32, strided<[8, -1]>>, %out: memref<4x8xf32>) attributes {dynamo.kernel} {
    %0 = bufferization.to_tensor %x restrict : memref<4x8xf32, strided<[8, -1]>> to tensor<4x8xf32>
    %1 = tensor.empty() : tensor<4x8xf32>
    %2 = linalg.generic {indexing_maps = [#plane, #plane], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<4x8xf32>) outs(%1 : tensor<4x8xf32>) {
    ^bb0(%a: f32, %b: f32):
      linalg.yield %a : f32
    } -> tensor<4x8xf32>
    bufferization.materialize_in_destination %2 in restrict writable %out : (tensor<4x8xf32>, memref<4x8xf32>) -> ()
    return
  }
}
}
