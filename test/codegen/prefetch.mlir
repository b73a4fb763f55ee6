// RUN: dynamlir-opt %s --dynamo-prefetch | FileCheck %s --implicit-check-not=dynamo.prefetch

// A loop along rows of 4096 bytes, in a loop over these rows: each strip of 32 elements prefetches the same place in the
// next row, one cache line of 64 bytes at a time. Operands are prefetched for reading (rw = 0), the destination for writing
// (rw = 1). The address is computed on integers: it may lie beyond the end of the memory, where a prefetch has no effect.

#full = affine_map<(d0, d1) -> (d0, d1)>

// CHECK-LABEL: func.func @along_rows
// CHECK: %[[FROM:.*]] = memref.subview %arg0
// CHECK: memref.extract_strided_metadata %[[FROM]]
// CHECK: memref.extract_aligned_pointer_as_index
// CHECK: %[[AHEAD:.*]] = arith.constant 4096 : i64
// CHECK: %[[SUM:.*]] = arith.addi %{{.*}}, %[[AHEAD]] : i64
// CHECK: %[[AT:.*]] = llvm.inttoptr %[[SUM]]
// CHECK: "llvm.intr.prefetch"(%[[AT]]) <{cache = 1 : i32, hint = 3 : i32, rw = 0 : i32}>
// CHECK: arith.constant 4160 : i64
// CHECK: "llvm.intr.prefetch"{{.*}} rw = 0
// CHECK-NOT: "llvm.intr.prefetch"
// CHECK: %[[TO:.*]] = memref.subview %arg1
// CHECK: memref.extract_strided_metadata %[[TO]]
// CHECK: arith.constant 4096 : i64
// CHECK: "llvm.intr.prefetch"{{.*}} rw = 1
// CHECK: "llvm.intr.prefetch"{{.*}} rw = 1
// CHECK-NOT: "llvm.intr.prefetch"
// CHECK: linalg.generic
func.func @along_rows(%x: memref<4096x1024xf32>, %o: memref<4096x1024xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c4096 = arith.constant 4096 : index
  %c1024 = arith.constant 1024 : index
  scf.for %i = %c0 to %c4096 step %c1 {
    scf.for %j = %c0 to %c1024 step %c32 {
      %s = memref.subview %x[%i, %j] [1, 32] [1, 1] : memref<4096x1024xf32> to memref<1x32xf32, strided<[1024, 1], offset: ?>>
      %d = memref.subview %o[%i, %j] [1, 32] [1, 1] : memref<4096x1024xf32> to memref<1x32xf32, strided<[1024, 1], offset: ?>>
      linalg.generic {indexing_maps = [#full, #full], iterator_types = ["parallel", "parallel"]}
          ins(%s : memref<1x32xf32, strided<[1024, 1], offset: ?>>) outs(%d : memref<1x32xf32, strided<[1024, 1], offset: ?>>) {
      ^bb0(%a: f32, %b: f32):
        %r = arith.negf %a : f32
        linalg.yield %r : f32
      }
    } {dynamo.prefetch}
  }
  return
}

// One long row: the same row, 2048 bytes further.

// CHECK-LABEL: func.func @one_row
// CHECK: arith.constant 2048 : i64
// CHECK: "llvm.intr.prefetch"
func.func @one_row(%x: memref<16777216xf32>) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c16777216 = arith.constant 16777216 : index
  %zero = ub.poison : f32
  scf.for %j = %c0 to %c16777216 step %c16 {
    %s = memref.subview %x[%j] [16] [1] : memref<16777216xf32> to memref<16xf32, strided<[1], offset: ?>>
    %v = vector.transfer_read %s[%c0], %zero {in_bounds = [true]} : memref<16xf32, strided<[1], offset: ?>>, vector<16xf32>
  } {dynamo.prefetch}
  return
}

// A block of 64 columns, row by row: 256 bytes of a row are little work, so the eighth row from here is prefetched. Its
// address is 8 times 4096 bytes further.

// CHECK-LABEL: func.func @columns
// CHECK: arith.constant 32768 : i64
// CHECK-COUNT-4: "llvm.intr.prefetch"
// CHECK-NOT: "llvm.intr.prefetch"
// CHECK: return
func.func @columns(%x: memref<512x1024xf32>, %column: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c512 = arith.constant 512 : index
  %block = memref.subview %x[0, %column] [512, 64] [1, 1] : memref<512x1024xf32> to memref<512x64xf32, strided<[1024, 1], offset: ?>>
  scf.for %i = %c0 to %c512 step %c1 {
    %s = memref.subview %block[%i, 0] [1, 64] [1, 1] : memref<512x64xf32, strided<[1024, 1], offset: ?>> to memref<1x64xf32, strided<[1024, 1], offset: ?>>
  } {dynamo.prefetch}
  return
}

// Two phases traverse the same row: the first of them prefetches. The second one stores to a temporary, which is in the
// cache already.

// CHECK-LABEL: func.func @once_per_row
// CHECK-COUNT-4: "llvm.intr.prefetch"
// CHECK-NOT: "llvm.intr.prefetch"
// CHECK: return
func.func @once_per_row(%x: memref<16384x1024xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %c16384 = arith.constant 16384 : index
  %c1024 = arith.constant 1024 : index
  scf.for %i = %c0 to %c16384 step %c1 {
    %kept = memref.alloca() : memref<1x1024xf32>
    scf.for %j = %c0 to %c1024 step %c64 {
      %s = memref.subview %x[%i, %j] [1, 64] [1, 1] : memref<16384x1024xf32> to memref<1x64xf32, strided<[1024, 1], offset: ?>>
    } {dynamo.prefetch}
    scf.for %j = %c0 to %c1024 step %c64 {
      %s = memref.subview %x[%i, %j] [1, 64] [1, 1] : memref<16384x1024xf32> to memref<1x64xf32, strided<[1024, 1], offset: ?>>
      %d = memref.subview %kept[0, %j] [1, 64] [1, 1] : memref<1x1024xf32> to memref<1x64xf32, strided<[1024, 1], offset: ?>>
    } {dynamo.prefetch}
  }
  return
}

// The number of rows need not be known. The memory is an argument of a kernel, viewed as the window that it is.

// CHECK-LABEL: func.func @open_rows
// CHECK: memref.subview
// CHECK: "llvm.intr.prefetch"
func.func @open_rows(%x: memref<f32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 64], strides: [64, 1] : memref<f32> to memref<?x64xf32>
  scf.for %i = %c0 to %n step %c1 {
    %s = memref.subview %rows[%i, 0] [1, 64] [1, 1] : memref<?x64xf32> to memref<1x64xf32, strided<[64, 1], offset: ?>>
  } {dynamo.prefetch}
  return
}

