// Products of f32 whose operands may be rounded to tf32: only on request. Otherwise they are refused, see matmul-refused.mlir.

// RUN: dynamlir-opt %s --dynamlir-linalg-to-gpu=tf32=true | FileCheck %s
// RUN: dynamlir-opt %s --dynamlir-linalg-to-nvptx="chip=sm_80 libdevice=none tf32=true print=true" -o %t.80.mlir >%t.80.ptx
// RUN: dynamlir-opt %s --dynamlir-linalg-to-nvptx="chip=sm_90 libdevice=none tf32=true print=true" -o %t.90.mlir >%t.90.ptx
// RUN: FileCheck %s --check-prefix=PTX <%t.80.ptx
// RUN: FileCheck %s --check-prefix=PTX <%t.90.ptx
// RUN: %ptxas %t.80.ptx %t.90.ptx

module {
module @kernels {
  // Elements are rounded on their way from shared memory to registers. Four of them are 16 bytes.
  // CHECK-LABEL: gpu.func @product(
  // CHECK: vector.load {{.*}} vector<4xf32>
  // CHECK: nvvm.convert.float.to.tf32 {{.*}}rna
  // CHECK: nvvm.mma.sync {{.*}}k = 8
  // PTX: .entry product(
  // PTX: cvt.rna.tf32.f32
  // PTX: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
  func.func @product(%a: memref<70x44xf32>, %b: memref<44x36xf32>, %c: memref<70x36xf32>) attributes {dynamo.kernel} {
    %0 = bufferization.to_tensor %a restrict : memref<70x44xf32> to tensor<70x44xf32>
    %1 = bufferization.to_tensor %b restrict : memref<44x36xf32> to tensor<44x36xf32>
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<70x36xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<70x36xf32>) -> tensor<70x36xf32>
    %p = linalg.matmul ins(%0, %1 : tensor<70x44xf32>, tensor<44x36xf32>) outs(%f : tensor<70x36xf32>) -> tensor<70x36xf32>
    bufferization.materialize_in_destination %p in restrict writable %c : (tensor<70x36xf32>, memref<70x36xf32>) -> ()
    return
  }
}
}
