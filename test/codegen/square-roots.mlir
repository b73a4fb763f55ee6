// RUN: dynamlir-opt %s --dynamo-attach-target=cpu=x86-64-v4 --dynamo-approximate-math | FileCheck %s
// RUN: dynamlir-opt %s --dynamo-attach-target=cpu=x86-64-v3 --dynamo-approximate-math | FileCheck %s --check-prefix=NARROW

// Two vectors of 512 bits are processed one after the other: an estimate, a Newton step, and a step that rounds. Rare
// arguments use the processor's instruction.

// CHECK-LABEL: func.func @two
// CHECK-COUNT-2: llvm.call_intrinsic "llvm.x86.avx512.rsqrt14.ps.512"({{.*}}) : (vector<16xf32>, vector<16xf32>, i16) -> vector<16xf32>
// CHECK: arith.cmpi uge
// CHECK: scf.if
// CHECK: math.sqrt %{{.*}} : vector<16xf32>
// CHECK: vector.shuffle %{{.*}} : vector<16xf32>, vector<16xf32>
// NARROW-LABEL: func.func @two
// NARROW-NEXT: math.sqrt %{{.*}} : vector<32xf32>
func.func @two(%x: vector<32xf32>) -> vector<32xf32> {
  %0 = math.sqrt %x : vector<32xf32>
  return %0 : vector<32xf32>
}

// A scalar always uses the processor's instruction.
// CHECK-LABEL: func.func @one
// CHECK-NEXT: math.sqrt %{{.*}} : f32
func.func @one(%x: f32) -> f32 {
  %0 = math.sqrt %x : f32
  return %0 : f32
}
