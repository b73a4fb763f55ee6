// RUN: dynamlir-opt %s --split-input-file --dynamo-plan | FileCheck %s

// A kernel writes its result directly to its destination: the memory of the output. Kernels take memrefs, results last.
// Dimensions that are adjacent in memory are one loop, so 4x8 contiguous elements are 32.

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: memref<4x8xf32> {{.*}}) -> memref<4x8xf32>
// CHECK-NEXT: dynamo.workspace : memref<0xi8
// CHECK-NEXT: %[[OUT:.*]] = dynamo.output_buffer : memref<4x8xf32>
// CHECK-NEXT: %[[XS:.*]] = memref.reinterpret_cast %[[X]] to offset: [0], sizes: [32], strides: [1]
// CHECK-NEXT: %[[OUTS:.*]] = memref.reinterpret_cast %[[OUT]] to offset: [0], sizes: [32], strides: [1]
// CHECK-NEXT: dynamo.launch @kernels::@neg(%[[XS]], %[[OUTS]])
// CHECK-NEXT: return %[[OUT]]
// CHECK: func.func @neg(%[[A:.*]]: memref<32xf32> {llvm.noalias}, %[[B:.*]]: memref<32xf32> {llvm.noalias})
// CHECK-SAME: dynamo.domain = array<i64: 32>
// CHECK-NEXT: %[[T:.*]] = bufferization.to_tensor %[[A]] restrict
// CHECK-NEXT: %[[N:.*]] = dynamo.neg %[[T]] : tensor<32xf32>
// CHECK-NEXT: bufferization.materialize_in_destination %[[N]] in restrict writable %[[B]]
func.func @main(%x: tensor<4x8xf32> {dynamo.strides = array<i64: 8, 1>, dynamo.offset = 0})
    -> (tensor<4x8xf32> {dynamo.strides = array<i64: 8, 1>}) attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.launch @kernels::@neg(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
module @kernels {
  func.func @neg(%x: tensor<4x8xf32>) -> tensor<4x8xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 8>, dynamo.reduced_dims = array<i64>} {
    %0 = dynamo.neg %x : tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}

// -----

// Views cost nothing: the slice of a transposed tensor is only an offset and strides. The order of the loops is that of the
// result in memory.

// CHECK-LABEL: func.func @main
// CHECK: %[[S:.*]] = memref.reinterpret_cast %arg0 to offset: [11], sizes: [4, 5], strides: [1, 4]
// CHECK-NEXT: dynamo.launch @kernels::@neg(%[[S]], %{{.*}})
// The kernel does not depend on the offset, so other launches can use it as well.
// CHECK: func.func @neg(%{{.*}}: memref<4x5xf32, strided<[1, 4]>>
func.func @main(%x: tensor<8x4xf32> {dynamo.strides = array<i64: 4, 1>, dynamo.offset = 3 : i64})
    -> (tensor<4x5xf32> {dynamo.strides = array<i64: 5, 1>}) attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %t = dynamo.permute %x dims [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>
  %s = dynamo.slice %t starts [0, 2] steps [1, 1] : tensor<4x8xf32> -> tensor<4x5xf32>
  %0 = dynamo.launch @kernels::@neg(%s) : (tensor<4x5xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}
module @kernels {
  func.func @neg(%x: tensor<4x5xf32>) -> tensor<4x5xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 5>, dynamo.reduced_dims = array<i64>} {
    %0 = dynamo.neg %x : tensor<4x5xf32>
    return %0 : tensor<4x5xf32>
  }
}

// -----

// If strides cannot express it, the operand is copied first: a transposed tensor does not have a flat view.

// CHECK-LABEL: func.func @main
// CHECK: %[[COPY:.*]] = dynamo.buffer %{{.*}}[0] : {{.*}} -> memref<3x2xf32>
// CHECK: %[[T:.*]] = memref.reinterpret_cast %arg0 to offset: [0], sizes: [3, 2], strides: [1, 3]
// CHECK: dynamo.launch @kernels::@copy(%[[T]], %[[COPY]])
// CHECK: %[[FLAT:.*]] = memref.reinterpret_cast %[[COPY]] to offset: [0], sizes: [6], strides: [1]
// CHECK: dynamo.launch @kernels::@neg(%[[FLAT]],
func.func @main(%x: tensor<2x3xf32> {dynamo.strides = array<i64: 3, 1>, dynamo.offset = 0})
    -> (tensor<6xf32> {dynamo.strides = array<i64: 1>}) attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %t = dynamo.permute %x dims [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  %flat = dynamo.reshape %t : tensor<3x2xf32> -> tensor<6xf32>
  %0 = dynamo.launch @kernels::@neg(%flat) : (tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
module @kernels {
  func.func @neg(%x: tensor<6xf32>) -> tensor<6xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 6>, dynamo.reduced_dims = array<i64>} {
    %0 = dynamo.neg %x : tensor<6xf32>
    return %0 : tensor<6xf32>
  }
}

// -----

// Four steps in a row need two pieces of the workspace: the third result replaces the first, which is dead by then.
// Offsets are multiples of 64. Equal kernels are one.

// CHECK-LABEL: func.func @main
// CHECK: %[[WS:.*]] = dynamo.workspace : memref<256xi8>
// CHECK-NEXT: %[[FIRST:.*]] = dynamo.buffer %[[WS]][0]
// CHECK-NEXT: dynamo.launch @kernels::@neg(%arg0, %[[FIRST]])
// CHECK-NEXT: %[[SECOND:.*]] = dynamo.buffer %[[WS]][128]
// CHECK-NEXT: dynamo.launch @kernels::@neg(%[[FIRST]], %[[SECOND]])
// CHECK-NEXT: %[[THIRD:.*]] = dynamo.buffer %[[WS]][0]
// CHECK-NEXT: dynamo.launch @kernels::@neg(%[[SECOND]], %[[THIRD]])
// CHECK-NEXT: %[[OUT:.*]] = dynamo.output_buffer
// CHECK-NEXT: dynamo.launch @kernels::@neg(%[[THIRD]], %[[OUT]])
// CHECK: module @kernels
// CHECK-COUNT-1: func.func
// CHECK-NOT: func.func
func.func @main(%x: tensor<24xf32> {dynamo.strides = array<i64: 1>, dynamo.offset = 0})
    -> (tensor<24xf32> {dynamo.strides = array<i64: 1>}) attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.launch @kernels::@neg(%x) : (tensor<24xf32>) -> tensor<24xf32>
  %1 = dynamo.launch @kernels::@neg(%0) : (tensor<24xf32>) -> tensor<24xf32>
  %2 = dynamo.launch @kernels::@neg(%1) : (tensor<24xf32>) -> tensor<24xf32>
  %3 = dynamo.launch @kernels::@neg(%2) : (tensor<24xf32>) -> tensor<24xf32>
  return %3 : tensor<24xf32>
}
module @kernels {
  func.func @neg(%x: tensor<24xf32>) -> tensor<24xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 24>, dynamo.reduced_dims = array<i64>} {
    %0 = dynamo.neg %x : tensor<24xf32>
    return %0 : tensor<24xf32>
  }
}

