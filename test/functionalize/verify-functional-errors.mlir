// RUN: dynamlir-opt %s --split-input-file --verify-diagnostics --dynamo-verify-functional

// Violates each rule of stage 01 once.

// expected-error @+1 {{not functional: a value is a !dynamo.tensor}}
func.func @mutable(%x: !dynamo.tensor<3xf32, [1]>) {
  return
}

// -----

func.func @aliases(%x: tensor<3xf32>) {
  // expected-error @+1 {{not functional: an op has 'aliases'}}
  dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: -1>} : (tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @strides(%x: tensor<3xf32>) {
  // expected-error @+1 {{not functional: 'result_strides' must have the strides of each tensor}}
  dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] {operand_strides = [array<i64: 1>]} : (tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----

// expected-error @+1 {{not functional: each argument needs dynamo.strides and dynamo.offset}}
func.func @arguments(%x: tensor<3xf32>) attributes {dynamo.entry, dynamo.outputs = []} {
  return
}

// -----

// expected-error @+1 {{not functional: each result needs either dynamo.strides or dynamo.mutates}}
func.func @results(%x: tensor<3xf32> {dynamo.strides = array<i64: 1>, dynamo.offset = 0}) -> tensor<3xf32>
    attributes {dynamo.entry, dynamo.outputs = []} {
  return %x : tensor<3xf32>
}
