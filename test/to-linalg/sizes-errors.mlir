// RUN: not dynamlir-opt %s --dynamo-to-linalg --split-input-file 2>&1 | FileCheck %s
//
// What cannot be lowered of a kernel whose sizes are arguments.

// Loops of no iteration are not made: what is empty has no kernel.
// CHECK: error: a kernel's domain needs sizes of at least 1
module @kernels {
func.func @empty(%out: memref<?xi64>, %n: index) attributes {
    dynamo.kernel, dynamo.domain = #dynamo.sizes<s0>, dynamo.reduced_dims = array<i64>, dynamo.symbols = [#dynamo.symbol<s0, argument = 1, min = 0>]} {
  %at = dynamo.iota 0 : tensor<?xi64, #dynamo.sizes<s0>>
  bufferization.materialize_in_destination %at in restrict writable %out : (tensor<?xi64, #dynamo.sizes<s0>>, memref<?xi64>) -> ()
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