// -----

// Matrix products write into the graph's memory. Their operands have the layout that eager passes: here the kernel
// writes its result transposed.

// CHECK-LABEL: func.func @main
// CHECK: %[[T:.*]] = dynamo.buffer %{{.*}} -> memref<4x8xf32, strided<[1, 4]>>
// CHECK: dynamo.launch @kernels::@neg
// CHECK-NEXT: %[[OUT:.*]] = dynamo.output_buffer : memref<4x2xf32>
// CHECK-NEXT: dynamo.extern c_shim "aten.mm.default"(%[[T]], %arg1) outs(%[[OUT]])
// CHECK-NEXT: return %[[OUT]]
func.func @main(%x: tensor<4x8xf32> {dynamo.strides = array<i64: 8, 1>, dynamo.offset = 0}, %w: tensor<8x2xf32> {dynamo.strides = array<i64: 2, 1>, dynamo.offset = 0})
    -> (tensor<4x2xf32> {dynamo.strides = array<i64: 2, 1>}) attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.launch @kernels::@neg(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = dynamo.aten "aten.mm.default"(%0, %w) args [#dynamo.operand<0>, #dynamo.operand<1>]
    {operand_strides = [array<i64: 1, 4>, array<i64: 2, 1>], result_strides = [array<i64: 2, 1>]} : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %1 : tensor<4x2xf32>
}
module @kernels {
  func.func @neg(%x: tensor<4x8xf32>) -> tensor<4x8xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 8>, dynamo.reduced_dims = array<i64>} {
    %0 = dynamo.neg %x : tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}

// -----

// A value with another layout is copied to that one. Other operators allocate their results themselves; such a result
// can be returned as it is, once. If it is returned again, that is a copy.

// CHECK-LABEL: func.func @main
// CHECK: %[[ROWS:.*]] = dynamo.buffer %{{.*}} -> memref<4x8xf32>
// CHECK: dynamo.launch @kernels::@copy(%arg0, %[[ROWS]]) : (memref<4x8xf32, strided<[1, 4]>>, memref<4x8xf32>)
// CHECK: %[[R:.*]] = dynamo.extern c_shim "aten.cumsum.default"(%[[ROWS]]) {{.*}} -> memref<4x8xf32>
// CHECK: %[[AGAIN:.*]] = dynamo.output_buffer
// CHECK: dynamo.launch @kernels::@copy_1
// CHECK: return %[[R]], %[[AGAIN]]
func.func @main(%x: tensor<4x8xf32> {dynamo.strides = array<i64: 1, 4>, dynamo.offset = 0})
    -> (tensor<4x8xf32> {dynamo.strides = array<i64: 8, 1>}, tensor<4x8xf32> {dynamo.strides = array<i64: 8, 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>]} {
  %0 = dynamo.aten "aten.cumsum.default"(%x) args [#dynamo.operand<0>, 0, unit]
    {operand_strides = [array<i64: 8, 1>], result_strides = [array<i64: 8, 1>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0, %0 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Concatenation: each part is copied to its place.

// CHECK-LABEL: func.func @main
// CHECK: %[[OUT:.*]] = dynamo.output_buffer : memref<4x5xf32>
// CHECK: %[[LEFT:.*]] = memref.reinterpret_cast %[[OUT]] to offset: [0], sizes: [4, 2], strides: [5, 1]
// CHECK: dynamo.launch @kernels::@copy(%arg0, %[[LEFT]])
// CHECK: %[[RIGHT:.*]] = memref.reinterpret_cast %[[OUT]] to offset: [2], sizes: [4, 3], strides: [5, 1]
// CHECK: dynamo.launch @kernels::@copy_1(%arg1, %[[RIGHT]])
// CHECK: return %[[OUT]]
func.func @main(%x: tensor<4x2xf32> {dynamo.strides = array<i64: 2, 1>, dynamo.offset = 0}, %y: tensor<4x3xf32> {dynamo.strides = array<i64: 3, 1>, dynamo.offset = 0})
    -> (tensor<4x5xf32> {dynamo.strides = array<i64: 5, 1>}) attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.concatenate %x, %y dim 1 : (tensor<4x2xf32>, tensor<4x3xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// -----

// Padding fills everything, then copies the operand into the middle.

// CHECK-LABEL: func.func @main
// CHECK: %[[OUT:.*]] = dynamo.output_buffer : memref<8xf32>
// CHECK: dynamo.launch @kernels::@fill(%[[OUT]])
// CHECK: %[[MIDDLE:.*]] = memref.reinterpret_cast %[[OUT]] to offset: [3], sizes: [4], strides: [1]
// CHECK: dynamo.launch @kernels::@copy(%arg0, %[[MIDDLE]])
// CHECK: func.func @fill
// CHECK-NEXT: dynamo.full 5.0{{.*}}e-01
func.func @main(%x: tensor<4xf32> {dynamo.strides = array<i64: 1>, dynamo.offset = 0})
    -> (tensor<8xf32> {dynamo.strides = array<i64: 1>}) attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.pad %x low [3] high [1] value 0.5 : f32 : tensor<4xf32> -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// A write through a view: a copy of the base, then the source over it.

// CHECK-LABEL: func.func @main
// CHECK: %[[NEW:.*]] = dynamo.buffer
// CHECK: dynamo.launch @kernels::@copy(%arg0, %[[NEW]])
// CHECK: %[[WINDOW:.*]] = memref.reinterpret_cast %[[NEW]] to offset: [1], sizes: [3], strides: [2]
// CHECK: dynamo.launch @kernels::@copy_1(%arg1, %[[WINDOW]])
// CHECK: dynamo.commit
// CHECK: dynamo.launch @kernels::@copy(%[[NEW]], %arg0)
func.func @main(%x: tensor<8xf32> {dynamo.strides = array<i64: 1>, dynamo.offset = 0}, %y: tensor<3xf32> {dynamo.strides = array<i64: 1>, dynamo.offset = 0})
    -> (tensor<8xf32> {dynamo.mutates = 0 : i64}) attributes {dynamo.entry, dynamo.outputs = []} {
  %0 = dynamo.as_strided_scatter %x, %y strides [2] offset 1 : tensor<8xf32>, tensor<3xf32> -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Swapping two arguments: both are read into the workspace first, and written after dynamo.commit.

// CHECK-LABEL: func.func @main
// CHECK: %[[Y:.*]] = dynamo.buffer
// CHECK-NEXT: dynamo.launch @kernels::@copy(%arg1, %[[Y]])
// CHECK-NEXT: %[[X:.*]] = dynamo.buffer
// CHECK-NEXT: dynamo.launch @kernels::@copy(%arg0, %[[X]])
// CHECK-NEXT: dynamo.commit
// CHECK-NEXT: dynamo.launch @kernels::@copy(%[[Y]], %arg0)
// CHECK-NEXT: dynamo.launch @kernels::@copy(%[[X]], %arg1)
// CHECK-NEXT: return
func.func @main(%x: tensor<4xf32> {dynamo.strides = array<i64: 1>, dynamo.offset = 0}, %y: tensor<4xf32> {dynamo.strides = array<i64: 1>, dynamo.offset = 0})
    -> (tensor<4xf32> {dynamo.mutates = 0 : i64}, tensor<4xf32> {dynamo.mutates = 1 : i64}) attributes {dynamo.entry, dynamo.outputs = []} {
  return %y, %x : tensor<4xf32>, tensor<4xf32>
}

// -----

// An expanded argument shares memory with one that is written. Each of its elements is written once, not once per
// repetition.

// CHECK-LABEL: func.func @main
// CHECK: dynamo.commit
// CHECK: %[[ROW:.*]] = memref.reinterpret_cast %arg1 to offset: [0], sizes: [4], strides: [1]
// CHECK-NEXT: dynamo.launch @kernels::@copy{{.*}}(%{{.*}}, %[[ROW]]) : (memref<4xf32{{.*}}>, memref<4xf32{{.*}}>) -> ()
func.func @main(%x: tensor<4xf32> {dynamo.strides = array<i64: 1>, dynamo.offset = 0 : i64, dynamo.storage = 0 : i64},
                %y: tensor<3x4xf32> {dynamo.strides = array<i64: 0, 1>, dynamo.offset = 0 : i64, dynamo.storage = 0 : i64},
                %z: tensor<4xf32> {dynamo.strides = array<i64: 1>, dynamo.offset = 0 : i64})
    -> (tensor<4xf32> {dynamo.mutates = 0 : i64}, tensor<3x4xf32> {dynamo.mutates = 1 : i64}) attributes {dynamo.entry, dynamo.outputs = []} {
  %0 = dynamo.broadcast %z dims [1] : tensor<4xf32> -> tensor<3x4xf32>
  return %z, %0 : tensor<4xf32>, tensor<3x4xf32>
}

// -----

// A step of an optimizer that also returns the old value: the result is computed before dynamo.commit. (in-place.mlir has
// more launches that write an argument.)

// CHECK-LABEL: func.func @main
// CHECK: %[[OLD:.*]] = dynamo.output_buffer
// CHECK-NEXT: dynamo.launch @kernels::@copy(%arg0, %[[OLD]])
// CHECK-NEXT: dynamo.commit
// CHECK-NEXT: dynamo.launch @kernels::@neg(%arg0) :
// CHECK-NEXT: return %[[OLD]]
func.func @main(%x: tensor<4xf32> {dynamo.strides = array<i64: 1>, dynamo.offset = 0})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>}, tensor<4xf32> {dynamo.mutates = 0 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.launch @kernels::@neg(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %x, %0 : tensor<4xf32>, tensor<4xf32>
}
module @kernels {
  func.func @neg(%x: tensor<4xf32>) -> tensor<4xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
    %0 = dynamo.neg %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// Channels-last: the channels are innermost in memory, and so in the loops. The bias varies along them only, so the other
// dimensions are one loop and the channels another.

// CHECK-LABEL: func.func @main
// CHECK-DAG: memref.reinterpret_cast %arg0 to offset: [0], sizes: [70, 3], strides: [3, 1]
// CHECK-DAG: memref.reinterpret_cast %arg1 to offset: [0], sizes: [70, 3], strides: [0, 1]
// CHECK: return %{{.*}} : memref<2x3x5x7xf32, strided<[105, 1, 21, 3]>>
// CHECK: func.func @add(%{{.*}}: memref<70x3xf32> {{.*}}, %{{.*}}: memref<70x3xf32, strided<[0, 1]>>
func.func @main(%x: tensor<2x3x5x7xf32> {dynamo.strides = array<i64: 105, 1, 21, 3>, dynamo.offset = 0}, %bias: tensor<3xf32> {dynamo.strides = array<i64: 1>, dynamo.offset = 0})
    -> (tensor<2x3x5x7xf32> {dynamo.strides = array<i64: 105, 1, 21, 3>}) attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %wide = dynamo.broadcast %bias dims [1] : tensor<3xf32> -> tensor<2x3x5x7xf32>
  %0 = dynamo.launch @kernels::@add(%x, %wide) : (tensor<2x3x5x7xf32>, tensor<2x3x5x7xf32>) -> tensor<2x3x5x7xf32>
  return %0 : tensor<2x3x5x7xf32>
}
module @kernels {
  func.func @add(%x: tensor<2x3x5x7xf32>, %y: tensor<2x3x5x7xf32>) -> tensor<2x3x5x7xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 2, 3, 5, 7>, dynamo.reduced_dims = array<i64>} {
    %0 = dynamo.add %x, %y : tensor<2x3x5x7xf32>
    return %0 : tensor<2x3x5x7xf32>
  }
}

// -----

// Reductions. Along rows: the kept dimensions come first. Along columns: whole rows are added, memory stays innermost. The
// same reduction on a transposed operand is a row reduction again, and the very same kernel.

// CHECK-LABEL: func.func @main
// CHECK: dynamo.launch @kernels::@rows(%arg0,
// CHECK: dynamo.launch @kernels::@columns(%arg0,
// CHECK: dynamo.launch @kernels::@rows(%arg0,
// CHECK: func.func @rows
// CHECK-SAME: dynamo.domain = array<i64: 64, 8>, dynamo.kernel, dynamo.reduced_dims = array<i64: 1>
// CHECK: func.func @columns
// CHECK-SAME: dynamo.domain = array<i64: 64, 8>, dynamo.kernel, dynamo.reduced_dims = array<i64: 0>
// CHECK-NOT: func.func
func.func @main(%x: tensor<64x8xf32> {dynamo.strides = array<i64: 8, 1>, dynamo.offset = 0})
    -> (tensor<64xf32> {dynamo.strides = array<i64: 1>}, tensor<8xf32> {dynamo.strides = array<i64: 1>}, tensor<64xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>, #dynamo.output<result 2>]} {
  %t = dynamo.permute %x dims [1, 0] : tensor<64x8xf32> -> tensor<8x64xf32>
  %0 = dynamo.launch @kernels::@rows(%x) : (tensor<64x8xf32>) -> tensor<64xf32>
  %1 = dynamo.launch @kernels::@columns(%x) : (tensor<64x8xf32>) -> tensor<8xf32>
  %2 = dynamo.launch @kernels::@columns2(%t) : (tensor<8x64xf32>) -> tensor<64xf32>
  return %0, %1, %2 : tensor<64xf32>, tensor<8xf32>, tensor<64xf32>
}
module @kernels {
  func.func @rows(%x: tensor<64x8xf32>) -> tensor<64xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 64, 8>, dynamo.reduced_dims = array<i64: 1>} {
    %0 = dynamo.reduce sum %x dims [1] : tensor<64x8xf32> -> tensor<64xf32>
    return %0 : tensor<64xf32>
  }
  func.func @columns(%x: tensor<64x8xf32>) -> tensor<8xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 64, 8>, dynamo.reduced_dims = array<i64: 0>} {
    %0 = dynamo.reduce sum %x dims [0] : tensor<64x8xf32> -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func @columns2(%x: tensor<8x64xf32>) -> tensor<64xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 8, 64>, dynamo.reduced_dims = array<i64: 0>} {
    %0 = dynamo.reduce sum %x dims [0] : tensor<8x64xf32> -> tensor<64xf32>
    return %0 : tensor<64xf32>
  }
}

// -----

// Bool is a byte in a kernel's memory, 0 or 1; unsigned bytes are signless.

// CHECK-LABEL: func.func @main
// CHECK-SAME: memref<4xi1> {{.*}}, %{{.*}}: memref<4xui8>
// CHECK: dynamo.launch @kernels::@both
// CHECK: func.func @both(%[[X:.*]]: memref<4xi8> {{.*}}, %[[Y:.*]]: memref<4xi8> {{.*}}, %[[NX:.*]]: memref<4xi8> {{.*}}, %[[YY:.*]]: memref<4xi8> {{.*}})
// CHECK: %[[BYTES:.*]] = bufferization.to_tensor %[[X]]
// CHECK: %[[B:.*]] = dynamo.convert %[[BYTES]] : tensor<4xi8> -> tensor<4xi1>
// CHECK: %[[U:.*]] = dynamo.bitcast %{{.*}} : tensor<4xi8> -> tensor<4xui8>
// CHECK: %[[N:.*]] = dynamo.not %[[B]]
// CHECK: %[[S:.*]] = dynamo.add %[[U]], %[[U]]
// CHECK: %[[NB:.*]] = dynamo.convert %[[N]] : tensor<4xi1> -> tensor<4xi8>
// CHECK: bufferization.materialize_in_destination %[[NB]] in restrict writable %[[NX]]
func.func @main(%x: tensor<4xi1> {dynamo.strides = array<i64: 1>, dynamo.offset = 0}, %y: tensor<4xui8> {dynamo.strides = array<i64: 1>, dynamo.offset = 0})
    -> (tensor<4xi1> {dynamo.strides = array<i64: 1>}, tensor<4xui8> {dynamo.strides = array<i64: 1>}) attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>]} {
  %0:2 = dynamo.launch @kernels::@both(%x, %y) : (tensor<4xi1>, tensor<4xui8>) -> (tensor<4xi1>, tensor<4xui8>)
  return %0#0, %0#1 : tensor<4xi1>, tensor<4xui8>
}
module @kernels {
  func.func @both(%x: tensor<4xi1>, %y: tensor<4xui8>) -> (tensor<4xi1>, tensor<4xui8>)
      attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
    %0 = dynamo.not %x : tensor<4xi1>
    %1 = dynamo.add %y, %y : tensor<4xui8>
    return %0, %1 : tensor<4xi1>, tensor<4xui8>
  }
}

// -----

// Repeated rows are viewed as one row of twice the length only if memory has that layout: they are copied directly to the result.

// CHECK-LABEL: func.func @main
// CHECK-NOT: dynamo.buffer
// CHECK: %[[OUT:.*]] = dynamo.output_buffer : memref<3x8xf32>
// CHECK: %[[TO:.*]] = memref.reinterpret_cast %[[OUT]] to offset: [0], sizes: [3, 2, 4]
// CHECK: dynamo.launch @kernels::@copy{{.*}}(%{{.*}}, %[[TO]])
// CHECK-NOT: dynamo.launch
// CHECK: return %[[OUT]]
func.func @main(%x: tensor<3x4xf32> {dynamo.strides = array<i64: 4, 1>, dynamo.offset = 0}) -> (tensor<3x8xf32> {dynamo.strides = array<i64: 8, 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.broadcast %x dims [0, 2] : tensor<3x4xf32> -> tensor<3x2x4xf32>
  %1 = dynamo.reshape %0 : tensor<3x2x4xf32> -> tensor<3x8xf32>
  return %1 : tensor<3x8xf32>
}

// -----

// If the same rows are viewed in two shapes, each gets a copy.

// CHECK-LABEL: func.func @main
// CHECK: dynamo.launch @kernels::@copy
// CHECK: return %[[A:.*]], %[[B:.*]] : memref<3x8xf32>, memref<24xf32>
func.func @main(%x: tensor<3x4xf32> {dynamo.strides = array<i64: 4, 1>, dynamo.offset = 0}) -> (tensor<3x8xf32> {dynamo.strides = array<i64: 8, 1>}, tensor<24xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>]} {
  %0 = dynamo.broadcast %x dims [0, 2] : tensor<3x4xf32> -> tensor<3x2x4xf32>
  %1 = dynamo.reshape %0 : tensor<3x2x4xf32> -> tensor<3x8xf32>
  %2 = dynamo.reshape %0 : tensor<3x2x4xf32> -> tensor<24xf32>
  return %1, %2 : tensor<3x8xf32>, tensor<24xf32>
}
