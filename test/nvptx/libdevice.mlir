// Math functions from libdevice: it is linked and inlined, and only functions that are called remain of it.

// REQUIRES: libdevice
// RUN: dynamlir-opt %s --dynamlir-linalg-to-nvvm=libdevice=%libdevice -o %t.nvvm.mlir
// RUN: dynamlir-opt %t.nvvm.mlir -o %t.80.mlir >%t.80.ptx \
// RUN:   --pass-pipeline='builtin.module(dynamo-gpu-to-ptx{chip=sm_80 libdevice=%libdevice print=true})'
// RUN: dynamlir-opt %s --dynamlir-linalg-to-nvptx="chip=sm_90 libdevice=%libdevice print=true" -o %t.90.mlir >%t.90.ptx
// RUN: FileCheck %s <%t.80.ptx
// RUN: FileCheck %s <%t.90.ptx
// RUN: %ptxas %t.80.ptx %t.90.ptx

// For a file that is not a library, the error names the file.
// RUN: not dynamlir-opt %t.nvvm.mlir --pass-pipeline='builtin.module(dynamo-gpu-to-ptx{libdevice=%s})' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=BROKEN
// BROKEN: error: cannot link {{.*}}libdevice.mlir

// The exponential is an instruction to base 2 with corrections; square roots are the exact ones.
// CHECK-NOT: .func
// CHECK: .entry functions(
// CHECK: ex2.approx
// CHECK: sqrt.rn.f32
// CHECK-NOT: call
// CHECK-NOT: __nv_

#point = affine_map<(d0) -> (d0)>

module {
module @kernels {
  func.func @functions(%a: memref<1024xf32>, %b: memref<1024xf64>, %c: memref<1024xf32>, %d: memref<1024xf64>) attributes {dynamo.kernel} {
    %0 = bufferization.to_tensor %a restrict : memref<1024xf32> to tensor<1024xf32>
    %1 = bufferization.to_tensor %b restrict : memref<1024xf64> to tensor<1024xf64>
    %e = tensor.empty() : tensor<1024xf32>
    %f = tensor.empty() : tensor<1024xf64>
    %r:2 = linalg.generic {indexing_maps = [#point, #point, #point, #point], iterator_types = ["parallel"]}
        ins(%0, %1 : tensor<1024xf32>, tensor<1024xf64>) outs(%e, %f : tensor<1024xf32>, tensor<1024xf64>)
        attrs = {dynamo.phase = 0 : i64} {
    ^bb0(%x: f32, %y: f64, %o: f32, %p: f64):
      %2 = math.exp %x : f32
      %3 = math.tanh %2 : f32
      %4 = math.log1p %3 : f32
      %5 = math.powf %4, %x : f32
      %6 = math.sqrt %5 : f32
      %7 = math.erf %y : f64
      %8 = math.exp %7 : f64
      linalg.yield %6, %8 : f32, f64
    } -> (tensor<1024xf32>, tensor<1024xf64>)
    bufferization.materialize_in_destination %r#0 in restrict writable %c : (tensor<1024xf32>, memref<1024xf32>) -> ()
    bufferization.materialize_in_destination %r#1 in restrict writable %d : (tensor<1024xf64>, memref<1024xf64>) -> ()
    return
  }
}
}
