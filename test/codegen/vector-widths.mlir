// RUN: dynamlir-opt %s --dynamo-vector-widths | FileCheck %s
// RUN: sed 's/vector_bits = 512, library/vector_bits = 256, library/' %s | dynamlir-opt --dynamo-vector-widths | FileCheck %s --check-prefix=NARROW
//
// Loops that compute with f32 and sum in f64 use vectors of f32: 16 of them have 512 bits. The last vector of a row is masked, so the
// width is not set for processors that do not have masks.
// NARROW-NOT: loop_annotation

// CHECK: #[[ELEMENTS:.*]] = #llvm.loop_vectorize<predicateEnable = true, width = 16 : i32>
// CHECK: #[[WIDE:.*]] = #llvm.loop_annotation<vectorize = #[[ELEMENTS]], interleave = {{.*}}>
module @kernels attributes {dynamo.target = #dynamo.target<"x86_64-unknown-linux-gnu", "x86-64-v4", "+avx512f", vector_bits = 512, library_vector_bits = 256>} {

// CHECK-LABEL: func.func @sum
// CHECK: arith.addf {{.*}} : f64
// CHECK: } {llvm.loop_annotation = #[[WIDE]]}
func.func @sum(%x: memref<f32>, %out: memref<f64>, %n: index) attributes {dynamo.kernel, dynamo.symbols = [#dynamo.symbol<s0, argument = 2>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %row = memref.reinterpret_cast %x to offset: [0], sizes: [%n], strides: [1] : memref<f32> to memref<?xf32>
  scf.for %i = %c0 to %n step %c1 {
    %a = memref.load %row[%i] : memref<?xf32>
    %e = math.exp %a : f32
    %w = arith.extf %e : f32 to f64
    %s = memref.load %out[] : memref<f64>
    %t = arith.addf %s, %w fastmath<reassoc> : f64
    memref.store %t, %out[] : memref<f64>
  }
  return
}

// The width is not set for loops that also compute with f64 or compute little with f32, nor in a kernel of static sizes.

// CHECK-LABEL: func.func @double
// CHECK-NOT: loop_annotation
// CHECK-LABEL: func.func @numbers
// CHECK-NOT: loop_annotation
func.func @double(%x: memref<f32>, %out: memref<f64>, %n: index) attributes {dynamo.kernel, dynamo.symbols = [#dynamo.symbol<s0, argument = 2>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %row = memref.reinterpret_cast %x to offset: [0], sizes: [%n], strides: [1] : memref<f32> to memref<?xf32>
  scf.for %i = %c0 to %n step %c1 {
    %a = memref.load %row[%i] : memref<?xf32>
    %b = arith.addf %a, %a : f32
    %w = arith.extf %b : f32 to f64
    %d = arith.mulf %w, %w : f64
    %s = memref.load %out[] : memref<f64>
    %t = arith.addf %s, %d : f64
    memref.store %t, %out[] : memref<f64>
  }
  scf.for %i = %c0 to %n step %c1 {
    %a = memref.load %row[%i] : memref<?xf32>
    %b = arith.mulf %a, %a : f32
    %w = arith.extf %b : f32 to f64
    %s = memref.load %out[] : memref<f64>
    %t = arith.addf %s, %w : f64
    memref.store %t, %out[] : memref<f64>
  }
  scf.for %i = %c0 to %n step %c1 {
    %a = memref.load %row[%i] : memref<?xf32>
    %w = arith.extf %a : f32 to f64
    %s = memref.load %out[] : memref<f64>
    %t = arith.addf %s, %w : f64
    memref.store %t, %out[] : memref<f64>
  }
  return
}
func.func @numbers(%x: memref<4xf32>, %out: memref<f64>) attributes {dynamo.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %c4 step %c1 {
    %a = memref.load %x[%i] : memref<4xf32>
    %e = math.exp %a : f32
    %w = arith.extf %e : f32 to f64
    %s = memref.load %out[] : memref<f64>
    %t = arith.addf %s, %w : f64
    memref.store %t, %out[] : memref<f64>
  }
  return
}

}
