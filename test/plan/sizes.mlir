// RUN: dynamlir-opt %s --dynamo-plan | FileCheck %s
// RUN: dynamlir-opt %s --dynamo-plan | dynamlir-opt | FileCheck %s
//
// Sizes that are expressions stay expressions: of buffers, offsets, windows and the workspace. They are passed to kernels.

module {
// The argument's type cannot contain the expression, so an attribute does. Of buffers, only the sizes are dynamic.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: memref<?x128xf32> {dynamo.sizes = #dynamo.sizes<s4, 128>}
// CHECK: %[[WS:.*]] = dynamo.workspace bytes (s4 floordiv 2)*512 : memref<?xi8>
func.func @main(%x: tensor<?x128xf32, #dynamo.sizes<s4, 128>>)
    -> (tensor<?x128xf32, #dynamo.sizes<s4 floordiv 2, 128>>, tensor<128x?xf32, #dynamo.sizes<128, s4>>)
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>],
                dynamo.symbols = [#dynamo.symbol<s4, argument = 0, dim = 0, hint = 16>]} {
  // A view is a window whose numbers may be expressions. A launch passes the values of the kernel's symbols.
  // CHECK: %[[B:.*]] = dynamo.buffer %[[WS]][0] sizes [s4 floordiv 2, 128] : memref<?xi8> -> memref<?x128xf32>
  // CHECK: %[[HALF:.*]] = dynamo.view %[[X]][(s4 floordiv 2)*128] sizes [s4 floordiv 2, 128] strides [128, 1]
  // CHECK-SAME: memref<?x128xf32> -> memref<?x128xf32, strided<[128, 1], offset: ?>>
  // CHECK: dynamo.launch @kernels::@exp(%[[HALF]], %[[B]]) sizes [s4]
  // CHECK: %[[O:.*]] = dynamo.output_buffer sizes [s4 floordiv 2, 128] : memref<?x128xf32>
  // CHECK: dynamo.launch @kernels::@exp(%[[B]], %[[O]]) sizes [s4]
  %half = dynamo.slice %x starts [s4 floordiv 2, 0] steps [1, 1] : tensor<?x128xf32, #dynamo.sizes<s4, 128>> -> tensor<?x128xf32, #dynamo.sizes<s4 floordiv 2, 128>>
  %once = dynamo.launch @kernels::@exp(%half) : (tensor<?x128xf32, #dynamo.sizes<s4 floordiv 2, 128>>) -> tensor<?x128xf32, #dynamo.sizes<s4 floordiv 2, 128>>
  %twice = dynamo.launch @kernels::@exp(%once) : (tensor<?x128xf32, #dynamo.sizes<s4 floordiv 2, 128>>) -> tensor<?x128xf32, #dynamo.sizes<s4 floordiv 2, 128>>

  // A result of the library has its sizes next to its type. The value computed from it is written in the final layout, whose strides are
  // dynamic.
  // CHECK: %[[FLIPPED:.*]] = dynamo.extern c_shim "aten.flip.default"(%[[X]]) args
  // CHECK-SAME: {sizes = [#dynamo.sizes<s4, 128>], strides = [array<i64: 128, 1>]}
  // CHECK: %[[P:.*]] = dynamo.output_buffer sizes [128, s4] strides [s4, 1] : memref<128x?xf32, strided<[?, 1]>>
  // CHECK: %[[T:.*]] = dynamo.view %[[FLIPPED]][0] sizes [128, s4] strides [1, 128]
  // CHECK: dynamo.launch @kernels::@neg(%[[T]], %[[P]]) sizes [s4]
  %flipped = dynamo.aten "aten.flip.default"(%x) args [#dynamo.operand<0>, [0]] : (tensor<?x128xf32, #dynamo.sizes<s4, 128>>) -> tensor<?x128xf32, #dynamo.sizes<s4, 128>>
  %neg = dynamo.launch @kernels::@neg(%flipped) : (tensor<?x128xf32, #dynamo.sizes<s4, 128>>) -> tensor<?x128xf32, #dynamo.sizes<s4, 128>>
  %t = dynamo.permute %neg dims [1, 0] : tensor<?x128xf32, #dynamo.sizes<s4, 128>> -> tensor<128x?xf32, #dynamo.sizes<128, s4>>
  // CHECK: return %[[O]], %[[P]]
  return %twice, %t : tensor<?x128xf32, #dynamo.sizes<s4 floordiv 2, 128>>, tensor<128x?xf32, #dynamo.sizes<128, s4>>
}

module @kernels {
  // The kernel has its own symbols, which are its arguments. 128 elements fill vectors: they are a separate loop.
  // CHECK: func.func @exp(%{{.*}}: memref<?x128xf32> {llvm.noalias}, %{{.*}}: memref<?x128xf32> {llvm.noalias}, %{{.*}}: index)
  // CHECK-SAME: dynamo.domain = #dynamo.sizes<s0 floordiv 2, 128>
  // CHECK-SAME: dynamo.symbols = [#dynamo.symbol<s0, argument = 2, hint = 16>]
  func.func @exp(%in: tensor<?x128xf32, #dynamo.sizes<s4 floordiv 2, 128>>) -> tensor<?x128xf32, #dynamo.sizes<s4 floordiv 2, 128>> attributes {
      dynamo.kernel, dynamo.domain = #dynamo.sizes<s4 floordiv 2, 128>, dynamo.reduced_dims = array<i64>, dynamo.symbols = [#dynamo.symbol<s4>]} {
    %0 = dynamo.exp %in : tensor<?x128xf32, #dynamo.sizes<s4 floordiv 2, 128>>
    return %0 : tensor<?x128xf32, #dynamo.sizes<s4 floordiv 2, 128>>
  }
  // CHECK: func.func @neg(%{{.*}}: memref<128x?xf32, strided<[1, 128]>> {llvm.noalias},
  // CHECK-SAME: memref<128x?xf32, strided<[?, 1]>> {dynamo.strides = #dynamo.sizes<s0, 1>, llvm.noalias}, %{{.*}}: index)
  func.func @neg(%in: tensor<?x128xf32, #dynamo.sizes<s4, 128>>) -> tensor<?x128xf32, #dynamo.sizes<s4, 128>> attributes {
      dynamo.kernel, dynamo.domain = #dynamo.sizes<s4, 128>, dynamo.reduced_dims = array<i64>, dynamo.symbols = [#dynamo.symbol<s4>]} {
    %0 = dynamo.neg %in : tensor<?x128xf32, #dynamo.sizes<s4, 128>>
    return %0 : tensor<?x128xf32, #dynamo.sizes<s4, 128>>
  }
}
}