// A loop without the mark does not prefetch. Neither does a marked loop
// - memory that is so small that it stays in the cache,
// - along rows if all memory of the kernel fits into some cache, from which the processor keeps up on its own,
// - if the loop reads memory with a stride,
// - if the size of a row is unknown, since the distance to prefetch then is unknown, too.

// CHECK-LABEL: func.func @nothing
// CHECK-NOT: "llvm.intr.prefetch"
// CHECK: return
func.func @nothing(%x: memref<16777216xf32>, %small: memref<1024xf32>, %steps: memref<65536xf32, strided<[2]>>, %unknown: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c1024 = arith.constant 1024 : index
  scf.for %j = %c0 to %c1024 step %c16 {
    %s = memref.subview %x[%j] [16] [1] : memref<16777216xf32> to memref<16xf32, strided<[1], offset: ?>>
  }
  scf.for %j = %c0 to %c1024 step %c16 {
    %s = memref.subview %small[%j] [16] [1] : memref<1024xf32> to memref<16xf32, strided<[1], offset: ?>>
    %t = memref.subview %steps[%j] [16] [1] : memref<65536xf32, strided<[2]>> to memref<16xf32, strided<[2], offset: ?>>
    %u = memref.subview %unknown[%j] [16] [1] : memref<?xf32> to memref<16xf32, strided<[1], offset: ?>>
  } {dynamo.prefetch}
  return
}

// CHECK-LABEL: func.func @cached
// CHECK-NOT: "llvm.intr.prefetch"
// CHECK: return
func.func @cached(%x: memref<4194304xf32>) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c4194304 = arith.constant 4194304 : index
  scf.for %j = %c0 to %c4194304 step %c16 {
    %s = memref.subview %x[%j] [16] [1] : memref<4194304xf32> to memref<16xf32, strided<[1], offset: ?>>
  } {dynamo.prefetch}
  return
}
