// RUN: dynamlir-opt %s --dynamo-fork-if | FileCheck %s
//
// If the schedule has recorded a condition, each call of the kernel decides if a region runs in parallel.

module @kernels {

// CHECK-LABEL: func.func @rows
// CHECK-SAME: %[[N:[^:]*]]: index) attributes {dynamo.kernel
// CHECK-NOT: dynamo.parallel
// CHECK: %[[BEYOND:.*]] = arith.addi
// CHECK: %[[ZERO:.*]] = arith.constant 0 : index
// CHECK: %[[ENOUGH:.*]] = arith.cmpi sge, %[[BEYOND]], %[[ZERO]] : index
// CHECK: omp.parallel if(%[[ENOUGH]]) {
// CHECK-NEXT: omp.wsloop
// CHECK: memref.store
// CHECK: omp.terminator
func.func @rows(%out: memref<f32>, %n: index) attributes {
    dynamo.kernel, dynamo.parallel = #dynamo.expr<s0*256 - 32768>, dynamo.symbols = [#dynamo.symbol<s0, argument = 1>]} {
  %x = arith.constant 1.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %all = memref.reinterpret_cast %out to offset: [0], sizes: [%n], strides: [1] : memref<f32> to memref<?xf32>
  omp.parallel {
    omp.wsloop {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        memref.store %x, %all[%i] : memref<?xf32>
        omp.yield
      }
    }
    omp.terminator
  }
  return
}

// For a kernel of static sizes, this is known at compile time.
// CHECK-LABEL: func.func @numbers
// CHECK: omp.parallel {
func.func @numbers(%out: memref<4xf32>) attributes {dynamo.kernel} {
  omp.parallel {
    omp.terminator
  }
  return
}

}
