// Math functions on the GPU.

// RUN: dynamlir-opt %s --pass-pipeline='builtin.module(dynamo-gpu-math{libdevice=none})' | FileCheck %s --check-prefixes=CHECK,NONE
// RUN: dynamlir-opt %s --pass-pipeline='builtin.module(dynamo-gpu-math{libdevice=some.bc})' | FileCheck %s --check-prefixes=CHECK,SOME

gpu.module @device {
  // Functions that are one instruction: intrinsics, called by name.
  // CHECK-LABEL: @instructions
  // CHECK: llvm.call_intrinsic "llvm.sqrt.f32"(%{{.*}}) : (f32) -> f32
  // CHECK: llvm.call_intrinsic "llvm.floor.f64"(%{{.*}}) : (f64) -> f64
  // CHECK: llvm.call_intrinsic "llvm.fma.f32"(%{{.*}}, %{{.*}}, %{{.*}}) : (f32, f32, f32) -> f32
  // CHECK: %[[ROOT:.*]] = llvm.call_intrinsic "llvm.sqrt.f32"
  // CHECK: arith.divf %{{.*}}, %[[ROOT]] : f32
  func.func @instructions(%x: f32, %y: f64) -> (f32, f64, f32, f32) {
    %0 = math.sqrt %x : f32
    %1 = math.floor %y : f64
    %2 = math.fma %x, %x, %x : f32
    %3 = math.rsqrt %x : f32
    return %0, %1, %2, %3 : f32, f64, f32, f32
  }

  // Other functions: upstream turns these operations into calls of libdevice. Without it, exp and erf become arithmetic; the
  // rest is rejected during code generation.
  // CHECK-LABEL: @functions
  // NONE-NOT: math.exp
  // NONE-NOT: math.erf
  // NONE: math.sin
  // SOME: math.exp
  // SOME: math.erf
  // SOME: math.sin
  func.func @functions(%x: f32) -> (f32, f32, f32) {
    %0 = math.exp %x : f32
    %1 = math.erf %x : f32
    %2 = math.sin %x : f32
    return %0, %1, %2 : f32, f32, f32
  }
}

// Outside GPU modules nothing changes.
// CHECK-LABEL: @host
// CHECK: math.sqrt
func.func @host(%x: f32) -> f32 {
  %0 = math.sqrt %x : f32
  return %0 : f32
}
