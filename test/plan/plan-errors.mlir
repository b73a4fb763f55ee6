// RUN: dynamlir-opt %s --split-input-file --verify-diagnostics --dynamo-plan

// Requirements on stage 03.

// A computation outside the kernels: the planner only supports views, copies and calls.

func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.entry, dynamo.outputs = []} {
  // expected-error @+1 {{dynamo.add cannot stand in the graph function at this stage}}
  %0 = dynamo.add %x, %y : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.entry, dynamo.outputs = []} {
  // expected-error @+1 {{dynamo.neg cannot stand in the graph function at this stage}}
  %0 = dynamo.neg %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main() attributes {dynamo.entry, dynamo.outputs = []} {
  return
}
module @kernels {
  // expected-error @+1 {{a kernel without `dynamo.reduced_dims`}}
  func.func @k(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.kernel, dynamo.domain = array<i64: 4>} {
    return %x : tensor<4xf32>
  }
}

// -----

// A result in new memory is written, so each of its elements must have its own address.
func.func @main(%x: tensor<2x3xf32> {dynamo.strides = array<i64: 3, 1>, dynamo.offset = 0 : i64})
    -> (tensor<2x3xf32> {dynamo.strides = array<i64: 1, 1>}) attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  // expected-error @+1 {{result 0 shows an element of its own memory twice}}
  return %x : tensor<2x3xf32>
}
