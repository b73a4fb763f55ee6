// RUN: dynamlir-opt %s --dynamo-hoist-scratch | FileCheck %s

// A temporary of a parallel loop is allocated once per thread, at the start of its work.

// CHECK-LABEL: func.func @threads
// CHECK: omp.parallel {
// CHECK-NEXT: %[[ROW:.*]] = memref.alloca() : memref<8xf32>
// CHECK: memref.alloca_scope
// CHECK-NOT: memref.alloca()
// CHECK: memref.store %{{.*}}, %[[ROW]]
func.func @threads(%n: index, %x: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  omp.parallel {
    omp.wsloop {
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {
        memref.alloca_scope {
          %row = memref.alloca() : memref<8xf32>
          memref.store %x, %row[%c0] : memref<8xf32>
        }
        omp.yield
      }
    }
    omp.terminator
  }
  return
}

// Without a parallel region, it is allocated at the start of the function.

// CHECK-LABEL: func.func @alone
// CHECK-NEXT: %[[ROW:.*]] = memref.alloca() : memref<8xf32>
// CHECK: scf.for
// CHECK-NEXT: memref.store %{{.*}}, %[[ROW]]
func.func @alone(%n: index, %x: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %row = memref.alloca() : memref<8xf32>
    memref.store %x, %row[%c0] : memref<8xf32>
  }
  return
}

// A temporary that is too large for the stack stays in its place, and is freed at the end of its block, once.

// CHECK-LABEL: func.func @heap
// CHECK: scf.for
// CHECK-NEXT: %[[BIG:.*]] = memref.alloc()
// CHECK-NEXT: memref.store
// CHECK-NEXT: memref.dealloc %[[BIG]]
// CHECK-NEXT: }
// CHECK: %[[FREED:.*]] = memref.alloc()
// CHECK-NEXT: memref.dealloc %[[FREED]]
// CHECK-NEXT: return
func.func @heap(%n: index, %x: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %big = memref.alloc() : memref<1048576xf32>
    memref.store %x, %big[%c0] : memref<1048576xf32>
  }
  %freed = memref.alloc() : memref<1048576xf32>
  memref.dealloc %freed : memref<1048576xf32>
  return
}

// In a kernel whose sizes are arguments, a temporary with a known bound is a part of a stack buffer. One whose rows have an unknown
// distance is on the heap, and so is one without a bound.

// CHECK-LABEL: func.func @bounded
// CHECK-NEXT: %[[STACK:.*]] = memref.alloca() {alignment = 64 : i64} : memref<512xf32>
// CHECK: scf.for
// CHECK: %[[SIZE:.*]] = affine.min
// CHECK-NEXT: %[[SUMS:.*]] = memref.reinterpret_cast %[[STACK]] to offset: [0], sizes: [%[[SIZE]]], strides: [1] : memref<512xf32> to memref<?xf32>
// CHECK-NEXT: memref.store %{{.*}}, %[[SUMS]]
// CHECK-NEXT: memref.alloc(%[[SIZE]]) : memref<4x?xf32>
// CHECK-NEXT: memref.alloc(%{{.*}}) : memref<?xf32>
func.func @bounded(%columns: index, %x: f32) attributes {dynamo.kernel, dynamo.symbols = [#dynamo.symbol<s0, argument = 0>]} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c512 = arith.constant 512 : index
  %some = arith.minsi %columns, %c512 : index
  %tile = arith.maxsi %some, %c64 : index
  scf.for %i = %c0 to %columns step %tile {
    %n = affine.min affine_map<(d0)[s0, s1] -> (-d0 + s0, s1)>(%i)[%columns, %tile]
    %sums = memref.alloc(%n) : memref<?xf32>
    memref.store %x, %sums[%c0] : memref<?xf32>
    %rows = memref.alloc(%n) : memref<4x?xf32>
    %all = memref.alloc(%columns) : memref<?xf32>
  }
  return
}
