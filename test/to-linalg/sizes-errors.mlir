// RUN: not dynamlir-opt %s --dynamo-to-linalg --split-input-file 2>&1 | FileCheck %s
//
// Unsupported forms of kernels whose sizes are arguments.

// A kernel with an empty result is not launched. A reduction of no elements would be, but there are no loops for that.
// CHECK: error: a kernel's domain needs sizes of at least 1
module @kernels {
func.func @empty(%out: memref<i64>, %n: index) attributes {
    dynamo.kernel, dynamo.domain = #dynamo.sizes<s0>, dynamo.reduced_dims = array<i64: 0>, dynamo.symbols = [#dynamo.symbol<s0, argument = 1, min = 0>]} {
  %at = dynamo.iota 0 : tensor<?xi64, #dynamo.sizes<s0>>
  %sum = dynamo.reduce sum %at dims [0] : tensor<?xi64, #dynamo.sizes<s0>> -> tensor<i64>
  bufferization.materialize_in_destination %sum in restrict writable %out : (tensor<i64>, memref<i64>) -> ()
  return
}
}

// -----

// CHECK: error: expected s0 to be an argument of the kernel of type index
module @kernels {
func.func @without_argument(%out: memref<?xi64>) attributes {
    dynamo.kernel, dynamo.domain = #dynamo.sizes<s0>, dynamo.reduced_dims = array<i64>, dynamo.symbols = [#dynamo.symbol<s0>]} {
  %at = dynamo.iota 0 : tensor<?xi64, #dynamo.sizes<s0>>
  bufferization.materialize_in_destination %at in restrict writable %out : (tensor<?xi64, #dynamo.sizes<s0>>, memref<?xi64>) -> ()
  return
}
}

// -----

// CHECK: error: 'func.func' op 'dynamo.strides' of argument 0 are not those of 'memref<?x4xf32, strided<[1, ?]>>', got #dynamo.sizes<2, s0>
module @kernels {
func.func @other_strides(%in: memref<?x4xf32, strided<[1, ?]>> {dynamo.strides = #dynamo.sizes<2, s0>}, %n: index) attributes {
    dynamo.symbols = [#dynamo.symbol<s0, argument = 1>]} {
  return
}
}

// -----

// CHECK: error: expected a type that says its sizes, got tensor<?xf32>
module @kernels {
func.func @bare(%in: memref<?xf32>, %out: memref<?xf32>) attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %x = bufferization.to_tensor %in restrict : memref<?xf32> to tensor<?xf32>
  %y = dynamo.neg %x : tensor<?xf32>
  bufferization.materialize_in_destination %y in restrict writable %out : (tensor<?xf32>, memref<?xf32>) -> ()
  return
}
}

// -----

// CHECK: error: 'dynamo.matmul' takes sizes that are numbers in a kernel
module @kernels {
func.func @product(%a: memref<?x8xf32>, %b: memref<8x4xf32>, %out: memref<?x4xf32>, %n: index) attributes {
    dynamo.kernel, dynamo.domain = #dynamo.sizes<s0, 4>, dynamo.reduced_dims = array<i64>, dynamo.symbols = [#dynamo.symbol<s0, argument = 3>]} {
  %x = bufferization.to_tensor %a restrict : memref<?x8xf32> to tensor<?x8xf32, #dynamo.sizes<s0, 8>>
  %w = bufferization.to_tensor %b restrict : memref<8x4xf32> to tensor<8x4xf32>
  %y = dynamo.matmul %x, %w batch 0 : tensor<?x8xf32, #dynamo.sizes<s0, 8>>, tensor<8x4xf32> -> tensor<?x4xf32, #dynamo.sizes<s0, 4>>
  bufferization.materialize_in_destination %y in restrict writable %out : (tensor<?x4xf32, #dynamo.sizes<s0, 4>>, memref<?x4xf32>) -> ()
  return
}
}
